//! A raw JSON-RPC connection: one stream socket, one JSON text after another.
//!
//! Owns the socket and the unread bytes. Promises that every read ends within [`READ_TIMEOUT`] and that a message is
//! returned exactly as it arrived. Never replies by itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a read may take before the test fails.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The text of one JSON object.
    Message(Vec<u8>),
    /// The server closed the connection.
    Closed,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
    scan: Scan,
    last_id: u64,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// If there is no server.
    pub fn connect(path: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(path)
            .map_err(|error| format!("cannot connect to {}: {error}", path.display()))?;
        Self::over(stream)
    }

    /// Connects to a local port.
    ///
    /// # Errors
    /// If there is no server.
    pub fn connect_tcp(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("cannot connect to port {port}: {error}"))?;
        // Once connected, stream sockets of both families are read, written and closed in the same way.
        Self::over(UnixStream::from(OwnedFd::from(stream)))
    }

    fn over(stream: UnixStream) -> Result<Self, String> {
        stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(|error| error.to_string())?;
        Ok(Self { stream, buffer: Vec::new(), scan: Scan::default(), last_id: 0 })
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("cannot send: {error}"))
    }

    /// Sends a request with the next number as id, and returns the id.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn request(&mut self, method: &str, params: &str) -> Result<Value, String> {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.request_as(&id, method, params)?;
        Ok(id)
    }

    /// Sends a request with this id.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn request_as(&mut self, id: &Value, method: &str, params: &str) -> Result<(), String> {
        let method = json!(method);
        self.send(format!(r#"{{"id":{id},"method":{method},"params":{params}}}"#).as_bytes())
    }

    /// Sends a request, reads the next message, and returns its `result`.
    ///
    /// # Errors
    /// If the next message is not a success reply to this request.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.request(method, &params.to_string())?;
        let message = self.message()?;
        if message["id"] == id && message["error"].is_null() && message.get("result").is_some() {
            Ok(message["result"].clone())
        } else {
            Err(format!("{method} got {message}"))
        }
    }

    /// The next message as JSON.
    ///
    /// # Errors
    /// If the connection closes, nothing arrives in time, or the text is not JSON.
    pub fn message(&mut self) -> Result<Value, String> {
        match self.frame()? {
            Frame::Message(text) => serde_json::from_slice(&text)
                .map_err(|error| format!("{error} in {}", String::from_utf8_lossy(&text))),
            Frame::Closed => Err("the server closed the connection".into()),
        }
    }

    /// The text of the next message, or the end of the connection.
    ///
    /// # Errors
    /// If nothing arrives in time.
    pub fn frame(&mut self) -> Result<Frame, String> {
        let mut chunk = [0; 64 * 1024];
        loop {
            if let Some(end) = self.scan.advance(&self.buffer) {
                let rest = self.buffer.split_off(end);
                let text = std::mem::replace(&mut self.buffer, rest);
                return Ok(Frame::Message(text));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Frame::Closed),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waited = READ_TIMEOUT.as_secs();
                    return Err(format!("nothing came within {waited} s"));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A server that closes a socket with unread bytes resets the connection.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Ok(Frame::Closed);
                }
                Err(error) => return Err(format!("cannot read: {error}")),
            }
        }
    }

    /// Shuts down the sending side; the server can still send.
    ///
    /// # Errors
    /// If the connection is already broken.
    pub fn close_sending(&self) -> Result<(), String> {
        self.stream.shutdown(Shutdown::Write).map_err(|error| error.to_string())
    }

    /// The socket, for tests that need direct access.
    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

/// Finds the end of the next JSON object in a growing buffer, reading each byte once.
#[derive(Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// The length of the first complete object in `buffer`, if there is one.
    fn advance(&mut self, buffer: &[u8]) -> Option<usize> {
        for (offset, byte) in buffer.iter().enumerate().skip(self.at) {
            self.at = offset + 1;
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
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if self.depth == 0 && matches!(byte, b'}' | b']') {
                let end = self.at;
                *self = Self::default();
                return Some(end);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;

    #[test]
    fn scan_splits_objects_and_minds_strings() {
        let text = br#"{"a":"}\"{"} {"b":[1]}"#;
        let mut scan = Scan::default();
        assert_eq!(scan.advance(&text[..6]), None);
        assert_eq!(scan.advance(text), Some(12));
        assert_eq!(scan.advance(&text[12..]), Some(10));
    }
}
