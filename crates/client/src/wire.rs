//! HTTP/1.1 as bytes: writes a request, reads the head and the body of an answer.
//!
//! Pure: no socket and no clock. Promises that nothing a server sends makes it panic or hold more than the named
//! maxima. Malformed input is an error, never a guess.

use crate::request::Method;
use std::fmt;

/// The longest head of an answer.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// The most fields in a head.
pub const FIELDS_MAX: usize = 100;
/// The longest line before a chunk, and the longest line after the last.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;
/// The most lines after the last chunk.
const TRAILER_LINES_MAX: usize = 100;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError(pub &'static str);

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// How the body is framed.
    pub body: Body,
    /// Whether the connection can carry another request.
    pub keeps: bool,
}

/// The rest of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Done,
    /// This many bytes.
    Length(u64),
    /// Chunks, and the position in them.
    Chunked(Chunk),
    /// All bytes until the connection ends.
    ToEnd,
}

/// A position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Before a line with a size.
    Size,
    /// Before this many bytes.
    Data(u64),
    /// Before the line end after a chunk.
    LineEnd,
    /// After the last chunk and this many trailer lines.
    Trailer(usize),
}

/// A request. Everything in it was checked or encoded before.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The method.
    pub method: Method,
    /// A complete path.
    pub path: &'a str,
    /// The media type of the body; empty if there is none.
    pub media: &'static str,
    /// Whether an existing object must not be replaced.
    pub only_creates: bool,
    /// Whether it is a release, which is idempotent.
    pub gives_back: bool,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message whose body is JSON or empty.
    pub fn new(method: Method, path: &'a str, body: &'a [u8]) -> Self {
        let media = if body.is_empty() { "" } else { "application/json" };
        Self { method, path, media, only_creates: false, gives_back: false, body }
    }

    /// Whether a message that may have arrived can be sent again.
    pub const fn can_repeat(&self) -> bool {
        let is_same = matches!(self.method, Method::Get | Method::Put) || self.gives_back;
        is_same && !self.only_creates
    }

    /// Whether it can be sent again even after a restart of the daemon, whatever happened to the first.
    pub const fn is_harmless(&self) -> bool {
        matches!(self.method, Method::Get) || self.gives_back
    }

    /// The request as bytes.
    pub fn bytes(&self, host: &str, token: Option<&str>) -> Vec<u8> {
        let (method, path) = (self.method.word(), self.path);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
        if let Some(token) = token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if self.only_creates {
            head.push_str("If-None-Match: *\r\n");
        }
        if !self.media.is_empty() {
            head.push_str(&format!("Content-Type: {}\r\n", self.media));
        }
        if !self.body.is_empty() || self.method != Method::Get {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), self.body].concat()
    }
}

/// One segment of a path, such as a name, with all special characters encoded.
pub fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            // A name of dots only would be interpreted as a relative path.
            b'.' if name.bytes().any(|byte| byte != b'.') => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The head at the start of `bytes` and its length; `None` if it is incomplete.
pub fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, WireError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return Err(WireError("the head of the answer is too long"));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(WireError("the answer is not HTTP/1.1")),
    };
    let status = response.code.unwrap_or_default();
    let mut framing = Framing { length: None, chunked: false, closes: response.version != Some(1) };
    for field in response.headers.iter() {
        framing.note(field)?;
    }
    let body = framing.body(status)?;
    let keeps = !framing.closes && body != Body::ToEnd;
    Ok(Some((Head { status, body, keeps }, length)))
}

struct Framing {
    length: Option<u64>,
    chunked: bool,
    closes: bool,
}

