//! Servers under test: Paceline, and Open vSwitch's `ovsdb-server` as the reference.
//!
//! Owns the process: it is ready when [`Server::start`] returns, and it is killed and reaped on drop. Both programs
//! report when they are ready, so nothing here polls or sleeps.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Client, Scratch};

/// The environment of every Paceline under test. Its allocator uses small pages and returns freed memory at once, so that
/// its resident memory is what it holds, not what the allocator keeps for later.
pub(crate) const EXACT_MEMORY: [(&str, &str); 2] =
    [("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PURGE_DELAY", "0")];

/// Which program is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The daemon of this workspace.
    Paceline,
    /// Open vSwitch's `ovsdb-server`, as Debian installs it.
    OvsdbServer,
}

impl Kind {
    /// Its name in scripts and in the variable `SERVER`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paceline => "paceline",
            Self::OvsdbServer => "ovsdb-server",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Paceline, Self::OvsdbServer].into_iter().find(|kind| kind.name() == name)
    }

    /// The kind that the variable `SERVER` selects, if it is set.
    ///
    /// # Panics
    /// If it names no server.
    #[must_use]
    pub fn asked() -> Option<Self> {
        let name = env::var("SERVER").ok().filter(|name| !name.is_empty())?;
        Some(Self::named(&name).unwrap_or_else(|| {
            panic!("SERVER={name} names no server: use paceline or ovsdb-server")
        }))
    }

    /// The server for tests that need only one: `SERVER`, or else Paceline.
    #[must_use]
    pub fn under_test() -> Self {
        Self::asked().unwrap_or(Self::Paceline)
    }

    /// The servers a scenario runs against: `SERVER` alone, or else both.
    #[must_use]
    pub fn for_scenarios() -> Vec<Self> {
        Self::asked().map_or_else(|| vec![Self::Paceline, Self::OvsdbServer], |kind| vec![kind])
    }
}

/// The daemon's executable: `PACELINE_BIN`, or the newest build beside the test executable.
///
/// # Panics
/// If there is none, with the command that builds it.
#[must_use]
pub fn paceline_binary() -> PathBuf {
    if let Some(path) = env::var_os("PACELINE_BIN") {
        return PathBuf::from(path);
    }
    let test = env::current_exe().expect("a test knows its own path");
    // The test is in TARGET/PROFILE/deps, the daemon in TARGET/PROFILE.
    let target = test.ancestors().nth(3).expect("a test stands inside a target folder");
    let built = |profile: &str| target.join(profile).join("paceline");
    [built("release"), built("debug")]
        .into_iter()
        .filter(|path| path.is_file())
        .max_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok())
        .unwrap_or_else(|| {
            panic!(
                "no paceline in {}/{{release,debug}}: build it with \
                 `cargo build --release -p paceline`, or set PACELINE_BIN",
                target.display()
            )
        })
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub kind: Kind,
    /// The database files it serves.
    pub databases: Vec<PathBuf>,
    /// Whether it refuses every change.
    pub read_only: bool,
    /// Shell commands that run first, in the server's own process and mount namespace.
    pub prelude: Option<String>,
}

impl Options {
    /// Serves `databases` with `kind` and default settings.
    #[must_use]
    pub fn new(kind: Kind, databases: Vec<PathBuf>) -> Self {
        Self { kind, databases, read_only: false, prelude: None }
    }
}

/// A running server, its folder and its socket.
#[derive(Debug)]
pub struct Server {
    options: Options,
    scratch: Scratch,
    child: Child,
    // ovsdb-server exits when this pipe closes, so it cannot outlive the test process.
    _stdin: Option<ChildStdin>,
}

impl Server {
    /// Creates one database file per schema and serves them.
    ///
    /// # Panics
    /// If a file cannot be created or the server does not become ready.
    #[must_use]
    pub fn with_schemas(kind: Kind, schemas: &[&str]) -> Self {
        let scratch = Scratch::new();
        let databases = create_databases(&scratch, schemas).unwrap();
        Self::start(scratch, Options::new(kind, databases)).unwrap()
    }

    /// Starts a server and waits until it reports that it is ready.
    ///
    /// # Errors
    /// If it cannot be started or exits before it is ready, with its output.
    pub fn start(scratch: Scratch, options: Options) -> Result<Self, String> {
        let (child, stdin) = launch(scratch.path(), &options)?;
        Ok(Self { options, scratch, child, _stdin: stdin })
    }

    /// Stops the server with SIGTERM, waits for it and starts it again on the same files.
    ///
    /// # Errors
    /// If it does not exit cleanly or does not become ready again.
    pub fn restart(&mut self) -> Result<(), String> {
        let status = self.terminate()?;
        // ovsdb-server dies of the signal by design; Paceline must exit with success.
        if self.options.kind == Kind::Paceline && !status.success() {
            return Err(format!("the server ended with {status} after SIGTERM"));
        }
        self.relaunch()
    }

