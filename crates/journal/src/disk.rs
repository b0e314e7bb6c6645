//! The interface to the disk: the few file operations that the journal needs.
//!
//! Owns the traits `Disk` and `DiskFile`. `RealDisk` is the machine's own file system and the default.
//! `MemoryDisk` keeps files in memory and simulates a loss of power. `FaultyDisk` wraps another disk and
//! injects faults. The indirect call costs little compared with the system call behind it.

mod faulty;
mod memory;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use faulty::{Death, Faults, FaultyDisk, ParseFaultsError};
pub use memory::MemoryDisk;
pub use real::RealDisk;

use crate::error::LockError;

/// A lock that is held until this is dropped.
pub type Lock = Box<dyn Debug + Send + Sync>;

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// The path with symbolic links followed, the last component included, whether or not the
    /// file exists. Its directory must exist.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Locks the file `path` for this process, without waiting. Creates it if it does not exist.
    fn lock(&self, path: &Path) -> Result<Lock, LockError>;

    /// Opens a file, or creates it.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file within its directory, replacing any file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory survive a loss of power.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file. Closed when the last reference is dropped.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads at an offset; 0 means the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset and returns how many bytes were written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file to a length.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes contents and length survive a loss of power.
    fn sync(&self) -> io::Result<()>;

    /// The metadata of the file.
    fn facts(&self) -> io::Result<Facts>;

    /// Locks this file, under any of its names, for as long as it is open. Returns false if another process
    /// or another opening has locked it. The lock file alone does not suffice: it excludes only processes
    /// that use the same name, and a file can have several.
    fn claim(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// The user and the group that own the file, if the disk knows users.
    fn owner(&self) -> io::Result<Option<(u32, u32)>> {
        Ok(None)
    }

    /// Gives the file to another user and group, which only root may do.
    fn give(&self, _owner: (u32, u32)) -> io::Result<()> {
        Ok(())
    }
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    Write,
    /// A new file, to read and write, with these permission bits. Fails if the file exists.
    Create(u32),
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The length in bytes.
    pub len: u64,
    /// The number that distinguishes the file from all others that exist at the same time.
    pub inode: u64,
    /// When the file was created, in nanoseconds, or 0 if unknown. Needed because inode numbers are reused.
    pub born: u64,
    /// The permission bits.
    pub mode: u32,
    /// True for a regular file.
    pub regular: bool,
}

/// Writes all of `bytes`, in as many calls as needed. On failure also returns how many were written.
pub(crate) fn write_all(
    file: &dyn DiskFile,
    bytes: &[u8],
    offset: u64,
) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(rest, offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(taken) => done += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or the file ends, and returns how many bytes were read.
pub(crate) fn read_full(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
