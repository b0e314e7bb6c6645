//! The bad news this crate brings, one enum per operation.
//!
//! Owns the error types and their texts. Every text names the file; those about a record name the
//! offset of its header. `Failure` is what a system call said, kept so that a broken file can say
//! the same thing again to everyone who asks later.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::log::Position;

/// What a system call on one file said.
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

    /// The file or directory the call was about.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of error the system gave.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True if there is no room: disk, quota or the longest file allowed.
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

/// Why a batch was not appended. Nothing of it stays in the file.
#[derive(Debug, Clone)]
pub enum AppendError {
    /// No room (J5). The file is as it was before; a later append may succeed.
    Full(Failure),
    /// The file system, or this opening of it, is read-only (J6).
    ReadOnly(Failure),
    /// The file is broken (J4): every append and sync fails until it is replaced.
    Io(Failure),
    /// The log does not end where the caller thought.
    Moved {
        /// Where the caller thought that the log ends.
        expected: Position,
        /// Where it ends.
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
                write!(f, "append expected the log to end at {expected}, it ends at {actual}")
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
    /// Someone else holds the file.
    Locked(LockError),
    /// The file to create is there already.
    Exists(PathBuf),
    /// The file is empty, so it is no database.
    Empty(PathBuf),
    /// The path names a directory, a device or the like.
    NotAFile(PathBuf),
    /// The file does not begin as a standalone database does.
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
    /// A record is whole, but its reader cannot make sense of it.
    Invalid {
        /// The journal.
        path: PathBuf,
        /// Where the record begins.
        offset: Position,
        /// What its reader said.
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
                write!(f, "{}: the file is empty, not a database", path.display())
            }
            OpenError::NotAFile(path) => write!(f, "{}: not a regular file", path.display()),
            OpenError::Format(path) => {
                write!(f, "{}: not an OVSDB standalone database file", path.display())
            }
            OpenError::Clustered(path) => write!(
                f,
                "{}: clustered databases are not supported, \
                 convert it with `ovsdb-tool cluster-to-standalone`",
                path.display()
            ),
            OpenError::Corrupt { path, offset, reason } => {
                write!(f, "{}: corrupt record at offset {offset}: {reason}", path.display())
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
        /// The holder, if the system could tell.
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
                write!(f, "{} is open already in this process", locked_file(path).display())
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

/// The file that a lock file is for: `.name.~lock~` stands beside `name`.
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
    /// A system call failed. The old file stays in service, unless the call was the sync of the
    /// directory after the rename: then the new file is in its place, but broken (J4).
    Io(Failure),
    /// The log is being rewritten already.
    Busy(PathBuf),
    /// The rewrite was begun on a file that this log no longer, or never, stood in.
    Stale(PathBuf),
    /// The new file would be empty, or the part to copy is none of the old file.
    Range(PathBuf),
    /// A record of the old file that was to be copied is damaged.
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
