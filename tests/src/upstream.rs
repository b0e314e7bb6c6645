//! A server behind the daemon: HTTP/1.1, a thread for each connection, with responses that a test scripts.
//!
//! Owns its socket and threads, which end on drop. Promises that every request that reaches it is recorded byte by
//! byte, in the order of arrival of the heads. Never sends anything that the script does not send.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::ANSWER_TIMEOUT;
use crate::message::{self, Body};

/// What to do with a request.
type Script = dyn Fn(&mut Call<'_>) + Send + Sync;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its head and its body so far, byte by byte.
    pub raw: Vec<u8>,
    /// Its head.
    pub head: String,
    /// The number of its connection.
    pub connection: usize,
    /// When its head was complete.
    pub at: Instant,
}

impl Seen {
    /// The method and the target.
    #[must_use]
    pub fn line(&self) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.rsplit_once(' ').map_or(line, |(line, _)| line)
    }

    /// The value of the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        message::field(&self.head, name)
    }
}

/// The server.
#[derive(Debug)]
pub struct Upstream {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
    connections: Mutex<BTreeMap<usize, UnixStream>>,
    accepted: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
    is_stopped: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Upstream {
    /// A server at a free port that handles each request with `script`.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start(script: impl Fn(&mut Call<'_>) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// A server that answers every request with 200 and `text`.
    #[must_use]
    pub fn saying(text: &'static str) -> Self {
        Self::start(move |call| {
            call.body();
            call.answer(200, text);
        })
    }

    /// A server at this address, `IP:PORT` or `unix:PATH`.
    ///
    /// # Panics
    /// If the address is in use.
    #[must_use]
    pub fn start_at(address: &str, script: impl Fn(&mut Call<'_>) + Send + Sync + 'static) -> Self {
        let listener = Listener::open(address);
        let address = match &listener {
            Listener::Tcp(listener) => listener.local_addr().unwrap().to_string(),
            Listener::Unix(_) => address.to_owned(),
        };
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            changed: Condvar::new(),
            connections: Mutex::default(),
            accepted: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            in_flight_max: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &theirs));
        Self { address, shared }
    }

    /// Its address, in the form of a server's `address`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// How many requests there were.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// Their methods and targets.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.line().to_owned()).collect()
    }

    /// All requests, once there are at least `count`.
    ///
    /// # Panics
    /// If they do not arrive in time.
    #[track_caller]
    #[must_use]
    pub fn wait_for(&self, count: usize) -> Vec<Seen> {
        let seen = lock(&self.shared.seen);
        let waits = |seen: &mut Vec<Seen>| seen.len() < count;
        let waited = self.shared.changed.wait_timeout_while(seen, ANSWER_TIMEOUT, waits);
        let seen = waited.unwrap_or_else(PoisonError::into_inner).0.clone();
        assert!(seen.len() >= count, "{count} requests were to come, {} did", seen.len());
        seen
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many of them are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        lock(&self.shared.connections).len()
    }

    /// How many requests are being answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    /// The maximum of requests that were being answered at one time.
    #[must_use]
    pub fn in_flight_max(&self) -> usize {
        self.shared.in_flight_max.load(Ordering::SeqCst)
    }

    /// Closes the listening socket, then breaks all connections. New connections are refused from now on.
    pub fn stop(&self) {
        if self.shared.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        // When the accepting thread is woken it checks the flag, and closes the listening socket. Connections break
        // only after that, as when a process is killed: a request that replaces a broken one is refused a connection,
        // and never gets one that is reset later.
        while connect(&self.address).is_ok() {
            thread::yield_now();
        }
        for stream in lock(&self.shared.connections).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A stream to `IP:PORT` or `unix:PATH`.
///
/// # Errors
/// If no process listens there.
pub fn connect(address: &str) -> io::Result<UnixStream> {
    if let Some(path) = address.strip_prefix("unix:") {
        return UnixStream::connect(path);
    }
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    // Once connected, stream sockets of both families are read, written and closed in the same way.
    Ok(UnixStream::from(OwnedFd::from(stream)))
}

/// Writes as much of `bytes` as possible, until nothing more is accepted for a second. Returns how much that was.
pub fn push(mut stream: &UnixStream, bytes: &[u8]) -> usize {
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    let _ = stream.set_write_timeout(None);
    sent
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn open(address: &str) -> Self {
        match address.strip_prefix("unix:") {
            Some(path) => Self::Unix(UnixListener::bind(path).unwrap()),
            None => Self::Tcp(TcpListener::bind(address).unwrap()),
        }
    }

    fn accept(&self) -> io::Result<UnixStream> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| stream),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(UnixStream::from(OwnedFd::from(stream)))
            }
        }
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    while let Ok(stream) = listener.accept() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        lock(&shared.connections).insert(number, stream.try_clone().unwrap());
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let _ = stream.set_read_timeout(Some(ANSWER_TIMEOUT));
            let mut stream = BufReader::new(stream);
            // Some tests break connections on purpose.
            while let Ok(true) = serve(&shared, &mut stream, number) {}
            let _ = stream.get_ref().shutdown(Shutdown::Both);
            lock(&shared.connections).remove(&number);
        });
    }
}

