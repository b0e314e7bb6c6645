//! A request whose client has disconnected while its server still works on it.
//!
//! The sending side is shut down, so that the server can notice. What it still sends is read and discarded until its
//! response is complete or it closes the connection. Until then the request keeps its slot, claims and counts, so
//! that clients cannot evade a limit by disconnecting. Three bounds keep an endless stream from holding them for
//! long: `timeouts.response`, `BYTES_MAX`, and `LATE`. A daemon that ends does not wait for such requests. Their
//! number is bounded by the limits that they hold, and by `Orphans`.

use crate::limits::INTERIM_RESPONSES_MAX;
use crate::serve::orphans::Entry;
use crate::serve::table::duration;
use crate::serve::upstream::Upstream;
use crate::serve::worker::Worker;
use crate::wire::{Decoder, ResponseHead, head_end};
use paceline_host::Permit;
use paceline_net::task;
use paceline_net::timer::Timer;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite as _;
use tokio::time::Instant;

/// Maximum bytes that are read and discarded. A server that sends that much notices a closed connection at once: its
/// next write fails.
const BYTES_MAX: usize = 16 << 20;

/// A server that still sends this long after the shutdown does not check whether its client is there, and notices
/// only when a write fails. So its connection is reset. Its slot is kept for twice its last silence, by when it has
/// most likely written again.
const LATE: Duration = Duration::from_secs(1);

/// What a server still has to send after it was sent part of a request.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// The whole response. Its head must arrive within `wait`.
    Head {
        wait: Duration,
        /// Whether the request's method is HEAD: then the response has no body.
        is_head: bool,
    },
    /// The rest of the body.
    Body(Decoder),
    /// Everything until it closes the connection: another protocol, or a malformed response.
    Unknown,
}

/// The server's connection is to be reset. `silence` is how long the server was silent before it last sent something.
struct Cut {
    silence: Duration,
}

impl Cut {
    const NOW: Self = Self { silence: Duration::ZERO };
}

/// A server that works for a client that has disconnected.
#[derive(Debug)]
pub(crate) struct Orphan {
    upstream: Upstream,
    unfinished: Unfinished,
    scanned: usize,
    /// Interim responses so far.
    interim: u32,
    /// When discarding began.
    told: Instant,
    /// When the server last sent something.
    heard: Instant,
    timer: Timer,
}

impl Orphan {
    pub fn new(upstream: Upstream, unfinished: Unfinished) -> Self {
        let wait = match unfinished {
            Unfinished::Head { wait, .. } => wait,
            Unfinished::Body(_) | Unfinished::Unknown => response_wait(&upstream),
        };
        let (told, timer) = (Instant::now(), Timer::new(wait));
        Self { upstream, unfinished, scanned: 0, interim: 0, told, heard: told, timer }
    }

    async fn see_out(mut self, permit: Permit, entry: Entry) {
        let (mut is_shut, mut left) = (false, BYTES_MAX);
        let mut displaced = pin!(entry.displaced());
        let cut = poll_fn(|cx| {
            let stream = Pin::new(&mut self.upstream.stream);
            // A server that notices disconnected clients stops now; any other server continues.
            is_shut = is_shut || stream.poll_shutdown(cx).is_ready();
            match self.poll_end(&mut left, cx) {
                Poll::Ready(cut) => Poll::Ready(cut),
                Poll::Pending if displaced.as_mut().poll(cx).is_ready() => {
                    Poll::Ready(Some(Cut::NOW))
                }
                Poll::Pending => self.timer.poll(cx).map(|()| Some(Cut::NOW)),
            }
        })
        .await;
        let rest = cut.map_or(Duration::ZERO, |Cut { silence }| {
            self.upstream.stream.reset_at_end();
            (silence * 2).min(self.timer.left())
        });
        // The connection is dropped first, so that the request that gets the slot finds it free at the server, too.
        drop(self);
        if !rest.is_zero() {
            let _ = tokio::time::timeout(rest, entry.displaced()).await;
        }
        drop(permit);
    }

    /// Reads until the response is complete or the server closes the connection. The result is a cut if `left` more
    /// bytes have arrived or the server continues for too long.
    fn poll_end(&mut self, left: &mut usize, cx: &mut Context<'_>) -> Poll<Option<Cut>> {
        let mut silence = None;
        while !self.is_whole() {
            if *left == 0 {
                return Poll::Ready(Some(Cut::NOW));
            }
            match self.upstream.buf.poll_fill(&mut self.upstream.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(len)) => {
                    *left = left.saturating_sub(len);
                    let before = std::mem::replace(&mut self.heard, Instant::now());
                    silence = silence.or(Some(self.heard - before));
                }
                Poll::Pending => {
                    self.upstream.buf.release();
                    return match silence {
                        Some(silence) if self.is_late() => Poll::Ready(Some(Cut { silence })),
                        _ => Poll::Pending,
                    };
                }
            }
        }
        Poll::Ready(None)
    }

    /// Whether the server has continued with a body for too long.
    fn is_late(&self) -> bool {
        let is_head = matches!(self.unfinished, Unfinished::Head { .. });
        !is_head && self.heard.saturating_duration_since(self.told) >= LATE
    }

    /// Takes what has arrived. Returns whether the response is complete.
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

    /// Reads a head of so many bytes. The body after the final head has its own timeout.
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
            self.told = self.heard;
            self.timer.set(response_wait(&self.upstream));
        }
    }
}

fn response_wait(upstream: &Upstream) -> Duration {
    duration(upstream.server.timeouts.response)
}

/// Ends a request. It is settled at once if its server is done with it, or if it holds nothing that is limited. Then
/// the connection to its server is dropped.
pub(crate) fn settle(worker: &Worker, permit: Permit, orphan: Option<Orphan>) {
    match orphan {
        Some(orphan) if permit.is_limited() => {
            let entry = worker.means.orphans.enter(orphan.upstream.server.backend);
            task::spawn(orphan.see_out(permit, entry));
            worker.means.descriptors.offer();
        }
        Some(_) | None => drop(permit),
    }
}