impl Framing {
    fn note(&mut self, field: &httparse::Header<'_>) -> Result<(), WireError> {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let length = value.parse().ok().filter(|_| digits);
            let length = length.ok_or(WireError("the length of the answer is not a number"))?;
            if self.length.replace(length).is_some_and(|other| other != length) {
                return Err(WireError("the answer has two lengths"));
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") || self.chunked {
                return Err(WireError("the answer has an unknown transfer coding"));
            }
            self.chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            self.closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        }
        Ok(())
    }

    /// RFC 9112, section 6.3.
    fn body(&self, status: u16) -> Result<Body, WireError> {
        match (status, self.chunked, self.length) {
            (100..=199 | 204 | 304, ..) => Ok(Body::Done),
            (_, true, Some(_)) => Err(WireError("the answer has a length and a transfer coding")),
            (_, true, None) => Ok(Body::Chunked(Chunk::Size)),
            (_, false, Some(0)) => Ok(Body::Done),
            (_, false, Some(length)) => Ok(Body::Length(length)),
            (_, false, None) => Ok(Body::ToEnd),
        }
    }
}

impl Body {
    /// Moves the bytes of the body from the start of `input` into `out`, and returns how much of `input` it used. It
    /// uses nothing only if it needs more input or is done.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, WireError> {
        match self {
            Self::Done => Ok(0),
            Self::ToEnd => {
                out.extend_from_slice(input);
                Ok(input.len())
            }
            Self::Length(left) => {
                let used = copy(left, input, out);
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(used)
            }
            Self::Chunked(place) => {
                let mut place = *place;
                let (used, is_done) = take_chunks(&mut place, input, out)?;
                *self = if is_done { Self::Done } else { Self::Chunked(place) };
                Ok(used)
            }
        }
    }
}

/// Copies up to `left` bytes and subtracts them from `left`.
fn copy(left: &mut u64, input: &[u8], out: &mut Vec<u8>) -> usize {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    out.extend_from_slice(input.get(..count).unwrap_or_default());
    *left = left.saturating_sub(count as u64);
    count
}

fn take_chunks(
    place: &mut Chunk,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(usize, bool), WireError> {
    let mut used = 0;
    loop {
        let rest = input.get(used..).unwrap_or_default();
        match place {
            Chunk::Size => {
                let Some((length, size)) = chunk_size(rest)? else { return Ok((used, false)) };
                used += length;
                *place = if size == 0 { Chunk::Trailer(0) } else { Chunk::Data(size) };
            }
            Chunk::Data(left) => {
                used += copy(left, rest, out);
                if *left > 0 {
                    return Ok((used, false));
                }
                *place = Chunk::LineEnd;
            }
            Chunk::LineEnd => match rest {
                [b'\r', b'\n', ..] => {
                    used += 2;
                    *place = Chunk::Size;
                }
                [] | [b'\r'] => return Ok((used, false)),
                _ => return Err(WireError("a chunk of the answer has no end")),
            },
            Chunk::Trailer(lines) => {
                let Some(length) = line(rest)? else { return Ok((used, false)) };
                used += length;
                *lines += 1;
                if length == 2 {
                    return Ok((used, true));
                }
                if *lines > TRAILER_LINES_MAX {
                    return Err(WireError("the answer has too many lines after its body"));
                }
            }
        }
    }
}

fn chunk_size(rest: &[u8]) -> Result<Option<(usize, u64)>, WireError> {
    match httparse::parse_chunk_size(rest) {
        Ok(httparse::Status::Complete(found)) => Ok(Some(found)),
        Ok(httparse::Status::Partial) if rest.len() < CHUNK_LINE_BYTES_MAX => Ok(None),
        _ => Err(WireError("a chunk of the answer has no valid size")),
    }
}

/// The length of the line at the start of `rest`, including its line end.
fn line(rest: &[u8]) -> Result<Option<usize>, WireError> {
    match rest.windows(2).position(|pair| pair == b"\r\n") {
        Some(length) => Ok(Some(length + 2)),
        None if rest.len() < CHUNK_LINE_BYTES_MAX => Ok(None),
        None => Err(WireError("a line after the answer's body is too long")),
    }
}

#[cfg(test)]
mod tests;
