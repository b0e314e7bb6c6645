//! A client's stream below `h2`, watched in both directions.
//!
//! `h2` reports a request only when its header block is complete, and does not report when a frame was sent. So the
//! heads of frames, and nothing else, are parsed as they pass. The stream itself outlives `h2`: the last bytes must
//! reach the client before it is closed.

use super::ahead;
use super::frames::{CONTINUATION, END_HEADERS, Frames, HEADERS, Head, Part, WINDOW_UPDATE};
use super::sent::Outlet;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When the current header block began; none between blocks.
pub(super) type Since = Rc<Cell<Option<Instant>>>;

/// A client's stream, watched.
#[derive(Debug)]
pub(super) struct Watched<S> {
    inner: Rc<RefCell<S>>,
    incoming: Frames,
    blocks: Blocks,
    since: Since,
    outgoing: Frames,
    outlet: Rc<Outlet>,
}

impl<S> Watched<S> {
    pub fn new(inner: Rc<RefCell<S>>, since: Since, outlet: Rc<Outlet>) -> Self {
        let (incoming, outgoing) = (Frames::of_client(), Frames::default());
        Self { inner, incoming, blocks: Blocks::default(), since, outgoing, outlet }
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        self.outlet.end();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, incoming, blocks, since, outlet, .. } = self.get_mut();
        if !ahead::may_read(cx) {
            return Poll::Pending;
        }
        let before = room.filled().len();
        ready!(Pin::new(&mut *inner.borrow_mut()).poll_read(cx, room))?;
        let (bytes, mut of_heads) = (&room.filled()[before..], 0);
        incoming.pass(bytes, |head, part| {
            if let (HEADERS | CONTINUATION, Part::Payload(bytes)) = (head.kind, part) {
                of_heads += bytes.len();
            }
            if let Some(by) = blocks.read(head, part) {
                outlet.widen(by);
            }
        });
        ahead::has_read(bytes.len(), of_heads);
        if !blocks.is_open {
            since.set(None);
        } else if since.get().is_none() {
            since.set(Some(Instant::now()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { inner, outgoing, outlet, .. } = self.get_mut();
        let len = ready!(Pin::new(&mut *inner.borrow_mut()).poll_write(cx, bytes))?;
        let written = bytes.get(..len).unwrap_or(bytes);
        outgoing.pass(written, |head, part| outlet.wrote(head, part));
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner.borrow_mut()).poll_flush(cx)
    }

    /// Does not close the stream: its owner does, after everything has reached the client.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// What is parsed of a client's frames.
#[derive(Debug, Default)]
struct Blocks {
    /// Whether a header block has begun and not ended.
    is_open: bool,
    /// The increment of a window update, as far as it was read.
    by: u32,
}

impl Blocks {
    /// Processes a part of a frame. Returns by how much it widens the connection's window.
    fn read(&mut self, head: Head, part: Part<'_>) -> Option<u32> {
        match (head.kind, part) {
            (HEADERS | CONTINUATION, Part::Begin) => self.is_open = true,
            (HEADERS | CONTINUATION, Part::End) => self.is_open = !head.has(END_HEADERS),
            (WINDOW_UPDATE, Part::Begin) => self.by = 0,
            (WINDOW_UPDATE, Part::Payload(bytes)) => {
                self.by = bytes.iter().fold(self.by, |by, byte| by << 8 | u32::from(*byte));
            }
            // The highest bit is reserved.
            (WINDOW_UPDATE, Part::End) if head.stream == 0 => return Some(self.by & u32::MAX >> 1),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, CONTINUATION, END_HEADERS, Frames, HEADERS, WINDOW_UPDATE};
    use crate::serve::h2::frames::PREFACE_BYTES;

    fn frame(kind: u8, flags: u8, len: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, 1];
        frame.resize(9 + usize::from(len), b'x');
        frame
    }

    /// Tested in one piece and byte by byte.
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
        for size in [1, usize::MAX] {
            let (mut frames, mut blocks) = (Frames::of_client(), Blocks::default());
            for (n, (part, is_open)) in parts.iter().enumerate() {
                for piece in part.chunks(size) {
                    frames.pass(piece, |head, part| {
                        assert_eq!(blocks.read(head, part), None);
                    });
                }
                assert_eq!(blocks.is_open, *is_open, "{n}");
            }
        }
    }

    #[test]
    fn only_the_connections_window_is_told() {
        let (mut frames, mut blocks) = (Frames::default(), Blocks::default());
        let mut told = vec![];
        for (stream, by) in [(0, 258u32), (3, 1), (0, 1 << 31 | 7)] {
            let mut frame = vec![0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, stream];
            frame.extend(by.to_be_bytes());
            for byte in frame {
                frames.pass(&[byte], |head, part| told.extend(blocks.read(head, part)));
            }
        }
        assert_eq!(told, [258, 7]);
    }
}
