//! Conversion between Paceline's TOML file and the rows of the database `Paceline`.
//!
//! Owns the keys of the file, the column of each key, and the transaction that makes the database agree with a file.
//! Promises that an invalid text is answered with every error found, each with its line and column, and changes
//! nothing; that the output of [`export()`] parses as the same rows; and that applying a file touches only what
//! changed in it since it was last applied, and nothing that belongs to another file. Pure: its input is texts and
//! rows, its output texts and operations. It opens no file and runs transactions only in a scratch database of its
//! own.
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
mod pattern;
mod place;
mod read;
mod rule;
mod similar;
mod syntax;
mod write;

pub use apply::{
    Applied, Change, ChangeOp, How, RulesetEdit, RulesetImport, export_rules, files_applied,
    import_rules, revert, revert_each, save_rules,
};
pub use document::{Document, Object};
pub use doubt::Warning;
pub use error::ConfigError;
pub use export::{export, export_of};
pub use others::Others;
pub use parse::parse;
pub use pattern::{Pattern, parse_patterns, show_pattern};
pub use place::Place;

/// The longest file.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// The most objects of one file, of all kinds together.
pub const OBJECTS_MAX: usize = 250_000;

/// The most keys and values of one file, estimated before parsing, because parsing takes memory for each: by its
/// equals signs, commas and full stops.
pub const VALUES_MAX: usize = 2_000_000;

/// The deepest nesting of lists, tables and dotted keys. The TOML parser enforces it.
pub const NESTING_MAX: usize = 80;

/// The most errors reported for one file.
pub const ERRORS_MAX: usize = 100;

#[cfg(test)]
mod tests;
