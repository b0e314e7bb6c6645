//! The server's half of an exchange: writes the request to a server, and reads its response.
//!
//! Both client protocols use it. It knows nothing of the client except what the request says. Owns the connection to
//! the server for one request, and decides whether a response is valid, how long the server may take, and whether the
//! connection can be reused. Never holds more than two buffers: its caller takes what was read before it asks for
//! more.

use super::lost::Failure;
use super::orphan::Unfinished;
use super::table::duration;
use super::upstream::Upstream;
use crate::limits::INTERIM_RESPONSES_MAX;
use crate::wire::{Decoder, Encoder, Framing, ResponseHead, head_end};
use paceline_net::buffer::Outgoing;
use paceline_net::timer::Timer;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) const CUT_SHORT: &str = "the response is cut short";

/// What the request says about the exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub framing: Framing,
    /// Whether the method is HEAD: then the response has no body.
    pub is_head: bool,
    /// Whether the server may switch to another protocol.
    pub upgrades: bool,
    /// Whether the request may be sent again if it is unknown whether the server received it.
    pub is_repeatable: bool,
    pub body_bytes_max: u64,
    /// Timeout for the next piece of a body.
    pub body_wait: Duration,
}

/// The progress of the response.
#[derive(Debug)]
enum Phase {
    Head { scanned: usize },
    Body(Decoder),
    Done,
}

/// One request to a server, and its response.
#[derive(Debug)]
pub(crate) struct ServerHalf<'a> {
    upstream: &'a mut Upstream,
    /// Bytes to be written, beginning with the head of the request.
    sent: &'a mut Outgoing,
    head: &'a mut ResponseHead,
    asked: Asked,
    /// Timeout for the head of the response.
    response_wait: Duration,
    encoder: Encoder,
    /// Bytes that the request body may still have.
    body_left: u64,
    /// Bytes of the request body that were taken.
    body_bytes: u64,
    /// Whether the whole request body was taken.
    is_taken: bool,
    /// Whether any part of the request is written.
    has_begun: bool,
    /// Whether the whole request is written, or nothing more of it can be.
    is_sent: bool,
    /// Whether writing failed: the connection cannot be reused.
    is_broken: bool,
    phase: Phase,
    /// Interim responses so far, and how many of them have reset the timer.
    interim: u32,
    interim_timed: u32,
    /// Whether the timer is set for the head of the response.
    is_head_timed: bool,
}

impl<'a> ServerHalf<'a> {
    /// Begins an exchange. The head of the request is already in `sent`.
    pub fn new(
        upstream: &'a mut Upstream,
        sent: &'a mut Outgoing,
        head: &'a mut ResponseHead,
        asked: Asked,
    ) -> Self {
        Self {
            response_wait: duration(upstream.server.timeouts.response),
            upstream,
            sent,
            head,
            encoder: Encoder::new(asked.framing),
            body_left: asked.body_bytes_max,
            body_bytes: 0,
            is_taken: asked.framing == Framing::None,
            has_begun: false,
            is_sent: false,
            is_broken: false,
            phase: Phase::Head { scanned: 0 },
            interim: 0,
            interim_timed: 0,
            is_head_timed: false,
            asked,
        }
    }

    /// Takes a piece of the request body, to be written.
    pub fn take_body(&mut self, data: &[u8]) -> Result<(), Failure> {
        let len = data.len() as u64;
        self.body_left = self.body_left.checked_sub(len).ok_or(Failure::BodyTooLong)?;
        self.body_bytes += len;
        self.encoder.write(data, &mut self.sent.bytes);
        Ok(())
    }

    /// Ends the request body, with trailers that were checked.
    pub fn end_body(&mut self, trailers: &[u8]) {
        self.encoder.finish(trailers, &mut self.sent.bytes);
        self.is_taken = true;
        self.is_sent = self.sent.is_empty();
    }

