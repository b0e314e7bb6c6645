//! One request and its response, both ways at once, piece by piece.
//!
//! Owns no more memory than two buffers: nothing is read while what was read before is not written
//! (back-pressure), and a response may come while the request is still being sent. The task is polled
//! when any of the two sockets or the timer has something to tell.

use crate::limits::INTERIM_RESPONSES_MAX;
use crate::serve::buffer::{Buffer, Outgoing};
use crate::serve::orphan::Unfinished;
use crate::serve::stream::Stream;
use crate::serve::timer::Timer;
use crate::serve::upstream::Upstream;
use crate::wire::{
    Decoder, Encoder, Framing, ResponseHead, ResponseWriter, head_end, write_trailers,
};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// What is said of a server that only ever says that it goes on.
pub(crate) const TOO_MANY_INTERIM: &str = "too many responses before the last one";

/// A client's end: what it sent, what it is to be sent.
#[derive(Debug)]
pub(crate) struct Client {
    pub stream: Stream,
    pub buf: Buffer,
    pub out: Outgoing,
    pub timer: Timer,
}

/// What the exchange has to know of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub framing: Framing,
    pub is_head: bool,
    pub is_11: bool,
    /// Whether the client keeps the connection, and so do we.
    pub keeps: bool,
    pub upgrades: bool,
    pub body_bytes_max: u64,
    /// How long the next piece of a body may take.
    pub body_wait: Duration,
    /// How long the head of the response may take.
    pub response_wait: Duration,
}

/// How an exchange went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client left, or the connection to it broke.
    ClientLeft,
    /// The client sent no more of its body in time.
    ClientSlow,
    /// The client's body is wrong.
    Body(&'static str),
    /// The client's body is too long.
    BodyTooLong,
    /// There is no room for what the client has sent of its body.
    NoRoom(&'static str),
    /// The connection to the server broke before anything of its response came.
    Broken(io::Error),
    /// The same after something came: part of a head, or an answer before the last one.
    BrokenOff(io::Error),
    /// The response is wrong.
    Response(&'static str),
    /// The server sent nothing more in time.
    ServerSlow,
}

impl Failure {
    /// The connection to a server broke before the head of its response was whole.
    pub const fn broken(error: io::Error, has_heard: bool) -> Self {
        if has_heard { Self::BrokenOff(error) } else { Self::Broken(error) }
    }

    /// Whether the server may still be at work: it has neither closed its connection nor had its time.
    pub const fn leaves_work(&self) -> bool {
        match self {
            Self::ClientLeft | Self::ClientSlow => true,
            Self::Body(_) | Self::BodyTooLong | Self::NoRoom(_) => true,
            // A server that sent something wrong goes on, for all that is known.
            Self::Response(_) => true,
            Self::Broken(_) | Self::BrokenOff(_) | Self::ServerSlow => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientLeft => f.write_str("the client left"),
            Self::ClientSlow => f.write_str("the client sent no more in time"),
            Self::Body(text) | Self::Response(text) | Self::NoRoom(text) => f.write_str(text),
            Self::BodyTooLong => f.write_str("the body is too long"),
            Self::Broken(error) | Self::BrokenOff(error) => error.fmt(f),
            Self::ServerSlow => f.write_str("the server sent nothing more in time"),
        }
    }
}

/// How an exchange ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With the whole response.
    Whole {
        /// Whether the client's connection can take another request.
        keeps: bool,
        /// Whether the server's can.
        reuses: bool,
    },
    /// With 101: from now on both sides speak another protocol.
    Upgraded,
}

/// How far the response has come.
#[derive(Debug)]
enum Phase {
    Head { scanned: usize },
    Body { decoder: Decoder, encoder: Encoder },
    Done,
}

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    client: &'a mut Client,
    upstream: &'a mut Upstream,
    /// What is to be sent to the server; the head stands in it at first.
    sent: &'a mut Outgoing,
    head: &'a mut ResponseHead,
    asked: Asked,
    /// Whether the daemon ends, which clients are told with their next response.
    is_draining: &'a Cell<bool>,
    request: Decoder,
    to_server: Encoder,
    /// Whether anything of the request is written.
    has_begun: bool,
    /// Whether the whole request is written, or nothing more of it can be.
    is_sent: bool,
    /// Whether something of it could not be written: the connection is of no use to anybody else.
    is_broken: bool,
    /// What the body of the request may still have.
    body_left: u64,
    phase: Phase,
    /// Whether the timer is set for the head of the response.
    is_head_timed: bool,
    /// Answers before the last one so far.
    interim: u32,
    keeps: bool,
    /// Whether the head of the response stands in the client's buffer, or has stood there.
    is_answered: bool,
    /// Whether anything of it was written to the client.
    is_begun: bool,
    /// Bytes of the two bodies that were taken.
    bytes: (u64, u64),
}

