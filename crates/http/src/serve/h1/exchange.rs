//! One HTTP/1 request and its response, relayed in both directions at once, piece by piece.
//!
//! Owns no more memory than two buffers: nothing is read before the previous bytes are written (back-pressure). A
//! response may arrive while the request is still being sent. The task is polled when one of the two sockets or the
//! timer is ready.

use crate::serve::lost::Failure;
use crate::serve::orphan::Unfinished;
use crate::serve::server_half::ServerHalf;
use crate::wire::{Decoder, Encoder, Framing, ResponseWriter, write_trailers};
use paceline_net::buffer::{Buffer, Outgoing};
use paceline_net::stream::Stream;
use paceline_net::timer::Timer;
use std::cell::Cell;
use std::task::{Context, Poll};

/// The client's half of an exchange: its input and its output.
#[derive(Debug)]
pub(crate) struct ClientHalf {
    pub stream: Stream,
    pub buf: Buffer,
    pub out: Outgoing,
    pub timer: Timer,
}

/// What the request says about the client connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoken {
    /// Whether the client speaks HTTP/1.1.
    pub is_11: bool,
    /// Whether the connection stays open: the client and the door both keep it.
    pub keeps: bool,
}

/// How a successful exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a complete response.
    Whole {
        /// Whether the client connection can take another request.
        keeps: bool,
        /// Whether the server connection can be reused.
        reuses: bool,
    },
    /// With `101 Switching Protocols`: from now on both sides speak another protocol.
    Upgraded,
}

/// One request and its response.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    client: &'a mut ClientHalf,
    server: ServerHalf<'a>,
    spoken: Spoken,
    /// Whether the daemon ends: then responses announce that the connection closes.
    is_draining: &'a Cell<bool>,
    /// Reads the body of the request.
    decoder: Decoder,
    /// Writes the body of the response.
    encoder: Encoder,
    keeps: bool,
    /// Whether the head of the response is, or was, in the client's buffer.
    is_answered: bool,
    /// Whether any part of it was written to the client.
    is_begun: bool,
    /// Bytes of the response body that were taken.
    bytes: u64,
}

impl<'a> Exchange<'a> {
    pub fn new(
        client: &'a mut ClientHalf,
        server: ServerHalf<'a>,
        framing: Framing,
        spoken: Spoken,
        is_draining: &'a Cell<bool>,
    ) -> Self {
        Self {
            client,
            server,
            decoder: Decoder::new(framing),
            encoder: Encoder::new(Framing::None),
            keeps: spoken.keeps,
            is_answered: false,
            is_begun: false,
            bytes: 0,
            is_draining,
            spoken,
        }
    }

    /// Makes as much progress as possible.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, Failure>> {
        // Each direction continues until a socket is not ready, so one pass over both is enough.
        let there = !self.server.is_sent() && self.poll_request(cx)?;
        let back = self.poll_response(cx)?;
        if let Some(end) = self.end() {
            return Poll::Ready(Ok(end));
        }
        if self.server.is_sent() {
            self.watch_client(cx)?;
        }
        let has_moved = there || (back && !self.server.is_in_head());
        self.server.set_timer(&mut self.client.timer, has_moved);
        match self.client.timer.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(self.slow())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether it is too late for another response. If not, the client's output buffer is cleared.
    pub fn is_too_late(&mut self) -> bool {
        if self.is_answered && !self.is_begun && self.client.out.written() == 0 {
            self.client.out.clear();
            self.is_answered = false;
        }
        self.is_answered
    }

    /// What the server still has to send, if it was sent anything. Called at most once, after the exchange has
    /// failed.
    pub fn unfinished(&mut self) -> Option<Unfinished> {
        self.server.unfinished(&self.client.timer)
    }

    /// Bytes of the two bodies, for the log: what was taken of the request, and at least what was sent of the
    /// response.
    pub fn bytes(&self) -> (u64, u64) {
        let unsent = self.client.out.bytes.len() - self.client.out.written();
        (self.server.body_bytes(), self.bytes.saturating_sub(unsent as u64))
    }

