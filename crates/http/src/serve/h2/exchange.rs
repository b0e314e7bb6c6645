//! One HTTP/2 request and its response. The server's side is HTTP/1.1.
//!
//! No more of a response is read until the client has read what was taken before (D1). The exchange ends when the
//! server is done; the response ends when its last frame was sent (`Delivery`).

use super::body::Body;
use super::delivery::Delivery;
use super::sent::Flow;
use crate::serve::lost::Failure;
use crate::serve::orphan::Unfinished;
use crate::serve::server_half::ServerHalf;
use crate::wire::{Framing, Header, ResponseHead, read_trailers};
use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use paceline_net::timer::Timer;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Where the response is sent.
pub(super) struct Answer<'a> {
    pub respond: &'a mut SendResponse<Bytes>,
    pub flow: &'a mut Flow,
}

/// How a successful exchange ended.
pub(super) struct Answered {
    /// Whether the server connection can be reused.
    pub reuses: bool,
    /// The response on its way to the client.
    pub delivery: Delivery,
}

/// One request and its response.
pub(super) struct Exchange<'a, 'b> {
    answer: Answer<'a>,
    body: &'a mut Body<'b>,
    server: ServerHalf<'a>,
    /// The body of the response, once `h2` has its head.
    delivery: Option<Delivery>,
    /// Bytes of the response that had been sent at the last check.
    left: u64,
    /// Whether it is timed as one that waits until heads or trailers of other streams have left.
    waits_for_heads: bool,
    timer: Timer,
    body_wait: Duration,
}

impl<'a, 'b> Exchange<'a, 'b> {
    pub fn new(
        answer: Answer<'a>,
        body: &'a mut Body<'b>,
        server: ServerHalf<'a>,
        body_wait: Duration,
    ) -> Self {
        let timer = Timer::new(server.response_wait());
        let (delivery, left, waits_for_heads) = (None, 0, false);
        Self { answer, body, server, delivery, left, waits_for_heads, timer, body_wait }
    }

    /// Whether `h2` was given the head of the response.
    pub const fn is_answered(&self) -> bool {
        self.delivery.is_some()
    }

    /// What the server still has to send, if it was sent anything. Called at most once, after the exchange has
    /// failed.
    pub fn unfinished(&mut self) -> Option<Unfinished> {
        self.server.unfinished(&self.timer)
    }

