//! One request of HTTP/2 and its response, the server's side being HTTP/1.1.
//!
//! Nothing is read of a response while the client leaves lying what was read before (D1). The exchange is over
//! when the server is done; the response is not, before its last frame has left (`Delivery`).

use super::body::Body;
use super::delivery::Delivery;
use super::sent::Flow;
use crate::limits::INTERIM_RESPONSES_MAX;
use crate::serve::buffer::Outgoing;
use crate::serve::exchange::{Failure, TOO_MANY_INTERIM};
use crate::serve::orphan::Unfinished;
use crate::serve::table::{Gate, duration};
use crate::serve::timer::Timer;
use crate::serve::upstream::Upstream;
use crate::wire::{Decoder, Encoder, Framing, Header, ResponseHead, head_end, read_trailers};
use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Where the response goes.
pub(super) struct Answer<'a> {
    pub respond: &'a mut SendResponse<Bytes>,
    pub flow: &'a mut Flow,
    pub head: &'a mut ResponseHead,
    pub is_head: bool,
}

/// How far the response has come.
enum Phase {
    Head { scanned: usize },
    Body { decoder: Decoder, delivery: Delivery },
    Done,
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
    upstream: &'a mut Upstream,
    sent: &'a mut Outgoing,
    to_server: Encoder,
    /// Whether the request's body has been taken whole.
    has_ended: bool,
    /// Whether anything of the request is written.
    has_begun: bool,
    /// Whether the request is written whole, or nothing more of it can be.
    is_sent: bool,
    /// Whether something of it could not be written: the connection is of no use to anybody else.
    is_broken: bool,
    body_left: u64,
    phase: Phase,
    /// Whether the timer is set for the head of the response.
    is_head_timed: bool,
    /// Answers before the last one so far.
    interim: u32,
    /// What had left of the response when it was looked at last.
    left: u64,
    timer: Timer,
    body_wait: Duration,
    response_wait: Duration,
    /// Bytes of the request's body.
    bytes_taken: u64,
}

impl<'a, 'b> Exchange<'a, 'b> {
    pub fn new(
        answer: Answer<'a>,
        body: &'a mut Body<'b>,
        upstream: &'a mut Upstream,
        sent: &'a mut Outgoing,
        framing: Framing,
        gate: &Gate,
    ) -> Self {
        let response_wait = duration(upstream.target.timeouts.response);
        Self {
            answer,
            body,
            upstream,
            sent,
            to_server: Encoder::new(framing),
            has_ended: framing == Framing::None,
            has_begun: false,
            is_sent: false,
            is_broken: false,
            body_left: gate.spec.body_bytes_max.unwrap_or(u64::MAX),
            phase: Phase::Head { scanned: 0 },
            is_head_timed: false,
            interim: 0,
            left: 0,
            timer: Timer::new(response_wait),
            body_wait: gate.timeouts.body,
            response_wait,
            bytes_taken: 0,
        }
    }

    /// Whether the client was sent anything of the response.
    pub const fn is_answered(&self) -> bool {
        !matches!(self.phase, Phase::Head { .. })
    }

    /// What the server has still to send, if it was sent anything. To be asked once, when the exchange has failed.
    pub fn unfinished(&mut self) -> Option<Unfinished> {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        match phase {
            _ if !self.has_begun => None,
            Phase::Head { .. } => {
                let wait = match self.is_head_timed {
                    true => self.timer.left(),
                    false => self.response_wait,
                };
                Some(Unfinished::Head { wait, is_head: self.answer.is_head })
            }
            Phase::Body { decoder, .. } => Some(Unfinished::Body(decoder)),
            Phase::Done => None,
        }
    }

