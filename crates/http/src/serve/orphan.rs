//! A request that nobody waits for any more while its server is at work on it.
//!
//! The server is told by the end of our sending side. What it still sends is read and thrown away until its response
//! is whole or it closes the connection. Until then the request keeps what it holds, so that nobody gets past a limit
//! by leaving. Two bounds keep a stream without an end from holding its place for ever: `timeouts.response`, and
//! `BYTES_MAX`. Nobody waits for such a request, not even a daemon that ends. There are no more of them than the
//! limits that they hold allow, and than `Orphans` does.

use crate::limits::INTERIM_RESPONSES_MAX;
use crate::serve::orphans::Entry;
use crate::serve::table::duration;
use crate::serve::task;
use crate::serve::timer::Timer;
use crate::serve::upstream::Upstream;
use crate::serve::worker::Worker;
use crate::wire::{Decoder, ResponseHead, head_end};
use paceline_host::Permit;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;

/// What is read and thrown away at most. A server that sends that much is told at once when its connection is closed:
/// what it writes next fails.
const BYTES_MAX: usize = 16 << 20;

/// What a server that was sent something of a request has still to send.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// The whole response, whose head has so much time left.
    Head {
        wait: Duration,
        /// Whether the request's method is HEAD: then the response has no body.
        is_head: bool,
    },
    /// The rest of the body.
    Body(Decoder),
    /// Whatever comes until it closes the connection: another protocol, or a response that is wrong.
    Unknown,
}

/// A server at work for nobody.
#[derive(Debug)]
pub(crate) struct Orphan {
    upstream: Upstream,
    unfinished: Unfinished,
    scanned: usize,
    /// Answers before the last one so far.
    interim: u32,
    timer: Timer,
}

impl Orphan {
    pub fn new(upstream: Upstream, unfinished: Unfinished) -> Self {
        let wait = match unfinished {
            Unfinished::Head { wait, .. } => wait,
            Unfinished::Body(_) | Unfinished::Unknown => response_wait(&upstream),
        };
        Self { upstream, unfinished, scanned: 0, interim: 0, timer: Timer::new(wait) }
    }

    async fn see_out(mut self, permit: Permit, entry: Entry) {
        let (mut is_shut, mut left) = (false, BYTES_MAX);
        let mut displaced = pin!(entry.displaced());
        poll_fn(|cx| {
            let stream = Pin::new(&mut self.upstream.stream);
            // A server that looks after its clients gives up now; any other one goes on.
            is_shut = is_shut || stream.poll_shutdown(cx).is_ready();
            match self.poll_end(&mut left, cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending if displaced.as_mut().poll(cx).is_ready() => Poll::Ready(()),
                Poll::Pending => self.timer.poll(cx),
            }
        })
        .await;
        // First the connection: whoever gets the place finds it free at the server, too.
        drop(self);
        drop(permit);
    }

    /// Reads until the response is whole, the server has ended, or `left` more bytes have come.
    fn poll_end(&mut self, left: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_whole() && *left > 0 {
            match self.upstream.buf.poll_fill(&mut self.upstream.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(len)) => *left = left.saturating_sub(len),
                Poll::Pending => {
                    self.upstream.buf.release();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(())
    }

    /// Takes what has come; whether the response ends with it.
    fn is_whole(&mut self) -> bool {
        while let Unfinished::Head { is_head, .. } = self.unfinished {
            let bytes = self.upstream.buf.bytes();
            match head_end(bytes, &mut self.scanned) {
                Ok(None) => return false,
                Ok(Some(end)) => self.read_head(end, is_head),
                Err(_) => self.unfinished = Unfinished::Unknown,
            }
        }
        let Self { upstream: Upstream { buf, .. }, unfinished, .. } = self;
        while let Unfinished::Body(decoder) = unfinished {
            if decoder.is_done() || buf.is_empty() {
                return decoder.is_done();
            }
            match decoder.read(buf.bytes()) {
                Ok(progress) => buf.consume(progress.read),
                Err(_) => *unfinished = Unfinished::Unknown,
            }
        }
        buf.consume(buf.bytes().len());
        false
    }

    /// Reads a head of so many bytes. The body of the last one has its own time.
    fn read_head(&mut self, end: usize, is_head: bool) {
        let mut head = ResponseHead::default();
        let is_read = head.read(&self.upstream.buf.bytes()[..end], is_head).is_ok();
        self.upstream.buf.consume(end);
        self.scanned = 0;
        self.interim += 1;
        if !is_read || head.status == 101 || self.interim > INTERIM_RESPONSES_MAX {
            self.unfinished = Unfinished::Unknown;
        } else if head.status >= 200 {
            self.unfinished = Unfinished::Body(Decoder::new(head.framing));
            self.timer.set(response_wait(&self.upstream));
        }
    }
}

fn response_wait(upstream: &Upstream) -> Duration {
    duration(upstream.target.timeouts.response)
}

/// A request is over: it is settled, at once if its server has nothing to do with it any more, or if it holds nothing
/// that is limited; then its server is left alone.
pub(crate) fn settle(worker: &Worker, permit: Permit, orphan: Option<Orphan>) {
    match orphan {
        Some(orphan) if permit.is_limited() => {
            task::spawn(orphan.see_out(permit, worker.orphans.enter()));
        }
        Some(_) | None => drop(permit),
    }
}
