//! An HTTP/2 client that writes raw frames (RFC 9113), valid or not.
//!
//! Header blocks are literals without indexing. Of responses, only what tests need is parsed: the status of a block,
//! the code of a GOAWAY or RST_STREAM.

use super::wire::Wire;
use std::net::SocketAddr;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;

/// Error codes (RFC 9113 7).
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
pub(super) const STREAM_CLOSED: u32 = 5;
pub(super) const FRAME_SIZE_ERROR: u32 = 6;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
pub(super) const COMPRESSION_ERROR: u32 = 9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// The largest payload that every peer must accept (RFC 9113 4.2).
const FRAME_BYTES_MAX: usize = 16 << 10;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Self {
        Self { kind, flags, stream, payload: payload.as_ref().to_vec() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let len = (self.payload.len() as u32).to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [&len[1..], &[self.kind, self.flags], &stream, &self.payload].concat()
    }

    /// Whether the stream ends with this frame.
    pub fn ends(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// The code of a GOAWAY or RST_STREAM.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    /// The status of a header block, which is its first field.
    pub fn status(&self) -> u16 {
        let mut block = &self.payload[..];
        // Changes of the table's size precede all fields.
        while let [0x20..=0x3f, rest @ ..] = block {
            block = rest;
        }
        match block {
            [indexed @ 0x88..=0x8e, ..] => {
                [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)]
            }
            // A literal whose name is entry 8 of the static table.
            [0x08 | 0x18 | 0x48, len, rest @ ..] => {
                let value = &rest[..usize::from(len & 0x7f)];
                if len & 0x80 == 0 { digits(value) } else { huffman_digits(value) }
            }
            other => panic!("no status first: {other:x?}"),
        }
    }
}

fn digits(text: &[u8]) -> u16 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// Three digits in the code of RFC 7541, appendix B: 0 to 2 have five bits, the others six.
fn huffman_digits(bytes: &[u8]) -> u16 {
    let bits: Vec<u8> = bytes.iter().flat_map(|b| (0..8).rev().map(move |n| b >> n & 1)).collect();
    let number = |bits: &[u8]| bits.iter().fold(0u16, |sum, bit| sum * 2 + u16::from(*bit));
    let (mut at, mut status) = (0, 0);
    for _ in 0..3 {
        let five = number(&bits[at..at + 5]);
        let digit = if five <= 2 { five } else { number(&bits[at..at + 6]) - 0x19 + 3 };
        at += if five <= 2 { 5 } else { 6 };
        status = status * 10 + digit;
    }
    status
}

