//! Many outstanding requests on many connections, driven by one thread and `poll`.
//!
//! There are two kinds of peers. A writer sends a prepared batch with a window of unanswered requests. A watcher only
//! reads and counts the marks of the rows in its updates, however the server groups them. A single thread keeps the
//! client's share of a small machine low. Each reply is checked.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::data::{Batch, MARK};
use crate::failure::{Failure, Outcome};
use crate::wire::{ANSWER_MAX, Connection, Scanner, check_reply};

/// Bytes that are read at once.
const CHUNK_LEN: usize = 256 * 1024;

/// How often watchers are read. What arrives meanwhile is read at once, so that fifty watchers do not cost the
/// client, and so the machine, as much as the server. It is short compared with a round and the same for both sides.
const LOOK_PACE: Duration = Duration::from_millis(1);

/// A connection that sends a batch.
#[derive(Debug)]
pub struct Writer<'a> {
    stream: UnixStream,
    batch: &'a Batch,
    window: usize,
    sent: usize,
    answered: usize,
    scanner: Scanner,
    /// The incomplete reply.
    partial: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// A writer of `batch` with at most `window` unanswered requests.
    pub fn new(connection: Connection, batch: &'a Batch, window: usize) -> Outcome<Self> {
        let stream = connection.into_stream();
        stream.set_nonblocking(true)?;
        let (scanner, partial) = (Scanner::default(), Vec::new());
        Ok(Self { stream, batch, window, sent: 0, answered: 0, scanner, partial })
    }

    fn is_done(&self) -> bool {
        self.answered == self.batch.len()
    }

    /// The bytes that may be sent by now.
    fn allowed(&self) -> usize {
        let requests = self.batch.len().min(self.answered + self.window);
        requests.checked_sub(1).map_or(0, |last| self.batch.ends[last])
    }

    fn wants(&self) -> PollFlags {
        if self.sent < self.allowed() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    fn write(&mut self) -> Outcome<()> {
        while self.sent < self.allowed() {
            match self.stream.write(&self.batch.bytes[self.sent..self.allowed()]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::io("sending", &e)),
            }
        }
        Ok(())
    }

    fn read(&mut self, chunk: &mut [u8]) -> Outcome<()> {
        while let Some(n) = read_some(&mut self.stream, chunk)? {
            let mut rest = &chunk[..n];
            while let Some(end) = self.scanner.message_end(rest) {
                let (tail, next) = rest.split_at(end);
                if self.partial.is_empty() {
                    check_reply(tail)?;
                } else {
                    self.partial.extend_from_slice(tail);
                    check_reply(&self.partial)?;
                    self.partial.clear();
                }
                self.answered += 1;
                rest = next;
            }
            self.partial.extend_from_slice(rest);
            if n < chunk.len() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A connection with a monitor, waiting for a number of rows.
#[derive(Debug)]
pub struct Watcher {
    stream: UnixStream,
    seen: usize,
    expected: usize,
}

impl Watcher {
    /// A watcher that is done when it has seen `expected` marks. The connection must already have its monitor, and
    /// its initial reply must have been read.
    pub fn new(connection: Connection, expected: usize) -> Outcome<Self> {
        let stream = connection.into_stream();
        stream.set_nonblocking(true)?;
        Ok(Self { stream, seen: 0, expected })
    }

    fn is_done(&self) -> bool {
        self.seen >= self.expected
    }

    fn read(&mut self, chunk: &mut [u8]) -> Outcome<()> {
        while let Some(n) = read_some(&mut self.stream, chunk)? {
            self.seen += chunk[..n].iter().filter(|&&byte| byte == MARK).count();
            if n < chunk.len() {
                break;
            }
        }
        if self.seen > self.expected {
            let (seen, expected) = (self.seen, self.expected);
            return Err(Failure::new(format!("a monitor saw {seen} rows instead of {expected}")));
        }
        Ok(())
    }
}

/// Runs until every writer has all its replies and every watcher has seen all its rows.
pub fn run(writers: &mut [Writer<'_>], watchers: &mut [Watcher]) -> Outcome<()> {
    let mut chunk = vec![0; CHUNK_LEN];
    let mut progressed = Instant::now();
    let mut looked = Instant::now();
    for writer in &mut *writers {
        writer.write()?;
    }
    while !(writers.iter().all(Writer::is_done) && watchers.iter().all(Watcher::is_done)) {
        let until_look = LOOK_PACE.saturating_sub(looked.elapsed());
        let looking = watchers.is_empty() || until_look.is_zero();
        let (watched, patience) =
            if looking { (&mut *watchers, ANSWER_MAX) } else { (&mut [][..], until_look) };
        if step(writers, watched, patience, &mut chunk)? {
            progressed = Instant::now();
        }
        if looking {
            looked = Instant::now();
        }
        if progressed.elapsed() > ANSWER_MAX {
            return Err(Failure::new(format!("no progress for {} s", ANSWER_MAX.as_secs())));
        }
    }
    Ok(())
}

/// Sends `batch` on one new connection with `window` outstanding requests and waits for all replies.
pub fn send(connection: Connection, batch: &Batch, window: usize) -> Outcome<()> {
    run(&mut [Writer::new(connection, batch, window)?], &mut [])
}

/// Waits for any peer, at most for `patience`, and serves the ready ones. Returns false if none was ready.
fn step(
    writers: &mut [Writer<'_>],
    watchers: &mut [Watcher],
    patience: Duration,
    chunk: &mut [u8],
) -> Outcome<bool> {
    let ready = wait(writers, watchers, patience)?;
    let (for_writers, for_watchers) = ready.split_at(writers.len());
    for (writer, _) in writers.iter_mut().zip(for_writers).filter(|(_, ready)| **ready) {
        writer.read(chunk)?;
        writer.write()?;
    }
    for (watcher, _) in watchers.iter_mut().zip(for_watchers).filter(|(_, ready)| **ready) {
        watcher.read(chunk)?;
    }
    Ok(ready.contains(&true))
}

/// One flag for each writer, then one for each watcher: whether there is something to do for it.
fn wait(writers: &[Writer<'_>], watchers: &[Watcher], patience: Duration) -> Outcome<Vec<bool>> {
    let mut fds: Vec<PollFd<'_>> =
        writers.iter().map(|w| PollFd::new(&w.stream, w.wants())).collect();
    fds.extend(watchers.iter().map(|w| PollFd::new(&w.stream, PollFlags::IN)));
    let patience = Timespec::try_from(patience).map_err(|_| Failure::new("too long a wait"))?;
    match poll(&mut fds, Some(&patience)) {
        Ok(_) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(e) => Err(e.into()),
    }
}

fn read_some(stream: &mut UnixStream, chunk: &mut [u8]) -> Outcome<Option<usize>> {
    loop {
        match stream.read(chunk) {
            Ok(0) => return Err(Failure::new("the server closed the connection")),
            Ok(n) => return Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Failure::io("receiving", &e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A peer that reads one message for each entry of `answers` and sends that entry back.
    fn peer(answers: Vec<&'static str>) -> Connection {
        let (near, mut far) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let (mut scanner, mut byte) = (Scanner::default(), [0]);
            for answer in answers {
                far.read_exact(&mut byte).unwrap();
                while scanner.message_end(&byte).is_none() {
                    far.read_exact(&mut byte).unwrap();
                }
                far.write_all(answer.as_bytes()).unwrap();
            }
            // Stays open until the client is gone, so that a missing answer is not mistaken for the end of the
            // stream.
            let _ = far.read(&mut byte);
        });
        Connection::over(near).unwrap()
    }

    fn batch(len: usize) -> Batch {
        let mut batch = Batch::default();
        (0..len).for_each(|id| batch.push(&format!(r#"{{"id":{id}}}"#)));
        batch
    }

    fn check(answers: &[&'static str], window: usize) -> Result<(), String> {
        send(peer(answers.to_vec()), &batch(answers.len()), window).map_err(|e| e.to_string())
    }

    #[test]
    fn every_request_gets_its_reply_whatever_the_window() {
        let good = r#"{"error":null,"result":[{}]}"#;
        for window in [1, 2, 100] {
            assert_eq!(check(&[good; 20], window), Ok(()), "window {window}");
        }
    }

    #[test]
    fn a_refused_operation_is_a_failure() {
        let bad = r#"{"error":null,"result":[{"error":"constraint violation"}]}"#;
        let found = check(&[r#"{"error":null}"#, bad], 2);
        assert_eq!(found, Err(format!("server says {bad}")));
    }

    #[test]
    fn watchers_count_rows_and_not_messages() {
        for (sent, expected) in [("{~~}{~}", Ok(())), ("{~~}{~~}", Err(4))] {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(sent.as_bytes()).unwrap();
            let watcher = Watcher::new(Connection::over(near).unwrap(), 3).unwrap();
            let found = run(&mut [], &mut [watcher]).map_err(|e| e.to_string());
            let expected =
                expected.map_err(|n: u32| format!("a monitor saw {n} rows instead of 3"));
            assert_eq!(found, expected, "{sent}");
        }
    }
}
