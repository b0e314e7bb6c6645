//! Snapshots that answers to clients keep in memory until they are read.
//!
//! An answer that is written from a snapshot takes almost no memory while the database stays unchanged. When
//! rows change, the snapshot keeps the old ones. Promises that all snapshots of one database that wait for
//! clients keep at most [`PINNED_BYTES_MAX`] that the head does not have, apart from a short delay: they are
//! weighed whenever changes may have added an eighth of that. Then the clients with the oldest snapshots are
//! disconnected until the rest is within the bound (promise D1). Keeps no snapshot itself, and weighs them
//! while no lock is held.

use super::asker::Asker;
use super::waits::Request;
use super::{Head, Hosted};
use crate::session::Session;
use paceline_tables::schema::TableId;
use paceline_tables::{
    Changes, Estimate, OpResult, Row, Selected, Snapshot, WeakSnapshot, row_uuid,
};
use paceline_types::limits::PINNED_BYTES_MAX;
use std::sync::{Arc, Weak};

/// Pointers that the first change to a part of a table copies for a snapshot.
const COPIED_BYTES: usize = 3 << 10;

/// Answers with more rows than this, or with rows that take more than [`SELECTED_BYTES_MIN`], keep the snapshot
/// of the rows. The rows of other answers count in full as bytes of their connection.
pub(crate) const SELECTED_ROWS_MIN: usize = 1_000;
const SELECTED_BYTES_MIN: usize = 64 << 10;

/// How many pins are kept before ended ones are removed.
const PINS_MIN: usize = 64;

/// Which snapshots wait for clients.
pub(super) struct Pins {
    /// The most bytes that they may keep.
    pub(super) bytes_max: usize,
    /// The oldest first. Some of them may have ended.
    all: Vec<Pin>,
    /// How many there were when ended pins were last removed.
    swept: usize,
    /// The bytes that changes may have added since they were last weighed.
    changed: usize,
}

/// A snapshot that waits for a client.
#[derive(Clone)]
struct Pin {
    session: Weak<Session>,
    rows: WeakSnapshot,
}

/// Snapshots to be weighed.
pub(super) struct Weighing {
    pins: Vec<Pin>,
    bytes_max: usize,
}

impl Default for Pins {
    fn default() -> Self {
        Self { bytes_max: PINNED_BYTES_MAX, all: Vec::new(), swept: 0, changed: 0 }
    }
}

impl Pins {
    fn add(&mut self, session: Weak<Session>, rows: &Snapshot) {
        if self.all.len() >= PINS_MIN + 2 * self.swept {
            self.sweep();
        }
        self.all.push(Pin { session, rows: rows.downgrade() });
    }

    fn sweep(&mut self) {
        self.all.retain(|pin| pin.rows.is_kept());
        self.swept = self.all.len();
    }

    /// Counts the bytes that changes may have added.
    pub(super) fn note(&mut self, changes: &Changes) {
        if !self.all.is_empty() {
            self.changed += changes.memory() + changes.rows.len() * COPIED_BYTES;
        }
    }

    /// The snapshots to be weighed, if that is due.
    pub(super) fn take_due(&mut self) -> Option<Weighing> {
        if self.changed <= self.bytes_max / 8 {
            return None;
        }
        self.changed = 0;
        self.sweep();
        let Self { all, bytes_max, .. } = self;
        (!all.is_empty()).then(|| Weighing { pins: all.clone(), bytes_max: *bytes_max })
    }
}

/// Whether the rows of an answer take so much memory that they keep their snapshot.
pub(super) fn is_large(results: &[OpResult]) -> bool {
    let mut left = SELECTED_BYTES_MIN;
    selected(results).any(|selected| {
        let memory = selected.memory(SELECTED_ROWS_MIN, left);
        let is_more = selected.rows().len() > SELECTED_ROWS_MIN || memory > left;
        left = left.saturating_sub(memory);
        is_more
    })
}

fn selected(results: &[OpResult]) -> impl Iterator<Item = &Selected> {
    results.iter().filter_map(|result| match result {
        OpResult::Rows(selected) => Some(selected),
        _ => None,
    })
}

/// Makes the rows of an answer keep `content`, if `is_of` says that they belong to it.
pub(super) fn pin(
    results: &mut [OpResult],
    content: &Snapshot,
    is_of: impl Fn(TableId, &Row) -> bool,
) {
    for result in results {
        if let OpResult::Rows(selected) = result {
            selected.pin(content.clone(), &is_of);
        }
    }
}

#[cfg(test)]
impl Pins {
    /// Makes the next check weigh all snapshots.
    pub(super) fn note_all(&mut self) {
        self.changed = usize::MAX;
    }
}

impl Head {
    /// The content now, for an answer to a client.
    pub(super) fn pin(&mut self, session: &Arc<Session>) -> Snapshot {
        self.pin_for(Arc::downgrade(session))
    }

    /// The same for the answer to a transaction.
    pub(super) fn pin_to(&mut self, asker: &Asker) -> Snapshot {
        self.pin_for(asker.pinned_by())
    }

    fn pin_for(&mut self, session: Weak<Session>) -> Snapshot {
        let rows = self.database.snapshot();
        self.pins.add(session, &rows);
        rows
    }

    /// Makes a large answer keep the present content. Rows that the transaction has changed again, or whose
    /// changes are undone, do not belong to it and are counted separately.
    pub(super) fn pin_large(&mut self, request: &Request, results: &mut [OpResult]) {
        if !is_large(results) {
            return;
        }
        let content = self.pin_to(&request.asker);
        let store = self.database.store();
        let is_there = |table, row: &Row| {
            store.row(table, row_uuid(row)).is_some_and(|now| Arc::ptr_eq(now, row))
        };
        let only_reads = Estimate::only_reads(&*request.operations);
        pin(results, &content, |table, row| only_reads || is_there(table, row));
    }

    /// Undoes changes. An answer may still keep them, so they count.
    pub(super) fn undo(&mut self, changes: &Changes) {
        self.pins.note(changes);
        self.database.undo(changes);
    }
}

impl Hosted {
    /// Disconnects the clients whose snapshots are too old, on a separate thread.
    pub(super) fn weigh_later(&self, weighing: Weighing, now: Snapshot) {
        let name = self.name.clone();
        self.tasks.spawn_blocking(move || {
            let cut = weighing.run(now);
            if cut > 0 {
                tracing::warn!(database = %name, clients = cut, "disconnected clients that do not read their answers");
            }
        });
    }
}

impl Weighing {
    /// Disconnects the clients whose snapshots, with all newer ones, keep more than they may. Returns how many.
    pub(super) fn run(self, now: Snapshot) -> usize {
        let (mut later, mut bytes, mut cut) = (now, 0usize, 0);
        for Pin { session, rows } in self.pins.iter().rev() {
            let Some(rows) = rows.upgrade() else { continue };
            if bytes <= self.bytes_max {
                bytes += rows.memory_beside(&later);
            }
            if bytes > self.bytes_max
                && let Some(session) = session.upgrade()
                && session.outbox.closed().is_none()
            {
                session.outbox.close(
                    "it does not read, and the rows it asked for have changed too much since",
                );
                cut += 1;
            }
            later = rows;
        }
        cut
    }
}
