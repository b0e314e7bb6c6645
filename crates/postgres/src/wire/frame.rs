//! The frame of a typed message: a kind byte, a length that counts itself, and a body.
//!
//! Owns which side may send which kind, the maximum length of each kind, and the walk over the messages in a buffer.
//! Promises D3: a length that is too small or too large is an error as soon as its five bytes are there, and an unknown
//! kind as soon as its byte is there. Never looks into a body, so a message can be relayed while its body arrives.

use super::SqlState;
use super::kind::{Kinds, client, client_name, server, server_name};
use std::fmt;

/// The bytes before a body: the kind and the length.
pub const HEAD_BYTES: usize = 5;

/// The smallest length: it counts its own four bytes.
const LENGTH_MIN: u32 = 4;

/// The largest length of client messages that hold no more than names: everything but [`LENGTH_MAX`]'s.
pub const SMALL_LENGTH_MAX: u32 = 10_000;

/// The largest length of Query, Parse, Bind, CopyData and FunctionCall. PostgreSQL closes the connection of a client
/// that sends a longer message.
pub const LENGTH_MAX: u32 = (1 << 30) - 2;

/// The largest length of a message before the login is complete (D3).
pub const LOGIN_LENGTH_MAX: u32 = 64 << 10;

/// The largest length of server messages that hold no rows, texts or lists. PostgreSQL's own client library closes the
/// connection of a server that sends a longer message.
pub const SERVER_SMALL_LENGTH_MAX: u32 = 30_000;

/// The largest length of all other server messages: the field is a signed number.
pub const SERVER_LENGTH_MAX: u32 = i32::MAX as u32;

/// Which kinds a side may send at some point, and how long they may be.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// The largest length by kind; 0 for a kind that may not be sent, [`u32::MAX`] for a large one.
    limits: &'static [u32; 256],
    /// The largest length of a large kind.
    large: u32,
    is_server: bool,
}

/// The start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind byte.
    pub kind: u8,
    /// The number of bytes in the body.
    pub body_len: u32,
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The kind byte.
    pub kind: u8,
    /// The kind, the length and the body.
    pub bytes: &'a [u8],
}

/// Why bytes are not the start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// This side does not send this kind, or not now.
    Kind {
        /// The kind byte.
        kind: u8,
        /// Whether a server sent it.
        is_server: bool,
    },
    /// The length is smaller than the length field or larger than the maximum of the kind.
    Length {
        /// The name of the message.
        message: &'static str,
        /// The length that was sent.
        length: u32,
        /// The maximum of the kind.
        max: u32,
    },
}

const fn limits(kinds: &[u8], large: &[u8], small_max: u32) -> [u32; 256] {
    let mut limits = [0; 256];
    let mut at = 0;
    while at < kinds.len() {
        limits[kinds[at] as usize] = small_max;
        at += 1;
    }
    at = 0;
    while at < large.len() {
        limits[large[at] as usize] = u32::MAX;
        at += 1;
    }
    limits
}

static LOGIN_LIMITS: [u32; 256] = limits(&[client::PASSWORD], &[], LOGIN_LENGTH_MAX);

static CLIENT_LIMITS: [u32; 256] = limits(
    &[
        client::CLOSE,
        client::COPY_DONE,
        client::COPY_FAIL,
        client::DESCRIBE,
        client::EXECUTE,
        client::FLUSH,
        client::SYNC,
        client::TERMINATE,
    ],
    &[client::BIND, client::COPY_DATA, client::FUNCTION_CALL, client::PARSE, client::QUERY],
    SMALL_LENGTH_MAX,
);

static SERVER_LIMITS: [u32; 256] = limits(
    &[
        server::AUTHENTICATION,
        server::BACKEND_KEY_DATA,
        server::BIND_COMPLETE,
        server::CLOSE_COMPLETE,
        server::COMMAND_COMPLETE,
        server::COPY_BOTH_RESPONSE,
        server::COPY_DONE,
        server::COPY_IN_RESPONSE,
        server::COPY_OUT_RESPONSE,
        server::EMPTY_QUERY_RESPONSE,
        server::NEGOTIATE_PROTOCOL_VERSION,
        server::NO_DATA,
        server::PARAMETER_STATUS,
        server::PARSE_COMPLETE,
        server::PORTAL_SUSPENDED,
        server::READY_FOR_QUERY,
    ],
    &[
        server::COPY_DATA,
        server::DATA_ROW,
        server::ERROR_RESPONSE,
        server::FUNCTION_CALL_RESPONSE,
        server::NOTICE_RESPONSE,
        server::NOTIFICATION_RESPONSE,
        // 65,535 parameters do not fit into a small message.
        server::PARAMETER_DESCRIPTION,
        server::ROW_DESCRIPTION,
    ],
    SERVER_SMALL_LENGTH_MAX,
);

impl Side {
    /// A client whose login is not complete: only answers to the server's requests for authentication.
    pub const LOGIN: Self =
        Self { limits: &LOGIN_LIMITS, large: LOGIN_LENGTH_MAX, is_server: false };

