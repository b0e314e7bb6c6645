//! A PostgreSQL server of Debian's, in a folder of its own, and the daemon with a target in front of it.
//!
//! Owns both processes, which end when their values are dropped. PostgreSQL listens at a unix socket only and does not sync, so that
//! it starts quickly. It does not run as root, so it runs as the user `nobody` where the tests are run by root.

use crate::{Daemon, Launch, Scratch};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The user and group that PostgreSQL runs as if the tests run as root.
const NOBODY: u32 = 65_534;

/// A running PostgreSQL server with a database `app`.
#[derive(Debug)]
pub struct Postgres {
    scratch: Scratch,
    programs: PathBuf,
}

impl Postgres {
    /// Makes and starts a server.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        let scratch = Scratch::new();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scratch.path(), everybody).expect("the folder is ours");
        let server = Self { scratch, programs: programs() };
        server.run(
            "initdb",
            &["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"],
        );
        server.begin();
        let made = server.psql("postgres", "create database app");
        assert!(made.status.success(), "{made:?}");
        server
    }

    /// Starts the server again after [`Postgres::stop`].
    pub fn begin(&self) {
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync=off -c max_connections=50",
            self.directory().display()
        );
        let log = self.directory().join("postgres.log");
        self.run(
            "pg_ctl",
            &["start", "-w", "-s", "-o", &options, "-l", &log.display().to_string()],
        );
    }

    /// Stops the server at once, as a crash does.
    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-s", "-w"]);
    }

    /// The directory of its socket.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// The URL of its database `app`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgresql:///app?host={}&port=5432", self.directory().display())
    }

    /// Runs a statement at the server itself, past the daemon.
    ///
    /// # Panics
    /// If psql cannot be run.
    #[must_use]
    pub fn psql(&self, database: &str, text: &str) -> Output {
        let mut command = Command::new("psql");
        command.args(["-X", "-A", "-t", "-h"]).arg(self.directory());
        command.args(["-U", "postgres", "-d", database, "-c", text]);
        command.output().expect("psql can be run")
    }

    /// The result of a statement at the server itself, without blanks around it.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    pub fn ask(&self, text: &str) -> String {
        let output = self.psql("app", text);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.directory().join("data")).args(args);
        command.current_dir(self.directory());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // Not piped: the server would keep the pipe open.
        let output = std::fs::File::create(self.directory().join("output")).expect("a file");
        let errors = output.try_clone().expect("a file");
        let status = command.stdout(output).stderr(errors).status().expect("PostgreSQL can be run");
        let said = std::fs::read_to_string(self.directory().join("output")).unwrap_or_default();
        assert!(status.success(), "{program}: {said}");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.directory().join("data/postmaster.pid").exists() {
            self.stop();
        }
    }
}

/// Where Debian installs the programs of the server.
fn programs() -> PathBuf {
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").expect("package postgresql is installed");
    let found = versions.flatten().map(|version| version.path().join("bin"));
    found
        .filter(|path| path.join("initdb").exists())
        .max()
        .expect("package postgresql is installed")
}

/// The daemon with the target `app` in front of a PostgreSQL server.
#[derive(Debug)]
pub struct SqlDoor {
    /// The daemon.
    pub daemon: Daemon,
    /// The server behind it.
    pub postgres: Postgres,
    /// The folder of the daemon, with its configuration in `sql.toml`.
    pub scratch: Scratch,
}

impl SqlDoor {
    /// Starts both. `settings` are more settings of the target, `more` is more configuration.
    ///
    /// # Panics
    /// If one does not start.
    #[must_use]
    pub fn start(settings: &str, more: &str) -> Self {
        let (postgres, scratch) = (Postgres::start(), Scratch::new());
        let file = scratch.write("sql.toml", Self::config(&postgres, settings, more));
        let launch = Launch::new(&scratch).option("--config", file).sql("127.0.0.1:0");
        let daemon = launch.start().unwrap_or_else(|ended| panic!("{}", ended.log));
        daemon.log_line(&["applied the configuration"]).unwrap();
        Self { daemon, postgres, scratch }
    }

    /// Its configuration.
    #[must_use]
    pub fn config(postgres: &Postgres, settings: &str, more: &str) -> String {
        format!(
            "[[sql_target]]\nname = \"app\"\nupstream = \"{}\"\nlogin = {{ user = \"postgres\" }}\n{settings}\n{more}",
            postgres.url()
        )
    }

    /// The address for TCP clients.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    pub fn address(&self) -> &str {
        let after = self.daemon.ready.split(", sql ").find(|part| part.starts_with("127."));
        let after = after.unwrap_or_else(|| panic!("{}", self.daemon.ready));
        after.split([',', ';']).next().unwrap_or_default()
    }

    /// A psql at the unix socket of the door, which shows SQLSTATEs.
    #[must_use]
    pub fn psql(&self) -> Command {
        let mut command = Command::new("psql");
        command.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "VERBOSITY=verbose",
            "-p",
            "5433",
            "-d",
            "app",
            "-h",
        ]);
        command.arg(self.daemon.data()).arg("-U").arg(user());
        command
    }

    /// Runs statements, one message each, and returns what psql printed.
    ///
    /// # Panics
    /// If psql cannot be run.
    #[must_use]
    pub fn run(&self, texts: &[&str]) -> Said {
        let mut command = self.psql();
        for text in texts {
            command.args(["-c", text]);
        }
        Said::of(&command.output().expect("psql can be run"))
    }
}

/// What a program printed.
#[derive(Debug)]
pub struct Said {
    /// Standard output, without blanks at its ends.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Whether it succeeded.
    pub is_ok: bool,
}

impl Said {
    /// What is in an output.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            out: text(&output.stdout).trim().to_owned(),
            err: text(&output.stderr),
            is_ok: output.status.success(),
        }
    }

    /// The output of a success.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> String {
        assert!(self.is_ok && self.err.is_empty(), "{self:?}");
        self.out
    }
}

/// The name of the user who runs the tests.
#[must_use]
pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id can be run");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
