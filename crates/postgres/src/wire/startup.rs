//! The packets a connection begins with, which have a length but no kind.
//!
//! Owns the requests for encryption, the request to cancel, and the startup message, read and written. Promises D3: a
//! packet is refused as soon as its length is wrong. Bytes in clear text behind a request for encryption are an error,
//! because an attacker between client and server could have added them. Never keeps what it has read.

use super::SqlState;
use super::body::{put_text, put_u32, set_length, split_text};
use std::fmt;

/// The maximum number of bytes in a packet, after its length field.
pub const PACKET_BYTES_MAX: usize = 10_000;

/// The shortest key of a cancel request, which is that of protocol 3.0.
pub const CANCEL_KEY_BYTES_MIN: usize = 4;

/// The longest key of a cancel request.
pub const CANCEL_KEY_BYTES_MAX: usize = 256;

/// The server's answer to a request for TLS that it grants.
pub const TLS_GRANTED: u8 = b'S';

/// The server's answer to a request for encryption that it does not grant.
pub const ENCRYPTION_REFUSED: u8 = b'N';

/// The first byte of a TLS record with a handshake (RFC 8446 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

const CANCEL_REQUEST: u32 = 1_234 << 16 | 5_678;
const SSL_REQUEST: u32 = 1_234 << 16 | 5_679;
const GSSENC_REQUEST: u32 = 1_234 << 16 | 5_680;

/// The names of startup parameters with this beginning are options of the protocol.
const OPTION: &[u8] = b"_pq_.";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 in every version that is known here.
    pub major: u16,
    /// 0 or 2; other numbers are negotiated.
    pub minor: u16,
}

impl Version {
    /// The version that everything speaks.
    pub const V3_0: Self = Self { major: 3, minor: 0 };

    /// The newest version, with longer cancel keys.
    pub const V3_2: Self = Self { major: 3, minor: 2 };

    /// The version with this number.
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self { major: (number >> 16) as u16, minor: number as u16 }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }

    /// The version to speak with a client that asks for this one. If it differs, the server must say so with
    /// NegotiateProtocolVersion. There is no 3.1.
    #[must_use]
    pub const fn agreed(self) -> Self {
        if self.minor < Self::V3_2.minor { Self::V3_0 } else { Self::V3_2 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.{}", self.major, self.minor)
    }
}

/// A packet at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Not a packet: the client begins with TLS, without asking.
    Tls,
    /// SSLRequest: the client asks for TLS.
    SslRequest,
    /// GSSENCRequest: the client asks for encryption by GSSAPI.
    GssRequest,
    /// CancelRequest: the client of another connection wants its statement canceled.
    Cancel(CancelKey<'a>),
    /// StartupMessage: the client wants to log in.
    Startup(Startup<'a>),
}

/// What names a session in a cancel request. The server sends it in BackendKeyData.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CancelKey<'a> {
    /// The process identifier of the session.
    pub process: u32,
    /// Its secret, of [`CANCEL_KEY_BYTES_MIN`] to [`CANCEL_KEY_BYTES_MAX`] bytes.
    pub key: &'a [u8],
}

/// A startup message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup<'a> {
    /// The version that the client asks for; 3 is its major number.
    pub version: Version,
    /// The user, which is never empty.
    pub user: &'a str,
    /// The database: that of the user's name if the client names none.
    pub database: &'a str,
    /// All parameters, including these two.
    pub parameters: Parameters<'a>,
}

/// Why the first bytes of a connection are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupError {
    /// The length is too small, or larger than [`PACKET_BYTES_MAX`] allows.
    Length(u32),
    /// A request for encryption is followed by bytes that are not encrypted.
    Unencrypted,
    /// The key of a cancel request has this length.
    CancelKey(usize),
    /// The major version is not 3.
    Version(Version),
    /// A parameter has no value or no NUL at its end, or bytes follow the last one.
    Layout,
    /// The client names no user.
    NoUser,
    /// The parameter of this name is not UTF-8.
    NotUtf8(&'static str),
    /// The client asks for a replication connection.
    Replication,
}

