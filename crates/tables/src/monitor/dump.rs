//! The initial content of a monitor, written piece by piece from a snapshot.
//!
//! However many rows there are, the memory it takes is one piece: the caller asks for the next piece when the last
//! one has been sent.

use super::turn::Turn;
use super::update::Writer;
use super::{Monitor, Select, Version};
use crate::json::write_string;
use crate::store::{Snapshot, row_uuid};
use std::sync::Arc;

/// A `<table-updates>` object that is being written.
#[derive(Debug)]
pub struct Dump {
    monitor: Arc<Monitor>,
    rows: Snapshot,
    /// Which of the monitor's tables is next.
    table: usize,
    /// Which slot of that table is next.
    slot: usize,
    /// Whether the name of that table is already written.
    in_table: bool,
    any_table: bool,
    turn: Turn,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Begin,
    Rows,
    Done,
}

impl Dump {
    /// The initial content of `monitor` in `rows`.
    #[must_use]
    pub fn new(monitor: Arc<Monitor>, rows: Snapshot) -> Self {
        Self {
            monitor,
            rows,
            table: 0,
            slot: 0,
            in_table: false,
            any_table: false,
            turn: Turn::default(),
            state: State::Begin,
        }
    }

    /// Appends at least `bytes_min` more bytes, or the rest, or what it finds among as many rows as can be tested
    /// in a short time. Returns whether there is more.
    ///
    /// One row that takes long is a piece of its own: see [`Dump::is_long`].
    pub fn write(&mut self, bytes_min: usize, out: &mut Vec<u8>) -> bool {
        let enough = out.len() + bytes_min;
        self.turn.begin();
        if self.state == State::Begin {
            out.push(b'{');
            self.state = State::Rows;
        }
        while self.state == State::Rows {
            if self.table >= self.monitor.tables.len() {
                out.push(b'}');
                self.state = State::Done;
            } else if self.write_rows(enough, out) {
                return true;
            }
        }
        false
    }

    /// Whether the next piece takes long, because one row has very large values. The caller then runs it where no
    /// other work waits for it.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.turn.is_long()
    }

    /// Writes rows of the current table until the piece is full; returns whether it stopped for that reason.
    fn write_rows(&mut self, enough: usize, out: &mut Vec<u8>) -> bool {
        let monitor = self.monitor.clone();
        let monitored = &monitor.tables[self.table];
        let schema = self.rows.schema().clone();
        let schema = schema.table(monitored.table);
        let is_tested = monitor.version != Version::V1;
        if monitored.select.has(Select::INITIAL) {
            for (slot, row) in self.rows.rows_from(monitored.table, self.slot) {
                if is_tested && !self.turn.may_test(monitored.condition.steps_on(row)) {
                    self.slot = slot;
                    return true;
                }
                if is_tested && !monitored.condition.any(row) {
                    continue;
                }
                if out.len() >= enough || !self.turn.may_write(monitored.shown(row)) {
                    self.slot = slot;
                    return true;
                }
                if !self.in_table {
                    if self.any_table {
                        out.push(b',');
                    }
                    write_string(schema.name.as_bytes(), out);
                    out.extend_from_slice(b":{");
                } else {
                    out.push(b',');
                }
                (self.in_table, self.any_table) = (true, true);
                out.push(b'"');
                out.extend_from_slice(&row_uuid(row).text());
                out.extend_from_slice(b"\":");
                let mut writer = Writer::continuing(out);
                monitored.write_row(monitor.version, Select::INITIAL, row, schema, &mut writer);
            }
        }
        if self.in_table {
            out.push(b'}');
        }
        (self.table, self.slot, self.in_table) = (self.table + 1, 0, false);
        false
    }
}
