//! What was written to a client and has not been sent yet.
//!
//! If a socket is closed while its client still sends something, such as a window update or the next request, it is reset,
//! and what the system has not sent is lost. So a connection with unsent data is not idle. Finding that out takes several
//! system calls, so a connection that has no request counts as idle until it has to end for another one. Only then the
//! system is asked. If data is unsent, the connection stays, and is idle again when everything was sent, or when the client
//! has taken nothing for too long.

use crate::serve::presence::Presence;
use paceline_net::stream::{Stream, UNSENT_BYTES_MAX};
use paceline_net::timer::Timer;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;

/// Waits until everything that was written is sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    /// Fewer bytes than this are unsent.
    below: u32,
    timer: Timer,
    wait: Duration,
}

impl Unsent {
    /// The client has `wait` for each step.
    pub fn new(wait: Duration) -> Self {
        Self { below: UNSENT_BYTES_MAX, timer: Timer::new(wait), wait }
    }

    /// Ready when everything is sent, or with `false` when the client has taken no step in time.
    pub fn poll(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<bool> {
        if !is_flushed(stream, cx) {
            return self.timer.poll(cx).map(|()| false);
        }
        while self.below > 1 {
            if stream.socket().poll_sent(self.below / 2, cx).is_pending() {
                return self.timer.poll(cx).map(|()| false);
            }
            self.below /= 2;
            self.timer.set(self.wait);
        }
        Poll::Ready(true)
    }
}

/// Whether the socket has taken everything: TLS may hold more. On a broken connection nothing more can be sent.
fn is_flushed(stream: &mut Stream, cx: &mut Context<'_>) -> bool {
    Pin::new(stream).poll_flush(cx).is_ready()
}

/// Whether a connection without a request has unsent data.
#[derive(Debug, Default)]
pub(crate) enum Tail {
    /// It was not checked yet, and counts as idle.
    #[default]
    Unknown,
    /// It has, and is not idle.
    Unsent(Box<Unsent>),
    /// It has, but its client has taken nothing for too long.
    Stuck,
}

impl Tail {
    /// The connection has to end for another one. Returns whether it stays, because data is unsent. The client has `wait`
    /// for each step.
    #[cold]
    pub fn stays(
        &mut self,
        presence: &Presence,
        stream: &mut Stream,
        wait: Duration,
        cx: &mut Context<'_>,
    ) -> bool {
        if matches!(self, Self::Unknown) {
            if is_flushed(stream, cx) && stream.socket().poll_sent(1, cx).is_ready() {
                return false;
            }
            *self = Self::Unsent(Box::new(Unsent::new(wait)));
        }
        let stays = self.poll_idle(stream, cx).is_pending();
        if stays {
            presence.stay();
        }
        stays
    }

    /// Ready when the connection is idle, as far as is known.
    #[inline]
    pub fn poll_idle(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Unknown | Self::Stuck => Poll::Ready(()),
            Self::Unsent(_) => self.poll_sent(stream, cx),
        }
    }

    #[cold]
    fn poll_sent(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<()> {
        let Self::Unsent(unsent) = self else { return Poll::Ready(()) };
        match unsent.poll(stream, cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(true) => self.forget(stream),
            Poll::Ready(false) => *self = Self::Stuck,
        }
        Poll::Ready(())
    }

    /// Whether data is unsent that the client does not take.
    pub const fn is_stuck(&self) -> bool {
        matches!(self, Self::Stuck)
    }

    /// A request has begun, or everything was sent.
    #[inline]
    pub fn forget(&mut self, stream: &Stream) {
        if !matches!(self, Self::Unknown) {
            *self = Self::Unknown;
            stream.socket().tell_soon();
        }
    }
}
