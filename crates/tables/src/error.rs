//! The one error that the database answers with, in the form that OVSDB puts on the wire.
//!
//! An error has a tag (the `error` member, from the fixed list of RFC 7047 and its extensions),
//! details for a person, and for syntax errors the offending text. Whoever hosts the database and
//! refuses rows for what they mean adds where; that is for doors of its own and not on OVSDB's wire.

use crate::json::{Json, ParseError, write_string};
use paceline_types::limits::SYNTAX_BYTES_MAX;
use std::fmt;

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The `error` member: what clients match on.
    pub tag: &'static str,
    /// The `details` member: what a person reads.
    pub details: String,
    /// The `syntax` member: the text that could not be understood.
    pub syntax: Option<String>,
    /// Where rows mean what cannot work, if that is what is wrong.
    pub violation: Option<Box<Violation>>,
}

/// Where rows mean what cannot work, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The table.
    pub table: String,
    /// The row's name or number, if it is one row.
    pub row: Option<String>,
    /// The column, if it is one.
    pub column: Option<String>,
    /// What is wrong there.
    pub message: String,
}

/// Tags of errors, as clients know them.
pub mod tag {
    /// A request that does not have the form the protocol demands.
    pub const SYNTAX: &str = "syntax error";
    /// A value, a row count or an index against what the schema demands.
    pub const CONSTRAINT: &str = "constraint violation";
    /// A strong reference without its row.
    pub const REFERENCE: &str = "referential integrity violation";
    /// Memory, disk or a configured bound is used up.
    pub const RESOURCES: &str = "resources exhausted";
    /// What a `wait` waits for did not come in time.
    pub const TIMED_OUT: &str = "timed out";
    /// Writing failed.
    pub const IO: &str = "I/O error";
    /// What the caller asked for is not allowed now.
    pub const NOT_ALLOWED: &str = "not allowed";
    /// What the caller asked for is not allowed to this caller.
    pub const PERMISSION: &str = "permission error";
}

impl Error {
    /// An error with a tag and details.
    pub fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Self { tag, details: details.into(), syntax: None, violation: None }
    }

    /// A constraint violation at a place; `details` tells the whole of it.
    pub fn violation(violation: Violation, details: impl Into<String>) -> Self {
        let violation = Some(Box::new(violation));
        Self { violation, ..Self::new(tag::CONSTRAINT, details) }
    }

    /// A syntax error that quotes the offending `json`.
    pub fn syntax(json: &Json, details: impl Into<String>) -> Self {
        Self::quoting(tag::SYNTAX, json, details)
    }

    /// An error with a tag of its own that quotes the offending `json`.
    pub fn quoting(tag: &'static str, json: &Json, details: impl Into<String>) -> Self {
        Self { syntax: Some(quote(json)), ..Self::new(tag, details) }
    }

    /// Appends the JSON form of this error.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"details\":");
        write_string(self.details.as_bytes(), out);
        out.extend_from_slice(b",\"error\":");
        write_string(self.tag.as_bytes(), out);
        if let Some(syntax) = &self.syntax {
            out.extend_from_slice(b",\"syntax\":");
            write_string(syntax.as_bytes(), out);
        }
        out.push(b'}');
    }
}

/// The text of `json`, cut where it would only fill the client's screen and our memory.
fn quote(json: &Json) -> String {
    let mut text = json.to_text();
    if text.len() > SYNTAX_BYTES_MAX {
        let mut end = SYNTAX_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(syntax) = &self.syntax {
            write!(f, "syntax \"{syntax}\": ")?;
        }
        write!(f, "{}: {}", self.tag, self.details)
    }
}

impl std::error::Error for Error {}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Self::new(tag::SYNTAX, error.to_string())
    }
}
