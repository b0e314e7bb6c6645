//! Sees in the bytes of a client of HTTP/2 whether a header block is under way.
//!
//! `h2` tells of a request when the block of its head is whole, and of nothing before. So the nine bytes
//! before each frame are looked at on their way to it, and nothing else is.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The preface (RFC 9113 3.4).
const PREFACE_BYTES: usize = 24;

/// The head of a frame (RFC 9113 4.1).
const HEAD_BYTES: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Since when a header block is under way, if one is.
pub(super) type Since = Rc<Cell<Option<Instant>>>;

/// A client's stream, watched.
#[derive(Debug)]
pub(super) struct Blocks<S> {
    inner: S,
    frames: Frames,
    since: Since,
}

impl<S> Blocks<S> {
    pub fn new(inner: S, since: Since) -> Self {
        Self { inner, frames: Frames::default(), since }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Blocks<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, room))?;
        self.frames.read(&room.filled()[before..]);
        if !self.frames.is_in_block {
            self.since.set(None);
        } else if self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Blocks<S> {
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

/// Where in its frames a client is.
#[derive(Debug)]
struct Frames {
    /// What is passed over before the next head: the preface, or the payload of a frame.
    skipped: usize,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// Whether a header block has begun and not ended.
    is_in_block: bool,
    /// Whether it ends with the frame that is passed over.
    ends_block: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            skipped: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            head_len: 0,
            is_in_block: false,
            ends_block: false,
        }
    }
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) {
        loop {
            let len = self.skipped.min(bytes.len());
            (self.skipped, bytes) = (self.skipped - len, &bytes[len..]);
            if self.skipped > 0 {
                return;
            }
            if std::mem::take(&mut self.ends_block) {
                self.is_in_block = false;
            }
            let len = (HEAD_BYTES - self.head_len).min(bytes.len());
            self.head[self.head_len..][..len].copy_from_slice(&bytes[..len]);
            (self.head_len, bytes) = (self.head_len + len, &bytes[len..]);
            if self.head_len < HEAD_BYTES {
                return;
            }
            self.head_len = 0;
            let [a, b, c, kind, flags, ..] = self.head;
            self.skipped = u32::from_be_bytes([0, a, b, c]) as usize;
            if matches!(kind, HEADERS | CONTINUATION) {
                self.is_in_block = true;
                self.ends_block = flags & END_HEADERS != 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTINUATION, END_HEADERS, Frames, HEADERS, PREFACE_BYTES};

    fn frame(kind: u8, flags: u8, len: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, 1];
        frame.resize(9 + usize::from(len), b'x');
        frame
    }

    /// In one piece, and byte by byte.
    #[test]
    fn a_block_begins_with_its_first_frame_and_ends_with_its_last() {
        let parts = [
            (vec![b'P'; PREFACE_BYTES], false),
            (frame(4, 0, 6), false),
            (frame(HEADERS, END_HEADERS, 20), false),
            (frame(0, END_HEADERS, 20), false),
            (frame(HEADERS, 0, 20), true),
            (frame(CONTINUATION, 0, 0), true),
            (frame(CONTINUATION, END_HEADERS, 20), false),
            (frame(HEADERS, END_HEADERS, 0), false),
            (frame(HEADERS, END_HEADERS, 20)[..15].to_vec(), true),
        ];
        let (mut pieces, mut bytes) = (Frames::default(), Frames::default());
        for (n, (part, is_in_block)) in parts.iter().enumerate() {
            pieces.read(part);
            part.iter().for_each(|byte| bytes.read(&[*byte]));
            assert_eq!(
                (pieces.is_in_block, bytes.is_in_block),
                (*is_in_block, *is_in_block),
                "{n}"
            );
        }
        let mut whole = Frames::default();
        whole.read(&parts[..8].iter().flat_map(|(part, _)| part.clone()).collect::<Vec<_>>());
        assert!(!whole.is_in_block);
    }
}
