//! The part of HTTP/2 and gRPC that is needed to call etcd: one call at a time on a connection.
//!
//! Requests are prepared in advance, except for the stream number. Headers are sent without compression, and those of
//! responses are ignored: a response is good if it contains the expected bytes.

use crate::failure::{Failure, Outcome};

/// The length of a frame's head: length, kind, flags, stream.
const HEAD_LEN: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// One connection: protocol frames that are still to be sent, and the last stream.
#[derive(Debug, Clone)]
pub struct Streams {
    pending: Vec<u8>,
    last: u32,
}

impl Streams {
    /// A new connection.
    pub fn new() -> Self {
        let mut pending = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut pending, SETTINGS, 0, &[]);
        // Enough window for all responses of a run, so that no accounting is needed.
        frame(&mut pending, WINDOW_UPDATE, 0, &(0x7fff_ffff_u32 - 0xffff).to_be_bytes());
        Self { pending, last: 0 }
    }

    /// Writes the pending frames and then a call on a new stream.
    pub fn write(&mut self, call: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.pending);
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        let mut rest = call;
        while let Some((head, body)) = frame_of(rest) {
            let len = HEAD_LEN + body.len();
            out.extend_from_slice(&head[..5]);
            out.extend_from_slice(&self.last.to_be_bytes());
            out.extend_from_slice(body);
            rest = &rest[len..];
        }
    }

    /// The message of the response, if only complete frames have arrived and the last frame of the response is among
    /// them.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Outcome<Option<&'a [u8]>> {
        let (mut rest, mut message, mut is_done) = (bytes, &bytes[..0], false);
        let mut pending = Vec::new();
        while let Some((head, body)) = frame_of(rest) {
            rest = &rest[HEAD_LEN + body.len()..];
            let (kind, flags) = (head[3], head[4]);
            match kind {
                DATA => message = body,
                HEADERS => is_done |= flags & END_STREAM != 0,
                SETTINGS if flags & ACK == 0 => frame(&mut pending, SETTINGS, ACK, &[]),
                PING if flags & ACK == 0 => frame(&mut pending, PING, ACK, body),
                RESET | GO_AWAY => {
                    return Err(Failure::new(format!("etcd ended the call: frame {kind}")));
                }
                _ => {}
            }
        }
        if !is_done || !rest.is_empty() {
            return Ok(None);
        }
        self.pending = pending;
        Ok(Some(message))
    }
}

fn frame_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let head = bytes.get(..HEAD_LEN)?;
    let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    Some((head, bytes.get(HEAD_LEN..HEAD_LEN + len)?))
}

/// Writes a frame on stream 0.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, body: &[u8]) {
    let len = (body.len() as u32).to_be_bytes();
    out.extend_from_slice(&len[1..]);
    out.extend_from_slice(&[kind, flags, 0, 0, 0, 0]);
    out.extend_from_slice(body);
}

/// The frames of a call to `path` with this message.
pub fn call(path: &str, message: &[u8]) -> Vec<u8> {
    // Indexed `:method: POST` and `:scheme: http`, then literals with indexed and with new names.
    let mut headers = vec![0x83, 0x86];
    let mut field = |name: &[u8], value: &str| {
        headers.extend_from_slice(name);
        headers.push(value.len() as u8);
        headers.extend_from_slice(value.as_bytes());
    };
    field(&[0x04], path);
    field(&[0x01], "localhost");
    field(&[0x0f, 0x10], "application/grpc");
    field(b"\x00\x02te", "trailers");
    let mut data = vec![0];
    data.extend_from_slice(&(message.len() as u32).to_be_bytes());
    data.extend_from_slice(message);
    let mut out = Vec::new();
    frame(&mut out, HEADERS, END_HEADERS, &headers);
    frame(&mut out, DATA, END_STREAM, &data);
    out
}

/// A field of a protobuf message that holds bytes or another message; short ones only.
pub fn bytes_field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, value.len() as u8], value].concat()
}

/// A field that holds a number.
pub fn number_field(number: u8, mut value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Whether field 2 of an etcd response, after its header, is 1: a transaction that succeeded, or one key deleted.
pub fn second_is_one(message: &[u8]) -> bool {
    let header_len = message.get(6).copied().map(usize::from);
    header_len.and_then(|len| message.get(7 + len..9 + len)) == Some(&[0x10, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_out_on_streams_of_their_own() {
        let (mut streams, text) = (Streams::new(), call("/a/B", b"xy"));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        streams.write(&text, &mut first);
        streams.write(&text, &mut second);
        assert!(first.starts_with(b"PRI * HTTP/2.0"));
        assert_eq!(second.len(), text.len());
        assert_eq!(second[5..9], [0, 0, 0, 3]);
        assert!(second.ends_with(&[0, 0, 0, 3, 0, 0, 0, 0, 2, b'x', b'y']));
    }

    #[test]
    fn an_answer_is_whole_with_its_last_frame() {
        let mut streams = Streams::new();
        let mut bytes = Vec::new();
        frame(&mut bytes, SETTINGS, 0, &[]);
        frame(&mut bytes, HEADERS, END_HEADERS, b"h");
        frame(&mut bytes, DATA, 0, &[0, 0, 0, 0, 6, 0x0a, 2, 8, 1, 0x10, 1]);
        assert_eq!(streams.read(&bytes).unwrap(), None);
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, b"t");
        frame(&mut bytes, PING, 0, &[7; 8]);
        let message = streams.read(&bytes).unwrap().unwrap();
        assert!(second_is_one(message));
        let mut out = Vec::new();
        streams.write(&[], &mut out);
        assert!(out.ends_with(&[0, 0, 8, PING, ACK, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]));
        frame(&mut bytes, GO_AWAY, 0, &[]);
        assert!(streams.read(&bytes).is_err());
    }

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        assert_eq!(number_field(3, 300), [0x18, 0xac, 0x02]);
        assert_eq!(bytes_field(1, b"k"), [0x0a, 1, b'k']);
    }
}
