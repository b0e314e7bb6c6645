//! The end of a connection of HTTP/2: what was sent reaches its client, however slowly that reads.
//!
//! A socket that is closed over something that the client has sent, such as a wider window, is reset, and what
//! the system had not sent yet is lost. So it is closed when all has been sent, and each step towards that
//! gives the client more time.

use super::Wire;
use crate::serve::buffer::{Buffer, Prefixed};
use crate::serve::stream::{Stream, UNSENT_BYTES_MAX};
use crate::serve::timer::Timer;
use h2::Reason;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;

/// How long the client may take to close its side when all has been sent.
const LINGER: Duration = Duration::from_secs(1);

/// Ends a connection that has nothing more to do. `wait` is what its client has for each step.
pub(super) async fn run(mut connection: Wire, stream: &RefCell<Prefixed<Stream>>, wait: Duration) {
    let mut timer = Timer::new(wait);
    connection.abrupt_shutdown(Reason::NO_ERROR);
    let is_flushed = poll_fn(|cx| match connection.poll_closed(cx) {
        Poll::Ready(closed) => Poll::Ready(closed.is_ok()),
        Poll::Pending => timer.poll(cx).map(|()| false),
    });
    let is_flushed = is_flushed.await;
    drop(connection);
    if !is_flushed {
        return;
    }
    let mut leaving =
        Leaving { unsent: UNSENT_BYTES_MAX, is_shut: false, input: Buffer::default() };
    timer.set(wait);
    poll_fn(|cx| leaving.poll(&mut stream.borrow_mut().inner, &mut timer, wait, cx)).await;
}

/// How far a connection has left.
struct Leaving {
    /// Fewer bytes than that wait to be sent.
    unsent: u32,
    is_shut: bool,
    input: Buffer,
}

impl Leaving {
    fn poll(
        &mut self,
        stream: &mut Stream,
        timer: &mut Timer,
        wait: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while self.unsent > 1 && stream.socket().poll_sent(self.unsent / 2, cx).is_ready() {
            self.unsent /= 2;
            timer.set(wait);
        }
        if self.unsent == 1 && !self.is_shut && Pin::new(&mut *stream).poll_shutdown(cx).is_ready()
        {
            self.is_shut = true;
            timer.set(LINGER);
        }
        // What the client still sends is thrown away; only its end matters.
        while let Poll::Ready(read) = self.input.poll_fill(stream, cx) {
            if !matches!(read, Ok(1..)) {
                return Poll::Ready(());
            }
            self.input.consume(self.input.bytes().len());
        }
        timer.poll(cx)
    }
}
