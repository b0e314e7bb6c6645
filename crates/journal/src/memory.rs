//! A log in memory: the log of `file`, on a simulated disk in memory.
//!
//! Owns that disk. For databases that need not survive a restart, and for tests.

use std::sync::Arc;

use crate::disk::MemoryDisk;
use crate::error::{AppendError, Failure, OpenError, RewriteError, SyncError};
use crate::file::FileLog;
use crate::log::{Log, Position, SyncDone, SyncJob};
use crate::reader::Reader;
use crate::rewrite::Rewrite;

/// A log in memory. Dropping it deletes it.
#[derive(Debug)]
pub struct MemoryLog(FileLog);

impl MemoryLog {
    /// A log whose first record has the body `schema`.
    pub fn new(schema: &[u8]) -> Result<MemoryLog, OpenError> {
        let disk = Arc::new(MemoryDisk::new());
        FileLog::create_on(disk, "memory", schema).map(MemoryLog)
    }
}

impl Log for MemoryLog {
    fn append(&mut self, expected: Position, records: &[u8]) -> Result<Position, AppendError> {
        self.0.append(expected, records)
    }

    fn begin_sync(&self) -> Result<SyncJob, SyncError> {
        self.0.begin_sync()
    }

    fn end_sync(&mut self, done: SyncDone) -> Result<Position, SyncError> {
        self.0.end_sync(done)
    }

    fn take_back_to(&mut self, to: Position) {
        self.0.take_back_to(to);
    }

    fn broken(&self) -> Option<&Failure> {
        self.0.broken()
    }

    fn position(&self) -> Position {
        self.0.position()
    }

    fn synced(&self) -> Position {
        self.0.synced()
    }

    fn base(&self) -> u64 {
        self.0.base()
    }

    fn follow(&self, from: Position) -> Reader {
        self.0.follow(from)
    }

    fn rewrite(&mut self) -> Result<Rewrite, RewriteError> {
        self.0.rewrite()
    }

    fn install(&mut self, rewrite: Rewrite, copy_from: Position) -> Result<Position, RewriteError> {
        self.0.install(rewrite, copy_from)
    }
}
