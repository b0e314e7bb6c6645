//! The fields of ErrorResponse and NoticeResponse: a letter and a text each.
//!
//! An error can be long, and its code comes early, so a relay may read the fields that have arrived.

use super::super::body::{Body, message, put_text, split_text};
use super::super::kind::server_name;
use super::super::{BodyError, SqlState};

/// The fields of an error or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads the body of an ErrorResponse or a NoticeResponse, whichever `kind` says.
    pub fn read(kind: u8, bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new(server_name(kind).unwrap_or("server"), bytes);
        let fields = Self::parse(&mut body)?;
        body.end()?;
        Ok(fields)
    }

    /// The fields that are complete in `bytes`, the start of a body of which some bytes may not have arrived. Nothing
    /// is checked.
    #[must_use]
    pub const fn arrived(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The fields, in order.
    #[must_use]
    pub const fn iter(self) -> FieldsIter<'a> {
        FieldsIter(self.0)
    }

    /// The text of the first field with this letter.
    #[must_use]
    pub fn field(self, code: u8) -> Option<&'a [u8]> {
        self.iter().find(|(own, _)| *own == code).map(|(_, text)| text)
    }

    /// The code of the error; none if it is missing or invalid.
    #[must_use]
    pub fn state(self) -> Option<SqlState> {
        self.field(b'C').and_then(SqlState::read)
    }

    pub(super) fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let bytes = body.rest();
        loop {
            let len = bytes.len() - body.rest().len();
            if body.u8()? == 0 {
                return Ok(Self(bytes.get(..len).unwrap_or_default()));
            }
            body.text()?;
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>, kind: u8) {
        message(out, kind, |out| {
            for (code, text) in self {
                out.push(code);
                put_text(out, text);
            }
            out.push(0);
        });
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (u8, &'a [u8]);
    type IntoIter = FieldsIter<'a>;

    fn into_iter(self) -> FieldsIter<'a> {
        self.iter()
    }
}

/// Letters and texts.
#[derive(Clone, Debug)]
pub struct FieldsIter<'a>(&'a [u8]);

impl<'a> Iterator for FieldsIter<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, rest) = self.0.split_first().filter(|(code, _)| **code != 0)?;
        let (text, rest) = split_text(rest)?;
        self.0 = rest;
        Some((*code, text))
    }
}
