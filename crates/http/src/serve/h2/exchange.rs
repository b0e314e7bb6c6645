//! One request of HTTP/2 and its response, the server's side being HTTP/1.1.
//!
//! Nothing is read of a response while the client does not read what was read before (D1). The exchange ends
//! when the server is done; the response ends when its last frame has left (`Delivery`).

use super::body::Body;
use super::delivery::Delivery;
use super::sent::Flow;
use crate::serve::lost::Failure;
use crate::serve::orphan::Unfinished;
use crate::serve::server_half::ServerHalf;
use crate::serve::timer::Timer;
use crate::wire::{Framing, Header, ResponseHead, read_trailers};
use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Where the response goes.
pub(super) struct Answer<'a> {
    pub respond: &'a mut SendResponse<Bytes>,
    pub flow: &'a mut Flow,
}

/// How an exchange ended well.
pub(super) struct Answered {
    /// Whether the server's connection can be used again.
    pub reuses: bool,
    /// What is on its way to the client.
    pub delivery: Delivery,
}

/// One request and its response.
pub(super) struct Exchange<'a, 'b> {
    answer: Answer<'a>,
    body: &'a mut Body<'b>,
    server: ServerHalf<'a>,
    /// The body of the response, once its head was passed on.
    delivery: Option<Delivery>,
    /// What had left of the response when it was looked at last.
    left: u64,
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
        Self { answer, body, server, delivery: None, left: 0, timer, body_wait }
    }

    /// Whether the client was sent anything of the response.
    pub const fn is_answered(&self) -> bool {
        !self.server.is_in_head()
    }

    /// What the server has still to send, if it was sent anything. To be asked once, when the exchange has failed.
    pub fn unfinished(&mut self) -> Option<Unfinished> {
        self.server.unfinished(&self.timer)
    }

    /// Goes on as far as it can, until the server is done.
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
        self.server.set_timer(&mut self.timer, has_moved);
        loop {
            ready!(self.timer.poll(cx));
            let is_read = self.is_answered() && self.waits_for_client();
            let until = self.answer.flow.patience(self.body_wait);
            match until.filter(|_| is_read) {
                Some(until) => self.timer.set_at(until),
                None => return Poll::Ready(Err(self.slow())),
            }
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
            delivery.end(trailers(read)?);
        }
        self.server.pass_end();
        Ok(Some(Answered { reuses: self.server.reuses(), delivery }))
    }

    /// Whether the client has given the request up.
    fn is_left(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.delivery {
            None => self.answer.flow.is_cut() || self.answer.respond.poll_reset(cx).is_ready(),
            Some(delivery) => delivery.is_left(self.answer.flow, cx),
        }
    }

    fn waits_for_client(&self) -> bool {
        match &self.delivery {
            None => !self.server.is_sent() && self.server.is_written(),
            Some(delivery) => {
                let flow = &self.answer.flow;
                delivery.pending() > 0 || flow.queued() > 0 || flow.waits_for_turn()
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
                // What comes last goes together with the end.
                moved |= self.server.is_in_body() && delivery.poll_queue(self.answer.flow, cx)?;
                pending = delivery.pending();
            }
            let flow = &mut *self.answer.flow;
            flow.hold(pending + self.server.buffer_bytes());
            let max = flow.held_max();
            let room = max.saturating_sub(flow.queued() + pending);
            let mut is_stopped = false;
            let reads = if self.server.is_in_head() {
                // A head before the last one leaves before another is read.
                flow.has_no_head()
            } else if self.server.is_in_body() {
                is_stopped = max == 0 && flow.has_room(pending);
                // In large pieces, not in as many as frames leave.
                max > 0 && room >= max / 2
            } else {
                false
            };
            if !reads {
                self.pause(pending, is_stopped);
                return Ok(moved);
            }
            if self.read_response(room)? {
                moved = true;
                continue;
            }
            // The body may begin behind the head.
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

    /// Nothing is read for now, by itself or because it `is_stopped`: what the buffer holds for nothing is for others (D1).
    fn pause(&mut self, pending: usize, is_stopped: bool) {
        let flow = &mut *self.answer.flow;
        self.server.pause(is_stopped || flow.is_short());
        flow.hold(pending + self.server.buffer_bytes());
        flow.end_turn(is_stopped);
    }

    /// Takes what there is of the response, up to `room` bytes of its body. Returns whether that was anything.
    fn read_response(&mut self, room: usize) -> Result<bool, Failure> {
        if let Some(end) = self.server.read_head()? {
            self.send_head(end)?;
            return Ok(true);
        }
        let Some(delivery) = &mut self.delivery else { return Ok(false) };
        let has_read = self.server.read_body(room, |data| delivery.add(data))?;
        if has_read {
            self.answer.flow.use_turn();
        }
        Ok(has_read)
    }

    /// Sends the head of so many bytes on to the client.
    fn send_head(&mut self, end: usize) -> Result<(), Failure> {
        let (head, bytes) = self.server.head(end);
        let response = response(head, bytes)?;
        if self.server.is_interim() {
            let sent = self.answer.respond.send_informational(response);
            sent.map_err(|_| Failure::ClientLeft)?;
        } else {
            let is_bare = head.framing == Framing::None;
            let sent = self.answer.respond.send_response(response, is_bare);
            let stream = sent.map_err(|_| Failure::ClientLeft)?;
            let delivery = if is_bare { Delivery::queued(stream) } else { Delivery::new(stream) };
            self.delivery = Some(delivery);
        }
        self.answer.flow.give_head();
        self.server.pass_head(end);
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
        // RFC 9110 8.6: 204 has no length.
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
