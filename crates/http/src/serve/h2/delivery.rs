//! The client's side of one response: data that was taken from the server and has not been sent.
//!
//! It outlives the exchange with the server. When the server is done, its slot is released for the next request,
//! however long the client takes to read.

use super::sent::{Flow, PIECE_MIN, memory_of};
use crate::serve::lost::Failure;
use bytes::{Bytes, BytesMut};
use h2::{Reason, SendStream};
use http::HeaderMap;
use paceline_net::timer::Timer;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A response on its way to a client.
pub(super) struct Delivery {
    stream: SendStream<Bytes>,
    /// Data that waits for the client's window, or for what was queued before it.
    pending: BytesMut,
    rest: Rest,
}

enum Rest {
    /// More data may follow.
    Open,
    /// Only these trailers follow.
    Whole(HeaderMap),
    /// `h2` has the complete response.
    Queued,
}

impl Delivery {
    /// A response whose body begins with `pending` and may go on.
    pub fn new(stream: SendStream<Bytes>, pending: BytesMut) -> Self {
        Self { stream, pending, rest: Rest::Open }
    }

    /// A response that `h2` has completely.
    pub fn queued(stream: SendStream<Bytes>) -> Self {
        Self { stream, pending: BytesMut::new(), rest: Rest::Queued }
    }

    /// Whether `h2` has the complete response.
    pub const fn is_queued(&self) -> bool {
        matches!(self.rest, Rest::Queued)
    }

    /// Memory of what `h2` was not given: data, and trailers behind it.
    pub fn memory(&self) -> usize {
        let trailers = match &self.rest {
            Rest::Whole(trailers) => memory_of(trailers),
            Rest::Open | Rest::Queued => 0,
        };
        self.pending.len() + trailers
    }

    /// Bytes that `h2` was not given.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    pub fn add(&mut self, data: &[u8]) {
        self.pending.extend_from_slice(data);
    }

    /// The body is complete.
    pub fn end(&mut self, trailers: HeaderMap, flow: &mut Flow) {
        flow.hold_trailers(&trailers);
        self.rest = Rest::Whole(trailers);
    }

    /// Whether the client has cancelled the request, or the connection is gone.
    pub fn is_left(&mut self, flow: &Flow, cx: &mut Context<'_>) -> bool {
        flow.is_cut() || self.stream.poll_reset(cx).is_ready()
    }

    /// Queues waiting data, as far as the client's windows and the queued data allow. Returns whether any was queued.
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
            let is_last = is_all && !matches!(self.rest, Rest::Open);
            // Small pieces are joined while another one is queued before them; they would not be sent any sooner.
            if queued > 0 && len < PIECE_MIN && !is_last {
                // Meanwhile other streams may use the connection's window.
                self.stream.reserve_capacity(0);
                return Ok(moved);
            }
            let ends = is_all && matches!(&self.rest, Rest::Whole(trailers) if trailers.is_empty());
            let piece = self.pending.split_to(len).freeze();
            self.stream.send_data(piece, ends).map_err(|_| Failure::ClientLeft)?;
            flow.give(len);
            moved = true;
            if ends {
                self.rest = Rest::Queued;
            }
        }
        if let Rest::Whole(trailers) = &mut self.rest {
            let trailers = std::mem::take(trailers);
            let ended = match trailers.is_empty() {
                true => self.stream.send_data(Bytes::new(), true),
                false => {
                    flow.give_trailers();
                    self.stream.send_trailers(trailers)
                }
            };
            ended.map_err(|_| Failure::ClientLeft)?;
            (self.rest, moved) = (Rest::Queued, true);
        }
        Ok(moved)
    }

    /// Waits until everything was sent; until then the connection is in use. The client has `wait` for each step. If
    /// it takes no step in that time, its stream is reset.
    pub async fn see_out(mut self, flow: &mut Flow, wait: Duration) -> Result<(), Failure> {
        let mut timer = Timer::new(wait);
        let mut left = flow.bytes();
        let seen = poll_fn(|cx| {
            flow.wait(cx);
            let has_queued = self.poll_queue(flow, cx)?;
            flow.hold(self.memory());
            flow.end_turn(false);
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

#[cfg(test)]
mod tests {
    use super::Delivery;
    use crate::serve::h2::sent::{Flow, Outlet};
    use crate::serve::h2::watched::{Since, Watched};
    use crate::serve::lost::Failure;
    use bytes::BytesMut;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::{Instant, sleep};

    const WAIT: Duration = Duration::from_secs(30);
    const BODY: usize = 1 << 20;
    /// Bytes that the connection buffers ahead of the client, and bytes that the client reads at a time.
    const AHEAD: usize = 64 << 10;
    const PIECE: usize = 16 << 10;

    /// The first bytes of a client: very large windows, and one request.
    const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\x06\x04\0\0\0\0\0\0\x04\x40\0\0\0\
        \0\0\x04\x08\0\0\0\0\0\x40\0\0\0\
        \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";

    /// Delivers a response to a client that reads a piece each `pause`, at most `pieces` of them. Returns the result
    /// and the time.
    async fn deliver(pause: Duration, pieces: usize) -> (Result<(), Failure>, Duration) {
        let (mut client, server) = duplex(AHEAD);
        client.write_all(GREETING).await.unwrap();
        let reading = spawn_local(async move {
            let mut piece = vec![0; PIECE];
            for _ in 0..pieces {
                sleep(pause).await;
                if client.read(&mut piece).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            // The client stays connected but stops reading.
            std::future::pending::<DuplexStream>().await
        });
        let outlet = Outlet::new();
        let stream = Rc::new(RefCell::new(server));
        let watched = Watched::new(stream, Since::default(), Rc::clone(&outlet));
        let mut connection = h2::server::handshake(watched).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let serving = spawn_local(async move { while connection.accept().await.is_some() {} });
        let mut flow = Flow::new(&outlet, respond.stream_id().as_u32());
        let begun = Instant::now();
        let stream = respond.send_response(http::Response::new(()), false).unwrap();
        flow.give_head(&http::HeaderMap::new());
        let mut delivery = Delivery::new(stream, BytesMut::from(&[b'x'; BODY][..]));
        delivery.end(http::HeaderMap::new(), &mut flow);
        let ended = delivery.see_out(&mut flow, WAIT).await;
        reading.abort();
        serving.abort();
        (ended, begun.elapsed())
    }

    /// D2, on a simulated clock: the timeout applies to the next step. A client that reads steadily is not
    /// disconnected, however long the whole response takes; a client that stops is.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_but_steadily_gets_all_d2() {
        let steady = deliver(WAIT * 9 / 10, usize::MAX);
        let (ended, took) = LocalSet::new().run_until(steady).await;
        assert!(ended.is_ok(), "it was cut off after {took:?}");
        assert!(took > 10 * WAIT, "it is slow: {took:?}");
        let stopped = deliver(Duration::from_secs(1), 10);
        let (ended, took) = LocalSet::new().run_until(stopped).await;
        assert!(matches!(ended, Err(Failure::ClientSlow)));
        let silence = took - Duration::from_secs(10);
        assert!((WAIT..2 * WAIT).contains(&silence), "after a silence of {silence:?}");
    }
}
