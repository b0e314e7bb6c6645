//! Lists inside messages: formats, values and type identifiers, borrowed from the body.
//!
//! A list is checked once when its message is read. After that it is read without errors and without memory.

use super::BodyError;
use super::body::{Body, put_list, put_u16, put_u32, put_value};

/// How a value is represented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// In the binary form of its type.
    Binary,
}

impl Format {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// The format with this number.
    #[must_use]
    pub const fn of_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }

    pub(super) fn read(body: &mut Body<'_>) -> Result<Self, BodyError> {
        let before = body.clone();
        Self::of_code(body.u16()?).ok_or_else(|| before.error(NO_FORMAT))
    }
}

pub(super) const NO_FORMAT: &str = "a format is neither 0 (text) nor 1 (binary)";

/// A list of formats: none for text everywhere, one for all values, or one for each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Formats<'a>(&'a [[u8; 2]]);

impl<'a> Formats<'a> {
    /// The number of formats in the list.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The format of value number `at`.
    #[must_use]
    pub fn format(self, at: usize) -> Format {
        let code = match self.0 {
            [one] => Some(one),
            list => list.get(at),
        };
        code.map_or(Format::Text, |code| format(*code))
    }

    /// The formats of the list.
    #[must_use]
    pub fn iter(self) -> FormatsIter<'a> {
        FormatsIter(self.0.iter())
    }

    pub(super) fn read(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let count = body.u16()?;
        let (codes, _) = body.take(usize::from(count) * 2)?.as_chunks();
        match codes.iter().all(|code| Format::of_code(u16::from_be_bytes(*code)).is_some()) {
            true => Ok(Self(codes)),
            false => Err(body.error(NO_FORMAT)),
        }
    }
}

fn format(code: [u8; 2]) -> Format {
    Format::of_code(u16::from_be_bytes(code)).unwrap_or_default()
}

/// The formats of a list.
#[derive(Clone, Debug)]
pub struct FormatsIter<'a>(std::slice::Iter<'a, [u8; 2]>);

impl Iterator for FormatsIter<'_> {
    type Item = Format;

    fn next(&mut self) -> Option<Format> {
        self.0.next().map(|code| format(*code))
    }
}

impl<'a> IntoIterator for Formats<'a> {
    type Item = Format;
    type IntoIter = FormatsIter<'a>;

    fn into_iter(self) -> FormatsIter<'a> {
        self.iter()
    }
}

/// A list of the identifiers of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oids<'a>(&'a [[u8; 4]]);

impl<'a> Oids<'a> {
    /// The number of identifiers.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The identifiers, in order.
    #[must_use]
    pub fn iter(self) -> OidsIter<'a> {
        OidsIter(self.0.iter())
    }

    pub(super) fn read(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let count = body.u16()?;
        Ok(Self(body.take(usize::from(count) * 4)?.as_chunks().0))
    }
}

/// The identifiers of a list.
#[derive(Clone, Debug)]
pub struct OidsIter<'a>(std::slice::Iter<'a, [u8; 4]>);

impl Iterator for OidsIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.next().map(|oid| u32::from_be_bytes(*oid))
    }
}

impl<'a> IntoIterator for Oids<'a> {
    type Item = u32;
    type IntoIter = OidsIter<'a>;

    fn into_iter(self) -> OidsIter<'a> {
        self.iter()
    }
}

/// A list of values; none stands for NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// The number of values.
    #[must_use]
    pub const fn len(self) -> usize {
        self.count as usize
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The values, in order.
    #[must_use]
    pub const fn iter(self) -> ValuesIter<'a> {
        ValuesIter(Body::new("", self.bytes))
    }

    pub(super) fn read(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let count = body.u16()?;
        let bytes = body.rest();
        for _ in 0..count {
            body.value()?;
        }
        let len = bytes.len() - body.rest().len();
        Ok(Self { count, bytes: bytes.get(..len).unwrap_or_default() })
    }
}

/// The values of a list.
#[derive(Clone, Debug)]
pub struct ValuesIter<'a>(Body<'a>);

impl<'a> Iterator for ValuesIter<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        // The list was read before, so the only error is that of its end.
        self.0.value().ok()
    }
}

impl<'a> IntoIterator for Values<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = ValuesIter<'a>;

    fn into_iter(self) -> ValuesIter<'a> {
        self.iter()
    }
}

pub(super) fn put_formats(out: &mut Vec<u8>, formats: impl IntoIterator<Item = Format>) {
    put_list(out, formats, |out, format| put_u16(out, format.code()));
}

pub(super) fn put_oids(out: &mut Vec<u8>, oids: impl IntoIterator<Item = u32>) {
    put_list(out, oids, put_u32);
}

pub(super) fn put_values<'v>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = Option<&'v [u8]>>,
) {
    put_list(out, values, put_value);
}
