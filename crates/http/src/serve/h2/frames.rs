//! Follows the frames in the bytes of one direction of HTTP/2 (RFC 9113 4.1). It stores no frame.

/// The preface of a client (RFC 9113 3.4).
pub(super) const PREFACE_BYTES: usize = 24;

const HEAD_BYTES: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Stands for the preface; no frame has this type.
const PREFACE: u8 = 0xff;

/// The head of a frame, as far as this crate uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The part of a frame that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Begin,
    Payload(&'a [u8]),
    End,
}

/// The position of one direction within its frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The frame whose payload is passing, and the bytes left of it.
    frame: Option<(Head, usize)>,
    head: [u8; HEAD_BYTES],
    head_len: usize,
}

impl Frames {
    /// The frames of a client, which begin with the preface.
    pub fn of_client() -> Self {
        let preface = Head { kind: PREFACE, flags: 0, stream: 0 };
        Self { frame: Some((preface, PREFACE_BYTES)), ..Self::default() }
    }

    /// Processes these bytes, and calls `see` with each part of a frame.
    pub fn pass(&mut self, mut bytes: &[u8], mut see: impl FnMut(Head, Part<'_>)) {
        loop {
            if let Some((head, left)) = self.frame {
                let (payload, rest) = bytes.split_at(left.min(bytes.len()));
                bytes = rest;
                if !payload.is_empty() {
                    see(head, Part::Payload(payload));
                }
                let left = left - payload.len();
                if left > 0 {
                    self.frame = Some((head, left));
                    return;
                }
                self.frame = None;
                see(head, Part::End);
            }
            let len = (HEAD_BYTES - self.head_len).min(bytes.len());
            let (piece, rest) = bytes.split_at(len);
            self.head[self.head_len..][..len].copy_from_slice(piece);
            (self.head_len, bytes) = (self.head_len + len, rest);
            if self.head_len < HEAD_BYTES {
                return;
            }
            self.head_len = 0;
            let [a, b, c, kind, flags, stream @ ..] = self.head;
            // The highest bit is reserved.
            let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            let head = Head { kind, flags, stream };
            see(head, Part::Begin);
            self.frame = Some((head, u32::from_be_bytes([0, a, b, c]) as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DATA, END_STREAM, Frames, HEADERS, Part};

    /// What `see` gets for these bytes, passed in pieces of `size`. Payloads are joined.
    fn told(bytes: &[u8], size: usize) -> Vec<String> {
        let (mut frames, mut told) = (Frames::of_client(), vec![]);
        let mut payload = vec![];
        for piece in bytes.chunks(size) {
            frames.pass(piece, |head, part| match part {
                Part::Begin => told.push(format!("{}:{}:{}", head.kind, head.flags, head.stream)),
                Part::Payload(piece) => payload.extend_from_slice(piece),
                Part::End => {
                    told.push(String::from_utf8(std::mem::take(&mut payload)).unwrap());
                }
            });
        }
        told
    }

    #[test]
    fn frames_are_the_same_in_one_piece_and_byte_by_byte() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend([0, 0, 3, HEADERS, 4, 0x80, 0, 0, 1, b'a', b'b', b'c']);
        bytes.extend([0, 0, 0, DATA, END_STREAM, 0, 0, 1, 1]);
        bytes.extend([0, 0, 2, DATA, 0, 0, 0, 0, 3, b'x', b'y']);
        let whole = told(&bytes, bytes.len());
        assert_eq!(whole[1..], ["1:4:1", "abc", "0:1:257", "", "0:0:3", "xy"]);
        for size in 1..bytes.len() {
            assert_eq!(told(&bytes, size), whole, "{size}");
        }
    }
}
