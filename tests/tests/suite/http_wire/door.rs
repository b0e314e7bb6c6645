//! The daemon with frontends at free ports, and servers that a test controls directly.

use super::wire::{READ_TIMEOUT, Wire};
use paceline_tests::{Daemon, Launch, Scratch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{SocketAddr, TcpListener};

/// A daemon with listening frontends.
#[derive(Debug)]
pub(super) struct Door {
    pub daemon: Daemon,
    _scratch: Scratch,
}

impl Door {
    /// Starts it with this configuration.
    pub fn start(config: &str) -> Self {
        Self::start_in(Scratch::new(), config)
    }

    /// The same in a folder that already contains files.
    pub fn start_in(scratch: Scratch, config: &str) -> Self {
        let file = scratch.write("http.toml", config);
        let daemon = Launch::new(&scratch).option("--config", file).start();
        let daemon = daemon.unwrap_or_else(|ended| panic!("{}", ended.log));
        Self { daemon, _scratch: scratch }
    }

    /// One worker, the frontend `web`, and one server; `more` is inserted into the frontend's settings.
    pub fn plain(server: SocketAddr, more: &str) -> Self {
        Self::start(&config(server, more, ""))
    }

    /// Where a frontend listens.
    pub fn address(&self, frontend: &str) -> SocketAddr {
        let ready = &self.daemon.ready;
        let (_, rest) = ready.split_once(&format!("http {frontend} ")).expect(ready);
        let end = rest.find([',', ';', ' ', '\n']).unwrap_or(rest.len());
        rest[..end].parse().expect(ready)
    }

    /// A connection to the frontend `web`.
    pub fn connect(&self) -> Wire {
        Wire::connect(self.address("web"))
    }

    /// Requests `/alive` on a new connection, to check that the daemon serves other clients.
    #[track_caller]
    pub fn serves(&self) {
        let mut other = self.connect();
        other.send(get("/alive"));
        assert_eq!(other.response().status, 200, "others are served");
    }

    /// The same with a server that the test controls.
    #[track_caller]
    pub fn serves_with(&self, played: &Played) {
        let mut other = self.connect();
        other.send(get("/alive"));
        let mut server = played.accept();
        assert!(server.request().unwrap().head.starts_with("GET /alive "));
        server.send(ok("alive"));
        assert_eq!(other.response().text(), "alive", "others are served");
    }

    /// Kilobytes of memory that the daemon uses.
    pub fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.daemon.process());
        let text = std::fs::read_to_string(status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Checks that it exits cleanly and has not panicked on any thread.
    #[track_caller]
    pub fn ends_well(self) {
        let ended = self.daemon.terminate();
        assert!(ended.status.success(), "{}", ended.log);
        assert!(!ended.log.contains("panic"), "{}", ended.log);
    }
}

/// A configuration with one worker, the frontend `web` and one server. `more` is inserted into the frontend's
/// settings, `rest` at the end.
pub(super) fn config(server: SocketAddr, more: &str, rest: &str) -> String {
    format!(
        "[http]\nthreads = 1\n\n[[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
         backend = \"app\"\n{more}\n\n[[backend]]\nname = \"app\"\n\
         servers = [{{ name = \"a\", address = \"{server}\" }}]\n{rest}\n"
    )
}

/// A request for a path, on a persistent connection.
pub(super) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// A response with a body, on a persistent connection.
pub(super) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A server that a test controls directly.
#[derive(Debug)]
pub(super) struct Played(TcpListener);

impl Played {
    pub fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// The next connection from the daemon.
    #[track_caller]
    pub fn accept(&self) -> Wire {
        let wait = Timespec { tv_sec: READ_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        assert!(self.is_called(&wait), "the daemon connects to the server");
        Wire::new(self.0.accept().unwrap().0)
    }

    /// Whether a connection is pending now.
    pub fn is_called_now(&self) -> bool {
        self.is_called(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    fn is_called(&self, wait: &Timespec) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut polled, Some(wait)).unwrap() > 0
    }
}
