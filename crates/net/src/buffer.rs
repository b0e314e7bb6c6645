//! Buffers: bytes that were read and not yet used, and bytes that are still to be written.
//!
//! Each worker keeps buffers of the usual size for reuse, so a connection that waits for its client holds none (D1).

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The usual size of a buffer.
const BYTES: usize = 16 << 10;

/// The largest size: a head fits, and a long body is read in large pieces.
const BYTES_MAX: usize = 64 << 10;

/// Memory that a waiting connection keeps for output: a usual piece with its head.
const IDLE_BYTES_MAX: usize = 20 << 10;

/// Buffers that a worker keeps for reuse.
const SPARE_MAX: usize = 512;

thread_local! {
    static SPARE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that were read and not yet used.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the last read filled the buffer, so that a larger one is worth its memory.
    was_filled: bool,
}

impl Buffer {
    /// The bytes that were read and not yet used.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops the first `len` bytes.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(self.start + len <= self.end, "only what was read is used");
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Whether more can be read without more than the usual memory.
    pub fn has_room(&self) -> bool {
        self.end - self.start < BYTES.max(self.bytes.len())
    }

    /// Bytes of memory that the buffer holds.
    pub const fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Reads once. 0 means that the other side has closed its end.
    pub fn poll_fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_by(BYTES_MAX, stream, cx)
    }

    /// Reads once, at most `max` bytes; `max` is at least 1.
    pub fn poll_fill_by(
        &mut self,
        max: usize,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room(max);
        let end = self.bytes.len().min(self.end.saturating_add(max));
        let mut room = ReadBuf::new(&mut self.bytes[self.end..end]);
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        let (read, left) = (room.filled().len(), room.remaining());
        self.end += read;
        self.was_filled = left == 0;
        Poll::Ready(Ok(read))
    }

    /// The buffer is not used for now. Frees unused memory if that costs little, or if memory is short.
    pub fn pause(&mut self, is_short: bool) {
        if is_short || (self.is_empty() && self.bytes.len() == BYTES) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if !self.is_empty() && self.bytes().len() < self.bytes.len() {
            let (bytes, end) = (self.bytes().into(), self.end - self.start);
            // Assigning drops and so releases the old buffer.
            *self = Self { bytes, start: 0, end, was_filled: false };
        } else {
            self.release();
        }
    }

    /// Returns its memory for reuse if the buffer is empty.
    pub fn release(&mut self) {
        if !self.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.was_filled = false;
        if bytes.len() == BYTES {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push(bytes);
                }
            });
        }
    }

    fn make_room(&mut self, max: usize) {
        if self.bytes.is_empty() {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            self.bytes = spare.unwrap_or_else(|| vec![0; BYTES].into());
            return;
        }
        let len = self.end - self.start;
        if self.start > 0 && self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, len);
        }
        let is_full = self.end == self.bytes.len();
        let is_worth_more = is_full || (self.was_filled && self.bytes.len() < max);
        if is_worth_more && self.bytes.len() < BYTES_MAX {
            let size = (self.bytes.len() * 2).clamp(BYTES, BYTES_MAX);
            let mut larger = vec![0; size].into_boxed_slice();
            larger[..len].copy_from_slice(&self.bytes[self.start..self.end]);
            (self.bytes, self.start, self.end) = (larger, 0, len);
            self.was_filled = false;
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        (self.start, self.end) = (0, 0);
        self.release();
    }
}

/// Bytes that are still to be written.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// All bytes, those that were written included.
    pub bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Whether there is nothing to write, and nothing was written since `clear`.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes are written.
    pub const fn written(&self) -> usize {
        self.written
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
        if self.bytes.capacity() > BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Drops what was written, and frees the memory if it is large (D1).
    pub fn release(&mut self) {
        self.clear();
        if self.bytes.capacity() > IDLE_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Starts again from the first byte.
    pub const fn rewind(&mut self) {
        self.written = 0;
    }

    /// Writes as much as possible; ready when everything is written. Written bytes stay until `clear`.
    pub fn poll_write_all(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.written..) {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        // TLS may hold bytes that the socket has not taken.
        Pin::new(stream).poll_flush(cx)
    }
}

/// A stream from which some bytes were already read.
#[derive(Debug)]
pub struct Prefixed<S> {
    buf: Buffer,
    /// The stream that the rest is read from.
    pub inner: S,
}

impl<S> Prefixed<S> {
    /// A stream whose first bytes are in `buf`.
    pub const fn new(buf: Buffer, inner: S) -> Self {
        Self { buf, inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buf.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, room);
        }
        let len = self.buf.bytes().len().min(room.remaining());
        room.put_slice(&self.buf.bytes()[..len]);
        self.buf.consume(len);
        self.buf.release();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES, BYTES_MAX, Buffer};
    use std::task::{Context, Poll, Waker};

    fn fill(buffer: &mut Buffer, mut input: &[u8]) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        match buffer.poll_fill(&mut input, &mut cx) {
            Poll::Ready(Ok(read)) => read,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_read_stays_in_order_while_it_grows() {
        let mut buffer = Buffer::default();
        let input: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let mut at = 0;
        while buffer.bytes().len() < BYTES_MAX {
            at += fill(&mut buffer, &input[at..]);
        }
        assert_eq!(buffer.bytes(), &input[..BYTES_MAX], "no more than the largest");
        buffer.consume(1_000);
        assert_eq!(fill(&mut buffer, &input[at..]), 1_000, "what is used makes room");
        assert_eq!(buffer.bytes(), &input[1_000..][..BYTES_MAX]);
        buffer.consume(BYTES_MAX);
        buffer.release();
        assert!(buffer.has_room());
        assert_eq!(fill(&mut buffer, &input), BYTES, "the usual size again");
    }

    #[test]
    fn one_that_is_not_used_holds_no_more_than_it_has_d1() {
        let (mut buffer, input) = (Buffer::default(), vec![b'x'; BYTES_MAX]);
        let mut cx = Context::from_waker(Waker::noop());
        let filled = buffer.poll_fill_by(100, &mut &input[..], &mut cx);
        assert!(matches!(filled, Poll::Ready(Ok(100))), "{filled:?}");
        assert_eq!(buffer.capacity(), BYTES);
        buffer.consume(30);
        buffer.pause(false);
        assert_eq!(buffer.capacity(), BYTES);
        buffer.pause(true);
        assert_eq!((buffer.bytes().len(), buffer.capacity()), (70, 70));
        assert_eq!(fill(&mut buffer, &input), BYTES - 70, "the usual size again");
        assert_eq!(buffer.bytes(), &input[..BYTES]);
        buffer.consume(BYTES);
        buffer.pause(false);
        assert_eq!(buffer.capacity(), 0);
    }
}
