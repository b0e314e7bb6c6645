//! The upstream behind every proxy: one thread that sends fixed bodies, at once or after a delay.
//!
//! It runs as a separate process (`bench-compare origin`), so that its processor time is counted for no other
//! process. It prints the port that it listens on, and exits when its standard input ends. It counts requests,
//! concurrent requests, and the ids that it received (`/id/N`); `/-/stats` reports them and `/-/reset` clears them. A
//! request counts as in flight from its last byte in to its response out, even if the proxy disconnects meanwhile, as
//! the work of a real upstream would.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::message::{Head, number};
use super::poller::Poller;
use crate::failure::{Failure, Outcome};

/// Maximum connections at a time.
const CONNECTIONS_MAX: usize = 4096;
/// The longest request, including its body.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Maximum ids that are remembered.
const IDS_MAX: usize = 100_000;
/// The small body, and the length of the large one.
const SMALL: &str = "hello, world\n";
const LARGE_LEN: usize = 10 << 10;

const LISTENER: usize = 0;
const PARENT: usize = 1;
const FIRST: usize = 2;

/// Serves until standard input ends; `args` are the arguments after `origin`.
pub fn main(mut args: impl Iterator<Item = String>) -> Outcome<()> {
    let mut delay = Duration::ZERO;
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--delay-ms", Some(text)) => {
                let ms = text.parse().ok().filter(|ms| *ms <= 60_000);
                let ms = ms.ok_or_else(|| Failure::new("--delay-ms takes 0 to 60000"))?;
                delay = Duration::from_millis(ms);
            }
            _ => return Err(Failure::new(format!("origin takes --delay-ms N, not {arg}"))),
        }
    }
    let mut origin = Origin::listen(delay)?;
    println!("{}", origin.port()?);
    io::stdout().flush()?;
    origin.poller.add(io::stdin(), PARENT)?;
    origin.serve()
}

/// The server itself.
pub(super) struct Origin {
    listener: TcpListener,
    poller: Poller,
    delay: Duration,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    opened: u64,
    due: VecDeque<Due>,
    counts: Counts,
    small: Vec<u8>,
    large: Vec<u8>,
    /// The read buffer. Only incomplete requests are kept with their connection.
    buffer: Vec<u8>,
}

/// A delayed response.
struct Due {
    at: Instant,
    slot: usize,
    opened: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Small,
    Large,
    Stats,
}

#[derive(Default)]
struct Counts {
    served: u64,
    in_flight: u64,
    in_flight_max: u64,
    /// The total time of all delayed requests.
    stay: Duration,
    ids: BTreeSet<usize>,
}

