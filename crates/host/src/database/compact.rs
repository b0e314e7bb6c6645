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

/// The place in the journal that a snapshot stands for.
#[derive(Clone, Copy)]
struct Start {
    at: Position,
    /// How often the journal had failed by then.
    failures: u64,
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
    /// file is in its place. A compaction that is under way would carry over what is undone now, so
    /// it will not be installed.
    pub(super) fn note_broken(&self, error: &Error) {
        self.failures.fetch_add(1, Ordering::AcqRel);
        self.head().broken = Some(error.clone());
    }

    /// Tries to replace a broken file, on a thread that may block.
    pub(super) fn repair_later(self: &Arc<Self>) {
        let this = self.clone();
        self.runtime.spawn_blocking(move || this.compact());
    }

    /// Replaces a broken file before the end of service, so that what was refused is not in it.
    pub(super) fn repair_now(&self, log: &mut dyn Log) {
        let rows = {
            let head = self.head();
            if head.broken.is_none() {
                return;
            }
            head.database.snapshot()
        };
        let comment = "replacing a file that could not be written";
        if let Err(error) = replace(&rows, &self.unjournaled, comment, log) {
            tracing::error!(database = %self.name, %error, "cannot replace the broken journal");
        }
    }
}

/// In the committer's turn: everything in `rows` is in the log up to here.
fn begin(turn: Turn, rows: Snapshot, log: &mut dyn Log) {
    let start = Start { at: log.position(), failures: turn.0.failures.load(Ordering::Acquire) };
    match log.rewrite() {
        Ok(rewrite) => {
            let runtime = turn.0.runtime.clone();
            runtime.spawn_blocking(move || write(turn, rows, rewrite, start));
        }
        Err(error) => {
            tracing::warn!(database = %turn.0.name, %error, "cannot compact the journal");
        }
    }
}

/// On a thread of its own: the whole content, synced, then the committer's turn again.
fn write(turn: Turn, rows: Snapshot, mut rewrite: Rewrite, start: Start) {
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
                install(turn, rewrite, start, log);
            }
        }),
    }));
    database.flush_blocking();
}

/// In the committer's turn again: the new file takes the place of the old one.
fn install(turn: Turn, rewrite: Rewrite, start: Start, log: &mut dyn Log) {
    let database = turn.0.clone();
    if start.failures != database.failures.load(Ordering::Acquire) {
        // The old file has records behind the snapshot that were refused since.
        drop((rewrite, turn));
        return database.repair_later();
    }
    let before = log.position();
    match log.install(rewrite, start.at) {
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
            tracing::warn!(database = %database.name, %error, "cannot compact the journal");
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
pub(super) fn replace(
    rows: &Snapshot,
    unjournaled: &[TableId],
    comment: &str,
    log: &mut dyn Log,
) -> Result<(), RewriteError> {
    let mut rewrite = log.rewrite()?;
    rewrite.write(&whole_file(rows, unjournaled, comment))?;
    rewrite.sync()?;
    let end = log.position();
    log.install(rewrite, end).map(|_| ())
}

/// A flag that says a compaction is under way.
pub(super) type Compacting = AtomicBool;
