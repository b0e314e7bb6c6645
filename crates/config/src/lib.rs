//! Paceline's TOML file and the rows of the database `Paceline`, both ways.
//!
//! Owns the keys of the file, what each of them means as a column, and the transaction that makes the
//! database say what a file says. Promises that wrong text is answered with every error found, each
//! with its line and column, and changes nothing; that what [`export()`] writes reads back as the same
//! rows; and that applying a file touches only what changed in it since it was last applied, and nothing that
//! belongs to another file.
//! Pure: it is given texts and rows and answers texts and operations; it opens no file and runs no
//! transaction but in a scratch database of its own.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod apply;
mod check;
mod document;
mod doubt;
mod error;
mod export;
mod http;
mod keys;
mod list;
mod matching;
mod others;
mod parse;
mod place;
mod read;
mod rule;
mod similar;
mod syntax;
mod write;

pub use apply::{Applied, Change, ChangeOp, How, files_applied};
pub use document::{Document, Object};
pub use doubt::Warning;
pub use error::ConfigError;
pub use export::{export, export_of};
pub use others::Others;
pub use parse::parse;
pub use place::Place;

/// Longest file.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Most objects of one file, of all kinds together.
pub const OBJECTS_MAX: usize = 250_000;

/// Most keys and values of one file, counted roughly before it is read, because reading takes memory
/// for each: by its equals signs, commas and full stops.
pub const VALUES_MAX: usize = 2_000_000;

/// Deepest nesting of lists, tables and dotted keys. The parser of TOML keeps it.
pub const NESTING_MAX: usize = 80;

/// Most errors told of one file.
pub const ERRORS_MAX: usize = 100;

#[cfg(test)]
mod tests;