    /// Makes as much progress as possible, until the server is done.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answered, Failure>> {
        let left = std::mem::replace(&mut self.left, self.answer.flow.bytes());
        let mut has_moved = self.left > left;
        loop {
            let (there, back) = (self.poll_request(cx)?, self.poll_response(cx)?);
            if let Some(answered) = self.answered()? {
                return Poll::Ready(Ok(answered));
            }
            has_moved |= there || (back && self.is_answered());
            if !there && !back {
                break;
            }
        }
        if self.server.is_broken() {
            self.body.discard(cx)?;
        } else if !self.server.is_written() {
            self.body.take_early(cx)?;
        }
        self.answer.flow.wait(cx);
        if self.is_left(cx) {
            return Poll::Ready(Err(Failure::ClientLeft));
        }
        self.set_timer(has_moved);
        loop {
            ready!(self.timer.poll(cx));
            let has_answer = self.is_answered() || self.waits_for_heads;
            let is_read = has_answer && self.waits_for_client();
            let until = self.answer.flow.patience(self.body_wait);
            match until.filter(|_| is_read) {
                Some(until) => self.timer.set_at(until),
                None => return Poll::Ready(Err(self.slow())),
            }
        }
    }

    /// A stream that waits until heads or trailers of others have left waits for its client, not for its server.
    fn set_timer(&mut self, has_moved: bool) {
        let waits = self.answer.flow.waits_for_heads();
        let has_waited = std::mem::replace(&mut self.waits_for_heads, waits);
        match waits {
            true if has_waited => {}
            true => {
                self.server.time_head_anew();
                self.timer.set(self.body_wait);
            }
            false => self.server.set_timer(&mut self.timer, has_moved),
        }
    }

    /// Bytes of the two bodies, for the log: what was taken, and what has left.
    pub fn bytes(&self) -> (u64, u64) {
        (self.server.body_bytes(), self.answer.flow.bytes())
    }

    /// The end, if the server is done.
    fn answered(&mut self) -> Result<Option<Answered>, Failure> {
        let Some(read) = self.server.trailers() else { return Ok(None) };
        let Some(mut delivery) = self.delivery.take() else { return Ok(None) };
        if !delivery.is_queued() {
            delivery.end(trailers(read)?, self.answer.flow);
        }
        self.server.pass_end();
        Ok(Some(Answered { reuses: self.server.reuses(), delivery }))
    }

    /// Whether the client has cancelled the request.
    fn is_left(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.delivery {
            None => self.answer.flow.is_cut() || self.answer.respond.poll_reset(cx).is_ready(),
            Some(delivery) => delivery.is_left(self.answer.flow, cx),
        }
    }

    fn waits_for_client(&self) -> bool {
        match &self.delivery {
            None if self.waits_for_heads => true,
            None => !self.server.is_sent() && self.server.is_written(),
            Some(delivery) => {
                let flow = &self.answer.flow;
                let waits = self.waits_for_heads || flow.waits_for_turn();
                waits || delivery.pending() > 0 || flow.queued() > 0
            }
        }
    }

    fn slow(&self) -> Failure {
        if self.waits_for_client() { Failure::ClientSlow } else { Failure::ServerSlow }
    }

    /// Sends to the server. Returns whether anything moved.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        while !self.server.is_sent() {
            let (has_written, written) = self.server.poll_write(cx);
            moved |= has_written;
            if written.is_pending() {
                break;
            }
            if self.server.is_sent() {
                break;
            }
            if self.poll_body(cx)?.is_pending() {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Takes the next piece of the request's body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Failure> {
        let Self { body, server, .. } = self;
        let mut taken = Ok(());
        match body.poll_pass(cx, |data| taken = server.take_body(data))? {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Some(_)) => taken?,
            Poll::Ready(None) => server.end_body(body.trailers()),
        }
        Ok(Poll::Ready(()))
    }

    /// Sends to the client. Returns whether anything moved.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        loop {
            let mut pending = 0;
            if let Some(delivery) = &mut self.delivery {
                // The last piece is sent together with the end of the stream.
                moved |= self.server.is_in_body() && delivery.poll_queue(self.answer.flow, cx)?;
                pending = delivery.pending();
            }
            let flow = &mut *self.answer.flow;
            flow.hold(pending + self.server.buffer_bytes());
            let max = flow.held_max();
            let is_before_trailers = self.server.is_before_trailers();
            let room = match is_before_trailers {
                true => flow.head_max(),
                false => max.saturating_sub(flow.queued() + pending),
            };
            let mut is_stopped = false;
            let reads = if self.server.is_in_head() {
                // A head before the last one leaves before another is read, and so do heads of other streams if they take
                // much memory.
                flow.has_no_head() && flow.has_room_for_head()
            } else if is_before_trailers {
                flow.has_room_for_trailers()
            } else if self.server.is_in_body() {
                is_stopped = max == 0 && flow.has_room(pending);
                // Reads in large pieces, not in one piece for each frame that was sent.
                max > 0 && room >= max / 2
            } else {
                false
            };
            if !reads {
                self.pause(pending, is_stopped);
                return Ok(moved);
            }
            if self.read_response(room, is_before_trailers)? {
                moved = true;
                continue;
            }
            // The body may begin right after the head.
            let max = if self.is_answered() { room } else { self.answer.flow.head_max() };
            match self.server.poll_fill(max, cx) {
                Poll::Ready(filled) => filled?,
                Poll::Pending => {
                    self.pause(pending, false);
                    return Ok(moved);
                }
            }
            moved = true;
        }
    }

    /// Nothing is read for now, either because there is nothing or because reading `is_stopped`. Unused buffer memory
    /// is freed for others (D1).
    fn pause(&mut self, pending: usize, is_stopped: bool) {
        let flow = &mut *self.answer.flow;
        self.server.pause(is_stopped || flow.is_short());
        flow.hold(pending + self.server.buffer_bytes());
        flow.end_turn(is_stopped);
    }

    /// Takes the available part of the response, up to `room` bytes of its body, and trailers only if `reads_trailers`.
    /// Returns whether there was any.
    fn read_response(&mut self, room: usize, reads_trailers: bool) -> Result<bool, Failure> {
        if let Some(end) = self.server.read_head()? {
            self.send_head(end)?;
            return Ok(true);
        }
        let Some(delivery) = &mut self.delivery else { return Ok(false) };
        let has_read = self.server.read_body(room, reads_trailers, |data| delivery.add(data))?;
        if has_read {
            self.answer.flow.use_turn();
        }
        Ok(has_read)
    }

    /// Forwards the head of so many bytes to the client.
    fn send_head(&mut self, end: usize) -> Result<(), Failure> {
        let (head, bytes) = self.server.head(end);
        let (response, is_bare) = (response(head, bytes)?, head.framing == Framing::None);
        let is_interim = self.server.is_interim();
        self.server.pass_head(end);
        if is_interim {
            self.answer.flow.give_head(response.headers());
            let sent = self.answer.respond.send_informational(response);
            return sent.map_err(|_| Failure::ClientLeft);
        }
        // What came with the head is read first: if it is malformed, the client gets an error instead of the response. It
        // takes no more memory than it did in the buffer.
        let mut begun = BytesMut::new();
        let begin = |data: &[u8]| begun.extend_from_slice(data);
        if self.server.read_body(usize::MAX, false, begin)? {
            self.answer.flow.use_turn();
        }
        if self.server.is_before_trailers() && self.answer.flow.has_room_for_trailers() {
            self.server.read_body(usize::MAX, true, |_| ())?;
        }
        self.server.trailers().map(trailers).transpose()?;
        self.answer.flow.give_answer(response.headers());
        let sent = self.answer.respond.send_response(response, is_bare);
        let stream = sent.map_err(|_| Failure::ClientLeft)?;
        self.delivery = Some(match is_bare {
            true => Delivery::queued(stream),
            false => Delivery::new(stream, begun),
        });
        Ok(())
    }
}

/// The trailers of a response.
fn trailers(read: &[u8]) -> Result<HeaderMap, Failure> {
    let mut trailers = HeaderMap::new();
    let add = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            trailers.append(name, value);
        }
    };
    read_trailers(read, add).map_err(Failure::Response)?;
    Ok(trailers)
}

/// The head for the client.
fn response(head: &ResponseHead, bytes: &[u8]) -> Result<Response<()>, Failure> {
    let mut response = Response::new(());
    let wrong = |_| Failure::Response("the head of the response cannot be passed on");
    *response.status_mut() = http::StatusCode::from_u16(head.status).map_err(wrong)?;
    for field in head.fields.iter() {
        let (name, value) = (field.name.of_bytes(bytes), field.value.of_bytes(bytes));
        let is_hop = matches!(
            field.header,
            Header::Connection
                | Header::Hop
                | Header::TransferEncoding
                | Header::Te
                | Header::Upgrade
        );
        // RFC 9110 8.6: a 204 response has no length.
        let is_wrong = head.status == 204 && field.header == Header::ContentLength;
        if is_hop || is_wrong {
            continue;
        }
        let wrong = || Failure::Response("the head of the response cannot be passed on");
        let name = HeaderName::from_bytes(name).map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| wrong())?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}
