//! A client of the HTTP door that sends exactly the given bytes.
//!
//! Owns its connection. Promises that every read ends within [`ANSWER_TIMEOUT`] and that a response is returned as it
//! arrived. Never sends anything by itself, and follows no redirects.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::api::ANSWER_TIMEOUT;
use crate::message::{self, Body, Length};
use crate::upstream::connect;

/// One connection.
#[derive(Debug)]
pub struct Web {
    stream: BufReader<UnixStream>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its head as it arrived.
    pub head: String,
    /// Its body.
    pub body: Body,
}

impl Response {
    /// The value of the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        message::field(&self.head, name)
    }

    /// Its body as text.
    ///
    /// # Panics
    /// If it is not text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body.bytes).unwrap()
    }

    /// Its body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body.bytes).unwrap_or_else(|_| panic!("{}", self.text()))
    }
}

impl Web {
    /// Connects to `IP:PORT` or `unix:PATH`.
    ///
    /// # Panics
    /// If no process listens there.
    #[track_caller]
    #[must_use]
    pub fn connect(address: &str) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects to `IP:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// If no process listens there.
    pub fn try_connect(address: &str) -> io::Result<Self> {
        let stream = connect(address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the daemon has closed the connection.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a GET of `target` with more lines in the head, each with its line end.
    ///
    /// # Panics
    /// If the daemon has closed the connection.
    pub fn ask(&mut self, target: &str, fields: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")).unwrap();
    }

    /// Sends a GET and reads the response.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.get_with(target, "")
    }

    /// Sends a GET with more lines in the head and reads the response.
    #[track_caller]
    pub fn get_with(&mut self, target: &str, fields: &str) -> Response {
        self.ask(target, fields);
        self.answer()
    }

    /// The next response.
    ///
    /// # Panics
    /// If none arrives in time.
    #[track_caller]
    pub fn answer(&mut self) -> Response {
        self.try_answer(false).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// The next response, or why there is none. A response to HEAD has no body.
    ///
    /// # Errors
    /// If the connection ends or breaks.
    pub fn try_answer(&mut self, is_head: bool) -> io::Result<Response> {
        let head = message::read_head(&mut self.stream)?;
        let head = head.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let length = match (status, message::length(&head)) {
            (100..200 | 204 | 304, _) => Length::Known(0),
            _ if is_head => Length::Known(0),
            (_, length) => length.unwrap_or(Length::ToTheEnd),
        };
        let body = message::read_body(&mut self.stream, length)?;
        Ok(Response { status, head, body })
    }

    /// Up to `max` bytes of what arrives next.
    ///
    /// # Errors
    /// If the connection breaks or nothing arrives in time.
    pub fn read(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; max];
        let read = self.stream.read(&mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Whether the daemon closes the connection without another byte.
    ///
    /// # Panics
    /// If it sends something, or nothing happens in time.
    #[track_caller]
    #[must_use]
    pub fn is_closed(mut self) -> bool {
        match self.read(1) {
            Ok(bytes) => bytes.is_empty(),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => true,
            Err(error) => panic!("the connection is not closed: {error}"),
        }
    }

    /// Shuts down the sending side; the daemon can still send.
    pub fn end_sending(&self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// The socket itself.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        self.stream.get_ref()
    }
}
