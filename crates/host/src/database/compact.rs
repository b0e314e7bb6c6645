//! Compaction: the journal is rewritten as one schema and one record of everything.
//!
//! The content is written from a snapshot, on a separate thread, while transactions continue in the old file.
//! The records they append meanwhile are copied behind the content. Only the last short piece and the rename
//! happen between two transactions. A broken journal is replaced by a good one in the same way.

use super::Hosted;
use super::queue::{Entry, Step};
use crate::clock::wall_ms;
use paceline_journal::{Log, Position, Rewrite, RewriteError, frame};
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Error, Snapshot, tag, write_snapshot};
use paceline_types::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Held while the journal is being rewritten, so that there is one rewrite at a time.
pub(super) struct Turn(Arc<Hosted>);

impl Turn {
    pub(super) fn take(database: &Arc<Hosted>) -> Option<Self> {
        let taken = database.compacting.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(database.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.compacting.store(false, Ordering::Release);
        // A conversion or repair may wait for its turn. The thread that drops this may hold locks, so it begins
        // on another one.
        let database = self.0.clone();
        self.0.tasks.spawn_blocking(move || database.begin_next());
    }
}

/// How long after a failed rewrite the next automatic one is tried.
const RETRY_MS: u64 = 1_000;

/// How often, and after which pause, a shutdown checks whether a rewrite is done.
const REPAIR_LOOKS_MAX: u32 = 500;
const REPAIR_LOOK: Duration = Duration::from_millis(10);

/// The position in the journal that a snapshot corresponds to.
#[derive(Clone, Copy)]
struct Start {
    at: Position,
    /// How often the journal had failed by then.
    failures: u64,
}

impl Hosted {
    /// Begins to rewrite the journal, unless a rewrite is under way or there is no journal.
    pub fn compact(self: &Arc<Self>) {
        if !self.is_journaled || self.policy.read_only {
            return;
        }
        let Some(turn) = Turn::take(self) else { return };
        {
            let mut head = self.head();
            let rows = head.database.snapshot();
            head.push(Entry::Step(Step {
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

    /// The same, unless a rewrite failed a moment ago.
    pub(super) fn compact_by_itself(self: &Arc<Self>) {
        if self.clock.now() >= Time(self.retry_at.load(Ordering::Acquire)) {
            self.compact();
        }
    }

    /// Begins what waits for the end of a rewrite: a conversion, or the replacement of a file that is still
    /// broken or broken again.
    fn begin_next(self: &Arc<Self>) {
        let mut head = self.head();
        if let Some(conversion) = head.next_conversion.take() {
            self.begin_conversion(&mut head, conversion);
        } else if head.broken.is_some() {
            self.repair_later();
        }
        drop(head);
        self.flush();
    }

    fn note_failed_rewrite(&self, error: &RewriteError) {
        self.retry_at.store(self.clock.now().plus_ms(RETRY_MS).0, Ordering::Release);
        tracing::warn!(database = %self.name, %error, "cannot compact the journal");
    }

    /// Notes that the journal can be written.
    pub(super) fn note_written(&self) {
        if let Some(failures) = self.troubles.worked() {
            tracing::info!(database = %self.name, failures, "the journal can be written again");
        }
    }

    /// Notes that the journal's file can no longer be trusted: changes are refused until a new file replaces
    /// it. A compaction that is under way would copy what is undone now, so it will not be installed.
    pub(super) fn note_broken(&self, error: &Error) {
        let mut head = self.head();
        // A broken file accepts nothing, so a repair that is under way remains valid.
        if head.broken.is_none() {
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
        head.broken = Some(error.clone());
    }

    /// Tries to replace a broken file: at once, or a little later if that failed a moment ago.
    pub(super) fn repair_later(self: &Arc<Self>) {
        if self.repairing.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        self.tasks.spawn(async move {
            this.clock.sleep_until(Time(this.retry_at.load(Ordering::Acquire))).await;
            this.repairing.store(false, Ordering::Release);
            this.compact();
        });
    }

    /// Replaces a broken file at shutdown, and waits for a replacement that is under way. Call it from a thread
    /// that may block.
    pub(crate) fn repair_blocking(self: &Arc<Self>) {
        for _ in 0..REPAIR_LOOKS_MAX {
            self.flush_blocking();
            if self.head().broken.is_none() {
                return;
            }
            if let Some(turn) = Turn::take(self) {
                if let Some(log) = self.writer().as_mut() {
                    self.repair_now(&mut **log);
                }
                return drop(turn);
            }
            std::thread::sleep(REPAIR_LOOK);
        }
    }

    /// Replaces a broken file before shutdown, so that refused changes are not in it.
    pub(super) fn repair_now(&self, log: &mut dyn Log) {
        let rows = {
            let head = self.head();
            if head.broken.is_none() {
                return;
            }
            head.database.snapshot()
        };
        let comment = "replacing a file that could not be written";
        match replace(&rows, &self.unjournaled, comment, log) {
            Ok(_) => self.head().broken = None,
            Err(error) => {
                tracing::error!(database = %self.name, %error, "cannot replace the broken journal");
            }
        }
    }
}

/// Runs in the committer's turn: all of `rows` is in the log up to here.
fn begin(turn: Turn, rows: Snapshot, log: &mut dyn Log) {
    let start = Start { at: log.position(), failures: turn.0.failures.load(Ordering::Acquire) };
    match log.rewrite() {
        Ok(rewrite) => {
            let tasks = turn.0.tasks.clone();
            tasks.spawn_blocking(move || write(turn, rows, rewrite, start));
        }
        Err(error) => turn.0.note_failed_rewrite(&error),
    }
}

/// Runs on a separate thread: writes and syncs the whole content, then asks for the committer's turn again.
fn write(turn: Turn, rows: Snapshot, mut rewrite: Rewrite, start: Start) {
    let database = turn.0.clone();
    let written = rewrite
        .write(&whole_file(&rows, &database.unjournaled, "compacting database online"))
        .and_then(|()| rewrite.sync());
    drop(rows);
    if let Err(error) = written {
        return database.note_failed_rewrite(&error);
    }
    queue_install(turn, rewrite, start);
    database.flush_blocking();
}

/// Asks for the committer's turn. If a batch before it fails, asks again: the refused changes are not in the
/// new file, and `install` checks whether they are in the old one.
fn queue_install(turn: Turn, rewrite: Rewrite, start: Start) {
    let database = turn.0.clone();
    database.head().push(Entry::Step(Step {
        blocks: true,
        work: Box::new(move |log| match log {
            Ok(log) => install(turn, rewrite, start, log),
            Err(_) => queue_install(turn, rewrite, start),
        }),
    }));
}

/// Runs in the committer's turn: the new file replaces the old one.
fn install(turn: Turn, rewrite: Rewrite, start: Start, log: &mut dyn Log) {
    let database = turn.0.clone();
    if start.failures != database.failures.load(Ordering::Acquire) {
        // The old file has records after the snapshot that were refused since. The next rewrite, which the end
        // of this turn begins, starts from a new snapshot.
        return drop((rewrite, turn));
    }
    let before = log.position();
    match log.install(rewrite, start.at) {
        Ok(position) => {
            database.head().broken = None;
            database.note_written();
            tracing::info!(
                database = %database.name,
                bytes_before = before.0,
                bytes = position.0,
                "compacted the journal"
            );
        }
        Err(error) => {
            if let Some(broken) = log.broken() {
                // The new file has the name, but a power loss could restore the old one.
                database.note_broken(&Error::new(tag::IO, broken.to_string()));
            }
            database.note_failed_rewrite(&error);
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

/// Replaces the content of a log by `rows`, without those of the tables in `unjournaled`. No other thread may
/// append meanwhile: in service this happens in the committer's turn.
pub fn replace(
    rows: &Snapshot,
    unjournaled: &[TableId],
    comment: &str,
    log: &mut dyn Log,
) -> Result<Position, RewriteError> {
    let mut rewrite = log.rewrite()?;
    rewrite.write(&whole_file(rows, unjournaled, comment))?;
    rewrite.sync()?;
    let end = log.position();
    log.install(rewrite, end)
}
