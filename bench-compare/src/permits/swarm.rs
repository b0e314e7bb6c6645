//! Many clients in one thread: each sends a request, waits for its response, and sends again.
//!
//! Nothing is allocated while it runs. It waits with `poll`, so its own cost grows with the number of clients and is
//! the same for every side.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::rivals::Running;
use super::talk::Talk;
use crate::failure::{Failure, Outcome};

/// How long all clients together may wait for a response.
const ANSWER_MAX: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The clients of one server.
#[derive(Debug)]
pub struct Swarm {
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    talk: Talk,
    out: Vec<u8>,
    read: Vec<u8>,
    len: usize,
    is_idle: bool,
}

impl Swarm {
    /// One connection for each of `talks`.
    pub fn connect(server: &Running, talks: Vec<Talk>) -> Outcome<Self> {
        let connect = |talk: Talk| -> Outcome<Client> {
            let stream = server.connect()?;
            stream.set_nonblocking(true)?;
            let (out, read) = (Vec::with_capacity(4 << 10), vec![0; 16 << 10]);
            Ok(Client { stream, talk, out, read, len: 0, is_idle: true })
        };
        Ok(Self { clients: talks.into_iter().map(connect).collect::<Outcome<_>>()? })
    }

    /// Lets all clients send requests for `span`, and then finish what they began. Returns how often they completed
    /// their sequence.
    pub fn run(&mut self, span: Duration) -> Outcome<u64> {
        let end = Instant::now() + span;
        for client in &mut self.clients {
            client.ask()?;
        }
        let (mut count, mut busy) = (0, self.clients.len());
        let mut ready = Vec::with_capacity(busy);
        while busy > 0 {
            wait(&self.clients, &mut ready)?;
            let is_over = Instant::now() >= end;
            for (client, _) in self.clients.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
                if !client.answered()? {
                    continue;
                }
                let is_whole = client.talk.is_whole();
                count += u64::from(is_whole);
                if is_whole && is_over {
                    client.is_idle = true;
                    busy -= 1;
                } else {
                    client.ask()?;
                }
            }
        }
        Ok(count)
    }
}

/// Finds which clients have something to read.
fn wait(clients: &[Client], ready: &mut Vec<bool>) -> Outcome<()> {
    let mut polled: Vec<PollFd<'_>> =
        clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)).collect();
    if poll(&mut polled, Some(&ANSWER_MAX))? == 0 {
        return Err(Failure::new("no answer came in time"));
    }
    ready.clear();
    ready.extend(polled.iter().map(|one| !one.revents().is_empty()));
    Ok(())
}

impl Client {
    fn ask(&mut self) -> Outcome<()> {
        self.is_idle = false;
        self.out.clear();
        self.talk.ask(&mut self.out);
        // A request is far smaller than the socket buffer, which is empty now.
        Ok(self.stream.write_all(&self.out)?)
    }

    /// Reads; returns true if the response is complete.
    fn answered(&mut self) -> Outcome<bool> {
        let room = self.read.get_mut(self.len..).filter(|room| !room.is_empty());
        let room = room.ok_or_else(|| Failure::new("an answer is too long"))?;
        match self.stream.read(room) {
            Ok(0) => return Err(Failure::new("the server closed a connection")),
            Ok(count) => self.len += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let bytes = &self.read[..self.len];
        match self.talk.take(bytes)? {
            None => Ok(false),
            Some(used) if used == self.len => {
                self.len = 0;
                Ok(true)
            }
            Some(_) => Err(Failure::new("more than one answer came")),
        }
    }
}