    /// A server.
    pub const SERVER: Self =
        Self { limits: &SERVER_LIMITS, large: SERVER_LENGTH_MAX, is_server: true };

    /// A client after its login. `max` is the largest length of its large messages; it is brought into the range
    /// from [`SMALL_LENGTH_MAX`] to [`LENGTH_MAX`].
    #[must_use]
    pub const fn client(max: u32) -> Self {
        let large = match max {
            0..SMALL_LENGTH_MAX => SMALL_LENGTH_MAX,
            SMALL_LENGTH_MAX..=LENGTH_MAX => max,
            _ => LENGTH_MAX,
        };
        Self { limits: &CLIENT_LIMITS, large, is_server: false }
    }

    /// The start of the message at the start of `bytes`; none if less than [`HEAD_BYTES`] are there.
    #[inline]
    pub fn head(self, bytes: &[u8]) -> Result<Option<Head>, FrameError> {
        let Some(&[kind, a, b, c, d]) = bytes.first_chunk::<HEAD_BYTES>() else {
            return self.check_kind(bytes);
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        let max = self.limits[usize::from(kind)].min(self.large);
        if length < LENGTH_MIN || length > max {
            return Err(self.error(kind, length, max));
        }
        Ok(Some(Head { kind, body_len: length - LENGTH_MIN }))
    }

    /// Refuses an unknown kind before its length is there: a client of another protocol need not wait for an answer.
    #[cold]
    fn check_kind(self, bytes: &[u8]) -> Result<Option<Head>, FrameError> {
        match bytes.first() {
            Some(&kind) if self.limits[usize::from(kind)] == 0 => Err(self.error(kind, 0, 0)),
            _ => Ok(None),
        }
    }

    #[cold]
    fn error(self, kind: u8, length: u32, max: u32) -> FrameError {
        let name = if self.is_server { server_name(kind) } else { client_name(kind) };
        match name {
            Some(message) if max > 0 => FrameError::Length { message, length, max },
            _ => FrameError::Kind { kind, is_server: self.is_server },
        }
    }
}

impl Head {
    /// The number of bytes in the whole message.
    #[inline]
    #[must_use]
    pub const fn total(self) -> usize {
        HEAD_BYTES + self.body_len as usize
    }
}

impl<'a> Framed<'a> {
    /// The bytes after kind and length.
    #[inline]
    #[must_use]
    pub fn body(self) -> &'a [u8] {
        self.bytes.get(HEAD_BYTES..).unwrap_or_default()
    }
}

/// A walk over the complete messages of a buffer.
///
/// It stops before the first message that is not complete. [`Walk::head`] says what is known of that one, so that the
/// caller can relay the bytes that are there, and after them as many as are still missing.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    side: Side,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// A walk that starts at the first byte of `bytes`, which is the first byte of a message.
    #[must_use]
    pub const fn new(side: Side, bytes: &'a [u8]) -> Self {
        Self { side, bytes, at: 0 }
    }

    /// The next message, if it is complete. The walk moves to its end.
    #[inline]
    pub fn step(&mut self) -> Result<Option<Framed<'a>>, FrameError> {
        let Some(head) = self.head()? else { return Ok(None) };
        let end = self.at + head.total();
        let Some(bytes) = self.bytes.get(self.at..end) else { return Ok(None) };
        self.at = end;
        Ok(Some(Framed { kind: head.kind, bytes }))
    }

    /// Moves over all complete messages up to the first whose kind is not in `kinds`. Returns how many they are.
    #[inline]
    pub fn skip(&mut self, kinds: &Kinds) -> Result<usize, FrameError> {
        let mut count = 0;
        while let Some(head) = self.head()? {
            let end = self.at + head.total();
            if !kinds.has(head.kind) || end > self.bytes.len() {
                break;
            }
            self.at = end;
            count += 1;
        }
        Ok(count)
    }

    /// The start of the next message, whether it is complete or not; none if its length has not arrived.
    #[inline]
    pub fn head(&self) -> Result<Option<Head>, FrameError> {
        self.side.head(self.rest())
    }

    /// How many bytes the walk has passed.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// The bytes the walk has not passed.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

impl FrameError {
    /// The code for the client.
    #[must_use]
    pub const fn state(self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Kind { kind, is_server } => {
                let side = if is_server { "server" } else { "client" };
                let name = if is_server { server_name(kind) } else { client_name(kind) };
                match name {
                    Some(name) => write!(to, "unexpected {name} message from the {side}"),
                    None => write!(to, "unknown kind {kind:#04x} of a message from the {side}"),
                }
            }
            Self::Length { message, length, max } => write!(
                to,
                "invalid length {length} of a {message} message: it must be {LENGTH_MIN} to {max}"
            ),
        }
    }
}

impl std::error::Error for FrameError {}

#[cfg(test)]
mod tests;
