//! Bodies: finds the end of a body, and writes a body in its new framing.

use super::chunked::{ChunkError, Chunked};
use std::ops::Range;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    #[default]
    None,
    /// A length of at least one byte.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// Everything until the connection ends.
    Close,
}

/// Reads a body.
#[derive(Debug)]
pub(crate) enum Decoder {
    Done,
    Length(u64),
    Chunked(Box<Chunked>),
    Close,
}

/// The progress of one call.
#[derive(Debug)]
pub(crate) struct Progress {
    /// How many bytes were read.
    pub read: usize,
    /// Which of them are data.
    pub data: Range<usize>,
}

impl Decoder {
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::None | Framing::Length(0) => Self::Done,
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Box::new(Chunked::new())),
            Framing::Close => Self::Close,
        }
    }

    pub fn is_done(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::Length(_) | Self::Close => false,
        }
    }

    /// Reads up to the next data, or to the trailers.
    pub fn read(&mut self, input: &[u8]) -> Result<Progress, ChunkError> {
        let read = match self {
            Self::Done => 0,
            Self::Close => input.len(),
            Self::Length(left) => {
                let read = (*left).min(input.len() as u64) as usize;
                *left -= read as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                read
            }
            Self::Chunked(chunked) => {
                let (read, data) = chunked.read(input)?;
                return Ok(Progress { read, data });
            }
        };
        Ok(Progress { read, data: 0..read })
    }

    /// Whether trailers follow, if `next` are the next bytes.
    pub fn is_before_trailers(&self, next: &[u8]) -> bool {
        matches!(self, Self::Chunked(chunked) if chunked.is_before_trailers(next))
    }

    /// The connection ended. Returns whether this ends the body.
    pub fn end(&mut self) -> bool {
        if matches!(self, Self::Close) {
            *self = Self::Done;
        }
        self.is_done()
    }

    /// The trailers, line by line, once the body is done.
    pub fn trailers(&self) -> &[u8] {
        match self {
            Self::Chunked(chunked) => chunked.trailers(),
            _ => &[],
        }
    }
}

/// Writes a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    pub is_chunked: bool,
}

impl Encoder {
    pub const fn new(framing: Framing) -> Self {
        Self { is_chunked: matches!(framing, Framing::Chunked) }
    }

    /// Writes one piece of data.
    pub fn write(self, data: &[u8], out: &mut Vec<u8>) {
        if data.is_empty() {
            // An empty chunk would end the body.
            return;
        }
        if !self.is_chunked {
            out.extend_from_slice(data);
            return;
        }
        push_hex(data.len(), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }

    /// Writes the end. `trailers` were checked, and each line has its end.
    pub fn finish(self, trailers: &[u8], out: &mut Vec<u8>) {
        if self.is_chunked {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(trailers);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn push_hex(number: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[number >> (4 * place) & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Encoder, Framing};

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 9, 10, 15, 16, 17, 255, 256, 70_000] {
            let body = vec![b'x'; length];
            for framing in [Framing::Length(length as u64), Framing::Chunked, Framing::Close] {
                let (mut out, encoder) = (vec![], Encoder::new(framing));
                encoder.write(&body, &mut out);
                encoder.finish(b"", &mut out);
                let (mut decoder, mut data, mut at) = (Decoder::new(framing), vec![], 0);
                while at < out.len() {
                    let progress = decoder.read(&out[at..]).unwrap();
                    data.extend_from_slice(&out[at..][progress.data]);
                    at += progress.read;
                }
                assert!(decoder.end(), "{framing:?}");
                assert_eq!(data, body, "{framing:?}");
            }
        }
        assert!(!Decoder::new(Framing::Length(1)).end(), "a body that is cut short is not whole");
        assert!(!Decoder::new(Framing::Chunked).end());
    }
}