impl<'a> Exchange<'a> {
    pub fn new(
        client: &'a mut Client,
        upstream: &'a mut Upstream,
        sent: &'a mut Outgoing,
        head: &'a mut ResponseHead,
        asked: Asked,
        is_draining: &'a Cell<bool>,
    ) -> Self {
        Self {
            client,
            upstream,
            sent,
            head,
            request: Decoder::new(asked.framing),
            to_server: Encoder::new(asked.framing),
            has_begun: false,
            is_sent: false,
            is_broken: false,
            body_left: asked.body_bytes_max,
            phase: Phase::Head { scanned: 0 },
            is_head_timed: false,
            interim: 0,
            keeps: asked.keeps,
            is_answered: false,
            is_begun: false,
            bytes: (0, 0),
            is_draining,
            asked,
        }
    }

    /// Goes on as far as it can.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, Failure>> {
        let (interim, mut has_moved) = (self.interim, false);
        loop {
            let (there, back) = (self.poll_request(cx)?, self.poll_response(cx)?);
            if let Some(end) = self.end() {
                return Poll::Ready(Ok(end));
            }
            // Part of a head is no progress: it could come byte by byte for ever.
            has_moved |= there || (back && !self.is_in_head());
            if !there && !back {
                break;
            }
        }
        let has_interim = self.interim > interim;
        if self.is_in_head() && self.is_sent {
            if has_interim || !self.is_head_timed {
                self.client.timer.set(self.asked.response_wait);
            }
            self.is_head_timed = true;
        } else if has_moved || has_interim {
            self.client.timer.set(self.asked.body_wait);
        }
        match self.client.timer.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(self.slow())),
            Poll::Pending => Poll::Pending,
        }
    }

    const fn is_in_head(&self) -> bool {
        matches!(self.phase, Phase::Head { .. })
    }

    /// Whether it is too late for another answer. If not, what stands in the client's buffer is forgotten.
    pub fn is_too_late(&mut self) -> bool {
        if self.is_answered && !self.is_begun && self.client.out.written() == 0 {
            self.client.out.clear();
            self.is_answered = false;
        }
        self.is_answered
    }

    /// What the server has still to send, if it was sent anything. To be asked once, when the exchange has failed.
    pub fn unfinished(&mut self) -> Option<Unfinished> {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        match phase {
            _ if !self.has_begun => None,
            Phase::Head { .. } => {
                let wait = match self.is_head_timed {
                    true => self.client.timer.left(),
                    false => self.asked.response_wait,
                };
                Some(Unfinished::Head { wait, is_head: self.asked.is_head })
            }
            Phase::Body { decoder, .. } => Some(Unfinished::Body(decoder)),
            Phase::Done => (self.head.status == 101).then_some(Unfinished::Unknown),
        }
    }

    /// Bytes of the two bodies, for the log: what was taken of the request, and what of the response has left
    /// at least.
    pub fn bytes(&self) -> (u64, u64) {
        let unsent = self.client.out.bytes.len() - self.client.out.written();
        (self.bytes.0, self.bytes.1.saturating_sub(unsent as u64))
    }

    fn end(&self) -> Option<End> {
        if !matches!(self.phase, Phase::Done) || !self.client.out.is_empty() {
            return None;
        }
        if self.head.status == 101 {
            return Some(End::Upgraded);
        }
        let is_whole = self.is_sent && !self.is_broken;
        let reuses = self.head.keeps && is_whole && self.upstream.buf.is_empty();
        Some(End::Whole { keeps: self.keeps && self.is_sent, reuses })
    }

    /// Who was too slow.
    fn slow(&self) -> Failure {
        let waits_for_client = match self.phase {
            Phase::Head { .. } => !self.is_sent && self.sent.is_empty(),
            Phase::Body { .. } | Phase::Done => !self.client.out.is_empty(),
        };
        if waits_for_client { Failure::ClientSlow } else { Failure::ServerSlow }
    }

    /// The way to the server. Tells whether anything moved.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        if self.is_sent {
            return self.watch_client(cx);
        }
        let mut moved = false;
        loop {
            self.read_body()?;
            if !self.sent.is_empty() {
                let before = self.sent.written();
                let written = self.sent.poll_write_all(&mut self.upstream.stream, cx);
                self.has_begun |= self.sent.written() > 0;
                match written {
                    Poll::Ready(Ok(())) => moved = true,
                    // The response may say why; if there is none, reading tells.
                    Poll::Ready(Err(_)) => {
                        (self.is_sent, self.is_broken, self.keeps) = (true, true, false);
                        return Ok(true);
                    }
                    Poll::Pending => return Ok(moved || self.sent.written() > before),
                }
                if self.request.is_done() {
                    // It stays as it is, in case it has to be sent again.
                    self.is_sent = true;
                    return Ok(true);
                }
                self.sent.clear();
            }
            match self.client.buf.poll_fill(&mut self.client.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(Failure::ClientLeft),
                Poll::Ready(Ok(_)) => moved = true,
                Poll::Pending => return Ok(moved),
            }
        }
    }

    /// Takes what there is of the request's body to be written.
    fn read_body(&mut self) -> Result<(), Failure> {
        while !self.request.is_done() && !self.client.buf.is_empty() {
            let input = self.client.buf.bytes();
            let progress = self.request.read(input).map_err(|error| Failure::Body(error.0))?;
            let data = &input[progress.data];
            self.body_left =
                self.body_left.checked_sub(data.len() as u64).ok_or(Failure::BodyTooLong)?;
            self.bytes.0 += data.len() as u64;
            self.to_server.write(data, &mut self.sent.bytes);
            self.client.buf.consume(progress.read);
            if self.request.is_done() {
                let mut trailers = vec![];
                write_trailers(self.request.trailers(), &mut trailers).map_err(Failure::Body)?;
                self.to_server.finish(&trailers, &mut self.sent.bytes);
            }
        }
        Ok(())
    }

    /// Looks whether the client has left, and takes what it sends ahead.
    fn watch_client(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        while self.client.buf.has_room() {
            match self.client.buf.poll_fill(&mut self.client.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(Failure::ClientLeft),
                // Whatever it sends is for later; only one that has nothing more wakes us when it leaves.
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => break,
            }
        }
        Ok(false)
    }

    /// The way to the client. Tells whether anything moved.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        loop {
            if !self.client.out.is_empty() {
                let before = self.client.out.written();
                let written = self.client.out.poll_write_all(&mut self.client.stream, cx);
                self.is_begun |= self.is_answered && self.client.out.written() > 0;
                match written {
                    Poll::Ready(Ok(())) => self.client.out.clear(),
                    Poll::Ready(Err(_)) => return Err(Failure::ClientLeft),
                    Poll::Pending => return Ok(moved || self.client.out.written() > before),
                }
                moved = true;
            }
            self.read_response()?;
            if !self.client.out.is_empty() {
                continue;
            }
            if matches!(self.phase, Phase::Done) {
                return Ok(moved);
            }
            match self.upstream.buf.poll_fill(&mut self.upstream.stream, cx) {
                Poll::Ready(Ok(0)) => self.server_ended()?,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(self.broken(error)),
                Poll::Pending => return Ok(moved),
            }
            moved = true;
        }
    }

    /// Whether anything came of the server: then it is at work on the request, which is not sent again.
    fn has_heard(&self) -> bool {
        self.interim > 0 || !self.upstream.buf.is_empty()
    }

    fn broken(&self, error: io::Error) -> Failure {
        match self.phase {
            Phase::Head { .. } => Failure::broken(error, self.has_heard()),
            Phase::Body { .. } | Phase::Done => Failure::Response("the response is cut short"),
        }
    }

    fn server_ended(&mut self) -> Result<(), Failure> {
        let Phase::Body { decoder, encoder } = &mut self.phase else {
            return Err(if self.upstream.buf.is_empty() {
                self.broken(io::ErrorKind::UnexpectedEof.into())
            } else {
                Failure::Response("the head of the response is cut short")
            });
        };
        if !decoder.end() {
            return Err(Failure::Response("the response is cut short"));
        }
        encoder.finish(b"", &mut self.client.out.bytes);
        self.phase = Phase::Done;
        Ok(())
    }

    /// Takes what there is of the response to be written to the client.
    fn read_response(&mut self) -> Result<(), Failure> {
        while let Phase::Head { scanned } = &mut self.phase {
            let bytes = self.upstream.buf.bytes();
            let end = head_end(bytes, scanned)
                .map_err(|_| Failure::Response("the head of the response is too long or wrong"))?;
            let Some(end) = end else { return Ok(()) };
            self.read_head(end)?;
        }
        self.read_response_body()
    }

    fn read_head(&mut self, end: usize) -> Result<(), Failure> {
        let bytes = &self.upstream.buf.bytes()[..end];
        self.head.read(bytes, self.asked.is_head).map_err(|error| Failure::Response(error.0))?;
        let status = self.head.status;
        let upgrades = status == 101;
        if upgrades && !self.asked.upgrades {
            return Err(Failure::Response("the server switched protocols unasked"));
        }
        let is_last = status >= 200 || upgrades;
        self.interim += u32::from(!is_last);
        if self.interim > INTERIM_RESPONSES_MAX {
            return Err(Failure::Response(TOO_MANY_INTERIM));
        }
        // What the client has not sent of its body it may never send, now that it has its answer.
        self.keeps &= !is_last || (self.is_sent && !self.is_draining.get());
        let mut writer = ResponseWriter {
            head: self.head,
            bytes,
            is_11: self.asked.is_11,
            keeps: self.keeps,
            upgrades,
        };
        if writer.framing() == Framing::Close {
            (self.keeps, writer.keeps) = (false, false);
        }
        let framing = writer.framing();
        // A client of HTTP/1.0 knows no answers before the last one (RFC 9110 15.2).
        if is_last || self.asked.is_11 {
            writer.write(&mut self.client.out.bytes);
            self.is_answered |= is_last;
        }
        self.upstream.buf.consume(end);
        self.phase = match (is_last, upgrades) {
            (false, _) => Phase::Head { scanned: 0 },
            (true, true) => {
                self.is_sent = true;
                Phase::Done
            }
            (true, false) => Phase::Body {
                decoder: Decoder::new(self.head.framing),
                encoder: Encoder::new(framing),
            },
        };
        Ok(())
    }

    fn read_response_body(&mut self) -> Result<(), Failure> {
        let Phase::Body { decoder, encoder } = &mut self.phase else { return Ok(()) };
        while !decoder.is_done() && !self.upstream.buf.is_empty() {
            let input = self.upstream.buf.bytes();
            let progress = decoder.read(input).map_err(|error| Failure::Response(error.0))?;
            let data = &input[progress.data];
            self.bytes.1 += data.len() as u64;
            encoder.write(data, &mut self.client.out.bytes);
            self.upstream.buf.consume(progress.read);
        }
        if decoder.is_done() {
            let mut trailers = vec![];
            write_trailers(decoder.trailers(), &mut trailers).map_err(Failure::Response)?;
            encoder.finish(&trailers, &mut self.client.out.bytes);
            self.phase = Phase::Done;
        }
        Ok(())
    }
}
