//! Paceline with any command line, and its log line by line.
//!
//! Owns the process, which is killed and reaped on drop, and the threads that read its output. Promises that waiting
//! for a log line or for the end takes at most [`READ_TIMEOUT`]. If a test needs only sockets and files, `Server` is
//! simpler.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::client::READ_TIMEOUT;
use crate::server::{EXACT_MEMORY, paceline_binary};
use crate::{Api, Client, Scratch};

/// How the daemon is started. Its data folder is always `DIR/data` in its scratch folder.
#[derive(Clone, Debug)]
pub struct Launch {
    dir: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
}

impl Launch {
    /// A daemon without doors and databases, in the folder of `scratch`. Its API has only the unix socket, so that
    /// concurrent daemons do not need the same port.
    #[must_use]
    pub fn new(scratch: &Scratch) -> Self {
        let dir = scratch.path().to_path_buf();
        let mut args: Vec<OsString> = vec!["serve".into(), "--data".into()];
        args.push(dir.join("data").into());
        args.extend(["--api", "none", "--sql", "none"].map(OsString::from));
        Self { dir, args, envs: Vec::new() }
    }

    /// A daemon that serves `database` on the socket of [`Daemon::connect`].
    #[must_use]
    pub fn serving(scratch: &Scratch, database: &Path) -> Self {
        let launch = Self::new(scratch).option("--database", database);
        let socket = format!("punix:{}", socket_in(&launch.dir).display());
        launch.option("--ovsdb", socket)
    }

    /// Makes the API also listen at `address`.
    #[must_use]
    pub fn api(self, address: &str) -> Self {
        self.listening("--api", address)
    }

    /// Makes the SQL door also listen at `address`.
    #[must_use]
    pub fn sql(self, address: &str) -> Self {
        self.listening("--sql", address)
    }

    fn listening(mut self, door: &str, address: &str) -> Self {
        let option = self.args.iter().position(|arg| arg == door);
        if let Some(value) = option.and_then(|at| self.args.get_mut(at + 1)) {
            *value = address.into();
        }
        self
    }

    /// Adds `--name value`.
    #[must_use]
    pub fn option(self, name: &str, value: impl Into<OsString>) -> Self {
        self.arg(name).arg(value)
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.args.push(word.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    /// Starts the daemon and waits until it is ready.
    ///
    /// # Errors
    /// If it ends before it is ready: its exit status and its log.
    ///
    /// # Panics
    /// If it cannot be run at all.
    pub fn start(&self) -> Result<Daemon, Ended> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the daemon can be run");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let mut ready = String::new();
        let is_ready = stdout.read_line(&mut ready).is_ok() && ready.ends_with('\n');
        if !is_ready {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            let status = child.wait().expect("a child can be waited for");
            return Err(Ended { status, log });
        }
        let (sender, log) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // If the test no longer reads, a full pipe must not block the daemon.
                let _ = sender.send(line);
            }
        });
        Ok(Daemon { dir: self.dir.clone(), child, ready, log: Mutex::new(log) })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(paceline_binary());
        command.args(&self.args).envs(EXACT_MEMORY).envs(self.envs.iter().cloned());
        command
    }
}

/// A daemon that ended before it was ready.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard error.
    pub log: String,
}

impl Ended {
    /// Whether it was killed with SIGKILL, as with an injected kill.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        was_killed(self.status)
    }
}

/// Whether a process was killed with SIGKILL.
#[must_use]
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

/// A daemon that is ready.
#[derive(Debug)]
pub struct Daemon {
    dir: PathBuf,
    child: Child,
    /// The line that reports that it is ready.
    pub ready: String,
    /// Behind a lock only so that threads of a test can share the daemon.
    log: Mutex<Receiver<String>>,
}

impl Daemon {
    /// A new connection to the unix socket of [`Launch::serving`].
    ///
    /// # Panics
    /// If the daemon does not accept it.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// The path of that socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_in(&self.dir)
    }

    /// The port of the first remote with this prefix, such as `ptcp`, from the ready line.
    ///
    /// # Panics
    /// If the line names no such remote.
    #[must_use]
    pub fn port(&self, word: &str) -> u16 {
        let (_, rest) = self.ready.split_once(&format!("ovsdb {word}:")).expect(&self.ready);
        let (port, _) = rest.split_once(':').expect(&self.ready);
        port.parse().expect(&self.ready)
    }

    /// A new connection to the unix socket of the API.
    #[must_use]
    pub fn api(&self) -> Api {
        Api::unix(&self.data().join("api.sock"))
    }

    /// A new connection to the API over TCP with the first token, if [`Launch::api`] was called.
    ///
    /// # Panics
    /// If the daemon does not listen there.
    #[must_use]
    pub fn api_tcp(&self) -> Api {
        let token = std::fs::read_to_string(self.data().join("token")).unwrap();
        Api::tcp(self.api_address(), Some(token.trim()))
    }

    /// The TCP address of the API, from the ready line.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn api_address(&self) -> SocketAddr {
        let (_, rest) = self.ready.split_once("api http://").expect(&self.ready);
        let end = rest.find([',', ' ', '\n', ';']).unwrap_or(rest.len());
        rest[..end].parse().expect(&self.ready)
    }

    /// Its process id.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The next line of the log that contains all of `parts`.
    ///
    /// # Errors
    /// If the daemon ends, or no such line arrives in time; with the lines that arrived.
    pub fn log_line(&self, parts: &[&str]) -> Result<String, String> {
        self.log_line_of(&[parts])
    }

    /// The next line of the log that contains all parts of one of the lists.
    ///
    /// # Errors
    /// As [`Self::log_line`].
    pub fn log_line_of(&self, choices: &[&[&str]]) -> Result<String, String> {
        let mut others = Vec::new();
        let log = self.log.lock().unwrap();
        loop {
            match log.recv_timeout(READ_TIMEOUT) {
                Ok(line) => {
                    let has = |parts: &&[&str]| parts.iter().all(|part| line.contains(part));
                    if choices.iter().any(has) {
                        return Ok(line);
                    }
                    others.push(line);
                }
                Err(reason) => {
                    let reason = match reason {
                        RecvTimeoutError::Timeout => "in time",
                        RecvTimeoutError::Disconnected => "before the end",
                    };
                    return Err(format!("no line with {choices:?} {reason}, but {others:?}"));
                }
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // A daemon that died of an injected fault is not a failure here; its end is checked elsewhere.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Sets the maximum size of its files; none for no limit.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    /// Waits until it ends, and also returns the rest of the log.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(mut self) -> Ended {
        let mut log = String::new();
        let lines = self.log.get_mut().unwrap();
        loop {
            match lines.recv_timeout(READ_TIMEOUT) {
                Ok(line) => log.extend([&line, "\n"]),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the daemon goes on: {log}"),
            }
        }
        let status = self.child.wait().expect("a child can be waited for");
        Ended { status, log }
    }

    /// Stops it with SIGTERM.
    pub fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Kills it with SIGKILL.
    pub fn kill(self) -> Ended {
        self.signal(Signal::KILL);
        self.wait()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("db.sock")
}
