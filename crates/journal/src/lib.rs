//! The journal: a log of records in one file, in the format of OVSDB's standalone log.
//!
//! Owns the framing of records, the file that holds them, its lock file, its side file, recovery at
//! open, and the replacement of the file by a compacted one. To this crate a record's body is one
//! opaque JSON text.
//!
//! It promises J1 to J6 and J8:
//!
//! - Every record has a checksum.
//! - A torn tail is cut off and kept aside. Any other damage is an error that names the offset, and
//!   nothing on disk changes.
//! - A failed write or sync is never retried on the same file.
//! - After a full disk the log recovers without a restart.
//! - The process may be killed at any system call.
//!
//! It never parses JSON, never starts a thread, never logs and never reads a clock or the
//! environment. All calls block.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use paceline_journal::{FileLog, Log, Mode, disk::MemoryDisk, frame};
//! # let disk = std::sync::Arc::new(MemoryDisk::new());
//! # FileLog::create_on(disk.clone(), "db", b"{}")?;
//!
//! // Open: every existing record is replayed before the log can be written.
//! let mut follow = FileLog::open_on(disk, "db", Mode::ReadWrite)?;
//! while let Some(record) = follow.next()? {
//!     let (offset, body) = (record.offset, record.body);
//!     if !body.starts_with(b"{") {
//!         return Err(follow.reject(offset, "not an object").into());
//!     }
//! }
//! let (mut log, recovery) = follow.finish()?;
//! assert_eq!(recovery.torn, None);
//!
//! // Append: many records, one write.
//! let mut batch = Vec::new();
//! frame(br#"{"a":1}"#, &mut batch);
//! frame(br#"{"a":2}"#, &mut batch);
//! let snapshot_at = log.append(log.position(), &batch)?;
//! log.sync()?;
//!
//! // Compact: another thread may fill the rewrite while the log stays in use.
//! let mut rewrite = log.rewrite()?;
//! let mut snapshot = Vec::new();
//! frame(b"{}", &mut snapshot);
//! frame(br#"{"a":2}"#, &mut snapshot);
//! rewrite.write(&snapshot)?;
//! rewrite.sync()?;
//! let position = log.install(rewrite, snapshot_at)?;
//! assert_eq!(position.0, log.base());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod disk;
mod error;
mod file;
mod follow;
mod frame;
mod lock;
mod log;
mod mark;
mod memory;
mod reader;
mod rewrite;
mod salvage;
mod side;

pub use error::{AppendError, Failure, LockError, OpenError, RewriteError, SyncError};
pub use file::FileLog;
pub use follow::{Follow, Mode, Recovery, Torn};
pub use frame::{RECORD_LEN_MAX, frame};
pub use log::{Log, Position, SyncDone, SyncJob};
pub use memory::MemoryLog;
pub use reader::{Damage, ReadError, Reader, Record};
pub use rewrite::Rewrite;
