//! The interface between the database and its storage: a log to append to and to follow.
//!
//! Owns `Position`, the trait `Log` and the two halves of a sync that runs on another thread. A
//! log has one writer. The writer passes the position that it expects to `append`, so that a log shared
//! between machines can refuse a writer that has fallen behind.

use std::fmt;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::error::{AppendError, Failure, RewriteError, SyncError};
use crate::mark::Mark;
use crate::reader::Reader;
use crate::rewrite::Rewrite;

/// A place in the log: the byte offset in the current file where a record begins or ends.
///
/// A position is valid for one file. `install` replaces the file and returns the position in the new
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A log of framed records with one writer.
pub trait Log: Send {
    /// Writes `records`, one or more made by [`crate::frame()`], at the end of the log, and returns the new
    /// end. Writes all of them or none. Fails if the log does not end at `expected`.
    fn append(&mut self, expected: Position, records: &[u8]) -> Result<Position, AppendError>;

    /// Makes everything appended so far survive a loss of power.
    fn sync(&mut self) -> Result<(), SyncError> {
        let job = self.begin_sync()?;
        self.end_sync(job.run()).map(|_| ())
    }

    /// Begins a sync of everything appended so far. The job may run on another thread while the
    /// owner keeps appending. The owner passes its outcome to `end_sync`.
    fn begin_sync(&self) -> Result<SyncJob, SyncError>;

    /// Records the outcome of a sync and returns the position up to which the log is now synced.
    fn end_sync(&mut self, done: SyncDone) -> Result<Position, SyncError>;

    /// Removes appended records whose sync failed, so that they do not reappear: cuts the broken file
    /// at `to`, if that is possible. The file stays broken.
    fn take_back_to(&mut self, to: Position);

    /// The error that broke the log, if it is broken (J4). Only `install` repairs it.
    fn broken(&self) -> Option<&Failure>;

    /// Where the last record ends.
    fn position(&self) -> Position;

    /// Up to where the log is known to be synced.
    fn synced(&self) -> Position;

    /// The size of the log when it was last rewritten, by which the caller decides when to rewrite it again.
    fn base(&self) -> u64;

    /// Reads the records between `from`, where a record must begin, and the current end.
    fn follow(&self, from: Position) -> Reader;

    /// Begins a replacement of the log's contents. It may be written on another thread.
    fn rewrite(&mut self) -> Result<Rewrite, RewriteError>;

    /// Appends the records from `copy_from` to the current end to the replacement, puts it in place, and returns its
    /// end. Everything is synced then.
    fn install(&mut self, rewrite: Rewrite, copy_from: Position) -> Result<Position, RewriteError>;
}

/// A sync that was begun. It is done when `run` returns.
#[derive(Debug)]
pub struct SyncJob {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) upto: Mark,
}

impl SyncJob {
    /// Syncs, and blocks until the disk has written everything or has failed.
    pub fn run(self) -> SyncDone {
        let outcome = self.file.sync();
        SyncDone { file: self.file, upto: self.upto, outcome }
    }
}

/// The outcome of a sync, to be passed to the log's `end_sync`.
#[derive(Debug)]
pub struct SyncDone {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) upto: Mark,
    pub(crate) outcome: std::io::Result<()>,
}

impl SyncDone {
    pub(crate) fn failure(self, path: &std::path::Path) -> Option<Failure> {
        self.outcome.err().map(|error| Failure::new("sync", path, error))
    }
}
