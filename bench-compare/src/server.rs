//! A server under load: starts either side on a database file, compacts it, stops it.
//!
//! Both sides listen on a unix socket in their own directory and are ready when they answer. A server is killed on
//! drop, so that no run leaves a process behind.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::wire::{ANSWER_MAX, Connection};

/// How long a server may take to stop after the signal.
const STOP_MAX: Duration = Duration::from_secs(20);

/// The two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Open vSwitch's database server.
    OvsdbServer,
    /// Paceline.
    Paceline,
}

impl Side {
    /// The name used on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OvsdbServer => "ovsdb-server",
            Self::Paceline => "paceline",
        }
    }

    /// Parses the name of a side.
    pub fn parse(text: &str) -> Outcome<Self> {
        [Self::OvsdbServer, Self::Paceline]
            .into_iter()
            .find(|side| side.name() == text)
            .ok_or_else(|| Failure::new(format!("no side {text:?}: ovsdb-server or paceline")))
    }
}

/// The paths of the two binaries.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// The Paceline binary.
    pub paceline: PathBuf,
    /// The binary of ovsdb-server.
    pub ovsdb_server: PathBuf,
}

impl Binaries {
    /// The binary of `side`.
    pub fn of(&self, side: Side) -> &Path {
        match side {
            Side::OvsdbServer => &self.ovsdb_server,
            Side::Paceline => &self.paceline,
        }
    }
}

/// A running server with one database.
#[derive(Debug)]
pub struct Server {
    side: Side,
    child: Child,
    dir: PathBuf,
    database: PathBuf,
    started: Instant,
}

impl Server {
    /// Starts `side` on `database`, which is in `dir`, and waits until it answers.
    pub fn start(binaries: &Binaries, side: Side, dir: &Path, database: &Path) -> Outcome<Self> {
        let mut server = Self::spawn(binaries, side, dir, database)?;
        server.first_answer()?;
        Ok(server)
    }

    /// Starts the process without waiting.
    pub fn spawn(binaries: &Binaries, side: Side, dir: &Path, database: &Path) -> Outcome<Self> {
        let socket = dir.join("sock");
        let _ = fs::remove_file(&socket);
        let binary = binaries.of(side);
        let mut command = Command::new(binary);
        let remote = format!("punix:{}", socket.display());
        match side {
            Side::OvsdbServer => {
                command
                    .arg("--remote")
                    .arg(remote)
                    .arg(format!("--unixctl={}", dir.join("ctl").display()))
                    .args(["-vsyslog:off", "-vfile:off", "-vconsole:warn"])
                    .arg(database);
            }
            Side::Paceline => {
                command.args(["serve", "--data"]).arg(dir.join("data"));
                command.args(["--ovsdb", &remote, "--database"]).arg(database);
                command.args(["--api", "none", "--sql", "none"]);
            }
        }
        let log = File::create(dir.join("log")).map_err(|e| Failure::io("log", &e))?;
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|e| Failure::io(binary.display(), &e))?;
        Ok(Self { side, child, dir: dir.into(), database: database.into(), started })
    }

    /// A connection on which the server has answered. Waits until the server is up if necessary.
    pub fn first_answer(&mut self) -> Outcome<Connection> {
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            if let Ok(mut connection) = Connection::open(&self.socket()) {
                connection.call(br#"{"id":0,"method":"list_dbs","params":[]}"#)?;
                return Ok(connection);
            }
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                let name = self.side.name();
                return Err(Failure::new(format!("{name} ended with {status}: {}", log.trim())));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} does not listen", self.side.name())));
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Stops the server with SIGTERM and waits for it.
    pub fn stop(mut self) -> Outcome<()> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + STOP_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} ignores SIGTERM", self.side.name())));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Compacts the database now; returns when the new file is in place.
    pub fn compact(&self) -> Outcome<()> {
        let before = fs::metadata(&self.database)?;
        match self.side {
            Side::OvsdbServer => self.appctl("ovsdb-server/compact")?,
            Side::Paceline => self.signal(Signal::USR1)?,
        }
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            // Between unlinking and renaming, the file may be missing for a moment.
            if let Ok(now) = fs::metadata(&self.database)
                && now.ino() != before.ino()
                && now.len() <= before.len()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} did not compact", self.side.name())));
            }
            if !process::is_running(self.pid()) {
                let name = self.side.name();
                return Err(Failure::new(format!("{name} ended instead of compacting")));
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// A new client.
    pub fn connect(&self) -> Outcome<Connection> {
        Connection::open(&self.socket())
    }

    /// Which side it is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When the process was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    fn appctl(&self, command: &str) -> Outcome<()> {
        let output = Command::new("ovs-appctl")
            .arg("-t")
            .arg(self.dir.join("ctl"))
            .arg(command)
            .output()
            .map_err(|e| Failure::io("ovs-appctl", &e))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("{command}: {}", String::from_utf8_lossy(&output.stderr))))
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new("the server has no process id"))?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` the process was already waited for, and both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
