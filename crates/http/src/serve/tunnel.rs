//! An upgraded connection: relays bytes in both directions, whatever they mean.

use crate::serve::h1::ClientHalf;
use crate::serve::upstream::Upstream;
use paceline_net::buffer::{Buffer, Outgoing};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    out: Outgoing,
    has_ended: bool,
    is_shut: bool,
}

/// Relays bytes in both directions until both sides have ended, one breaks, or nothing arrives for `idle`. Once one
/// side has ended, the timeout is `ending`, because the other side may never find out. An error means that one side
/// broke, and that the server may still be working.
pub(crate) async fn run(
    client: &mut ClientHalf,
    upstream: &mut Upstream,
    idle: Duration,
    ending: Duration,
) -> io::Result<()> {
    let (mut to_server, mut to_client) = (Direction::default(), Direction::default());
    let mut is_ending = false;
    client.timer.set(idle);
    poll_fn(|cx| {
        let there = to_server.poll(&mut client.buf, &mut client.stream, &mut upstream.stream, cx);
        let back = to_client.poll(&mut upstream.buf, &mut upstream.stream, &mut client.stream, cx);
        let has_moved = there? | back?;
        if to_server.is_shut && to_client.is_shut {
            return Poll::Ready(Ok(()));
        }
        let was_ending = is_ending;
        is_ending = to_server.has_ended || to_client.has_ended;
        if has_moved || is_ending != was_ending {
            client.timer.set(if is_ending { idle.min(ending) } else { idle });
        }
        client.timer.poll(cx).map(Ok)
    })
    .await
}

impl Direction {
    /// Relays what has arrived. Returns whether anything moved.
    fn poll(
        &mut self,
        buf: &mut Buffer,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut moved = false;
        while !self.is_shut {
            if !buf.is_empty() && self.out.is_empty() {
                self.out.bytes.extend_from_slice(buf.bytes());
                buf.consume(buf.bytes().len());
            }
            if !self.out.is_empty() {
                let before = self.out.written();
                let written = self.out.poll_write_all(to, cx)?;
                moved |= self.out.written() > before;
                match written {
                    Poll::Ready(()) => self.out.clear(),
                    Poll::Pending => break,
                }
            } else if self.has_ended {
                match Pin::new(&mut *to).poll_shutdown(cx) {
                    Poll::Ready(_) => self.is_shut = true,
                    Poll::Pending => break,
                }
            } else {
                match buf.poll_fill(from, cx) {
                    Poll::Ready(Ok(0)) => self.has_ended = true,
                    Poll::Ready(Ok(_)) => {}
                    // Many peers close TLS without an alert. Their own protocol detects truncation.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        self.has_ended = true;
                    }
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Pending => {
                        // The connection may be idle for an hour (D1).
                        buf.release();
                        self.out.release();
                        break;
                    }
                }
            }
        }
        Ok(moved)
    }
}
