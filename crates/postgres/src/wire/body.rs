//! The parts that bodies are made of: numbers in network order, texts that end with NUL, and counted bytes.
//!
//! Promises that a reader never passes the end of its body (D4), and that what a writer adds is one message: a NUL in a
//! text is left out, because the rest of the text would be read as the next field.

use super::SqlState;
use super::frame::SERVER_LENGTH_MAX;
use std::fmt;

/// Why the body of a message is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// The protocol's name of the message.
    pub message: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// The position in the body.
    pub at: usize,
}

impl BodyError {
    /// The code for the client.
    #[must_use]
    pub const fn state(self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, what, at } = self;
        write!(to, "invalid {message} message: {what}, at byte {at} of the body")
    }
}

impl std::error::Error for BodyError {}

/// A message or a list would be longer than its length field can say. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a message would be longer than {SERVER_LENGTH_MAX} bytes or 65535 fields")
    }
}

impl std::error::Error for TooLong {}

/// Reads a body from its start to its end.
#[derive(Clone, Debug)]
pub(super) struct Body<'a> {
    message: &'static str,
    rest: &'a [u8],
    len: usize,
}

impl<'a> Body<'a> {
    pub const fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Self { message, rest: bytes, len: bytes.len() }
    }

    pub fn u8(&mut self) -> Result<u8, BodyError> {
        self.array().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, BodyError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, BodyError> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, BodyError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A text, without the NUL at its end.
    pub fn text(&mut self) -> Result<&'a [u8], BodyError> {
        let (text, rest) =
            split_text(self.rest).ok_or_else(|| self.error("a text has no NUL at its end"))?;
        self.rest = rest;
        Ok(text)
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], BodyError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.cut_off())?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A value that follows its length; none for NULL, whose length is -1.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, BodyError> {
        match self.i32()? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.take(len).map(Some),
                Err(_) => Err(self.error("the length of a value is negative")),
            },
        }
    }

    /// Everything that is left.
    pub fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// What is left, without reading it.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Makes sure that nothing is left.
    pub fn end(&self) -> Result<(), BodyError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(self.error("bytes are left over after the last field")),
        }
    }

    #[cold]
    pub const fn error(&self, what: &'static str) -> BodyError {
        BodyError { message: self.message, what, at: self.len - self.rest.len() }
    }

    #[cold]
    fn cut_off(&self) -> BodyError {
        self.error("the message ends within a field")
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BodyError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| self.cut_off())?;
        self.rest = rest;
        Ok(*array)
    }
}

/// The text at the start of `bytes`, and what follows its NUL.
#[inline]
pub(super) fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // Most names are empty, and a search costs more than one comparison.
    if let [0, rest @ ..] = bytes {
        return Some((&[], rest));
    }
    let end = memchr::memchr(0, bytes)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Adds a message whose body `write` adds. The caller knows that it is short: it is made of texts and lists that
/// came in messages, or of our own.
pub(super) fn message(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    write(out);
    assert!(set_length(out, start + 1).is_ok(), "a message of more than {SERVER_LENGTH_MAX} bytes");
}

/// Adds a message without a body.
pub(super) fn empty(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&[kind, 0, 0, 0, 4]);
}

/// Sets the length field at `at`, which counts itself and everything after it.
pub(super) fn set_length(out: &mut [u8], at: usize) -> Result<(), TooLong> {
    let length = u32::try_from(out.len() - at).map_err(|_| TooLong)?;
    if length > SERVER_LENGTH_MAX {
        return Err(TooLong);
    }
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

pub(super) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn put_i32(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Adds a text and its NUL.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match memchr::memchr(0, text) {
        None => out.extend_from_slice(text),
        Some(_) => out.extend(text.iter().filter(|byte| **byte != 0)),
    }
    out.push(0);
}

/// Adds a value after its length.
pub(super) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(value) = value else { return put_i32(out, -1) };
    // A longer value makes the message too long, which is found at its end.
    put_i32(out, i32::try_from(value.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(value);
}

/// Adds a list after the number of its elements.
pub(super) fn put_list<T>(
    out: &mut Vec<u8>,
    list: impl IntoIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    let at = out.len();
    put_u16(out, 0);
    let mut count = 0_usize;
    for element in list {
        put(out, element);
        count += 1;
    }
    let count = u16::try_from(count);
    assert!(count.is_ok(), "a list of more than 65535 elements");
    out[at..at + 2].copy_from_slice(&count.unwrap_or(u16::MAX).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{BodyError, SERVER_LENGTH_MAX, message, put_list, put_text, set_length};

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        let error = BodyError { message: "Bind", what: "a text has no NUL at its end", at: 7 };
        assert_eq!(
            error.to_string(),
            "invalid Bind message: a text has no NUL at its end, at byte 7 of the body"
        );
        assert_eq!(error.state().as_str(), "08P01");
    }

    #[test]
    fn a_text_with_nul_stays_one_text() {
        let mut out = vec![];
        put_text(&mut out, b"a\0b\0");
        put_text(&mut out, b"c");
        assert_eq!(out, b"ab\0c\0");
    }

    #[test]
    fn a_message_counts_itself_and_its_body() {
        let mut out = b"before".to_vec();
        message(&mut out, b'x', |out| put_list(out, [1, 2], |out, byte| out.push(byte)));
        assert_eq!(out, b"beforex\0\0\0\x08\0\x02\x01\x02");
    }

    #[test]
    fn a_length_of_more_than_the_maximum_is_refused() {
        // Zeroed memory of this size is never touched, so it costs no real memory.
        let mut out = vec![0; SERVER_LENGTH_MAX as usize + 2];
        assert!(set_length(&mut out[..=SERVER_LENGTH_MAX as usize], 1).is_ok());
        assert!(set_length(&mut out, 1).is_err());
    }

    #[test]
    #[should_panic(expected = "a list of more than 65535 elements")]
    fn a_list_of_65_536_elements_is_a_bug() {
        put_list(&mut vec![], 0..65_536, |_, _| {});
    }
}
