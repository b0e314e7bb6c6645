//! The disk of a simulated machine: jobs stop before each call that changes it, and it can die.
//!
//! It wraps a disk that injects faults, which wraps one in memory. When the daemon is killed its disk dies:
//! every later call fails and changes nothing, as if there were no process to make it.

use crate::executor::pause;
use paceline_journal::LockError;
use paceline_journal::disk::{Access, Disk, DiskFile, Facts, FaultyDisk, Lock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The disk as one run of the daemon sees it.
#[derive(Debug)]
pub struct PausingDisk {
    inner: Arc<FaultyDisk>,
    is_dead: Arc<AtomicBool>,
}

impl PausingDisk {
    /// A disk that wraps `inner`.
    #[must_use]
    pub fn new(inner: Arc<FaultyDisk>) -> Self {
        Self { inner, is_dead: Arc::default() }
    }

    /// Called when the daemon is killed.
    pub fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// Whether the daemon is dead: it was killed, or died at a call.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst) || self.inner.is_dead()
    }
}

fn alive(is_dead: &AtomicBool) -> io::Result<()> {
    match is_dead.load(Ordering::SeqCst) {
        true => Err(io::Error::other("the process is dead")),
        false => Ok(()),
    }
}

/// Makes a call that changes the disk, after everything else had a chance to run.
fn change<T>(is_dead: &AtomicBool, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    pause();
    alive(is_dead)?;
    call()
}

impl Disk for PausingDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn lock(&self, path: &Path) -> Result<Lock, LockError> {
        self.inner.lock(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let inner = change(&self.is_dead, || self.inner.open(path, access))?;
        Ok(Arc::new(PausingFile { inner, is_dead: Arc::clone(&self.is_dead) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        change(&self.is_dead, || self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        change(&self.is_dead, || self.inner.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        change(&self.is_dead, || self.inner.sync_dir(dir))
    }
}

#[derive(Debug)]
struct PausingFile {
    inner: Arc<dyn DiskFile>,
    is_dead: Arc<AtomicBool>,
}

impl DiskFile for PausingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        alive(&self.is_dead)?;
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        change(&self.is_dead, || self.inner.write_at(bytes, offset))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        change(&self.is_dead, || self.inner.truncate(len))
    }

    fn sync(&self) -> io::Result<()> {
        let synced = change(&self.is_dead, || self.inner.sync());
        // The data is on disk, but the call has not returned yet.
        pause();
        synced
    }

    fn facts(&self) -> io::Result<Facts> {
        self.inner.facts()
    }
}