    /// Writes what was taken; ready when all of it is written. Also returns whether anything moved.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> (bool, Poll<()>) {
        if self.sent.is_empty() {
            return (false, Poll::Ready(()));
        }
        let before = self.sent.written();
        let written = self.sent.poll_write_all(&mut self.upstream.stream, cx);
        self.has_begun |= self.sent.written() > 0;
        match written {
            Poll::Pending => return (self.sent.written() > before, Poll::Pending),
            // The response may give the reason. If there is none, reading fails as well.
            Poll::Ready(Err(_)) => (self.is_sent, self.is_broken) = (true, true),
            // The last bytes stay in the buffer, in case they must be sent again.
            Poll::Ready(Ok(())) if self.is_taken => self.is_sent = true,
            Poll::Ready(Ok(())) => self.sent.clear(),
        }
        (true, Poll::Ready(()))
    }

    /// Reads from the server once, at most `max` bytes.
    pub fn poll_fill(&mut self, max: usize, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Upstream { buf, stream, .. } = &mut *self.upstream;
        buf.poll_fill_by(max, stream, cx).map(|read| match read {
            Ok(0) => self.ended(),
            Ok(_) => Ok(()),
            Err(error) => Err(self.broken(error)),
        })
    }

    /// Reads the next head of the response, if it has arrived completely. Returns its length. The caller forwards it,
    /// and then calls `pass_head`.
    pub fn read_head(&mut self) -> Result<Option<usize>, Failure> {
        let Phase::Head { scanned } = &mut self.phase else { return Ok(None) };
        let bytes = self.upstream.buf.bytes();
        let end = head_end(bytes, scanned)
            .map_err(|_| Failure::Response("the head of the response is too long or malformed"))?;
        let Some(end) = end else { return Ok(None) };
        let read = self.head.read(&bytes[..end], self.asked.is_head);
        read.map_err(|error| Failure::Response(error.0))?;
        if self.head.status == 101 && !self.asked.upgrades {
            return Err(Failure::Response("the server switched protocols without being asked"));
        }
        self.interim += u32::from(self.is_interim());
        if self.interim > INTERIM_RESPONSES_MAX {
            return Err(Failure::Response("too many interim responses"));
        }
        Ok(Some(end))
    }

    /// The head that was read last, and its `end` bytes.
    pub fn head(&self, end: usize) -> (&ResponseHead, &[u8]) {
        (self.head, &self.upstream.buf.bytes()[..end])
    }

    /// Whether the head that was read last is an interim response (RFC 9110 15.2).
    pub const fn is_interim(&self) -> bool {
        self.head.status < 200 && self.head.status != 101
    }

    /// The head of `end` bytes was forwarded.
    pub fn pass_head(&mut self, end: usize) {
        self.upstream.buf.consume(end);
        self.phase = match self.head.status {
            _ if self.is_interim() => Phase::Head { scanned: 0 },
            101 => {
                self.is_sent = true;
                Phase::Done
            }
            _ => Phase::Body(Decoder::new(self.head.framing)),
        };
    }

    /// Reads the available part of the response body, up to `room` bytes, and passes each piece of data on. Reads trailers
    /// only if `reads_trailers`. Returns whether anything was read.
    pub fn read_body(
        &mut self,
        mut room: usize,
        reads_trailers: bool,
        mut pass: impl FnMut(&[u8]),
    ) -> Result<bool, Failure> {
        let Phase::Body(decoder) = &mut self.phase else { return Ok(false) };
        let (buf, mut has_read) = (&mut self.upstream.buf, false);
        while !decoder.is_done() && room > 0 && !buf.is_empty() {
            let input = buf.bytes();
            if !reads_trailers && decoder.is_before_trailers(input) {
                break;
            }
            let input = &input[..input.len().min(room)];
            let progress = decoder.read(input).map_err(|error| Failure::Response(error.0))?;
            room -= progress.data.len();
            pass(&input[progress.data]);
            buf.consume(progress.read);
            has_read = true;
        }
        Ok(has_read)
    }

    /// The trailers of the response, as the server wrote them, once its body was read completely.
    pub fn trailers(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::Body(decoder) if decoder.is_done() => Some(decoder.trailers()),
            _ => None,
        }
    }

    /// The end of the response was forwarded.
    pub fn pass_end(&mut self) {
        self.phase = Phase::Done;
    }

    /// Sets the timer for what must happen next. `has_moved` says whether anything was forwarded in either direction.
    /// Part of a head does not count, because it could arrive byte by byte for ever.
    pub fn set_timer(&mut self, timer: &mut Timer, has_moved: bool) {
        let has_interim = std::mem::replace(&mut self.interim_timed, self.interim) < self.interim;
        if self.is_in_head() && self.is_sent {
            if has_interim || !self.is_head_timed {
                timer.set(self.response_wait);
            }
            self.is_head_timed = true;
        } else if has_moved || has_interim {
            timer.set(self.asked.body_wait);
        }
    }

    /// The head of the response has its whole time again, from when the timer is set next.
    pub const fn time_head_anew(&mut self) {
        self.is_head_timed = false;
    }

    /// What the server has still to send, if it was sent anything. To be asked once, when the exchange has failed.
    pub fn unfinished(&mut self, timer: &Timer) -> Option<Unfinished> {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        match phase {
            _ if !self.has_begun => None,
            Phase::Head { .. } => {
                let wait = match self.is_head_timed {
                    true => timer.left(),
                    false => self.response_wait,
                };
                Some(Unfinished::Head { wait, is_head: self.asked.is_head })
            }
            Phase::Body(decoder) => Some(Unfinished::Body(decoder)),
            Phase::Done => (self.head.status == 101).then_some(Unfinished::Unknown),
        }
    }

    /// Frees buffer memory while nothing is read (D1).
    pub fn pause(&mut self, is_short: bool) {
        self.upstream.buf.pause(is_short);
    }

    /// Bytes of memory that its buffer holds.
    pub const fn buffer_bytes(&self) -> usize {
        self.upstream.buf.capacity()
    }

    /// Timeout for the head of the response.
    pub const fn response_wait(&self) -> Duration {
        self.response_wait
    }

    /// Bytes of the request body that were taken.
    pub const fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the whole request is written, or nothing more of it can be.
    pub const fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Whether writing the request failed.
    pub const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether everything that was taken is written.
    pub const fn is_written(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether the final head was not forwarded yet.
    pub const fn is_in_head(&self) -> bool {
        matches!(self.phase, Phase::Head { .. })
    }

    /// Whether an incomplete body is being read.
    pub fn is_in_body(&self) -> bool {
        matches!(&self.phase, Phase::Body(decoder) if !decoder.is_done())
    }

    /// Whether the trailers of the response are next.
    pub fn is_before_trailers(&self) -> bool {
        let next = self.upstream.buf.bytes();
        matches!(&self.phase, Phase::Body(decoder) if decoder.is_before_trailers(next))
    }

    /// Whether the end of the response was forwarded.
    pub const fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// The status of the last head.
    pub const fn status(&self) -> u16 {
        self.head.status
    }

    /// Whether the connection can be reused once the response is complete.
    pub fn reuses(&self) -> bool {
        let is_whole = self.is_sent && !self.is_broken && self.upstream.buf.is_empty();
        self.head.keeps && is_whole
    }

    /// The server closed the connection. This is valid if it ends a body.
    fn ended(&mut self) -> Result<(), Failure> {
        if let Phase::Body(decoder) = &mut self.phase
            && decoder.end()
        {
            return Ok(());
        }
        match self.phase {
            Phase::Head { .. } if !self.upstream.buf.is_empty() => {
                Err(Failure::Response("the head of the response is cut short"))
            }
            _ => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn broken(&self, error: io::Error) -> Failure {
        // A server that sent something works on the request, so the request is not sent again.
        let has_answered = self.interim > 0 || !self.upstream.buf.is_empty();
        match self.phase {
            Phase::Head { .. } if has_answered => Failure::BrokenOff(error),
            Phase::Head { .. } => Failure::Broken(error),
            Phase::Body(_) | Phase::Done => Failure::Response(CUT_SHORT),
        }
    }
}