/// Serves one request; returns whether another one may follow.
fn serve(
    shared: &Shared,
    stream: &mut BufReader<UnixStream>,
    connection: usize,
) -> io::Result<bool> {
    let Some(head) = message::read_head(stream)? else { return Ok(false) };
    let in_flight = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    shared.in_flight_max.fetch_max(in_flight, Ordering::SeqCst);
    let number = {
        let mut seen = lock(&shared.seen);
        let raw = head.clone().into_bytes();
        seen.push(Seen { raw, head: head.clone(), connection, at: Instant::now() });
        shared.changed.notify_all();
        seen.len() - 1
    };
    let mut call =
        Call { head, number, stream, shared, body: None, is_answered: false, is_over: false };
    (shared.script)(&mut call);
    call.leave();
    call.body();
    Ok(!call.is_over)
}

/// A request that is being answered.
pub struct Call<'a> {
    /// Its head.
    pub head: String,
    /// How many requests arrived before it.
    pub number: usize,
    stream: &'a mut BufReader<UnixStream>,
    shared: &'a Shared,
    body: Option<Body>,
    is_answered: bool,
    is_over: bool,
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("head", &self.head).finish_non_exhaustive()
    }
}

impl Call<'_> {
    /// Its target.
    #[must_use]
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        message::field(&self.head, name)
    }

    /// Its whole body. If the body is cut short, the connection ends.
    pub fn body(&mut self) -> Body {
        if let Some(body) = &self.body {
            return body.clone();
        }
        let length = message::length(&self.head).unwrap_or(message::Length::Known(0));
        let read = match self.is_over {
            true => Ok(Body::default()),
            false => message::read_body(self.stream, length),
        };
        let body = read.unwrap_or_else(|_| {
            self.is_over = true;
            Body::default()
        });
        self.record(&body.raw);
        self.body = Some(body.clone());
        body
    }

    /// Up to `max` bytes of what arrives next; none at the end of the connection.
    pub fn read(&mut self, max: usize) -> Vec<u8> {
        let mut bytes = vec![0; max];
        let read = self.stream.read(&mut bytes).unwrap_or(0);
        self.is_over |= read == 0;
        bytes.truncate(read);
        self.record(&bytes);
        bytes
    }

    /// Sends bytes as they are; returns whether the other side still accepts them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let is_sent = self.stream.get_mut().write_all(bytes.as_ref()).is_ok();
        self.is_over |= !is_sent;
        is_sent
    }

    /// Sends as much of `bytes` as possible, until nothing more is accepted for a second. Returns how much that was.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        push(self.stream.get_ref(), bytes)
    }

    /// Sends a complete response with this body.
    pub fn answer(&mut self, status: u16, body: &str) {
        // After the response the request no longer counts as being answered.
        self.leave();
        self.send(format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    /// Closes the connection when the script is done.
    pub fn close(&mut self) {
        self.is_over = true;
    }

    /// Counts the request as answered from now on.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_answered, true) {
            self.shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn record(&self, bytes: &[u8]) {
        if let Some(seen) = lock(&self.shared.seen).get_mut(self.number) {
            seen.raw.extend_from_slice(bytes);
            self.shared.changed.notify_all();
        }
    }
}

/// Holds up every thread that calls `pass` until the latch is opened.
#[derive(Debug, Default)]
pub struct Latch {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Latch {
    /// A closed latch.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits until this thread is let through.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn pass(&self) {
        let state = lock(&self.state);
        let waits = |state: &mut (usize, bool)| state.0 == 0 && !state.1;
        let waited = self.changed.wait_timeout_while(state, ANSWER_TIMEOUT, waits);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "nobody opened the latch");
        state.0 = state.0.saturating_sub(1);
    }

    /// Lets one thread through.
    pub fn let_one(&self) {
        lock(&self.state).0 += 1;
        self.changed.notify_one();
    }

    /// Lets all threads through from now on.
    pub fn open(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
