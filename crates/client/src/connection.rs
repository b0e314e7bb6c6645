//! One connection to the daemon: it sends a request and receives the answer.
//!
//! Promises that a call ends at its deadline and that the size of an answer is bounded. After any error the
//! connection is unusable; [`Connection::is_fresh`] reports whether a kept connection is still usable.

use crate::ANSWER_BYTES_MAX;
use crate::target::Target;
use crate::wire::{self, Body, Head, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why there is no answer.
#[derive(Debug)]
pub enum Lost {
    /// The connection failed or ended.
    Io(io::Error),
    /// The received bytes are not a valid answer.
    Protocol(String),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<wire::WireError> for Lost {
    fn from(error: wire::WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// Bytes read at a time.
const READ_BYTES: usize = 16 << 10;
/// The most informational answers before the final one.
const INFORMATIONAL_MAX: usize = 8;
/// Silence after which the system probes a network peer, and how often.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    host: String,
    token: Option<String>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects within `timeout`.
    pub fn open(target: &Target, timeout: Duration) -> io::Result<Self> {
        let (stream, host, token) = match target {
            Target::Unix(path) => {
                (Stream::Unix(open_unix(path, timeout)?), "paceline".to_owned(), None)
            }
            Target::Tcp { address, token } => (
                Stream::Tcp(open_tcp(address, timeout)?),
                address.clone(),
                Some(token.secret().to_owned()),
            ),
        };
        if !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a host and a port"));
        }
        Ok(Self { stream, host, token, buffer: Vec::new() })
    }

    /// Sends a request and waits for its answer; without a deadline, it waits without limit.
    pub fn exchange(
        &mut self,
        message: &Message<'_>,
        deadline: Option<Instant>,
    ) -> Result<(u16, Vec<u8>, bool), Lost> {
        self.send(message, deadline)?;
        let mut head = self.head(deadline)?;
        let mut answer = Vec::new();
        while self.part(&mut head.body, &mut answer, deadline)? {
            if answer.len() > ANSWER_BYTES_MAX {
                let what = format!("it is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(Lost::Protocol(what));
            }
        }
        // Unexpected bytes would be mistaken for the next answer.
        Ok((head.status, answer, head.keeps && self.buffer.is_empty()))
    }

    /// Sends a request.
    pub fn send(&mut self, message: &Message<'_>, deadline: Option<Instant>) -> Result<(), Lost> {
        let bytes = message.bytes(&self.host, self.token.as_deref());
        let left = remaining(deadline)?;
        match &mut self.stream {
            Stream::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write_all(&bytes)?;
            }
            Stream::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    /// The head of the next answer.
    pub fn head(&mut self, deadline: Option<Instant>) -> Result<Head, Lost> {
        for _ in 0..INFORMATIONAL_MAX {
            let (head, length) = loop {
                match wire::head(&self.buffer)? {
                    Some(found) => break found,
                    None => self.fill(deadline)?,
                }
            };
            self.buffer.drain(..length);
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(Lost::Protocol("too many informational answers".into()))
    }

    /// Adds the next part of `body` to `out`; false when there is no more.
    pub fn part(
        &mut self,
        body: &mut Body,
        out: &mut Vec<u8>,
        deadline: Option<Instant>,
    ) -> Result<bool, Lost> {
        loop {
            if *body == Body::Done {
                return Ok(false);
            }
            let used = body.take(&self.buffer, out)?;
            self.buffer.drain(..used);
            if used > 0 {
                return Ok(true);
            }
            match self.fill(deadline) {
                Err(Lost::Io(error))
                    if *body == Body::ToEnd && error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    *body = Body::Done;
                }
                other => other?,
            }
        }
    }

    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), Lost> {
        let left = remaining(deadline)?;
        let start = self.buffer.len();
        self.buffer.resize(start + READ_BYTES, 0);
        let space = self.buffer.get_mut(start..).unwrap_or_default();
        let read = loop {
            let read = match &mut self.stream {
                Stream::Unix(stream) => {
                    stream.set_read_timeout(left).and_then(|()| stream.read(space))
                }
                Stream::Tcp(stream) => {
                    stream.set_read_timeout(left).and_then(|()| stream.read(space))
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up").into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(silent().into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Shuts the connection down, also for processes that inherited it.
    pub fn end(&self) {
        // A connection that is already closed needs no shutdown.
        let _ = match &self.stream {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Whether a kept connection is still open and has no unread bytes, as required before a request.
    pub fn is_fresh(&self) -> bool {
        let mut watched = [PollFd::new(self, PollFlags::IN)];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.buffer.is_empty() && matches!(poll(&mut watched, Some(&none)), Ok(0))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// The time left; an error when there is none, because the system interprets zero as "no timeout".
fn remaining(deadline: Option<Instant>) -> Result<Option<Duration>, Lost> {
    let Some(deadline) = deadline else { return Ok(None) };
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(left)),
        _ => Err(silent().into()),
    }
}

/// The error for an answer that does not arrive in time.
pub fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// Connects with a timeout, because a daemon that hangs or is stopped accepts no connections.
fn open_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let kind = net::SocketFlags::CLOEXEC;
    let socket = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, kind, None)?;
    // The system applies the send timeout to connecting too, and interprets zero as "no timeout".
    let longest = timeout.max(Duration::from_micros(1));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(longest))?;
    match net::connect(&socket, &net::SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(UnixStream::from(socket)),
        Err(rustix::io::Errno::AGAIN) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it did not accept the connection in time"))
        }
        Err(error) => Err(error.into()),
    }
}

fn open_tcp(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                // A call without a deadline must not wait for a machine that no longer exists.
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
                sockopt::set_tcp_keepintvl(&stream, PROBE_AFTER / PROBES)?;
                sockopt::set_tcp_keepcnt(&stream, PROBES)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
