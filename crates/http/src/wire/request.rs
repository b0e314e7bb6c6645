//! The head of a request, parsed strictly.
//!
//! This parser refuses what RFC 9112 allows a server to repair (H1): if one message has two readings, requests can be
//! smuggled past rules.

use super::body::Framing;
use super::byte::{is_target, is_token, is_token_text, number};
use super::field::{FieldError, Fields, Header, Piece, options, take_line};
use super::host::is_host;
use super::target::{Target, TargetError};
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, METHOD_BYTES_MAX, OPTIONS_MAX, TARGET_BYTES_MAX};

/// The head of a request. Positions are relative to the bytes it was parsed from. Reused from one head to the next to
/// keep its memory.
#[derive(Debug, Default)]
pub(crate) struct RequestHead {
    pub method: Piece,
    pub target: Target,
    /// Whether the client speaks HTTP/1.1 rather than 1.0.
    pub is_11: bool,
    pub fields: Fields,
    pub framing: Framing,
    /// Whether the client keeps the connection for another request.
    pub keeps: bool,
    /// Whether the client waits for `100 (Continue)` before it sends the body.
    pub expects: bool,
    /// The protocol to upgrade to, if the client asks for one.
    pub upgrade: Option<Piece>,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// It is longer than [`HEAD_BYTES_MAX`] or has more than [`FIELDS_MAX`] fields.
    TooLong,
    /// The target is longer than [`TARGET_BYTES_MAX`].
    TargetTooLong,
    /// An expectation other than `100-continue`.
    Expectation,
    /// `CONNECT`, which a reverse proxy does not support.
    Connect,
    /// Any other error, with its message.
    Bad(&'static str),
}

impl HeadError {
    /// The message for the client.
    pub fn text(self) -> String {
        match self {
            Self::TooLong => format!(
                "the head of the request has more than {HEAD_BYTES_MAX} bytes or {FIELDS_MAX} fields"
            ),
            Self::TargetTooLong => {
                format!("the target of the request has more than {TARGET_BYTES_MAX} bytes")
            }
            Self::Expectation => "the only expectation known is 100-continue".into(),
            Self::Connect => "the method CONNECT is not for this server".into(),
            Self::Bad(text) => text.into(),
        }
    }
}

impl From<FieldError> for HeadError {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::TooMany => Self::TooLong,
            error => Self::Bad(error.text()),
        }
    }
}

/// The end of the head, after its empty line, if it is complete. `scanned` is how far earlier calls have searched; it
/// is raised.
pub(crate) fn head_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, HeadError> {
    while let Some(at) = memchr::memchr(b'\n', bytes.get(*scanned..).unwrap_or_default()) {
        let end = *scanned + at;
        if end == 0 || bytes[end - 1] != b'\r' {
            return Err(HeadError::Bad(FieldError::LineEnd.text()));
        }
        *scanned = end + 1;
        let is_empty = end >= 3 && bytes[end - 2] == b'\n';
        if is_empty {
            let is_short = end < HEAD_BYTES_MAX;
            return if is_short { Ok(Some(end + 1)) } else { Err(HeadError::TooLong) };
        }
    }
    let is_over = bytes.len() >= HEAD_BYTES_MAX;
    if is_over { Err(too_long(bytes)) } else { Ok(None) }
}

/// Checks whether these can be the first bytes of a request: a method, and a version at the end of the first line. A
/// client of another protocol gets its response at once, and does not wait for the timeout of the head.
pub(crate) fn check_beginning(bytes: &[u8]) -> Result<(), HeadError> {
    let seen = &bytes[..bytes.len().min(METHOD_BYTES_MAX + 1)];
    let end = memchr::memchr(b' ', seen);
    let method = &seen[..end.unwrap_or(seen.len())];
    let is_method = method.len() <= METHOD_BYTES_MAX && method.iter().all(|byte| is_token(*byte));
    // Only half of the empty line that may precede a request has arrived.
    let is_begun = is_method && end != Some(0) || bytes == b"\r";
    let line = memchr::memchr(b'\n', bytes).map_or(&b" HTTP/"[..], |end| &bytes[..end]);
    let version = memchr::memrchr(b' ', line).map_or(&b""[..], |blank| &line[blank..]);
    match is_begun && version.starts_with(b" HTTP/") {
        true => Ok(()),
        false => Err(HeadError::Bad("this is not an HTTP request")),
    }
}

/// Which part of a head is too long.
fn too_long(bytes: &[u8]) -> HeadError {
    let line = take_line(bytes).map_or(bytes, |(line, _)| line);
    if line.len() > TARGET_BYTES_MAX { HeadError::TargetTooLong } else { HeadError::TooLong }
}

/// How many bytes to skip before a request line: one empty line (RFC 9112 2.2).
pub(crate) fn leading_blank(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r\n") { 2 } else { 0 }
}

