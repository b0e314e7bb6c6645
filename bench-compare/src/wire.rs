//! One blocking JSON-RPC connection, and the light scanner that finds the end of messages.
//!
//! The scanner only counts brackets outside strings, so that the client costs a fraction of the server. A connection
//! answers the server's `echo` and skips notifications while it waits for a reply. It never parses JSON.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Outcome};

/// Maximum time for a single response. A server that hangs ends the load, not the run.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);

const CHUNK_LEN: usize = 256 * 1024;

/// The position in a stream of JSON texts.
#[derive(Debug, Default, Clone)]
pub struct Scanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Scanner {
    /// Scans `bytes` up to the end of the current message. `Some(n)`: it ends after `n` bytes, and the rest is not
    /// scanned yet. `None`: all of `bytes` was scanned and the message continues.
    pub fn message_end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Fails if `reply` is an error, of the call or of one of its operations.
pub fn check_reply(reply: &[u8]) -> Outcome<()> {
    const KEY: &[u8] = b"\"error\":";
    let mut rest = reply;
    while let Some(at) = find(rest, KEY) {
        rest = &rest[at + KEY.len()..];
        if !rest.starts_with(b"null") {
            let shown = &reply[..reply.len().min(400)];
            return Err(Failure::new(format!("server says {}", String::from_utf8_lossy(shown))));
        }
    }
    Ok(())
}

/// The first position of `needle` in `bytes`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|&byte| byte == first) {
        if bytes[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// A client of one server, one call at a time.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    scanner: Scanner,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that belong to messages that were already returned.
    taken: usize,
    /// Bytes of `buffer` that were scanned.
    scanned: usize,
    chunk: Vec<u8>,
}

impl Connection {
    /// Connects to the unix socket at `path`.
    pub fn open(path: &Path) -> Outcome<Self> {
        let stream = UnixStream::connect(path).map_err(|e| Failure::io(path.display(), &e))?;
        Self::over(stream)
    }

    /// A client on a stream that is already connected.
    pub fn over(stream: UnixStream) -> Outcome<Self> {
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Self {
            stream,
            scanner: Scanner::default(),
            buffer: Vec::new(),
            taken: 0,
            scanned: 0,
            chunk: vec![0; CHUNK_LEN],
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.stream.write_all(bytes).map_err(|e| Failure::io("sending", &e))
    }

    /// Sends one request and returns its reply, which is checked not to be an error.
    pub fn call(&mut self, request: &[u8]) -> Outcome<&[u8]> {
        self.send(request)?;
        let (from, to) = loop {
            let (from, to) = self.receive()?;
            let message = &self.buffer[from..to];
            if find(message, b"\"method\":").is_none() {
                break (from, to);
            }
            if find(message, b"\"method\":\"echo\"").is_some() {
                self.send(br#"{"id":"echo","error":null,"result":[]}"#)?;
            }
        };
        let reply = &self.buffer[from..to];
        check_reply(reply)?;
        Ok(reply)
    }

    /// Sends one request and discards its reply; returns the reply's length. For replies of many megabytes, because
    /// keeping them would measure the client.
    pub fn call_discarding(&mut self, request: &[u8]) -> Outcome<usize> {
        self.send(request)?;
        self.buffer.clear();
        (self.taken, self.scanned) = (0, 0);
        let mut len = 0;
        loop {
            let n = self.read_chunk()?;
            if len == 0 && n < CHUNK_LEN {
                check_reply(&self.chunk[..n])?;
            }
            match self.scanner.message_end(&self.chunk[..n]) {
                Some(end) => return Ok(len + end),
                None => len += n,
            }
        }
    }

    /// Returns the stream, for a caller with its own loop.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// The bounds of the next message in `buffer`.
    fn receive(&mut self) -> Outcome<(usize, usize)> {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            (self.taken, self.scanned) = (0, 0);
        }
        loop {
            if let Some(n) = self.scanner.message_end(&self.buffer[self.scanned..]) {
                let from = self.taken;
                self.scanned += n;
                self.taken = self.scanned;
                return Ok((from, self.taken));
            }
            self.scanned = self.buffer.len();
            let n = self.read_chunk()?;
            self.buffer.extend_from_slice(&self.chunk[..n]);
        }
    }

    fn read_chunk(&mut self) -> Outcome<usize> {
        loop {
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Err(Failure::new("the server closed the connection")),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return Err(Failure::new(format!("no answer for {} s", ANSWER_MAX.as_secs())));
                }
                Err(e) => return Err(Failure::io("receiving", &e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_brackets_close_outside_strings() {
        let stream = br#"{"a":"}]\"{\\"} [1,{"b":[]}]{}"#;
        for step in 1..=stream.len() {
            let (mut scanner, mut ends, mut base) = (Scanner::default(), Vec::new(), 0);
            for chunk in stream.chunks(step) {
                let mut from = 0;
                while let Some(n) = scanner.message_end(&chunk[from..]) {
                    from += n;
                    ends.push(base + from);
                }
                base += chunk.len();
            }
            assert_eq!(ends, [15, 28, 30], "in steps of {step}");
        }
    }

    #[test]
    fn errors_are_found_in_calls_and_operations() {
        let cases = [
            (r#"{"id":1,"error":null,"result":[{}]}"#, true),
            (r#"{"id":1,"error":"unknown method","result":null}"#, false),
            (r#"{"error":null,"id":1,"result":[{},{"error":"timed out"}]}"#, false),
            (r#"{"error":{"error":"syntax error"},"id":1,"result":null}"#, false),
        ];
        for (reply, good) in cases {
            assert_eq!(check_reply(reply.as_bytes()).is_ok(), good, "{reply}");
        }
    }
}
