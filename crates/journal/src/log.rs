//! The seam between the database and its storage: a log to append to and to follow.
//!
//! Owns `Position`, the trait `Log` and the two halves of a sync that runs on another thread. A
//! log knows one writer; `append` names the position the writer believes in, so that a log shared
//! between machines can refuse one who has fallen behind.

use std::fmt;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{AppendError, Failure, RewriteError, SyncError};
use crate::reader::Reader;
use crate::rewrite::Rewrite;

/// A place in the log: the byte offset in the current file where a record ends, or begins.
///
/// Positions speak of one file. `install` puts another file in place and returns the position
/// that holds from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A log of framed records with one writer.
pub trait Log: Send {
    /// Writes `records`, one or many made by [`crate::frame()`], at the end of the log, which the
    /// caller says is `expected`, and returns the new end. All of them or none.
    fn append(&mut self, expected: Position, records: &[u8]) -> Result<Position, AppendError>;

    /// Makes everything appended so far survive a loss of power.
    fn sync(&mut self) -> Result<(), SyncError> {
        let job = self.begin_sync()?;
        self.end_sync(job.run()).map(|_| ())
    }

    /// Begins a sync of everything appended so far. The job may run on another thread while the
    /// owner goes on appending; its outcome comes back through `end_sync`.
    fn begin_sync(&self) -> Result<SyncJob, SyncError>;

    /// Takes note of how a sync went and returns the position that is synced now.
    fn end_sync(&mut self, done: SyncDone) -> Result<Position, SyncError>;

    /// Takes records back that were appended but must not come back, after a sync of them failed:
    /// cuts the broken file at `to`, as well as that can be done. The file stays broken.
    fn take_back_to(&mut self, to: Position);

    /// What broke the log, if it is broken (J4): only `install` helps.
    fn broken(&self) -> Option<&Failure>;

    /// Where the last record ends.
    fn position(&self) -> Position;

    /// Up to where the log is known to be synced.
    fn synced(&self) -> Position;

    /// The size of the log when it was last rewritten, to judge when the next time has come.
    fn base(&self) -> u64;

    /// Reads the records between `from`, where a record must begin, and the present end.
    fn follow(&self, from: Position) -> Reader;

    /// Begins a replacement of the log's contents, which may be written on another thread.
    fn rewrite(&mut self) -> Result<Rewrite, RewriteError>;

    /// Puts the replacement in place, after copying behind it the records from `copy_from` to the
    /// present end, and returns the position in it. Everything is synced then.
    fn install(&mut self, rewrite: Rewrite, copy_from: Position) -> Result<Position, RewriteError>;
}

/// A sync that has been asked for. It is done when `run` returns.
#[derive(Debug)]
pub struct SyncJob {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) upto: Position,
}

impl SyncJob {
    /// Syncs, blocking until the disk has it all or has failed.
    pub fn run(self) -> SyncDone {
        let outcome = self.file.sync();
        SyncDone { file: self.file, upto: self.upto, outcome }
    }
}

/// The outcome of a sync, to be handed to the log's `end_sync`.
#[derive(Debug)]
pub struct SyncDone {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) upto: Position,
    pub(crate) outcome: std::io::Result<()>,
}

impl SyncDone {
    pub(crate) fn failure(self, path: &std::path::Path) -> Option<Failure> {
        self.outcome.err().map(|error| Failure::new("sync", path, error))
    }
}
