//! One raw connection: sends bytes, and parses messages.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long a read may take before the test fails. It is long, because a busy machine is no failure.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection, and the bytes that were read and not yet used.
pub(super) struct Wire {
    pub stream: TcpStream,
    kept: Vec<u8>,
}

/// A message as it arrived.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The status of a response; 0 for a request.
    pub status: u16,
    /// The head, with its first line and the empty one.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body is complete, as far as the head defines its end.
    pub is_whole: bool,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(f, "{}{body} (whole: {})", self.head, self.is_whole)
    }
}

impl Message {
    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).unwrap())
    }

    /// Connects from a socket that takes a few kilobytes ahead of what is read.
    pub fn connect_narrow(address: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 4 << 10).unwrap();
        connect(&socket, &address).unwrap();
        Self::new(socket.into())
    }

    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, kept: vec![] }
    }

    /// Sends bytes. If the other side has closed the connection, the next read shows it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Reads once; returns whether there was more.
    #[track_caller]
    pub fn fill(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(read) => {
                self.kept.extend_from_slice(&piece[..read]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&self.kept)),
        }
    }

    /// Everything that arrives until the connection ends.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.kept)
    }

    /// Checks that the connection ends without another byte.
    #[track_caller]
    pub fn ends(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "the connection ends: {:?}", String::from_utf8_lossy(&rest));
    }

    /// The next response.
    #[track_caller]
    pub fn response(&mut self) -> Message {
        self.response_to("GET")
    }

    /// The next response, to this method.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Message {
        let head = self.head().expect("a response comes");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("no response: {head:?}"));
        let mut message = Message { status, head, body: vec![], is_whole: true };
        if status >= 200 && !matches!(status, 204 | 304) && method != "HEAD" {
            self.body(&mut message, true);
        }
        message
    }

    /// The next request; none if the connection ends first.
    #[track_caller]
    pub fn request(&mut self) -> Option<Message> {
        let head = self.head()?;
        let mut message = Message { status: 0, head, body: vec![], is_whole: true };
        self.body(&mut message, false);
        Some(message)
    }

    /// The next head; none if the connection ends first.
    #[track_caller]
    pub fn head(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.kept.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = self.kept.drain(..at + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The chunks after a head that was read; its trailers become the head.
    #[track_caller]
    pub fn chunked(&mut self) -> Message {
        let mut message = Message { status: 0, head: String::new(), body: vec![], is_whole: true };
        self.chunks(&mut message);
        message
    }

    /// Exactly `len` bytes, or fewer if the connection ends.
    #[track_caller]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        while self.kept.len() < len && self.fill() {}
        self.kept.drain(..len.min(self.kept.len())).collect()
    }

    #[track_caller]
    fn body(&mut self, message: &mut Message, is_response: bool) {
        if message.field("transfer-encoding").is_some() {
            self.chunks(message);
        } else if let Some(len) = message.field("content-length") {
            let len = len.parse().unwrap();
            message.body = self.take(len);
            message.is_whole = message.body.len() == len;
        } else if is_response {
            message.body = self.rest();
        }
    }

    /// Reads chunks with their trailers, which are added to the head.
    #[track_caller]
    fn chunks(&mut self, message: &mut Message) {
        loop {
            let line = self.line();
            let Ok(len) = usize::from_str_radix(&line, 16) else {
                message.is_whole = false;
                return;
            };
            if len == 0 {
                break;
            }
            let data = self.take(len);
            message.is_whole = data.len() == len;
            message.body.extend(data);
            if !message.is_whole || self.line() != "" {
                message.is_whole = false;
                return;
            }
        }
        loop {
            let line = self.line();
            if line.is_empty() {
                return;
            }
            message.head.push_str(&format!("{line}\r\n"));
        }
    }

    /// The next line without its line end; the remaining bytes if the connection ends.
    #[track_caller]
    fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.kept.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.kept.drain(..at + 2).collect();
                return String::from_utf8_lossy(&line[..at]).into_owned();
            }
            if !self.fill() {
                return "(the connection ended)".into();
            }
        }
    }

    /// Closes both directions.
    pub fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
