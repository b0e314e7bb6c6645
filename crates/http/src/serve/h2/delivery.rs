//! The client's side of one response: what was taken of it and has not left.
//!
//! It outlives the exchange with the server. A server that is done gives its place to the next request; how
//! long a client takes to read is then its own affair.

use super::sent::{Flow, PIECE_MIN};
use crate::serve::exchange::Failure;
use crate::serve::timer::Timer;
use bytes::{Bytes, BytesMut};
use h2::{Reason, SendStream};
use http::HeaderMap;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// What is on its way to a client.
pub(super) struct Delivery {
    stream: SendStream<Bytes>,
    /// Data that waits for the client's window, or for what was queued before it.
    pending: BytesMut,
    state: State,
}

enum State {
    /// More may come.
    Open,
    /// Nothing more comes but these trailers.
    Whole(HeaderMap),
    /// `h2` has all of it.
    Queued,
}

impl Delivery {
    /// A response whose body is to come.
    pub fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream, pending: BytesMut::new(), state: State::Open }
    }

    /// One that `h2` has whole.
    pub fn queued(stream: SendStream<Bytes>) -> Self {
        Self { stream, pending: BytesMut::new(), state: State::Queued }
    }

    /// Bytes that `h2` was not given.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    pub fn add(&mut self, data: &[u8]) {
        self.pending.extend_from_slice(data);
    }

    /// All of the body is here.
    pub fn end(&mut self, trailers: HeaderMap) {
        self.state = State::Whole(trailers);
    }

    /// Whether the client has given it up, or the connection is gone.
    pub fn is_left(&mut self, flow: &Flow, cx: &mut Context<'_>) -> bool {
        flow.is_cut() || self.stream.poll_reset(cx).is_ready()
    }

    /// Queues what waits, as far as the client's windows and what is queued allow; tells whether that was
    /// anything.
    pub fn poll_queue(&mut self, flow: &mut Flow, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        while !self.pending.is_empty() {
            let queued = flow.queued();
            if queued > 0 && queued >= flow.held_max() {
                return Ok(moved);
            }
            self.stream.reserve_capacity(self.pending.len());
            let room = match self.stream.capacity() {
                0 => match self.stream.poll_capacity(cx) {
                    Poll::Pending => return Ok(moved),
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(Some(Err(_)) | None) => return Err(Failure::ClientLeft),
                },
                room => room,
            };
            let len = room.min(self.pending.len());
            let is_all = len == self.pending.len();
            let is_last = is_all && !matches!(self.state, State::Open);
            // Small pieces become one while another is before them: they would not go any sooner.
            if queued > 0 && len < PIECE_MIN && !is_last {
                // Others may use meanwhile what the connection may send.
                self.stream.reserve_capacity(0);
                return Ok(moved);
            }
            let ends =
                is_all && matches!(&self.state, State::Whole(trailers) if trailers.is_empty());
            let piece = self.pending.split_to(len).freeze();
            self.stream.send_data(piece, ends).map_err(|_| Failure::ClientLeft)?;
            flow.give(len);
            moved = true;
            if ends {
                self.state = State::Queued;
            }
        }
        if let State::Whole(trailers) = &mut self.state {
            let trailers = std::mem::take(trailers);
            let ended = match trailers.is_empty() {
                true => self.stream.send_data(Bytes::new(), true),
                false => self.stream.send_trailers(trailers),
            };
            ended.map_err(|_| Failure::ClientLeft)?;
            (self.state, moved) = (State::Queued, true);
        }
        Ok(moved)
    }

    /// Waits until all has left: until then its connection is in use. The client has `wait` for each step;
    /// one that takes none is told that there is no more.
    pub async fn see_out(mut self, flow: &mut Flow, wait: Duration) -> Result<(), Failure> {
        let mut timer = Timer::new(wait);
        let mut left = flow.bytes();
        let seen = poll_fn(|cx| {
            flow.wait(cx);
            let has_queued = self.poll_queue(flow, cx)?;
            flow.hold(self.pending.len());
            if flow.has_ended() {
                return Poll::Ready(Ok(()));
            }
            if self.is_left(flow, cx) {
                return Poll::Ready(Err(Failure::ClientLeft));
            }
            if has_queued || flow.bytes() > left {
                left = flow.bytes();
                timer.set(wait);
            }
            loop {
                ready!(timer.poll(cx));
                match flow.patience(wait) {
                    Some(until) => timer.set_at(until),
                    None => return Poll::Ready(Err(Failure::ClientSlow)),
                }
            }
        })
        .await;
        if seen.is_err() {
            self.stream.send_reset(Reason::CANCEL);
        }
        seen
    }
}