/// A header block: each field a literal without indexing, with a name of its own.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![];
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            push_length(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

fn push_length(out: &mut Vec<u8>, len: usize) {
    if len < 127 {
        out.push(len as u8);
        return;
    }
    out.push(127);
    let mut rest = len - 127;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The usual fields of a request, and more.
pub(super) fn request<'a>(
    method: &'a str,
    path: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let usual =
        [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a.example")];
    [&usual[..], more].concat()
}

/// An HTTP/2 connection.
pub(super) struct Http2 {
    pub wire: Wire,
    /// Whether settings and pings of the server are acknowledged.
    pub is_polite: bool,
}

impl Http2 {
    /// Connects and sends the preface and settings that forbid a dynamic table, and acknowledges the server's
    /// settings.
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &[(1, 0)])
    }

    /// The same with these settings.
    pub fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        Self::greet(Wire::connect(address), settings)
    }

    /// The same on a connection that is there.
    pub fn greet(wire: Wire, settings: &[(u16, u32)]) -> Self {
        let mut this = Self { wire, is_polite: true };
        this.wire.send(PREFACE);
        let mut payload = vec![];
        for (id, value) in settings {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        this.send(&Frame::new(SETTINGS, 0, 0, payload));
        let first = this.next().unwrap();
        assert_eq!((first.kind, first.flags), (SETTINGS, 0), "the server's settings come first");
        while this.next().unwrap() != Frame::new(SETTINGS, ACK, 0, []) {}
        this
    }

    /// Makes the system buffer little ahead. The other side sees room only in steps of a part of that, and so sees a
    /// slow reader progress only that often. Returns the bytes.
    pub fn takes_little_ahead(&self) -> usize {
        use rustix::net::sockopt::{set_socket_recv_buffer_size, socket_recv_buffer_size};
        set_socket_recv_buffer_size(&self.wire.stream, 128 << 10).unwrap();
        socket_recv_buffer_size(&self.wire.stream).unwrap()
    }

    pub fn send(&mut self, frame: &Frame) {
        self.wire.send(frame.bytes());
    }

    /// Sends all of these in one piece, so that none is answered before the next has arrived.
    pub fn send_at_once(&mut self, frames: &[Frame]) {
        self.wire.send(frames.iter().flat_map(Frame::bytes).collect::<Vec<u8>>());
    }

    /// Sends a request without a body.
    pub fn ask(&mut self, stream: u32, path: &str) {
        self.headers(stream, &request("GET", path, &[]), END_STREAM);
    }

    /// Sends a complete header block, in as many frames as it needs.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &str)], flags: u8) {
        let block = block(fields);
        let pieces: Vec<&[u8]> = block.chunks(FRAME_BYTES_MAX).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let (kind, flags) = if n == 0 { (HEADERS, flags) } else { (CONTINUATION, 0) };
            let end = if n + 1 == pieces.len() { END_HEADERS } else { 0 };
            self.send(&Frame::new(kind, flags | end, stream, piece));
        }
    }

    /// The next frame; none if the connection ends first. Settings and pings are acknowledged.
    #[track_caller]
    pub fn next(&mut self) -> Option<Frame> {
        let head = self.wire.take(9);
        let [a, b, c, kind, flags, stream @ ..] = &head[..] else { return None };
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let stream = u32::from_be_bytes(stream.try_into().unwrap());
        let payload = self.wire.take(len);
        if payload.len() < len {
            return None;
        }
        let frame = Frame { kind: *kind, flags: *flags, stream, payload };
        if self.is_polite && matches!(frame.kind, SETTINGS | PING) && frame.flags & ACK == 0 {
            let payload = if frame.kind == PING { &frame.payload[..] } else { &[] };
            self.send(&Frame::new(frame.kind, ACK, 0, payload));
        }
        Some(frame)
    }

    /// The next frame of a kind; others are skipped.
    #[track_caller]
    pub fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("no frame of kind {kind} comes"));
            if frame.kind == kind {
                return frame;
            }
            assert_ne!(frame.kind, GOAWAY, "{frame:?}");
        }
    }

    /// The complete response on a stream: status and body. Frames of other streams are skipped.
    #[track_caller]
    pub fn response(&mut self, stream: u32) -> (u16, String) {
        let (mut status, mut body) = (0, vec![]);
        loop {
            let frame = self.next().expect("a response comes");
            assert!(frame.kind != RST_STREAM || frame.stream != stream, "{frame:?}");
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                HEADERS if status < 200 => status = frame.status(),
                DATA => body.extend_from_slice(&frame.payload),
                _ => {}
            }
            if frame.ends() {
                return (status, String::from_utf8(body).unwrap());
            }
        }
    }

    /// Checks that the connection ends with a GOAWAY of one of these codes.
    #[track_caller]
    pub fn ends_with(&mut self, codes: &[u32], why: &str) {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("{why}: it ends without a word"));
            if frame.kind == GOAWAY {
                assert!(codes.contains(&frame.code()), "{why}: {}", frame.code());
                break;
            }
        }
        while self.next().is_some() {}
    }

    /// The code that a stream was reset with.
    #[track_caller]
    pub fn reset(&mut self, stream: u32, why: &str) -> u32 {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("{why}: the connection ends"));
            assert_ne!(frame.kind, GOAWAY, "{why}: {frame:?}");
            if frame.kind == RST_STREAM && frame.stream == stream {
                return frame.code();
            }
            assert!(frame.stream != stream || frame.kind == WINDOW_UPDATE, "{why}: {frame:?}");
        }
    }

    /// Checks that the connection serves requests.
    #[track_caller]
    pub fn serves(&mut self, stream: u32) {
        self.ask(stream, "/alive");
        assert_eq!(self.response(stream).0, 200, "the connection goes on");
    }
}
