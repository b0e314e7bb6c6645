//! The chunked transfer coding (RFC 9112 7.1), read strictly.
//!
//! Every line must end with CR LF, including chunk extensions, where other proxies are lax (H1). Extensions are
//! checked and dropped; trailers are kept.

use super::byte::is_value;
use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX};
use std::ops::Range;

/// Maximum digits of a chunk size, more than any real chunk needs.
const SIZE_DIGITS_MAX: u32 = 15;

/// The state of the decoder.
#[derive(Debug)]
pub(crate) struct Chunked {
    expected: Expected,
    /// Trailers so far, line by line, each with its line end.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// In a chunk's size.
    Size {
        size: u64,
        digits: u32,
    },
    /// In the extensions after the size, `len` bytes into them.
    Extension {
        size: u64,
        len: usize,
    },
    /// Before the line feed after size and extensions.
    SizeEnd {
        size: u64,
    },
    /// In a chunk's data.
    Data {
        left: u64,
    },
    /// Before the line end after the data.
    DataReturn,
    DataFeed,
    /// In a line of the trailers.
    Trailer,
    Done,
}

/// Why the bytes are not valid chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkError(pub &'static str);

const NOT_A_SIZE: ChunkError = ChunkError("the size of a chunk is no number");
const NO_LINE_END: ChunkError = ChunkError("a line of a chunk does not end with CR LF");
const NO_DATA_END: ChunkError = ChunkError("a chunk's data does not end where its size says");
const BAD_EXTENSION: ChunkError = ChunkError("a chunk's extension has a control character");
const LONG_EXTENSION: ChunkError = ChunkError("a chunk's extensions are too long");
const LONG_TRAILERS: ChunkError = ChunkError("the trailers are too long");

impl Chunked {
    pub fn new() -> Self {
        Self { expected: Expected::Size { size: 0, digits: 0 }, trailers: vec![] }
    }

    pub fn is_done(&self) -> bool {
        self.expected == Expected::Done
    }

    /// The trailers, line by line, once decoding is done.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Whether trailers follow, if `next` are the next bytes. A section without trailers is only a line end.
    pub fn is_before_trailers(&self, next: &[u8]) -> bool {
        let first = self.trailers.first().or(next.first());
        self.expected == Expected::Trailer && first != Some(&b'\r')
    }