    fn end(&self) -> Option<End> {
        if !self.server.is_done() || !self.client.out.is_empty() {
            return None;
        }
        if self.server.status() == 101 {
            return Some(End::Upgraded);
        }
        let keeps = self.keeps && self.server.is_sent();
        Some(End::Whole { keeps, reuses: self.server.reuses() })
    }

    /// The side that was too slow.
    fn slow(&self) -> Failure {
        let waits_for_client = match self.server.is_in_head() {
            true => !self.server.is_sent() && self.server.is_written(),
            false => !self.client.out.is_empty(),
        };
        if waits_for_client { Failure::ClientSlow } else { Failure::ServerSlow }
    }

    /// Sends to the server until the whole request is sent. Returns whether anything moved.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        loop {
            self.read_body()?;
            let (has_written, written) = self.server.poll_write(cx);
            moved |= has_written;
            if written.is_pending() {
                return Ok(moved);
            }
            if self.server.is_sent() {
                self.keeps &= !self.server.is_broken();
                return Ok(true);
            }
            match self.client.buf.poll_fill(&mut self.client.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(Failure::ClientLeft),
                Poll::Ready(Ok(_)) => moved = true,
                Poll::Pending => return Ok(moved),
            }
        }
    }

    /// Takes the available part of the request body, to be written.
    fn read_body(&mut self) -> Result<(), Failure> {
        while !self.decoder.is_done() && !self.client.buf.is_empty() {
            let input = self.client.buf.bytes();
            let progress = self.decoder.read(input).map_err(|error| Failure::Body(error.0))?;
            self.server.take_body(&input[progress.data])?;
            self.client.buf.consume(progress.read);
            if self.decoder.is_done() {
                let mut trailers = vec![];
                write_trailers(self.decoder.trailers(), &mut trailers).map_err(Failure::Body)?;
                self.server.end_body(&trailers);
            }
        }
        Ok(())
    }

    /// Checks whether the client has disconnected, and reads what it sends ahead.
    fn watch_client(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        while self.client.buf.has_room() {
            match self.client.buf.poll_fill(&mut self.client.stream, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(Failure::ClientLeft),
                // What the client sends is for later. Reading until the socket is empty is needed to be woken when
                // the client disconnects.
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Sends to the client. Returns whether anything moved.
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
            if self.server.is_done() {
                return Ok(moved);
            }
            match self.server.poll_fill(usize::MAX, cx) {
                Poll::Ready(filled) => filled?,
                Poll::Pending => return Ok(moved),
            }
            moved = true;
        }
    }

    /// Takes the available part of the response, to be written to the client.
    fn read_response(&mut self) -> Result<(), Failure> {
        while let Some(end) = self.server.read_head()? {
            self.write_head(end);
        }
        let (encoder, out, bytes) = (self.encoder, &mut self.client.out.bytes, &mut self.bytes);
        self.server.read_body(usize::MAX, true, |data| {
            *bytes += data.len() as u64;
            encoder.write(data, out);
        })?;
        if let Some(read) = self.server.trailers() {
            let mut trailers = vec![];
            write_trailers(read, &mut trailers).map_err(Failure::Response)?;
            encoder.finish(&trailers, &mut self.client.out.bytes);
            self.server.pass_end();
        }
        Ok(())
    }

    /// Writes the head of so many bytes from the server to the client.
    fn write_head(&mut self, end: usize) {
        let is_last = !self.server.is_interim();
        // The client may never send the rest of its body, now that it has its response.
        self.keeps &= !is_last || (self.server.is_sent() && !self.is_draining.get());
        let (head, bytes) = self.server.head(end);
        let (is_11, upgrades) = (self.spoken.is_11, head.status == 101);
        let mut writer = ResponseWriter { head, bytes, is_11, keeps: self.keeps, upgrades };
        if writer.framing() == Framing::Close {
            (self.keeps, writer.keeps) = (false, false);
        }
        // An HTTP/1.0 client does not understand interim responses (RFC 9110 15.2).
        if is_last || is_11 {
            writer.write(&mut self.client.out.bytes);
            self.is_answered |= is_last;
        }
        self.encoder = Encoder::new(writer.framing());
        self.server.pass_head(end);
    }
}
