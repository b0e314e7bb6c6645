//! What can be known of SQL statements from their text alone.
//!
//! Owns one lexer ([`Lexer`]), and what is built on it: the statements of a text ([`split()`]), what a statement is and
//! does to its session ([`classify()`]), the tags in its comments ([`Tags`]), and Comdb2's normalised form and
//! fingerprint ([`fingerprint()`]). Promises linear time, no recursion and no panic for any text. Everything takes a
//! [`Dialect`], because the same bytes are different tokens for PostgreSQL and for SQLite.
//!
//! Never parses an expression and never asks a server. A text is UTF-8: a client that sends another encoding must be
//! refused before its bytes come here, because in some encodings a quote is the second half of a letter.

mod class;
mod cursor;
mod fingerprint;
mod split;
mod tags;
mod token;

pub use class::{
    Action, Begin, Class, Command, Discard, Isolation, Scope, Setting, Transfer, Value, classify,
};
pub use cursor::IDENTIFIER_BYTES_MAX;
pub use fingerprint::{Fingerprint, fingerprint, normalize};
pub use split::{Statements, split};
pub use tags::{TAG_BYTES_MAX, TAGS_MAX, Tag, Tags};
pub use token::{Dialect, Kind, Lexer, Token};

#[cfg(test)]
mod tests;