    /// Reads up to the next data, or to the trailers. Returns how many bytes were read, and which of them are data.
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Range<usize>), ChunkError> {
        let mut at = 0;
        while at < input.len() && self.expected != Expected::Done {
            if let Expected::Data { left } = self.expected {
                let len = left.min((input.len() - at) as u64);
                let left = left - len;
                self.expected =
                    if left == 0 { Expected::DataReturn } else { Expected::Data { left } };
                let end = at + len as usize;
                return Ok((end, at..end));
            }
            let is_last_size = matches!(self.expected, Expected::SizeEnd { size: 0 });
            self.expected = self.next(input[at])?;
            at += 1;
            if is_last_size {
                break;
            }
        }
        Ok((at, at..at))
    }

    /// The state after one more byte that is not data.
    fn next(&mut self, byte: u8) -> Result<Expected, ChunkError> {
        Ok(match self.expected {
            Expected::Size { size, digits } => match (char::from(byte).to_digit(16), byte) {
                (Some(_), _) if digits >= SIZE_DIGITS_MAX => return Err(NOT_A_SIZE),
                (Some(digit), _) => {
                    Expected::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
                }
                (None, b';') if digits > 0 => Expected::Extension { size, len: 1 },
                (None, b'\r') if digits > 0 => Expected::SizeEnd { size },
                _ => return Err(NOT_A_SIZE),
            },
            Expected::Extension { size, len } => match byte {
                b'\r' => Expected::SizeEnd { size },
                b'\n' => return Err(NO_LINE_END),
                byte if !is_value(byte) => return Err(BAD_EXTENSION),
                _ if len >= CHUNK_EXTENSION_BYTES_MAX => return Err(LONG_EXTENSION),
                _ => Expected::Extension { size, len: len + 1 },
            },
            Expected::SizeEnd { .. } if byte != b'\n' => return Err(NO_LINE_END),
            Expected::SizeEnd { size: 0 } => Expected::Trailer,
            Expected::SizeEnd { size } => Expected::Data { left: size },
            Expected::DataReturn if byte == b'\r' => Expected::DataFeed,
            Expected::DataFeed if byte == b'\n' => Expected::Size { size: 0, digits: 0 },
            Expected::DataReturn | Expected::DataFeed => return Err(NO_DATA_END),
            Expected::Trailer => self.trailer(byte)?,
            expected @ (Expected::Data { .. } | Expected::Done) => expected,
        })
    }

    fn trailer(&mut self, byte: u8) -> Result<Expected, ChunkError> {
        if self.trailers.len() >= TRAILER_BYTES_MAX {
            return Err(LONG_TRAILERS);
        }
        let is_return_before = self.trailers.last() == Some(&b'\r');
        if is_return_before != (byte == b'\n') {
            return Err(NO_LINE_END);
        }
        self.trailers.push(byte);
        let is_end = self.trailers == b"\r\n" || self.trailers.ends_with(b"\r\n\r\n");
        if !is_end {
            return Ok(Expected::Trailer);
        }
        self.trailers.truncate(self.trailers.len() - 2);
        Ok(Expected::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BAD_EXTENSION, ChunkError, Chunked, LONG_EXTENSION, LONG_TRAILERS, NO_DATA_END,
        NO_LINE_END, NOT_A_SIZE,
    };
    use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX};

    /// The data, the trailers and the remaining length, read in pieces of `step`.
    fn check(input: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, usize), ChunkError> {
        let (mut chunked, mut data, mut at) = (Chunked::new(), vec![], 0);
        while at < input.len() && !chunked.is_done() {
            let piece = &input[at..input.len().min(at + step)];
            let (read, range) = chunked.read(piece)?;
            data.extend_from_slice(&piece[range]);
            at += read;
        }
        assert!(chunked.is_done(), "it ends");
        Ok((data, chunked.trailers().to_vec(), input.len() - at))
    }

    #[test]
    fn bodies_are_read_whatever_the_pieces() {
        let input = b"5\r\nhello\r\n1;a=\"b\";c\r\n \r\n0A\r\n0123456789\r\n0\r\nX-A: 1\r\nx-b:2\r\n\r\nGET";
        for step in [1, 2, 3, 7, 1_000] {
            let (data, trailers, left) = check(input, step).unwrap();
            assert_eq!(data, b"hello 0123456789");
            assert_eq!(trailers, b"X-A: 1\r\nx-b:2\r\n");
            assert_eq!(left, 3, "what follows is not touched");
        }
        assert_eq!(check(b"0\r\n\r\n", 1).unwrap(), (vec![], vec![], 0));
    }

    /// So that a caller can stop there.
    #[test]
    fn reading_stops_before_trailers() {
        let cases = [("x: 1\r\n\r\n", true), ("", true), ("\r\n", false), ("\r", false)];
        for (rest, is_before) in cases {
            let mut chunked = Chunked::new();
            let input = format!("0\r\n{rest}");
            assert!(!chunked.is_before_trailers(input.as_bytes()));
            assert_eq!(chunked.read(input.as_bytes()), Ok((3, 3..3)));
            assert_eq!(chunked.is_before_trailers(rest.as_bytes()), is_before, "{rest:?}");
        }
        let (mut chunked, rest) = (Chunked::new(), [&b"\r"[..], b"\n"]);
        assert_eq!(chunked.read(b"0\r\n"), Ok((3, 3..3)));
        assert_eq!(chunked.read(rest[0]), Ok((1, 1..1)));
        assert!(!chunked.is_before_trailers(rest[1]), "the line end is cut in two");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused_h1() {
        let long = [b"1;".to_vec(), vec![b'x'; CHUNK_EXTENSION_BYTES_MAX]].concat();
        let trailers = [b"0\r\nx: ".to_vec(), vec![b'x'; TRAILER_BYTES_MAX]].concat();
        let cases: [(&[u8], ChunkError); 17] = [
            (b"\r\n", NOT_A_SIZE),
            (b"x\r\n", NOT_A_SIZE),
            (b"-1\r\n", NOT_A_SIZE),
            (b"0x1\r\n", NOT_A_SIZE),
            (b" 1\r\n", NOT_A_SIZE),
            (b"1 \r\n", NOT_A_SIZE),
            (b"1\n", NOT_A_SIZE),
            (b"1000000000000000\r\n", NOT_A_SIZE),
            (b"1;a\nb\r\n", NO_LINE_END),
            (b"1;a\rb", NO_LINE_END),
            (b"1\rb", NO_LINE_END),
            (b"1;\0\r\n", BAD_EXTENSION),
            (&long, LONG_EXTENSION),
            (b"1\r\nab", NO_DATA_END),
            (b"1\r\na\n", NO_DATA_END),
            (b"0\r\nx: 1\ny: 2\r\n\r\n", NO_LINE_END),
            (&trailers, LONG_TRAILERS),
        ];
        for (input, error) in cases {
            for step in [1, 1_000_000] {
                assert_eq!(check(input, step), Err(error), "{:?}", String::from_utf8_lossy(input));
            }
        }
    }
}
