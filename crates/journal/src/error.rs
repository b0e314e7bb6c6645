//! The errors of this crate, one enum per operation.
//!
//! Owns the error types and their texts. Every text names the file; a text about a record also names
//! the offset of its header. `Failure` is the error of a system call. A broken file keeps it and
//! returns it again to every later caller.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::log::Position;

/// The error of a system call on one file.
#[derive(Debug, Clone)]
pub struct Failure {
    action: &'static str,
    path: PathBuf,
    source: Arc<io::Error>,
}

impl Failure {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Failure { action, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// The file or directory that the call was made for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of error that the system returned.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True if there is no room: the disk, the quota or the maximum file size is exhausted.
    pub(crate) fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.kind() == io::ErrorKind::ReadOnlyFilesystem
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot {}: {}", self.path.display(), self.action, self.source)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// Why a batch was not appended. No part of it stays in the file.
#[derive(Debug, Clone)]
pub enum AppendError {
    /// No room (J5). The file is as it was before; a later append may succeed.
    Full(Failure),
    /// The file system, or this opening of it, is read-only (J6).
    ReadOnly(Failure),
    /// The file is broken (J4): every append and sync fails until it is replaced.
    Io(Failure),
    /// The log does not end where the caller expected.
    Moved {
        /// Where the caller expected the log to end.
        expected: Position,
        /// Where it does end.
        actual: Position,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Full(failure)
            | AppendError::ReadOnly(failure)
            | AppendError::Io(failure) => failure.fmt(f),
            AppendError::Moved { expected, actual } => {
                write!(f, "append expected the log to end at {expected}, but it ends at {actual}")
            }
        }
    }
}

impl Error for AppendError {}

/// Why the log could not be synced. The file is broken from then on (J4).
#[derive(Debug, Clone)]
pub struct SyncError(pub Failure);

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SyncError {}

/// Why a file was not opened, or not created.
#[derive(Debug)]
pub enum OpenError {
    /// A system call failed.
    Io(Failure),
    /// The file is locked, by another process or by this one.
    Locked(LockError),
    /// The file to create exists already.
    Exists(PathBuf),
    /// The file is empty, so it is not a database.
    Empty(PathBuf),
    /// The path names a directory, a device or another special file.
    NotAFile(PathBuf),
    /// The file does not begin like a standalone database.
    Format(PathBuf),
    /// The file is one of OVSDB's clustered databases.
    Clustered(PathBuf),
    /// A record is damaged and it is not a torn tail (J3). Nothing was changed on disk.
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// Where the damaged record begins.
        offset: Position,
        /// What is wrong with it.
        reason: String,
    },
    /// A record is undamaged, but its reader rejects its contents.
    Invalid {
        /// The journal.
        path: PathBuf,
        /// Where the record begins.
        offset: Position,
        /// Why its reader rejects it.
        reason: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(failure) => failure.fmt(f),
            OpenError::Locked(error) => error.fmt(f),
            OpenError::Exists(path) => write!(f, "{}: file exists", path.display()),
            OpenError::Empty(path) => {
                write!(f, "{}: the file is empty; this is not a database", path.display())
            }
            OpenError::NotAFile(path) => write!(f, "{}: not a regular file", path.display()),
            OpenError::Format(path) => {
                write!(f, "{}: not an OVSDB standalone database file", path.display())
            }
            OpenError::Clustered(path) => write!(
                f,
                "{}: clustered databases are not supported; \
                 convert it with `ovsdb-tool cluster-to-standalone`",
                path.display()
            ),
            OpenError::Corrupt { path, offset, reason } => {
                let path = path.display();
                write!(f, "{path}: corrupt record at offset {offset}: {reason}")?;
                if *offset > Position(0) {
                    f.write_str("; `paceline ovsdb repair` saves the records before it")?;
                }
                Ok(())
            }
            OpenError::Invalid { path, offset, reason } => {
                write!(f, "{}: invalid record at offset {offset}: {reason}", path.display())
            }
        }
    }
}

impl Error for OpenError {}

/// Why the lock file could not be taken.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it.
    Process {
        /// The lock file.
        path: PathBuf,
        /// The holder, if the system reported it.
        pid: Option<u32>,
    },
    /// This process has the file open already.
    Ourselves(PathBuf),
    /// The journal itself is open for writing under another of its names.
    OtherName(PathBuf),
    /// A system call failed.
    Io(Failure),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Process { path, pid } => {
                write!(f, "{} is in use by ", locked_file(path).display())?;
                match pid {
                    Some(pid) => write!(f, "process {pid}")?,
                    None => f.write_str("another process")?,
                }
                f.write_str("; stop it first")
            }
            LockError::Ourselves(path) => {
                write!(f, "{} is already open in this process", locked_file(path).display())
            }
            LockError::OtherName(path) => write!(
                f,
                "{} is in use under another name (it is a hard link); stop the other server first, or copy the file",
                path.display()
            ),
            LockError::Io(failure) => failure.fmt(f),
        }
    }
}

/// The file that a lock file belongs to: `.name.~lock~` is beside `name`.
fn locked_file(lock: &Path) -> PathBuf {
    let name = lock.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_prefix('.').unwrap_or(name);
    lock.with_file_name(name.strip_suffix(".~lock~").unwrap_or(name))
}

impl Error for LockError {}

/// Why a replacement was not made.
#[derive(Debug, Clone)]
pub enum RewriteError {
    /// No room for the new file. The old one stays in service.
    Full(Failure),
    /// The file system, or this opening of the log, is read-only.
    ReadOnly(Failure),
    /// A system call failed. The old file stays in service, with one exception: if the directory could
    /// not be synced after the rename, the new file is in place, but broken (J4).
    Io(Failure),
    /// The log is being rewritten already.
    Busy(PathBuf),
    /// The rewrite was begun on a file that is not, or no longer, the file of this log.
    Stale(PathBuf),
    /// The new file would be empty, or the range to copy is not in the old file.
    Range(PathBuf),
    /// A record in the range to copy is damaged.
    Corrupt {
        /// The old file.
        path: PathBuf,
        /// Where the damaged record begins.
        offset: Position,
        /// What is wrong with it.
        reason: String,
    },
}

impl RewriteError {
    pub(crate) fn from_failure(failure: Failure) -> Self {
        if failure.is_full() {
            RewriteError::Full(failure)
        } else if failure.is_read_only() {
            RewriteError::ReadOnly(failure)
        } else {
            RewriteError::Io(failure)
        }
    }
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::Full(failure)
            | RewriteError::ReadOnly(failure)
            | RewriteError::Io(failure) => failure.fmt(f),
            RewriteError::Busy(path) => {
                write!(f, "{}: a rewrite of this file is under way", path.display())
            }
            RewriteError::Stale(path) => {
                write!(f, "{}: the rewrite was begun on another file", path.display())
            }
            RewriteError::Range(path) => {
                write!(f, "{}: the rewrite has nothing valid to put in place", path.display())
            }
            RewriteError::Corrupt { path, offset, reason } => {
                write!(f, "{}: corrupt record at offset {offset}: {reason}", path.display())
            }
        }
    }
}

impl Error for RewriteError {}
