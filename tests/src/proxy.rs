//! The daemon as a reverse proxy: takes its configuration, and returns its addresses and its waiting requests.
//!
//! Owns the daemon and its folder. Promises that every wait ends within [`ANSWER_TIMEOUT`]. Never concludes from
//! elapsed time that something has happened: it checks until it has.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::api::ANSWER_TIMEOUT;
use crate::{Daemon, Launch, Scratch, Web};

/// A daemon that was started with a configuration.
#[derive(Debug)]
pub struct Proxy {
    /// The process.
    pub daemon: Daemon,
    /// Its folder, with the configuration in `http.toml`.
    pub scratch: Scratch,
    addresses: BTreeMap<String, String>,
}

impl Proxy {
    /// Starts the daemon with this configuration.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    #[must_use]
    pub fn start(config: &str) -> Self {
        Self::start_in(Scratch::new(), config)
    }

    /// The same in a folder that may already contain files.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    #[must_use]
    pub fn start_in(scratch: Scratch, config: &str) -> Self {
        let file = scratch.write("http.toml", config);
        let launch = Launch::new(&scratch).option("--config", file);
        let daemon = launch.start().unwrap_or_else(|ended| panic!("{}", ended.log));
        daemon.log_line(&["applied the configuration"]).unwrap();
        let listed = daemon.ready.split("http ").skip(1);
        let addresses = listed.filter_map(|part| {
            let (name, rest) = part.split_once(' ')?;
            let end = rest.find([',', ';']).unwrap_or(rest.len());
            Some((name.to_owned(), rest[..end].to_owned()))
        });
        let addresses = addresses.collect();
        Self { daemon, scratch, addresses }
    }

    /// A frontend `web` before the backend `app`; more of its settings may follow.
    pub const FRONTEND: &str = "[[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
        backend = \"app\"\naccess_log = \"json\"\n";

    /// A daemon with one frontend `web` before one backend `app`, whose only server is at `address`. `more` begins
    /// with more settings of the frontend.
    #[track_caller]
    #[must_use]
    pub fn before(address: &str, more: &str) -> Self {
        Self::start(&Self::config(address, more))
    }

    /// The configuration of [`Self::before`].
    #[must_use]
    pub fn config(address: &str, more: &str) -> String {
        format!(
            "[[backend]]\nname = \"app\"\nservers = [{{ name = \"one\", address = \"{address}\" }}]\n\
             {}{more}",
            Self::FRONTEND
        )
    }

    /// The address of a frontend.
    ///
    /// # Panics
    /// If there is no such frontend.
    #[track_caller]
    #[must_use]
    pub fn address(&self, frontend: &str) -> &str {
        self.addresses.get(frontend).unwrap_or_else(|| panic!("{}", self.daemon.ready))
    }

    /// A connection to the frontend `web`.
    #[track_caller]
    #[must_use]
    pub fn connect(&self) -> Web {
        Web::connect(self.address("web"))
    }

    /// The URL of a target at the frontend `web`.
    #[must_use]
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address("web"))
    }

    /// Makes the daemon reload this configuration, and waits until it logs that it is applied.
    ///
    /// # Panics
    /// If the daemon does not log this.
    #[track_caller]
    pub fn reload(&self, config: &str) {
        let _ = self.scratch.write("http.toml", config);
        self.daemon.signal(Signal::HUP);
        let words = [&["applied the configuration"][..], &["the configuration is unchanged"]];
        let line = self.daemon.log_line_of(&words).unwrap();
        assert!(line.contains("applied"), "{line}: {:?}", self.daemon.log_line(&[""]));
    }

    /// The requests that the daemon has, as `paceline ps` lists them.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let list = self.daemon.api().get("/v1/requests").expect(200);
        list.as_array().cloned().unwrap_or_default()
    }

    /// How many of them wait, and how many run.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let requests = self.requests();
        let is = |state: &str| requests.iter().filter(|request| request["state"] == state).count();
        (is("waiting"), is("running"))
    }

    /// Waits until `waiting` requests wait and `running` requests run.
    ///
    /// # Panics
    /// If this does not happen in time.
    #[track_caller]
    pub fn wait_for_counts(&self, waiting: usize, running: usize) {
        until(|| self.counts(), |counts| *counts == (waiting, running));
    }

    /// The figures of a checkpoint.
    #[must_use]
    pub fn figures(&self, checkpoint: &str) -> Value {
        let path = format!("/v1/checkpoints/{checkpoint}");
        self.daemon.api().get(&path).expect(200)["figures"].clone()
    }

    /// The daemon's resident memory, in bytes.
    ///
    /// # Panics
    /// If the daemon is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let pid = self.daemon.api().get("/v1/status").expect(200)["pid"].clone();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).expect("VmRSS");
        kilobytes.parse::<u64>().expect("VmRSS is a number") * 1024
    }

    /// The file of the access log.
    #[must_use]
    pub fn access_log(&self) -> PathBuf {
        self.daemon.data().join("access.log")
    }

    /// The lines of the access log, once there are at least `count`.
    ///
    /// # Panics
    /// If they do not arrive in time.
    #[track_caller]
    #[must_use]
    pub fn log_lines(&self, count: usize) -> Vec<String> {
        let file = self.access_log();
        let lines = || -> Vec<String> {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            // The last line may be incomplete.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().map(str::to_owned).collect()
        };
        until(lines, |lines| lines.len() >= count)
    }

    /// The same as JSON.
    #[track_caller]
    #[must_use]
    pub fn records(&self, count: usize) -> Vec<Value> {
        let lines = self.log_lines(count);
        lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

/// Checks repeatedly until the value is right, and returns it.
///
/// # Panics
/// If this does not happen in time; with the last value.
#[track_caller]
pub fn until<T: Debug>(look: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    until_within(ANSWER_TIMEOUT, look, is_right)
}

/// The same with another timeout.
///
/// # Panics
/// If this does not happen in time; with the last value.
#[track_caller]
pub fn until_within<T: Debug>(
    limit: Duration,
    mut look: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        let seen = look();
        if is_right(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}; last seen: {seen:?}");
        // Yields the processors to the daemon; correctness does not depend on it.
        thread::park_timeout(Duration::from_millis(2));
    }
}