    /// Goes on as far as it can, until the server is done.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answered, Failure>> {
        let left = std::mem::replace(&mut self.left, self.answer.flow.bytes());
        let (interim, mut has_moved) = (self.interim, self.left > left);
        loop {
            let (there, back) = (self.poll_request(cx)?, self.poll_response(cx)?);
            if let Some(answered) = self.answered()? {
                return Poll::Ready(Ok(answered));
            }
            // Part of a head is no progress: it could come byte by byte for ever.
            has_moved |= there || (back && self.is_answered());
            if !there && !back {
                break;
            }
        }
        if self.is_broken {
            self.body.discard(cx)?;
        } else if !self.sent.is_empty() {
            self.body.take_early(cx)?;
        }
        self.answer.flow.wait(cx);
        if self.is_left(cx) {
            return Poll::Ready(Err(Failure::ClientLeft));
        }
        let has_interim = self.interim > interim;
        if self.is_sent && !self.is_answered() {
            if has_interim || !self.is_head_timed {
                self.timer.set(self.response_wait);
            }
            self.is_head_timed = true;
        } else if has_moved || has_interim {
            self.timer.set(self.body_wait);
        }
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
        (self.bytes_taken, self.answer.flow.bytes())
    }

    /// The end, if the server is done.
    fn answered(&mut self) -> Result<Option<Answered>, Failure> {
        if !matches!(&self.phase, Phase::Body { decoder, .. } if decoder.is_done()) {
            return Ok(None);
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        let Phase::Body { decoder, mut delivery } = phase else { return Ok(None) };
        if !self.is_bare() {
            delivery.end(trailers(&decoder)?);
        }
        let is_whole = self.is_sent && !self.is_broken && self.upstream.buf.is_empty();
        Ok(Some(Answered { reuses: self.answer.head.keeps && is_whole, delivery }))
    }

    /// Whether the response has no body that it could say anything of.
    fn is_bare(&self) -> bool {
        self.answer.head.framing == Framing::None
    }

    /// Whether the client has given the request up.
    fn is_left(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.phase {
            Phase::Head { .. } => {
                self.answer.flow.is_cut() || self.answer.respond.poll_reset(cx).is_ready()
            }
            Phase::Body { delivery, .. } => delivery.is_left(self.answer.flow, cx),
            Phase::Done => false,
        }
    }

    fn waits_for_client(&self) -> bool {
        match &self.phase {
            Phase::Head { .. } => !self.is_sent && self.sent.is_empty(),
            Phase::Body { delivery, .. } => {
                let flow = &self.answer.flow;
                delivery.pending() > 0 || flow.queued() > 0 || flow.waits_for_turn()
            }
            Phase::Done => true,
        }
    }

    fn slow(&self) -> Failure {
        if self.waits_for_client() { Failure::ClientSlow } else { Failure::ServerSlow }
    }

    /// The way to the server. Tells whether anything moved.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        while !self.is_sent {
            if !self.sent.is_empty() {
                let before = self.sent.written();
                let written = self.sent.poll_write_all(&mut self.upstream.stream, cx);
                self.has_begun |= self.sent.written() > 0;
                match written {
                    Poll::Ready(Ok(())) => {}
                    // The response may say why; if there is none, reading tells.
                    Poll::Ready(Err(_)) => {
                        (self.is_sent, self.is_broken) = (true, true);
                        return Ok(true);
                    }
                    Poll::Pending => return Ok(moved || self.sent.written() > before),
                }
                moved = true;
                if self.has_ended {
                    self.is_sent = true;
                    break;
                }
                self.sent.clear();
            }
            match self.poll_body(cx)? {
                Poll::Ready(()) => moved = true,
                Poll::Pending => return Ok(moved),
            }
        }
        Ok(moved)
    }

    /// Takes the next piece of the request's body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Failure> {
        let Self { body, to_server, sent, .. } = self;
        match body.poll_pass(cx, |data| to_server.write(data, &mut sent.bytes))? {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Some(len)) => {
                let left = self.body_left.checked_sub(len as u64);
                self.body_left = left.ok_or(Failure::BodyTooLong)?;
                self.bytes_taken += len as u64;
                return Ok(Poll::Ready(()));
            }
            Poll::Ready(None) => to_server.finish(body.trailers(), &mut sent.bytes),
        }
        self.has_ended = true;
        self.is_sent = self.sent.is_empty();
        Ok(Poll::Ready(()))
    }

    /// The way to the client. Tells whether anything moved.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        loop {
            let mut pending = 0;
            if let Phase::Body { decoder, delivery } = &mut self.phase {
                // What comes last goes together with the end.
                moved |= !decoder.is_done() && delivery.poll_queue(self.answer.flow, cx)?;
                pending = delivery.pending();
            }
            let flow = &mut *self.answer.flow;
            flow.hold(pending + self.upstream.buf.capacity());
            let max = flow.held_max();
            let room = max.saturating_sub(flow.queued() + pending);
            let mut is_stopped = false;
            let reads = match &self.phase {
                // A head before the last one leaves before another is read.
                Phase::Head { .. } => flow.has_no_head(),
                Phase::Body { decoder, .. } if !decoder.is_done() => {
                    is_stopped = max == 0 && flow.has_room(pending);
                    // In large pieces, not in as many as frames leave.
                    max > 0 && room >= max / 2
                }
                Phase::Body { .. } | Phase::Done => false,
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
            match self.upstream.buf.poll_fill_by(max, &mut self.upstream.stream, cx) {
                Poll::Ready(Ok(0)) => self.server_ended()?,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) if !self.is_answered() => {
                    let has_heard = self.interim > 0 || !self.upstream.buf.is_empty();
                    return Err(Failure::broken(error, has_heard));
                }
                Poll::Ready(Err(_)) => return Err(Failure::Response("the response is cut short")),
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
        self.upstream.buf.pause(is_stopped || flow.is_short());
        flow.hold(pending + self.upstream.buf.capacity());
        flow.end_turn(is_stopped);
    }

    /// Takes what there is of the response, up to `room` bytes of its body; tells whether that was anything.
    fn read_response(&mut self, mut room: usize) -> Result<bool, Failure> {
        match &mut self.phase {
            Phase::Head { scanned } => {
                let bytes = self.upstream.buf.bytes();
                let end = head_end(bytes, scanned).map_err(|_| {
                    Failure::Response("the head of the response is too long or wrong")
                })?;
                let Some(end) = end else { return Ok(false) };
                self.read_head(end)?;
                Ok(true)
            }
            Phase::Body { decoder, delivery } => {
                let mut has_read = false;
                while !decoder.is_done() && room > 0 {
                    let input = self.upstream.buf.bytes();
                    if input.is_empty() {
                        break;
                    }
                    let input = &input[..input.len().min(room)];
                    let progress =
                        decoder.read(input).map_err(|error| Failure::Response(error.0))?;
                    room -= progress.data.len();
                    delivery.add(&input[progress.data]);
                    self.upstream.buf.consume(progress.read);
                    has_read = true;
                }
                if has_read {
                    self.answer.flow.use_turn();
                }
                Ok(has_read)
            }
            Phase::Done => Ok(false),
        }
    }

    fn server_ended(&mut self) -> Result<(), Failure> {
        match &mut self.phase {
            Phase::Body { decoder, .. } => match decoder.end() {
                true => Ok(()),
                false => Err(Failure::Response("the response is cut short")),
            },
            _ if self.upstream.buf.is_empty() => {
                Err(Failure::broken(io::ErrorKind::UnexpectedEof.into(), self.interim > 0))
            }
            _ => Err(Failure::Response("the head of the response is cut short")),
        }
    }

    fn read_head(&mut self, end: usize) -> Result<(), Failure> {
        let bytes = &self.upstream.buf.bytes()[..end];
        let head = &mut *self.answer.head;
        head.read(bytes, self.answer.is_head).map_err(|error| Failure::Response(error.0))?;
        if head.status == 101 {
            return Err(Failure::Response("the server switched protocols unasked"));
        }
        if head.status < 200 {
            self.interim += 1;
            if self.interim > INTERIM_RESPONSES_MAX {
                return Err(Failure::Response(TOO_MANY_INTERIM));
            }
            let response = response(head, bytes)?;
            let sent = self.answer.respond.send_informational(response);
            sent.map_err(|_| Failure::ClientLeft)?;
            self.answer.flow.give_head();
            self.phase = Phase::Head { scanned: 0 };
        } else {
            let response = response(head, bytes)?;
            let is_bare = head.framing == Framing::None;
            let sent = self.answer.respond.send_response(response, is_bare);
            let stream = sent.map_err(|_| Failure::ClientLeft)?;
            self.answer.flow.give_head();
            let delivery = if is_bare { Delivery::queued(stream) } else { Delivery::new(stream) };
            self.phase = Phase::Body { decoder: Decoder::new(head.framing), delivery };
        }
        self.upstream.buf.consume(end);
        Ok(())
    }
}

/// The trailers of a response.
fn trailers(decoder: &Decoder) -> Result<HeaderMap, Failure> {
    let mut trailers = HeaderMap::new();
    let add = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            trailers.append(name, value);
        }
    };
    read_trailers(decoder.trailers(), add).map_err(Failure::Response)?;
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
