//! The one error type of the database, in the form of the OVSDB wire protocol.
//!
//! An error has a tag (the `error` member, from the fixed list of RFC 7047 and its extensions), details for a
//! person, and for syntax errors the offending text. A host that refuses rows for their meaning adds the place.
//! That is for its other doors and not sent over OVSDB.

use crate::json::{Json, ParseError, write_array_up_to, write_string};
use paceline_types::limits::SYNTAX_BYTES_MAX;
use std::fmt;

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The `error` member, which clients match on.
    pub tag: &'static str,
    /// The `details` member, for a person to read.
    pub details: String,
    /// The `syntax` member: the text that could not be parsed.
    pub syntax: Option<String>,
    /// The place of the error, if rows are invalid because of their meaning.
    pub violation: Option<Box<Violation>>,
}

/// The place of rows that are invalid because of their meaning, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The table.
    pub table: String,
    /// The row's name or number, if the error concerns one row.
    pub row: Option<String>,
    /// The column, if the error concerns one.
    pub column: Option<String>,
    /// What is wrong there.
    pub message: String,
}

/// Tags of errors, as clients receive them.
pub mod tag {
    /// A request that does not have the form that the protocol requires.
    pub const SYNTAX: &str = "syntax error";
    /// A value, a row count or an index that violates the schema.
    pub const CONSTRAINT: &str = "constraint violation";
    /// A strong reference to a row that does not exist.
    pub const REFERENCE: &str = "referential integrity violation";
    /// Memory, disk or a configured bound is used up.
    pub const RESOURCES: &str = "resources exhausted";
    /// The condition of a `wait` did not hold in time.
    pub const TIMED_OUT: &str = "timed out";
    /// Writing failed.
    pub const IO: &str = "I/O error";
    /// The request is not allowed now.
    pub const NOT_ALLOWED: &str = "not allowed";
    /// The request is not allowed to this caller.
    pub const PERMISSION: &str = "permission error";
}

impl Error {
    /// An error with a tag and details.
    pub fn new(tag: &'static str, details: impl Into<String>) -> Self {
        Self { tag, details: details.into(), syntax: None, violation: None }
    }

    /// A constraint violation at a place; `details` is the complete message.
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
        let syntax = quote(|most, out| json.write_up_to(most, out));
        Self { syntax: Some(syntax), ..Self::new(tag, details) }
    }

    /// The same, which quotes an array of these elements.
    pub fn quoting_array<'a>(
        tag: &'static str,
        elements: impl IntoIterator<Item = &'a Json>,
        details: impl Into<String>,
    ) -> Self {
        let syntax = quote(|most, out| write_array_up_to(elements, most, out));
        Self { syntax: Some(syntax), ..Self::new(tag, details) }
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

/// The text that `write` appends, cut where it would only fill the client's screen and our memory. Little more than that
/// is written: a message has megabytes, and others may wait for the database.
fn quote(write: impl FnOnce(usize, &mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    write(SYNTAX_BYTES_MAX, &mut text);
    let mut text = String::from_utf8(text).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    /// D4: what is quoted is the beginning of the text, and little more than that is written.
    #[test]
    fn little_more_is_written_than_is_quoted_d4() {
        let long = "\u{e9}x".repeat(SYNTAX_BYTES_MAX);
        let texts = [
            "[1,{\"a\":\"b\"},null]".to_owned(),
            format!("[{}1]", "[1,{\"a\":2}],".repeat(100_000)),
            "{\"a\":{\"b\":[1,2],\"z\":1}}".to_owned(),
            format!("[\"{long}\",\"{long}\"]"),
            format!("\"{long}\""),
        ];
        for text in texts {
            let json = parse(text.as_bytes(), 100).unwrap();
            let whole = json.to_text();
            let mut end = SYNTAX_BYTES_MAX.min(whole.len());
            while !whole.is_char_boundary(end) {
                end -= 1;
            }
            let cut = if whole.len() > SYNTAX_BYTES_MAX { "..." } else { "" };
            let expected = format!("{}{cut}", &whole[..end]);
            assert_eq!(Error::syntax(&json, "").syntax, Some(expected.clone()));
            if let Json::Array(elements) = &json {
                let quoted = Error::quoting_array(tag::SYNTAX, elements, "").syntax;
                assert_eq!(quoted, Some(expected));
            }
            let mut written = Vec::new();
            json.write_up_to(SYNTAX_BYTES_MAX, &mut written);
            assert!(written.len() < 3 * SYNTAX_BYTES_MAX, "{} bytes", written.len());
        }
    }
}
