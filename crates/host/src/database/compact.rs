//! Compaction: the journal is rewritten as one schema and one record of everything.
//!
//! The content comes from a snapshot, on a thread of its own, while transactions go on in the old
//! file; what they append meanwhile is copied behind it. Only the last short piece and the rename
//! happen between two transactions. The same way a broken journal is replaced by a good one.

use super::Hosted;
use super::queue::{Entry, Step};
use crate::clock::wall_ms;
use paceline_journal::{Log, Position, Rewrite, RewriteError, frame};
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Error, Snapshot, write_snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Held while a compaction is under way, so that there is one at a time.
struct Turn(Arc<Hosted>);

impl Turn {
    fn take(database: &Arc<Hosted>) -> Option<Self> {
        let taken = database.compacting.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(database.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.compacting.store(false, Ordering::Release);
    }
}

impl Hosted {
    /// Begins to rewrite the journal, unless that is under way or there is no journal.
    pub fn compact(self: &Arc<Self>) {
        if !self.is_journaled {
            return;
        }
        let Some(turn) = Turn::take(self) else { return };
        {
            let mut head = self.head();
            let rows = head.database.snapshot();
            head.queue.push_back(Entry::Step(Step {
                blocks: false,
                work: Box::new(move |log| {
                    if let Ok(log) = log {
                        begin(turn, rows, log);
                    }
                }),
            }));
        }
        self.flush();
    }

    /// Takes note that the journal's file can no longer be trusted: changes are refused until a new
    /// file is in its place, which is tried at once and again with every refused change.
    pub(super) fn note_broken(self: &Arc<Self>, error: &Error) {
        self.head().broken = Some(error.clone());
    }
}

/// In the committer's turn: everything in `rows` is in the log up to here.
fn begin(turn: Turn, rows: Snapshot, log: &mut dyn Log) {
    let from = log.position();
    match log.rewrite() {
        Ok(rewrite) => {
            let runtime = turn.0.runtime.clone();
            runtime.spawn_blocking(move || write(turn, rows, rewrite, from));
        }
        Err(error) => {
            tracing::warn!(database = %turn.0.name, %error, "cannot compact the journal");
        }
    }
}

/// On a thread of its own: the whole content, synced, then the committer's turn again.
fn write(turn: Turn, rows: Snapshot, mut rewrite: Rewrite, from: Position) {
    let database = turn.0.clone();
    let written = rewrite
        .write(&whole_file(&rows, &database.unjournaled, "compacting database online"))
        .and_then(|()| rewrite.sync());
    drop(rows);
    if let Err(error) = written {
        tracing::warn!(database = %database.name, %error, "cannot compact the journal");
        return;
    }
    database.head().queue.push_back(Entry::Step(Step {
        blocks: true,
        work: Box::new(move |log| {
            if let Ok(log) = log {
                install(&turn, rewrite, from, log);
            }
        }),
    }));
    database.flush_blocking();
}

fn install(turn: &Turn, rewrite: Rewrite, from: Position, log: &mut dyn Log) {
    let database = &turn.0;
    let before = log.position();
    match log.install(rewrite, from) {
        Ok(position) => {
            database.head().broken = None;
            tracing::info!(
                database = %database.name,
                bytes_before = before.0,
                bytes = position.0,
                "compacted the journal"
            );
        }
        Err(error) => {
            tracing::warn!(database = %database.name, %error, "cannot compact the journal")
        }
    }
}

/// The records of a file that holds `rows`: the schema, and everything in one record.
pub(super) fn whole_file(rows: &Snapshot, unjournaled: &[TableId], comment: &str) -> Vec<u8> {
    let mut out = schema_record(rows.schema());
    let mut body = Vec::new();
    write_snapshot(rows, unjournaled, comment, wall_ms(), &mut body);
    frame(&body, &mut out);
    out
}

/// The first record of a file.
pub(super) fn schema_record(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    frame(schema.to_json().to_text().as_bytes(), &mut out);
    out
}

/// Replaces the content of the log by `rows`, in the committer's turn.
pub(super) fn replace(rows: &Snapshot, log: &mut dyn Log) -> Result<(), RewriteError> {
    let mut rewrite = log.rewrite()?;
    rewrite.write(&whole_file(rows, &[], "converted by paceline"))?;
    rewrite.sync()?;
    let end = log.position();
    log.install(rewrite, end).map(|_| ())
}

/// A flag that says a compaction is under way.
pub(super) type Compacting = AtomicBool;
