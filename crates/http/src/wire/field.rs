//! The fields of a head: their positions in the buffer, and which of them matter to the proxy.

use super::byte::{is_token, is_value_text, trimmed};
use crate::limits::{FIELDS_MAX, OPTIONS_MAX};

/// A piece of the buffer that a head was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub start: u32,
    pub len: u32,
}

impl Piece {
    /// The position of `part`, a slice of `whole`.
    pub fn of(whole: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        debug_assert!(start + part.len() <= whole.len(), "a part lies within the whole");
        Self { start: start as u32, len: part.len() as u32 }
    }

    /// Its bytes.
    pub fn of_bytes(self, whole: &[u8]) -> &[u8] {
        whole.get(self.start as usize..(self.start + self.len) as usize).unwrap_or_default()
    }
}

/// A field that matters to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Any other field.
    Other,
    Authorization,
    Connection,
    ContentLength,
    Cookie,
    Expect,
    Forwarded,
    Host,
    /// `Keep-Alive`, `Proxy-Connection`, `Proxy-Authenticate`, `Proxy-Authorization`, `HTTP2-Settings`, and every
    /// field that `Connection` names. They are hop-by-hop and not forwarded (H3).
    Hop,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
}

impl Header {
    /// The field of this name, whatever its case.
    pub fn named(name: &[u8]) -> Self {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // The length alone rules out most fields.
        match name.len() {
            2 if is("te") => Self::Te,
            4 if is("host") => Self::Host,
            6 if is("cookie") => Self::Cookie,
            6 if is("expect") => Self::Expect,
            7 if is("trailer") => Self::Trailer,
            7 if is("upgrade") => Self::Upgrade,
            9 if is("forwarded") => Self::Forwarded,
            10 if is("connection") => Self::Connection,
            10 if is("keep-alive") => Self::Hop,
            13 if is("authorization") => Self::Authorization,
            14 if is("content-length") => Self::ContentLength,
            14 if is("http2-settings") => Self::Hop,
            15 if is("x-forwarded-for") => Self::XForwardedFor,
            16 if is("x-forwarded-host") => Self::XForwardedHost,
            16 if is("proxy-connection") => Self::Hop,
            17 if is("transfer-encoding") => Self::TransferEncoding,
            17 if is("x-forwarded-proto") => Self::XForwardedProto,
            18 if is("proxy-authenticate") => Self::Hop,
            19 if is("proxy-authorization") => Self::Hop,
            _ => Self::Other,
        }
    }
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub header: Header,
    pub name: Piece,
    pub value: Piece,
}

/// The fields of one head, in order. Reused from one head to the next to keep its memory.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<Field>);

/// Why lines are not valid fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldError {
    /// There are more than [`FIELDS_MAX`].
    TooMany,
    /// A name is empty or has a character that is not allowed, such as a space before the colon.
    Name,
    /// A value has a control character.
    Value,
    /// A line begins with a space, as in obsolete line folding.
    Folded,
    /// A line ends with a bare line feed, or has a bare carriage return in it.
    LineEnd,
}

impl FieldError {
    /// The message for the client.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooMany => "too many header fields",
            Self::Name => "a header field's name has a character that is not allowed",
            Self::Value => "a header field's value has a control character",
            Self::Folded => "a header field is continued on the next line",
            Self::LineEnd => "a line of the head does not end with CR LF",
        }
    }
}

