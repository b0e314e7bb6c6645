//! A request whose client has gone while its server is at work on it.
//!
//! The server is told by the end of our sending side, and only the head of its answer is waited for. Until
//! then the request keeps what it holds: who may have so many at one time has no more, however many
//! clients leave. Nobody waits for such a request, not even a daemon that ends. There are no more of them
//! than the limits that they hold allow.

use crate::limits::INTERIM_RESPONSES_MAX;
use crate::serve::task;
use crate::serve::timer::Timer;
use crate::serve::upstream::Upstream;
use crate::wire::{ResponseHead, head_end};
use paceline_host::Permit;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;

/// A server that was sent something of a request and has not answered it.
#[derive(Debug)]
pub(crate) struct Orphan {
    upstream: Upstream,
    wait: Duration,
    scanned: usize,
    /// Answers before the last one so far.
    interim: u32,
}

impl Orphan {
    /// `wait` is what is left of the time that the server has for the head of its response.
    pub const fn new(upstream: Upstream, wait: Duration) -> Self {
        Self { upstream, wait, scanned: 0, interim: 0 }
    }

    /// Settles a request that holds nothing limited, and leaves its server alone; any other one when the
    /// server is done with it, or has had its time.
    pub fn settle(self, permit: Permit) {
        if permit.is_limited() {
            task::spawn(self.see_out(permit));
        }
    }

    async fn see_out(mut self, permit: Permit) {
        let mut timer = Timer::new(self.wait);
        let mut is_shut = false;
        poll_fn(|cx| {
            let stream = Pin::new(&mut self.upstream.stream);
            // A server that looks after its clients gives up now; any other one goes on.
            is_shut = is_shut || stream.poll_shutdown(cx).is_ready();
            match self.poll_end(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => timer.poll(cx),
            }
        })
        .await;
        // First the connection: whoever gets the place finds it free at the server, too.
        drop(self);
        drop(permit);
    }

    /// Waits for the head of the last response, or the end.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_answered() {
            match self.upstream.buf.poll_fill(&mut self.upstream.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    /// Whether the head of the last response has come, or something that is none.
    fn is_answered(&mut self) -> bool {
        let mut head = ResponseHead::default();
        loop {
            let bytes = self.upstream.buf.bytes();
            let end = match head_end(bytes, &mut self.scanned) {
                Ok(Some(end)) => end,
                Ok(None) => return false,
                Err(_) => return true,
            };
            let is_read = head.read(&bytes[..end], false).is_ok();
            self.interim += 1;
            let is_last = !is_read || head.status >= 200 || head.status == 101;
            if is_last || self.interim > INTERIM_RESPONSES_MAX {
                return true;
            }
            self.upstream.buf.consume(end);
            self.scanned = 0;
        }
    }
}

/// A request is over: it is settled, at once if its server has nothing to do with it any more.
pub(crate) fn settle(permit: Permit, orphan: Option<Orphan>) {
    match orphan {
        Some(orphan) => orphan.settle(permit),
        None => drop(permit),
    }
}
