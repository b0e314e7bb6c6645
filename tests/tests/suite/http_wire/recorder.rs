//! A server that records every byte it gets, and answers each complete request.
//!
//! One thread reads all its connections, and reads everything available on any of them before it answers. So once a
//! request is answered, everything that the daemon sent before it has been recorded.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The server.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

/// What was recorded since the last call.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Complete requests, each as it was written, in the order of their ends.
    pub requests: Vec<String>,
    /// The beginnings of requests that were never completed.
    pub broken: Vec<String>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    kept: Vec<u8>,
    has_ended: bool,
}

impl Recorder {
    /// Starts it on its own thread.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let this = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let seen = Arc::clone(&this.seen);
        std::thread::spawn(move || run(&listener, &seen));
        this
    }

    /// Returns what was recorded since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn run(listener: &TcpListener, seen: &Mutex<Seen>) {
    let mut connections: Vec<Connection> = vec![];
    loop {
        let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
        polled.extend(connections.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        poll(&mut polled, None).unwrap();
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            connections.push(Connection { stream, kept: vec![], has_ended: false });
        }
        connections.iter_mut().for_each(Connection::fill);
        let mut seen = seen.lock().unwrap();
        connections.iter_mut().for_each(|one| one.record(&mut seen));
        drop(seen);
        connections.retain(|one| !one.has_ended);
    }
}

impl Connection {
    fn fill(&mut self) {
        let mut piece = [0; 16 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => self.has_ended = true,
                Ok(read) => {
                    self.kept.extend_from_slice(&piece[..read]);
                    continue;
                }
                Err(error) => self.has_ended |= error.kind() != ErrorKind::WouldBlock,
            }
            return;
        }
    }

    /// Takes complete requests, and answers each with its first line.
    fn record(&mut self, seen: &mut Seen) {
        while let Some(len) = whole(&self.kept) {
            let request: Vec<u8> = self.kept.drain(..len).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            let line = request.split("\r\n").next().unwrap_or_default();
            let body = if line.starts_with("HEAD ") { "" } else { line };
            let len = line.len();
            seen.requests.push(request.clone());
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}");
            let _ = self.stream.write_all(answer.as_bytes());
        }
        if self.has_ended && !self.kept.is_empty() {
            seen.broken.push(String::from_utf8_lossy(&self.kept).into_owned());
        }
    }
}

/// The length of the request at the start of `bytes`, if it is complete. It parses as leniently as the worst server
/// would: a bare line feed ends a line, and a chunked coding overrides a length.
fn whole(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let line = line(bytes, &mut at)?.to_ascii_lowercase();
        if line.is_empty() && at > 2 {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        is_chunked |= line.starts_with("transfer-encoding") && line.contains("chunked");
    }
    if !is_chunked {
        return (bytes.len() >= at + length).then_some(at + length);
    }
    loop {
        let size = line(bytes, &mut at)?;
        let digits = size.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        at += size;
        line(bytes, &mut at)?;
    }
    while !line(bytes, &mut at)?.is_empty() {}
    Some(at)
}

fn line(bytes: &[u8], at: &mut usize) -> Option<String> {
    let rest = bytes.get(*at..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *at += end + 1;
    Some(String::from_utf8_lossy(&rest[..end]).trim_end_matches('\r').to_owned())
}
