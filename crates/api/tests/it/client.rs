//! A small blocking HTTP client: one connection, one request at a time.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a test waits for an answer before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// One connection.
pub struct Client {
    pub stream: BufReader<Box<dyn Stream>>,
    pub token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub text: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Checks that it has this status. Returns the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Checks that it is this error.
    #[track_caller]
    pub fn expect_error(self, status: u16, word: &str) -> Value {
        assert_eq!(
            (self.status, self.body["error"].as_str()),
            (status, Some(word)),
            "{}",
            self.text
        );
        let message = self.body["message"].as_str().expect("a message");
        let first = message.chars().next().expect("a message that is not empty");
        assert!(!first.is_uppercase() && !message.ends_with('.'), "{message}");
        self.body
    }
}

impl Client {
    pub fn unix(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(Box::new(stream)), token: None }
    }

    pub fn tcp(address: SocketAddr, token: Option<&str>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(Box::new(stream)), token: token.map(str::to_owned) }
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, None);
        self.answer()
    }

    pub fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, None);
        self.answer()
    }

    pub fn call(&mut self, method: &str, path: &str, body: Value) -> Answer {
        self.send(method, path, Some(&body.to_string()));
        self.answer()
    }

    pub fn post(&mut self, path: &str, body: Value) -> Answer {
        self.call("POST", path, body)
    }

    pub fn put(&mut self, path: &str, body: Value) -> Answer {
        self.call("PUT", path, body)
    }

    /// Sends a request and does not wait.
    pub fn send(&mut self, method: &str, path: &str, body: Option<&str>) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: paceline\r\n");
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head +=
                &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        self.raw(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes());
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The head of an answer: status and headers.
    pub fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {status:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        (status.parse().unwrap(), headers)
    }

    pub fn answer(&mut self) -> Answer {
        let (status, headers) = self.head();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, value)| value.parse().unwrap());
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status, headers, body, text }
    }

    /// The next server-sent event: its name and its data. Chunks are read as they arrive.
    pub fn event(&mut self) -> (String, Value) {
        let (mut name, mut data) = (String::new(), Value::Null);
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "no event but signs of life");
            let line = self.line();
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str(text).unwrap();
            } else if line.is_empty() && !name.is_empty() {
                return (name, data);
            }
        }
    }

    /// The status of a GET, even if the answer arrives before the request, because there is no place.
    pub fn answer_or_send(&mut self, path: &str) -> u16 {
        let request = format!("GET {path} HTTP/1.1\r\nhost: p\r\nconnection: close\r\n\r\n");
        let _ = self.stream.get_mut().write_all(request.as_bytes());
        self.head().0
    }

    /// Whether the daemon closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]) | Err(_))
    }
}

impl Client {
    /// Begins a session. Returns its secret.
    #[track_caller]
    pub fn session(&mut self, body: Value) -> String {
        let session = self.post("/v1/sessions", body).expect(201);
        let session = session["session"].as_str().unwrap().to_owned();
        assert!(session.starts_with("s-") && session.len() == 34, "{session}");
        session
    }
}

/// A client that follows the events.
pub struct Events(pub Client);

impl Events {
    /// The next event of this name; others are skipped.
    pub fn next(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.0.event();
            if found == name {
                return data;
            }
        }
    }
}
