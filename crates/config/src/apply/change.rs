//! The changes of applying a file, for display: the answer of a dry run.

use crate::error::ConfigError;
use crate::keys::{keys, kind_of};
use paceline_model::schema::{RULE, SAVED_RULE};
use paceline_tables::json::Json;
use paceline_tables::value::{Atom, Datum};
use std::collections::BTreeSet;

/// A transaction, and its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The operations of one OVSDB transaction.
    pub operations: Vec<Json>,
    /// Their changes.
    pub changes: Vec<Change>,
    /// What was changed or deleted otherwise since the file was last applied, and stays so.
    pub drift: Vec<Change>,
    /// Objects of the file that belong to another file. If there are any, the operations must not be run.
    pub conflicts: Vec<ConfigError>,
}

/// One row that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of change.
    pub op: ChangeOp,
    /// The table.
    pub table: &'static str,
    /// Its name or number; for an object of a file, its name in the file.
    pub row: String,
    /// Its current name, if it was renamed since its file was last applied.
    pub renamed: Option<String>,
    /// The columns that differ: name, old value and new value as texts; `""` if there is none.
    pub columns: Vec<(String, String, String)>,
}

impl Applied {
    /// The changes to display: a rule of the saved list is shown only if the running list does not change the same
    /// way.
    pub fn told(&self) -> impl Iterator<Item = &Change> {
        told(&self.changes)
    }

    /// What was changed otherwise, in the same way.
    pub fn drifted(&self) -> impl Iterator<Item = &Change> {
        told(&self.drift)
    }

    /// How many objects it deletes.
    #[must_use]
    pub fn deletions(&self) -> usize {
        self.told().filter(|change| change.op == ChangeOp::Delete).count()
    }
}

fn told(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let running = changes.iter().filter(|change| change.table == RULE);
    let running: BTreeSet<Told<'_>> = running.map(Change::told).collect();
    let is_told =
        move |change: &&Change| change.table != SAVED_RULE || !running.contains(&change.told());
    changes.iter().filter(is_told)
}

/// The displayed part of a change of a rule: its number, the kind of change, and the changed keys.
type Told<'c> = (&'c str, ChangeOp, Vec<&'static str>);

impl Change {
    /// The name of its kind of object.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.table {
            SAVED_RULE => "saved-rule",
            table => kind_of(table).map_or(table, |kind| kind.word),
        }
    }

    fn told(&self) -> Told<'_> {
        let members = if self.op == ChangeOp::Update { self.members() } else { vec![] };
        (&self.row, self.op, members)
    }

    /// Whether it was created otherwise and belongs to the file from now on, so that it is deleted when the file no
    /// longer names it.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        self.op == ChangeOp::Update && self.columns.iter().any(|(column, ..)| column == "file")
    }

    /// The keys of the file whose values differ, each once.
    #[must_use]
    pub fn members(&self) -> Vec<&'static str> {
        let table = if self.table == SAVED_RULE { RULE } else { self.table };
        let Some(kind) = kind_of(table) else { return vec![] };
        let mut members = vec![];
        for key in keys(kind) {
            let is_of_key = |column: &str| match key.name {
                "priority" => column.starts_with("priority_"),
                "tls" => column == "tls" || column.starts_with("tls_"),
                _ => {
                    let mut inner = key.inner().iter();
                    key.column == column || inner.any(|inner| inner.column == column)
                }
            };
            let differs = self.columns.iter().any(|(column, ..)| is_of_key(column));
            // Several keys write one column: those of a rule's action, and the mode of its patterns.
            let name = match key.column {
                "action" => "action",
                "criteria" => "match",
                _ => key.name,
            };
            if differs && !members.contains(&name) {
                members.push(name);
            }
        }
        members
    }
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeOp {
    /// The row is new.
    Insert,
    /// Some columns change.
    Update,
    /// The row is deleted.
    Delete,
}

/// A value as text to display.
pub(super) fn text(value: &Datum) -> String {
    let atom = |atom: &Atom| match atom.as_str() {
        Some(text) => text.to_owned(),
        None => atom.to_text(),
    };
    let pair = |(key, value): &(Atom, Atom)| format!("{} = {}", atom(key), atom(value));
    let mut each: Vec<String> = value.atoms().iter().map(atom).collect();
    each.extend(value.pairs().iter().map(pair));
    each.join(", ")
}

/// Names as text to display, in a fixed order.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.join(", ")
}