impl Origin {
    /// Listens on a free port of loopback.
    pub(super) fn listen(delay: Duration) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER)?;
        Ok(Self {
            listener,
            poller,
            delay,
            connections: Vec::new(),
            free: Vec::new(),
            opened: 0,
            due: VecDeque::new(),
            counts: Counts::default(),
            small: answer(SMALL),
            large: answer(&"x".repeat(LARGE_LEN)),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Where it listens.
    pub(super) fn port(&self) -> Outcome<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Serves until the parent process is gone.
    pub(super) fn serve(&mut self) -> Outcome<()> {
        let mut ready = Vec::new();
        loop {
            self.poller.wait(self.due.front().map(|due| due.at), &mut ready)?;
            for &number in &ready {
                match number {
                    LISTENER => self.accept()?,
                    PARENT => return Ok(()),
                    slot => self.turn(slot - FIRST)?,
                }
            }
            self.pay()?;
        }
    }

    fn accept(&mut self) -> Outcome<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if self.free.is_empty() {
            if self.connections.len() == CONNECTIONS_MAX {
                return Err(Failure::new(format!("more than {CONNECTIONS_MAX} connections")));
            }
            self.free.push(self.connections.len());
            self.connections.push(None);
        }
        let Some(slot) = self.free.pop() else { return Ok(()) };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.poller.add(&stream, slot + FIRST)?;
        self.opened += 1;
        let (input, output) = (Vec::new(), Vec::new());
        self.connections[slot] = Some(Connection { stream, opened: self.opened, input, output });
        Ok(())
    }

    /// Reads from a connection, answers complete requests, and writes what was left over.
    fn turn(&mut self, slot: usize) -> Outcome<()> {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        if self.talk(slot, &mut connection).unwrap_or(false) {
            self.connections[slot] = Some(connection);
        } else {
            self.free.push(slot);
        }
        Ok(())
    }

    /// Returns false if the connection has ended.
    fn talk(&mut self, slot: usize, connection: &mut Connection) -> Outcome<bool> {
        if !connection.output.is_empty() {
            connection.flush(&self.poller, slot)?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let alive = match connection.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) if connection.input.is_empty() => {
                self.take_requests(slot, connection, &buffer[..count])
            }
            Ok(count) => {
                let mut bytes = std::mem::take(&mut connection.input);
                bytes.extend_from_slice(&buffer[..count]);
                self.take_requests(slot, connection, &bytes)
            }
            Err(error) => Ok(error.kind() == ErrorKind::WouldBlock),
        };
        self.buffer = buffer;
        alive
    }

    fn take_requests(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        mut bytes: &[u8],
    ) -> Outcome<bool> {
        while let Some(head) = Head::read(bytes)? {
            if head.len > REQUEST_BYTES_MAX {
                return Ok(false);
            }
            if head.len > bytes.len() {
                break;
            }
            self.take(slot, connection, head.second())?;
            bytes = &bytes[head.len..];
        }
        connection.input.extend_from_slice(bytes);
        Ok(true)
    }

    fn take(&mut self, slot: usize, connection: &mut Connection, path: &[u8]) -> Outcome<()> {
        let what = match path {
            b"/-/reset" => {
                self.counts = Counts { in_flight: self.counts.in_flight, ..Counts::default() };
                What::Stats
            }
            b"/-/stats" => What::Stats,
            b"/10k" => What::Large,
            _ => {
                self.counts.note(path);
                What::Small
            }
        };
        if what == What::Stats {
            let text = answer(&self.counts.text());
            return connection.send(&self.poller, slot, &text);
        }
        self.counts.begin();
        if self.delay.is_zero() {
            self.counts.end();
            let bytes = if what == What::Large { &self.large } else { &self.small };
            return connection.send(&self.poller, slot, bytes);
        }
        let at = Instant::now() + self.delay;
        self.due.push_back(Due { at, slot, opened: connection.opened, what });
        Ok(())
    }

    /// Sends the responses that are due. All delays are equal, so the queue is in order.
    fn pay(&mut self) -> Outcome<()> {
        if self.due.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        while let Some(due) = self.due.pop_front_if(|due| due.at <= now) {
            self.counts.end();
            self.counts.stay += self.delay + now.duration_since(due.at);
            let connection = self.connections.get_mut(due.slot).and_then(Option::as_mut);
            let Some(connection) = connection.filter(|one| one.opened == due.opened) else {
                continue;
            };
            let bytes = if due.what == What::Large { &self.large } else { &self.small };
            // A disconnected client is noticed at the next read.
            let _ = connection.send(&self.poller, due.slot, bytes);
        }
        Ok(())
    }
}

struct Connection {
    stream: TcpStream,
    opened: u64,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    fn send(&mut self, poller: &Poller, slot: usize, bytes: &[u8]) -> Outcome<()> {
        if !self.output.is_empty() {
            self.output.extend_from_slice(bytes);
            return Ok(());
        }
        let sent = written(self.stream.write(bytes))?;
        if sent < bytes.len() {
            self.output.extend_from_slice(&bytes[sent..]);
            poller.want_room(&self.stream, slot + FIRST, true)?;
        }
        Ok(())
    }

    fn flush(&mut self, poller: &Poller, slot: usize) -> Outcome<()> {
        let sent = written(self.stream.write(&self.output))?;
        self.output.drain(..sent);
        if self.output.is_empty() {
            poller.want_room(&self.stream, slot + FIRST, false)?;
        }
        Ok(())
    }
}

fn written(result: io::Result<usize>) -> Outcome<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => Ok(other?),
    }
}

fn answer(body: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl Counts {
    fn note(&mut self, path: &[u8]) {
        if let Some(id) = path.strip_prefix(b"/id/").and_then(number)
            && self.ids.len() < IDS_MAX
        {
            self.ids.insert(id);
        }
    }

    fn begin(&mut self) {
        self.in_flight += 1;
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
    }

    fn end(&mut self) {
        self.in_flight -= 1;
        self.served += 1;
    }

    /// The four lines of `/-/stats`, which [`super::upstream::Stats`] parses.
    fn text(&self) -> String {
        let Self { served, in_flight_max, stay, .. } = self;
        let mut text = format!("{served}\n{in_flight_max}\n{}\n", stay.as_micros());
        for id in &self.ids {
            let _ = write!(text, "{id} ");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_once_and_the_ids_are_remembered() {
        let mut counts = Counts::default();
        counts.begin();
        counts.begin();
        counts.end();
        counts.begin();
        counts.end();
        for path in ["/id/7", "/id/3", "/id/x", "/"] {
            counts.note(path.as_bytes());
        }
        counts.stay = Duration::from_millis(3);
        assert_eq!(counts.text(), "2\n2\n3000\n3 7 \n");
    }
}