impl RequestHead {
    /// Parses a head, including the empty line at its end.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), HeadError> {
        let (line, rest) = take_line(bytes).ok_or(HeadError::Bad(FieldError::LineEnd.text()))?;
        self.read_line(bytes, line)?;
        let fields = rest.strip_suffix(b"\r\n").unwrap_or(rest);
        self.fields.read(bytes, fields)?;
        self.read_fields(bytes)
    }

    pub fn method<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.method.of_bytes(bytes)
    }

    /// Whether the request can be sent again if it is unknown whether it was received (RFC 9110 9.2.2). A body is not
    /// kept for that.
    pub fn is_repeatable(&self, bytes: &[u8]) -> bool {
        self.framing == Framing::None && is_idempotent(self.method(bytes))
    }

    fn read_line(&mut self, bytes: &[u8], line: &[u8]) -> Result<(), HeadError> {
        const SHAPE: HeadError = HeadError::Bad(
            "the first line is not METHOD TARGET HTTP/1.1, with one blank between each",
        );
        let first = memchr::memchr(b' ', line).ok_or(SHAPE)?;
        let last = memchr::memrchr(b' ', line).filter(|last| *last > first).ok_or(SHAPE)?;
        let (method, target) = (&line[..first], &line[first + 1..last]);
        self.is_11 = match &line[last + 1..] {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            _ => return Err(HeadError::Bad("the version is neither HTTP/1.1 nor HTTP/1.0")),
        };
        if !is_token_text(method) || method.len() > METHOD_BYTES_MAX {
            return Err(HeadError::Bad("the method is none"));
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(HeadError::TargetTooLong);
        }
        if target.is_empty() || !target.iter().all(|byte| is_target(*byte)) {
            return Err(HeadError::Bad("the target has a character that is not allowed"));
        }
        if method == b"CONNECT" {
            return Err(HeadError::Connect);
        }
        self.method = Piece::of(bytes, method);
        self.target.read(bytes, target, method == b"OPTIONS").map_err(TargetError::bad)
    }

    /// Parses what the fields say about the message and the connection.
    fn read_fields(&mut self, bytes: &[u8]) -> Result<(), HeadError> {
        let mut host = None;
        let (mut length, mut is_chunked) = (None, false);
        let mut upgrade = None;
        let mut said = Said::default();
        self.expects = false;
        for field in self.fields.iter() {
            let value = || field.value.of_bytes(bytes);
            match field.header {
                Header::Host if host.replace(field.value).is_some() => {
                    return Err(HeadError::Bad("there are two Host fields"));
                }
                Header::ContentLength if length.is_some() => {
                    return Err(HeadError::Bad("there are two Content-Length fields"));
                }
                Header::ContentLength => length = Some(content_length(value())?),
                Header::TransferEncoding => {
                    if is_chunked || !value().eq_ignore_ascii_case(b"chunked") {
                        return Err(HeadError::Bad(
                            "the only transfer coding known is chunked, once",
                        ));
                    }
                    is_chunked = true;
                }
                Header::Expect if value().eq_ignore_ascii_case(b"100-continue") => {
                    self.expects = true;
                }
                Header::Expect => return Err(HeadError::Expectation),
                Header::Upgrade => upgrade = Some(field.value),
                Header::Connection => said.read(value()),
                _ => {}
            }
        }
        if said.options > OPTIONS_MAX {
            return Err(HeadError::Bad("Connection has too many options"));
        }
        self.framing = self.framing_of(length, is_chunked)?;
        self.keeps = if self.is_11 { !said.closes } else { said.keeps && !said.closes };
        // RFC 9110 7.8: Upgrade counts only with the connection option, and only in HTTP/1.1.
        self.upgrade = upgrade.filter(|_| said.upgrades && self.is_11);
        self.expects &= self.is_11 && self.framing != Framing::None;
        self.check_host(bytes, host)?;
        if said.names {
            self.fields.set_hops(bytes, &SAID_ANEW);
        }
        Ok(())
    }

    fn framing_of(&self, length: Option<u64>, is_chunked: bool) -> Result<Framing, HeadError> {
        match (length, is_chunked) {
            (Some(_), true) => {
                Err(HeadError::Bad("Content-Length and Transfer-Encoding stand in one head"))
            }
            (None, true) if !self.is_11 => {
                Err(HeadError::Bad("Transfer-Encoding stands in a head of HTTP/1.0"))
            }
            (None, true) => Ok(Framing::Chunked),
            (None | Some(0), false) => Ok(Framing::None),
            (Some(length), false) => Ok(Framing::Length(length)),
        }
    }

    /// Takes the authority from the target, or else from `Host` (RFC 9112 3.2.2).
    fn check_host(&mut self, bytes: &[u8], host: Option<Piece>) -> Result<(), HeadError> {
        let Some(host) = host else {
            let is_allowed = !self.is_11;
            return if is_allowed { Ok(()) } else { Err(HeadError::Bad("there is no Host field")) };
        };
        if !is_host(host.of_bytes(bytes)) {
            return Err(HeadError::Bad("the Host field is no host"));
        }
        if !self.target.has_authority {
            self.target.set_authority(bytes, host);
        }
        Ok(())
    }
}

/// Whether requests with this method are idempotent.
fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"PUT" | b"DELETE" | b"OPTIONS" | b"TRACE")
}

fn content_length(value: &[u8]) -> Result<u64, HeadError> {
    number(value).ok_or(HeadError::Bad("Content-Length is no number"))
}

/// Fields that are parsed when the request is written, and written anew.
const SAID_ANEW: [Header; 3] = [Header::ContentLength, Header::Te, Header::XForwardedFor];

/// What `Connection` contains.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub closes: bool,
    pub keeps: bool,
    pub upgrades: bool,
    /// Whether it names other fields.
    pub names: bool,
    /// How many options it has.
    pub options: usize,
}

impl Said {
    /// Parses one more value.
    pub fn read(&mut self, value: &[u8]) {
        // The usual value, handled without splitting.
        if value.eq_ignore_ascii_case(b"keep-alive") {
            (self.options, self.keeps) = (self.options + 1, true);
            return;
        }
        for option in options(value) {
            self.options += 1;
            if option.eq_ignore_ascii_case(b"close") {
                self.closes = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keeps = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrades = true;
            } else if !option.is_empty() {
                self.names = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
