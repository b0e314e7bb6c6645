//! The columns of a result and its rows, written piece by piece into the caller's buffer.
//!
//! Promises that a row is added whole or not at all: a builder that is dropped before it is finished, or whose row is
//! too long for the protocol, leaves the buffer as it was.

use super::super::body::{Body, put_i32, put_text, put_u16, put_u32, put_value, set_length};
use super::super::frame::HEAD_BYTES;
use super::super::kind::server;
use super::super::{BodyError, Format, TooLong};

/// A column of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The identifier of the table it comes from, or 0.
    pub table: u32,
    /// Its number in that table, or 0.
    pub number: i16,
    /// The identifier of its type.
    pub type_oid: u32,
    /// The size of the type in bytes; negative if it varies.
    pub type_size: i16,
    /// The modifier of the type, such as a length; -1 for none.
    pub type_modifier: i32,
    /// The format of its values. A Describe of a statement gives text for all columns.
    pub format: Format,
}

impl<'a> Column<'a> {
    fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        Ok(Self {
            name: body.text()?,
            table: body.u32()?,
            number: body.u16()?.cast_signed(),
            type_oid: body.u32()?,
            type_size: body.u16()?.cast_signed(),
            type_modifier: body.i32()?,
            format: Format::read(body)?,
        })
    }
}

/// The columns of a result that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Columns<'a> {
    /// The number of columns.
    #[must_use]
    pub const fn len(self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The columns, in order.
    #[must_use]
    pub const fn iter(self) -> ColumnsIter<'a> {
        ColumnsIter(Body::new("", self.bytes))
    }

    pub(super) fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let count = body.u16()?;
        let bytes = body.rest();
        for _ in 0..count {
            Column::parse(body)?;
        }
        let len = bytes.len() - body.rest().len();
        Ok(Self { count, bytes: bytes.get(..len).unwrap_or_default() })
    }
}

impl<'a> IntoIterator for Columns<'a> {
    type Item = Column<'a>;
    type IntoIter = ColumnsIter<'a>;

    fn into_iter(self) -> ColumnsIter<'a> {
        self.iter()
    }
}

/// The columns of a result.
#[derive(Clone, Debug)]
pub struct ColumnsIter<'a>(Body<'a>);

impl<'a> Iterator for ColumnsIter<'a> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        // The list was read before, so the only error is that of its end.
        Column::parse(&mut self.0).ok()
    }
}

/// A message with a counted list that is being added to a buffer.
#[derive(Debug)]
struct Counted<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: usize,
    is_finished: bool,
}

impl<'o> Counted<'o> {
    fn begin(out: &'o mut Vec<u8>, kind: u8) -> Self {
        let start = out.len();
        out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0]);
        Self { out, start, count: 0, is_finished: false }
    }

    fn finish(mut self) -> Result<(), TooLong> {
        let count = u16::try_from(self.count).map_err(|_| TooLong)?;
        set_length(self.out, self.start + 1)?;
        let at = self.start + HEAD_BYTES;
        self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.out.truncate(self.start);
        }
    }
}

/// Writes a RowDescription, column by column.
#[derive(Debug)]
#[must_use = "it is added by `finish`"]
pub struct RowDescription<'o>(Counted<'o>);

impl<'o> RowDescription<'o> {
    /// Begins the message at the end of `out`.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        Self(Counted::begin(out, server::ROW_DESCRIPTION))
    }

    /// Adds a column.
    pub fn column(&mut self, column: Column<'_>) {
        self.0.count += 1;
        let out = &mut *self.0.out;
        put_text(out, column.name);
        put_u32(out, column.table);
        put_u16(out, column.number.cast_unsigned());
        put_u32(out, column.type_oid);
        put_u16(out, column.type_size.cast_unsigned());
        put_i32(out, column.type_modifier);
        put_u16(out, column.format.code());
    }

    /// Ends the message.
    pub fn finish(self) -> Result<(), TooLong> {
        self.0.finish()
    }
}

/// Writes a DataRow, value by value.
#[derive(Debug)]
#[must_use = "it is added by `finish`"]
pub struct DataRow<'o>(Counted<'o>);

impl<'o> DataRow<'o> {
    /// Begins the message at the end of `out`.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        Self(Counted::begin(out, server::DATA_ROW))
    }

    /// Adds a value; none for NULL.
    pub fn value(&mut self, value: Option<&[u8]>) {
        self.0.count += 1;
        put_value(self.0.out, value);
    }

    /// Adds the value that `write` adds to the buffer, without a copy in between. `write` must not remove bytes.
    pub fn value_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.count += 1;
        let at = self.0.out.len();
        put_i32(self.0.out, 0);
        write(self.0.out);
        let len = self.0.out.len().checked_sub(at + 4);
        assert!(len.is_some(), "the writer of a value removed bytes");
        // A longer value makes the row too long, which is found at its end.
        let len = len.and_then(|len| i32::try_from(len).ok()).unwrap_or(i32::MAX);
        self.0.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// How many bytes the row has so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.out.len() - self.0.start
    }

    /// Whether it has no values so far.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Ends the message.
    pub fn finish(self) -> Result<(), TooLong> {
        self.0.finish()
    }
}