/// Reads the packet at the start of `bytes` and returns it with its length; none if more bytes are needed.
///
/// After [`Packet::SslRequest`] and [`Packet::GssRequest`] the client waits for one byte, so `bytes` must be all that
/// has been received: bytes after such a request are an error.
pub fn read(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, StartupError> {
    if bytes.first() == Some(&TLS_HANDSHAKE) {
        return Ok(Some((Packet::Tls, 0)));
    }
    let Some((length, after)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    let len = (length as usize).saturating_sub(4);
    if !(4..=PACKET_BYTES_MAX).contains(&len) {
        return Err(StartupError::Length(length));
    }
    let Some((body, behind)) = after.split_at_checked(len) else { return Ok(None) };
    let Some((code, body)) = body.split_first_chunk::<4>() else { return Ok(None) };
    let packet = match u32::from_be_bytes(*code) {
        SSL_REQUEST | GSSENC_REQUEST if !body.is_empty() => {
            return Err(StartupError::Length(length));
        }
        SSL_REQUEST | GSSENC_REQUEST if !behind.is_empty() => {
            return Err(StartupError::Unencrypted);
        }
        SSL_REQUEST => Packet::SslRequest,
        GSSENC_REQUEST => Packet::GssRequest,
        CANCEL_REQUEST => Packet::Cancel(CancelKey::of_request(body, length)?),
        number => Packet::Startup(Startup::read(Version::of_number(number), body)?),
    };
    Ok(Some((packet, 4 + len)))
}

impl<'a> CancelKey<'a> {
    fn of_request(body: &'a [u8], length: u32) -> Result<Self, StartupError> {
        let (process, key) = body.split_first_chunk().ok_or(StartupError::Length(length))?;
        match key.len() {
            CANCEL_KEY_BYTES_MIN..=CANCEL_KEY_BYTES_MAX => {
                Ok(Self { process: u32::from_be_bytes(*process), key })
            }
            len => Err(StartupError::CancelKey(len)),
        }
    }
}

impl fmt::Debug for CancelKey<'_> {
    /// Without the secret, which has no place in a log.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "CancelKey({}, {} bytes)", self.process, self.key.len())
    }
}

impl<'a> Startup<'a> {
    fn read(version: Version, body: &'a [u8]) -> Result<Self, StartupError> {
        if version.major != Version::V3_0.major {
            return Err(StartupError::Version(version));
        }
        let parameters = Parameters::read(body)?;
        let text = |name: &'static str| match parameters.value(name) {
            None | Some([]) => Ok(None),
            Some(value) => {
                std::str::from_utf8(value).map(Some).map_err(|_| StartupError::NotUtf8(name))
            }
        };
        if !parameters.value("replication").is_none_or(is_false) {
            return Err(StartupError::Replication);
        }
        let user = text("user")?.ok_or(StartupError::NoUser)?;
        let database = text("database")?.unwrap_or(user);
        Ok(Self { version, user, database, parameters })
    }

    /// The names of the options of the protocol that the client asks for. None is supported: if there is one, the
    /// server must list them in NegotiateProtocolVersion.
    pub fn unsupported_options(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let names = self.parameters.iter().map(|(name, _)| name);
        names.filter(|name| name.starts_with(OPTION))
    }

    /// Whether the server must answer with NegotiateProtocolVersion before anything else.
    #[must_use]
    pub fn needs_negotiation(&self) -> bool {
        self.version != self.version.agreed() || self.unsupported_options().next().is_some()
    }
}

/// Whether PostgreSQL reads `value` as the Boolean value false, of which it takes any beginning that is not ambiguous.
fn is_false(value: &[u8]) -> bool {
    let begins = |word: &str, min: usize| {
        let word = word.as_bytes().get(..value.len());
        value.len() >= min && word.is_some_and(|word| word.eq_ignore_ascii_case(value))
    };
    begins("false", 1) || begins("no", 1) || begins("off", 2) || value == b"0"
}

/// The parameters of a startup message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a>(&'a [u8]);

