//! Errors in a text that is not TOML, with the parser's messages.
//!
//! Owns one addition: for a duplicate key, the line of the first one.

use crate::error::ConfigError;
use crate::place::Lines;
use toml_edit::{Document, Item, Key, Table, TableLike, TomlError};

/// The parser's message for a duplicate key.
const DUPLICATE: &str = "duplicate key";

/// The error of the parser.
pub(crate) fn error(text: &str, error: &TomlError) -> ConfigError {
    let lines = Lines::new(text);
    let span = error.span().unwrap_or_default();
    let mut message = format!("this is not TOML: {}", error.message());
    let first = if error.message() == DUPLICATE { first_of(text, span.clone()) } else { None };
    if let Some(first) = first {
        message.push_str(&format!(", the first is on line {}", lines.place(first).line));
    }
    ConfigError::new(lines.place(span.start), message)
}

/// The place of the first key equal to the one in `span`: the lines before are TOML, and the key is in their last
/// table. `None` if it is within a line.
fn first_of(text: &str, span: std::ops::Range<usize>) -> Option<usize> {
    let name = Key::parse(text.get(span.clone())?).ok()?;
    let [name] = name.as_slice() else { return None };
    let start = text.get(..span.start)?.rfind('\n')? + 1;
    let before = Document::parse(text.get(..start)?).ok()?;
    let open = last(before.as_table());
    open.key(name.get())?.span().map(|span| span.start)
}

/// The table with the last header: `table` itself if it contains none.
fn last(table: &Table) -> &Table {
    let below = table.iter().filter_map(|(_, item)| match item {
        Item::Table(table) => Some(last(table)),
        Item::ArrayOfTables(tables) => tables.iter().last().map(last),
        Item::None | Item::Value(_) => None,
    });
    let start = |table: &&Table| table.span().map(|span| span.start);
    below.filter(|table| !TableLike::is_dotted(*table)).max_by_key(start).map_or(table, |below| {
        if table.span().is_some() && start(&below) < start(&table) { table } else { below }
    })
}
