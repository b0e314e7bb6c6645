//! Many clients in one thread, for what `wrk` cannot do: chosen requests, recorded responses, disconnects.
//!
//! Each client has one connection and at most one request in flight. If the proxy closes an idle connection, its
//! client reconnects with the next request. If the proxy closes the connection of a waiting client, that client gets
//! the answer [`GONE`].

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Instant;

use super::message::Head;
use super::poller::Poller;
use crate::failure::{Failure, Outcome};

/// The longest response, including its body.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The status of a response that never arrived because the connection was closed.
pub const GONE: u16 = 0;

/// A response, or the fact that there will be none.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The client that got it.
    pub client: usize,
    /// Its status.
    pub status: u16,
    /// When it was complete.
    pub at: Instant,
}

/// The clients of one proxy.
pub struct Crowd {
    port: u16,
    poller: Poller,
    clients: Vec<Client>,
    ready: Vec<usize>,
}

#[derive(Debug, Default)]
struct Client {
    stream: Option<TcpStream>,
    is_waiting: bool,
    bytes: Vec<u8>,
}

impl Crowd {
    /// Connects `count` clients to a port of loopback.
    pub fn connect(port: u16, count: usize) -> Outcome<Self> {
        let clients = (0..count).map(|_| Client::default()).collect();
        let mut crowd = Self { port, poller: Poller::new()?, clients, ready: Vec::new() };
        for client in 0..count {
            crowd.reconnect(client)?;
        }
        Ok(crowd)
    }

    /// Sends a request for a client that has none in flight.
    pub fn ask(&mut self, client: usize, request: &[u8]) -> Outcome<()> {
        // A request is far smaller than the socket buffer, which is empty now.
        let stream = self.clients[client].stream.as_mut();
        if stream.is_none_or(|stream| stream.write_all(request).is_err()) {
            self.reconnect(client)?.write_all(request)?;
        }
        self.clients[client].is_waiting = true;
        Ok(())
    }

    /// Closes a client's connection, even if the client waits for a response.
    pub fn leave(&mut self, client: usize) {
        self.clients[client] = Client::default();
    }

    /// How many clients wait for a response.
    pub fn waiting(&self) -> usize {
        self.clients.iter().filter(|client| client.is_waiting).count()
    }

    /// Waits for events, at most until `deadline`, and collects the responses.
    pub fn answers(&mut self, deadline: Instant, answers: &mut Vec<Answer>) -> Outcome<()> {
        answers.clear();
        self.poller.wait(Some(deadline), &mut self.ready)?;
        for &client in &self.ready {
            if let Some(status) = self.clients[client].read()? {
                answers.push(Answer { client, status, at: Instant::now() });
            }
        }
        Ok(())
    }

    fn reconnect(&mut self, client: usize) -> Outcome<&mut TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
            .map_err(|error| Failure::io("connecting to the proxy", &error))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.poller.add(&stream, client)?;
        self.clients[client] = Client::default();
        Ok(self.clients[client].stream.insert(stream))
    }
}

impl Client {
    /// Reads; returns the status if a response is complete, or never will be.
    fn read(&mut self) -> Outcome<Option<u16>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut piece = [0; 16 << 10];
        match stream.read(&mut piece) {
            Ok(0) => return Ok(self.closed()),
            Ok(count) => self.bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(_) => return Ok(self.closed()),
        }
        if self.bytes.len() > ANSWER_BYTES_MAX {
            return Err(Failure::new("an answer is too long"));
        }
        let Some(head) = Head::read(&self.bytes)?.filter(|head| head.len <= self.bytes.len())
        else {
            return Ok(None);
        };
        let (status, is_last) = (head.status()?, head.is_last);
        if head.len < self.bytes.len() || !self.is_waiting {
            return Err(Failure::new("more than one answer came"));
        }
        self.bytes.clear();
        self.is_waiting = false;
        if is_last {
            self.stream = None;
        }
        Ok(Some(status))
    }

    fn closed(&mut self) -> Option<u16> {
        let waited = self.is_waiting;
        *self = Self::default();
        waited.then_some(GONE)
    }
}

/// A small request with a key.
pub fn request(path: &str, key: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\nx-key: {key}\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::origin::Origin;
    use super::*;
    use std::time::Duration;

    /// An upstream with a delay, and the responses of three clients, one of which disconnects.
    #[test]
    fn those_who_stay_are_answered_and_those_who_left_are_not() {
        let delay = Duration::from_millis(50);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut origin = Origin::listen(delay).unwrap();
            tell.send(origin.port().unwrap()).unwrap();
            origin.serve()
        });
        let port = told.recv().unwrap();
        let mut crowd = Crowd::connect(port, 3).unwrap();
        let start = Instant::now();
        for client in 0..3 {
            crowd.ask(client, &request("/10k", "one")).unwrap();
        }
        crowd.leave(1);
        assert_eq!(crowd.waiting(), 2);
        let (mut all, mut answers) = (Vec::new(), Vec::new());
        while crowd.waiting() > 0 {
            crowd.answers(start + Duration::from_secs(20), &mut answers).unwrap();
            all.extend(answers.iter().map(|answer| (answer.client, answer.status)));
            assert!(answers.iter().all(|answer| answer.at - start >= delay));
        }
        all.sort_unstable();
        assert_eq!(all, [(0, 200), (2, 200)]);
        crowd.ask(1, &request("/id/7", "one")).unwrap();
        assert_eq!(crowd.waiting(), 1, "one that left can come back");
    }

    #[test]
    fn a_closed_connection_is_an_answer_of_its_own() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut crowd = Crowd::connect(listener.local_addr().unwrap().port(), 1).unwrap();
        crowd.ask(0, &request("/", "one")).unwrap();
        drop(listener.accept().unwrap());
        let mut answers = Vec::new();
        crowd.answers(Instant::now() + Duration::from_secs(20), &mut answers).unwrap();
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [GONE]);
    }
}