impl<'a> Parameters<'a> {
    /// Names and values, in the order of the message. No name is empty.
    #[must_use]
    pub const fn iter(self) -> ParametersIter<'a> {
        ParametersIter(self.0)
    }

    /// The value of a parameter: the last one if it is given twice, as in PostgreSQL.
    #[must_use]
    pub fn value(self, name: &str) -> Option<&'a [u8]> {
        let ours = self.iter().filter(|(own, _)| *own == name.as_bytes());
        ours.last().map(|(_, value)| value)
    }

    fn read(body: &'a [u8]) -> Result<Self, StartupError> {
        let pairs = body.strip_suffix(b"\0").ok_or(StartupError::Layout)?;
        let mut iter = ParametersIter(pairs);
        while iter.next().is_some() {}
        match iter.0 {
            [] => Ok(Self(pairs)),
            _ => Err(StartupError::Layout),
        }
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = ParametersIter<'a>;

    fn into_iter(self) -> ParametersIter<'a> {
        self.iter()
    }
}

/// Names and values.
#[derive(Clone, Debug)]
pub struct ParametersIter<'a>(&'a [u8]);

impl<'a> Iterator for ParametersIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = split_text(self.0).filter(|(name, _)| !name.is_empty())?;
        let (value, rest) = split_text(rest)?;
        self.0 = rest;
        Some((name, value))
    }
}

/// Adds an SSLRequest.
pub fn write_ssl_request(out: &mut Vec<u8>) {
    packet(out, SSL_REQUEST, |_| {});
}

/// Adds a GSSENCRequest.
pub fn write_gss_request(out: &mut Vec<u8>) {
    packet(out, GSSENC_REQUEST, |_| {});
}

/// Adds a CancelRequest.
pub fn write_cancel(out: &mut Vec<u8>, cancel: CancelKey<'_>) {
    packet(out, CANCEL_REQUEST, |out| {
        put_u32(out, cancel.process);
        out.extend_from_slice(cancel.key);
    });
}

/// Adds a StartupMessage. A parameter without a name is left out: it would end the list.
pub fn write_startup<'p>(
    out: &mut Vec<u8>,
    version: Version,
    parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
) {
    let is_named = |(name, _): &(&[u8], &[u8])| name.iter().any(|byte| *byte != 0);
    packet(out, version.number(), |out| {
        for (name, value) in parameters.into_iter().filter(is_named) {
            put_text(out, name);
            put_text(out, value);
        }
        out.push(0);
    });
}

fn packet(out: &mut Vec<u8>, code: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_u32(out, 0);
    put_u32(out, code);
    write(out);
    assert!(set_length(out, start).is_ok(), "a startup packet of more than 2 GiB");
}

impl StartupError {
    /// The code for the client.
    #[must_use]
    pub const fn state(self) -> SqlState {
        match self {
            Self::Length(_) | Self::Unencrypted | Self::CancelKey(_) | Self::Layout => {
                SqlState::PROTOCOL_VIOLATION
            }
            Self::Version(_) | Self::Replication => SqlState::FEATURE_NOT_SUPPORTED,
            Self::NoUser => SqlState::INVALID_AUTHORIZATION,
            Self::NotUtf8(_) => SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        }
    }
}

impl fmt::Display for StartupError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(to, "invalid length {length} of a startup packet"),
            Self::Unencrypted => {
                write!(to, "unencrypted data was received after a request for encryption")
            }
            Self::CancelKey(len) => write!(
                to,
                "the key of a cancel request has {len} bytes, not {CANCEL_KEY_BYTES_MIN} to \
                 {CANCEL_KEY_BYTES_MAX}"
            ),
            Self::Version(version) => write!(
                to,
                "unsupported protocol version {version}: this server supports {} to {}",
                Version::V3_0,
                Version::V3_2
            ),
            Self::Layout => write!(
                to,
                "invalid startup packet: its parameters are not pairs of name and value with one \
                 NUL at the end"
            ),
            Self::NoUser => write!(to, "the startup packet names no user"),
            Self::NotUtf8(name) => {
                write!(to, "the startup parameter \"{name}\" is not valid UTF-8")
            }
            Self::Replication => write!(to, "replication connections are not supported"),
        }
    }
}

impl std::error::Error for StartupError {}

#[cfg(test)]
mod tests;
