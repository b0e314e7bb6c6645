//! The update for a client whose monitor gets new conditions, written piece by piece from a snapshot.
//!
//! However many rows and clauses there are, the memory it takes is one piece, and the caller regains control after
//! a bounded number of steps. Nothing is written before the first row is found that the new conditions add or
//! remove.

use super::turn::Turn;
use super::update::Writer;
use super::{Monitor, Select};
use crate::json::write_string;
use crate::store::{Snapshot, row_uuid};
use std::sync::Arc;

/// A `<table-updates>` object that is being written.
#[derive(Debug)]
pub struct Moving {
    from: Arc<Monitor>,
    to: Arc<Monitor>,
    rows: Snapshot,
    /// Which of the monitor's tables is next.
    table: usize,
    /// Which slot of that table is next.
    slot: usize,
    /// Whether the name of that table is already written.
    in_table: bool,
    any: bool,
    turn: Turn,
}

impl Moving {
    /// The changes among `rows` for a client whose conditions change from those of `from` to those of `to`.
    #[must_use]
    pub fn new(from: Arc<Monitor>, to: Arc<Monitor>, rows: Snapshot) -> Self {
        let turn = Turn::default();
        Self { from, to, rows, table: 0, slot: 0, in_table: false, any: false, turn }
    }

    /// Appends at least `bytes_min` more bytes, or the rest, or what it finds among as many rows as can be tested
    /// in a short time. Returns whether there is more.
    ///
    /// One row that takes long is a piece of its own: see [`Moving::is_long`].
    pub fn write(&mut self, bytes_min: usize, out: &mut Vec<u8>) -> bool {
        let enough = out.len() + bytes_min;
        self.turn.begin();
        while self.table < self.from.tables.len().min(self.to.tables.len()) {
            if self.write_rows(enough, out) {
                return true;
            }
        }
        if self.any {
            out.push(b'}');
        }
        false
    }

    /// Whether a row was found, so that something was written.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.any
    }

    /// Whether the next piece takes long, because one row has very large values. The caller then runs it where no
    /// other work waits for it.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.turn.is_long()
    }

    /// Writes rows of the current table until the piece is full; returns whether it stopped for that reason.
    fn write_rows(&mut self, enough: usize, out: &mut Vec<u8>) -> bool {
        let monitors = (self.from.clone(), self.to.clone());
        let (from, to) = (&monitors.0.tables[self.table], &monitors.1.tables[self.table]);
        let schema = self.rows.schema().clone();
        let schema = schema.table(from.table);
        let is_changed = from.condition != to.condition;
        let rows = is_changed.then(|| self.rows.rows_from(from.table, self.slot));
        for (slot, row) in rows.into_iter().flatten() {
            let steps = from.condition.steps_on(row).saturating_add(to.condition.steps_on(row));
            if out.len() >= enough || !self.turn.may_test(steps) {
                self.slot = slot;
                return true;
            }
            let is_shown = match (from.condition.any(row), to.condition.any(row)) {
                (false, true) if to.select.has(Select::INSERT) => true,
                (true, false) if to.select.has(Select::DELETE) => false,
                _ => continue,
            };
            if is_shown && !self.turn.may_write(to.shown(row)) {
                self.slot = slot;
                return true;
            }
            if !self.in_table {
                out.push(if self.any { b',' } else { b'{' });
                write_string(schema.name.as_bytes(), out);
                out.extend_from_slice(b":{");
            } else {
                out.push(b',');
            }
            (self.in_table, self.any) = (true, true);
            out.push(b'"');
            out.extend_from_slice(&row_uuid(row).text());
            out.extend_from_slice(b"\":");
            if is_shown {
                let mut writer = Writer::continuing(out);
                to.write_whole_row("insert", row, schema, Select::INSERT, &mut writer);
            } else {
                out.extend_from_slice(b"{\"delete\":null}");
            }
        }
        if self.in_table {
            out.push(b'}');
        }
        (self.table, self.slot, self.in_table) = (self.table + 1, 0, false);
        false
    }
}