    /// Kills the server with SIGKILL and starts it again on the same files.
    ///
    /// # Errors
    /// If it does not become ready again.
    pub fn kill_and_restart(&mut self) -> Result<(), String> {
        self.kill();
        self.relaunch()
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Errors
    /// If the process cannot be signalled or waited for.
    pub fn terminate(&mut self) -> Result<ExitStatus, String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("cannot signal: {error}"))?;
        self.child.wait().map_err(|error| format!("cannot wait for the server: {error}"))
    }

    /// Sends SIGKILL and waits for the exit.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts again on the same files; the earlier process must have ended.
    ///
    /// # Errors
    /// If the server does not become ready.
    pub fn relaunch(&mut self) -> Result<(), String> {
        let _ = fs::remove_file(self.socket());
        let (child, stdin) = launch(self.scratch.path(), &self.options)?;
        self.child = child;
        self._stdin = stdin;
        Ok(())
    }

    /// A new connection.
    ///
    /// # Panics
    /// If the server does not accept it.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// The socket, as a path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_in(self.scratch.path())
    }

    /// The socket in the syntax of OVS's clients.
    #[must_use]
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The folder the server runs in.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The program.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.options.kind
    }

    /// The database file at `index`, in the order given at the start.
    #[must_use]
    pub fn database(&self, index: usize) -> &Path {
        &self.options.databases[index]
    }

    /// What the server sees at `path`, which differs if its prelude has mounted something.
    #[must_use]
    pub fn view_of(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Resident memory in bytes, as the kernel counts it.
    ///
    /// # Panics
    /// If the server is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.status("VmRSS:") * 1024
    }

    /// The most resident memory in bytes that it has had.
    ///
    /// # Panics
    /// If the server is gone.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.status("VmHWM:") * 1024
    }

    /// How many threads it has.
    ///
    /// # Panics
    /// If the server is gone.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.status("Threads:")
    }

    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).expect("the server runs");
        let number = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        number.split_whitespace().next().and_then(|word| word.parse().ok()).expect(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Creates `DIR/NAME.db` for each schema with Open vSwitch's own tool. NAME is the schema's name.
///
/// # Errors
/// If a schema has no name or the tool refuses it.
pub fn create_databases(scratch: &Scratch, schemas: &[&str]) -> Result<Vec<PathBuf>, String> {
    schemas.iter().map(|schema| create_database(scratch, schema)).collect()
}

fn create_database(scratch: &Scratch, schema: &str) -> Result<PathBuf, String> {
    let value: serde_json::Value =
        serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))?;
    let name = value["name"].as_str().ok_or("the schema has no name")?;
    let schema_file = scratch.write(&format!("{name}.ovsschema"), schema);
    let file = scratch.join(&format!("{name}.db"));
    let output = Command::new("ovsdb-tool")
        .arg("create")
        .args([&file, &schema_file])
        .output()
        .map_err(|error| missing("ovsdb-tool", &error))?;
    if output.status.success() {
        Ok(file)
    } else {
        Err(format!("ovsdb-tool create: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn missing(program: &str, error: &std::io::Error) -> String {
    format!("cannot run {program} ({error}): install Debian's openvswitch-switch")
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("db.sock")
}

fn launch(dir: &Path, options: &Options) -> Result<(Child, Option<ChildStdin>), String> {
    let mut command = match options.kind {
        Kind::Paceline => paceline_command(dir, options),
        Kind::OvsdbServer => ovsdb_server_command(dir, options),
    };
    if let Some(prelude) = &options.prelude {
        command = after_prelude(prelude, &command);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match options.kind {
            Kind::Paceline => format!("cannot run paceline: {error}"),
            Kind::OvsdbServer => missing("ovsdb-server", &error),
        })?;
    let stdin = child.stdin.take();
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut stderr = child.stderr.take().expect("stderr is a pipe");
    let mut line = String::new();
    let ready = stdout.read_line(&mut line).is_ok() && line.ends_with('\n');
    if !ready {
        let _ = child.kill();
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        let status = child.wait().map_or_else(|error| error.to_string(), |code| code.to_string());
        return Err(format!(
            "{} ended before it was ready ({status}): {text}",
            options.kind.name()
        ));
    }
    // A full pipe would block the server, so both are read to the end.
    thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let log = fs::File::options().create(true).append(true).open(dir.join("stderr.log"));
    let mut log = log.map_err(|error| format!("cannot keep what the server says: {error}"))?;
    thread::spawn(move || std::io::copy(&mut stderr, &mut log));
    Ok((child, stdin))
}

/// The same command in its own mount namespace, after `prelude`, as the same process.
fn after_prelude(prelude: &str, command: &Command) -> Command {
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-e", "-c"]);
    shell.arg(format!("{prelude}\nexec \"$@\"")).arg("sh");
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    shell
}

fn paceline_command(dir: &Path, options: &Options) -> Command {
    let mut command = Command::new(paceline_binary());
    command.arg("serve").arg("--data").arg(dir.join("data"));
    command.arg("--ovsdb").arg(format!("punix:{}", socket_in(dir).display()));
    for file in &options.databases {
        command.arg("--database").arg(file);
    }
    command.args(["--api", "none", "--sql", "none"]);
    command.envs(EXACT_MEMORY);
    if options.read_only {
        command.arg("--read-only");
    }
    command
}

fn ovsdb_server_command(dir: &Path, options: &Options) -> Command {
    let mut command = Command::new("/usr/sbin/ovsdb-server");
    command.env("OVS_RUNDIR", dir).env("OVS_DBDIR", dir).env("OVS_LOGDIR", dir);
    command.arg(format!("--remote=punix:{}", socket_in(dir).display()));
    command.arg(format!("--unixctl={}", dir.join("ctl").display()));
    command.args(["--no-chdir", "-vconsole:warn", "-vsyslog:off"]);
    // The command runs once the sockets are open, and the server exits when the command does.
    command.arg("--run=echo ready; cat >/dev/null");
    if options.read_only {
        // A server that replicates another one is read-only. Here there is no server to replicate.
        command.arg(format!("--sync-from=unix:{}", dir.join("nobody").display()));
    }
    command.args(&options.databases);
    command
}