impl Fields {
    /// Bytes of memory that it uses.
    pub const fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Field>()
    }

    /// Parses the lines of `block` (each with its line end) as fields, and replaces the previous ones. Positions are
    /// relative to `whole`, which contains `block`.
    pub fn read(&mut self, whole: &[u8], block: &[u8]) -> Result<(), FieldError> {
        self.0.clear();
        let mut rest = block;
        while !rest.is_empty() {
            let (line, after) = take_line(rest).ok_or(FieldError::LineEnd)?;
            rest = after;
            if self.0.len() >= FIELDS_MAX {
                return Err(FieldError::TooMany);
            }
            let (name, value) = split(line)?;
            self.0.push(Field {
                header: Header::named(name),
                name: Piece::of(whole, name),
                value: Piece::of(whole, value),
            });
        }
        Ok(())
    }

    /// Marks each field that `Connection` names as [`Header::Hop`], except for the headers in `kept`. Before the
    /// call, `Connection` must be known to have at most [`OPTIONS_MAX`] options.
    ///
    /// The options are split once, whatever the number of fields, and names are compared by letters only if their
    /// digests match. So many long names that are nearly equal cost no more than others.
    pub fn set_hops(&mut self, whole: &[u8], kept: &[Header]) {
        let mut room: [(u64, &[u8]); OPTIONS_MAX] = [(0, b""); OPTIONS_MAX];
        let connections = self.0.iter().filter(|field| field.header == Header::Connection);
        let options = connections.flat_map(|field| options(field.value.of_bytes(whole)));
        let mut count = 0;
        for (place, option) in room.iter_mut().zip(options) {
            *place = (digest(option), option);
            count += 1;
        }
        let named = room.get(..count).unwrap_or_default();
        for field in self.0.iter_mut().filter(|field| !kept.contains(&field.header)) {
            let name = field.name.of_bytes(whole);
            let own = digest(name);
            let is = |(digest, option): &(u64, &[u8])| {
                *digest == own && option.eq_ignore_ascii_case(name)
            };
            if named.iter().any(is) {
                field.header = Header::Hop;
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.0.iter()
    }

    /// The values of a field, in order.
    pub fn all<'a>(&'a self, header: Header, whole: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let ours = self.0.iter().filter(move |field| field.header == header);
        ours.map(move |field| field.value.of_bytes(whole))
    }
}

/// The options in a value of `Connection`.
pub(super) fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let value = rest?;
        let comma = memchr::memchr(b',', value);
        rest = comma.map(|comma| &value[comma + 1..]);
        Some(trimmed(&value[..comma.unwrap_or(value.len())]))
    })
}

/// A hash that is equal for names that differ only in case, and rarely for others (FNV-1a, by words).
fn digest(name: &[u8]) -> u64 {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    let add = |sum: u64, word: u64| (sum ^ (word | LOWER)).wrapping_mul(0x0100_0000_01b3);
    let (words, rest) = name.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(name.len() as u64, add)
}

/// The first value of the field with this name, in lower case.
pub(crate) fn header_value<'a>(
    head: &super::request::RequestHead,
    bytes: &'a [u8],
    name: &str,
) -> Option<&'a [u8]> {
    let is_ours = |field: &&Field| {
        field.name.len as usize == name.len()
            && field.name.of_bytes(bytes).eq_ignore_ascii_case(name.as_bytes())
    };
    head.fields.iter().find(is_ours).map(|field| field.value.of_bytes(bytes))
}

/// The first line of `bytes` without its CR LF, and the rest. None without a line feed, or if the line contains a
/// bare carriage return or ends with a bare line feed.
pub(crate) fn take_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = bytes[..end].strip_suffix(b"\r")?;
    Some((line, &bytes[end + 1..]))
}

/// Splits a line into name and value.
fn split(line: &[u8]) -> Result<(&[u8], &[u8]), FieldError> {
    if let [b' ' | b'\t', ..] = line {
        return Err(FieldError::Folded);
    }
    let colon = line.iter().position(|byte| !is_token(*byte)).ok_or(FieldError::Name)?;
    if colon == 0 || line[colon] != b':' {
        return Err(FieldError::Name);
    }
    let value = trimmed(&line[colon + 1..]);
    if !is_value_text(value) {
        let is_return = value.contains(&b'\r');
        return Err(if is_return { FieldError::LineEnd } else { FieldError::Value });
    }
    Ok((&line[..colon], value))
}
