//! What was received from one side and not yet used.
//!
//! Short messages stay in a buffer of the usual size, which is given back while there is nothing in it (D1). A message that
//! does not fit is gathered in memory of its own, which is counted for all connections together and freed with it.

use crate::limits::LONG_BYTES_MAX;
use paceline_net::buffer::Buffer;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// How much is read at a time of a long message.
const PIECE: usize = 64 << 10;

/// What fits into the usual buffer, however it grows.
const SHORT_BYTES_MAX: usize = 48 << 10;

/// Bytes of long messages that are in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongBytes(Rc<Cell<usize>>);

/// Bytes received from one side.
#[derive(Debug)]
pub(crate) struct Inbox {
    short: Buffer,
    /// A message that is too long for the buffer, and what follows it.
    long: Vec<u8>,
    counted: usize,
    all: LongBytes,
}

impl Inbox {
    pub fn new(short: Buffer, all: LongBytes) -> Self {
        Self { short, long: vec![], counted: 0, all }
    }

    pub fn bytes(&self) -> &[u8] {
        match self.long.is_empty() {
            true => self.short.bytes(),
            false => &self.long,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Drops the first `len` bytes.
    pub fn consume(&mut self, len: usize) {
        if self.long.is_empty() {
            self.short.consume(len);
            return;
        }
        self.long.drain(..len.min(self.long.len()));
        if self.long.is_empty() {
            self.long = vec![];
            self.count(0);
        }
    }

    /// Gives memory back that is not used while the other side has nothing to send.
    pub fn pause(&mut self) {
        self.short.pause(false);
    }

    /// Reads once. `message` is the length of the message that it begins with, if it is known. 0 means that the other side
    /// has closed its end; an error of kind `OutOfMemory` that all connections together hold too much.
    pub fn poll_fill(
        &mut self,
        message: usize,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.long.is_empty() && message <= SHORT_BYTES_MAX {
            return self.short.poll_fill(stream, cx);
        }
        if self.long.is_empty() {
            self.long = self.short.bytes().to_vec();
            self.short.consume(self.long.len());
            self.short.release();
        }
        let len = self.long.len();
        let more = message.saturating_sub(len).clamp(1, PIECE);
        if !self.count(len + more) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        self.long.resize(len + more, 0);
        let mut room = ReadBuf::new(self.long.get_mut(len..).unwrap_or_default());
        let read = Pin::new(stream).poll_read(cx, &mut room);
        let filled = room.filled().len();
        self.long.truncate(len + filled);
        ready!(read)?;
        Poll::Ready(Ok(filled))
    }

    /// Counts this many bytes for the long message. Returns whether there is room for them.
    fn count(&mut self, bytes: usize) -> bool {
        let others = self.all.0.get() - self.counted;
        if bytes > self.counted && others + bytes > LONG_BYTES_MAX {
            return false;
        }
        self.all.0.set(others + bytes);
        self.counted = bytes;
        true
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, LongBytes};
    use crate::limits::LONG_BYTES_MAX;
    use paceline_net::buffer::Buffer;
    use std::task::{Context, Poll, Waker};

    fn fill(inbox: &mut Inbox, message: usize, mut input: &[u8]) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match inbox.poll_fill(message, &mut input, &mut cx) {
            Poll::Ready(read) => read.ok(),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_long_message_is_gathered_counted_and_freed_d1() {
        let all = LongBytes::default();
        let mut inbox = Inbox::new(Buffer::default(), all.clone());
        let input: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let mut at = fill(&mut inbox, 0, &input).unwrap();
        assert_eq!(all.0.get(), 0, "its length is not known yet");
        while at < 200_000 {
            at += fill(&mut inbox, 200_000, &input[at..]).unwrap();
        }
        assert_eq!(inbox.bytes(), &input[..at]);
        assert!(all.0.get() >= 200_000);
        inbox.consume(150_000);
        assert_eq!(inbox.bytes(), &input[150_000..at]);
        inbox.consume(at - 150_000);
        assert_eq!((inbox.is_empty(), all.0.get()), (true, 0));
    }

    #[test]
    fn all_together_have_a_bound_d1() {
        let all = LongBytes::default();
        all.0.set(LONG_BYTES_MAX - 1_000);
        let mut inbox = Inbox::new(Buffer::default(), all.clone());
        assert_eq!(fill(&mut inbox, 200_000, &[b'x'; 2_000]), None);
        drop(inbox);
        assert_eq!(all.0.get(), LONG_BYTES_MAX - 1_000);
    }
}
