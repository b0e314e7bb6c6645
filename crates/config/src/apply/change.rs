//! What applying a file changes, for people: the answer of a dry run.

use paceline_tables::json::Json;
use paceline_tables::value::{Atom, Datum};

/// A transaction, and what it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The operations of one OVSDB transaction.
    pub operations: Vec<Json>,
    /// What they change.
    pub changes: Vec<Change>,
}

/// One row that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happens to it.
    pub op: ChangeOp,
    /// The table.
    pub table: &'static str,
    /// Its name or number.
    pub row: String,
    /// The columns that differ: name, old value and new value as texts; `""` where there is none.
    pub columns: Vec<(String, String, String)>,
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOp {
    /// It is new.
    Insert,
    /// Some columns change.
    Update,
    /// It goes.
    Delete,
}

/// A value as people read it.
pub(super) fn text(value: &Datum) -> String {
    let atom = |atom: &Atom| match atom.as_str() {
        Some(text) => text.to_owned(),
        None => atom.to_text(),
    };
    let each: Vec<String> = value.atoms().iter().map(atom).collect();
    each.join(", ")
}

/// Names as people read them, in one order.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.join(", ")
}
