//! The end of an HTTP/2 connection: sent data reaches the client, however slowly the client reads.
//!
//! If a socket is closed before the client's last bytes are read, such as a window update, it is reset, and data that
//! the system has not sent yet is lost. So the socket is closed only after everything was sent, and each step towards
//! that gives the client more time.
//!
//! A connection that ends for another one has nothing unsent, but its last bytes may be in flight, and a request may be on
//! its way. It gives its place back, and then the client has `LINGER` to read that it ends.

use super::Wire;
use crate::serve::unsent::Unsent;
use h2::Reason;
use paceline_net::buffer::{Buffer, Prefixed};
use paceline_net::stream::Stream;
use paceline_net::timer::Timer;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;

/// How long the client may take to close its side after everything was sent.
const LINGER: Duration = Duration::from_secs(1);

/// Ends a connection that has nothing more to do. The client has `wait` for each step.
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
    let mut leaving = Leaving::new(Step::Sends(Unsent::new(wait)), wait);
    poll_fn(|cx| leaving.poll(&mut stream.borrow_mut().inner, cx)).await;
}

/// Ends a connection that has nothing unsent, for another one that already has its place.
pub(crate) async fn linger(mut stream: Stream) {
    let mut leaving = Leaving::new(Step::Shuts, LINGER);
    poll_fn(|cx| leaving.poll(&mut stream, cx)).await;
}

/// A closing connection.
struct Leaving {
    step: Step,
    /// The time that the client has left, once everything was sent.
    timer: Timer,
    wait: Duration,
    input: Buffer,
}

/// The progress of a closing connection.
enum Step {
    Sends(Unsent),
    Shuts,
    /// The client is to close its side.
    Lingers,
}

impl Leaving {
    fn new(step: Step, wait: Duration) -> Self {
        Self { step, timer: Timer::new(wait), wait, input: Buffer::default() }
    }

    fn poll(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<()> {
        if let Step::Sends(unsent) = &mut self.step {
            match unsent.poll(stream, cx) {
                Poll::Ready(true) => {
                    self.step = Step::Shuts;
                    self.timer.set(self.wait);
                }
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        if matches!(self.step, Step::Shuts) && Pin::new(&mut *stream).poll_shutdown(cx).is_ready() {
            self.step = Step::Lingers;
            self.timer.set(LINGER);
        }
        // Before reading, which may use up the turn of the task: a client that never stops sending gets no more time.
        if !matches!(self.step, Step::Sends(_)) && self.timer.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // What the client still sends is discarded; only the end of its data matters.
        while let Poll::Ready(read) = self.input.poll_fill(stream, cx) {
            if !matches!(read, Ok(1..)) {
                return Poll::Ready(());
            }
            self.input.consume(self.input.bytes().len());
        }
        self.input.release();
        Poll::Pending
    }
}
