//! The file that is to replace the journal, while it is being written.
//!
//! Owns `<name>.tmp` from its creation to the rename, and removes it if it comes to nothing. May
//! be written on another thread while the journal goes on. Promises that nothing unchecked is
//! copied from the old file, and that the new one is synced before it takes the old one's name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile, Facts, Lock, write_all};
use crate::error::{Failure, RewriteError};
use crate::file::tmp_path;
use crate::log::Position;
use crate::reader::{Damage, ReadError, Reader};

/// How much is gathered before it is written.
const PIECE: usize = 256 * 1024;

/// A replacement for a journal, begun by `Log::rewrite`, put in place by `Log::install`.
///
/// Dropping it gives up: the new file is removed, the old one goes on.
#[derive(Debug)]
pub struct Rewrite {
    disk: Arc<dyn Disk>,
    old_path: PathBuf,
    old: Arc<dyn DiskFile>,
    tmp: PathBuf,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// How much of the new file is written, not counting the buffer.
    written: u64,
    /// How much the caller wrote, tails not counted.
    base: u64,
    /// What went wrong, if something did: then nothing more is written, and nothing installed.
    failed: Option<RewriteError>,
    /// True once the new file has its final name.
    renamed: bool,
    /// Keeps the lock held, and the log aware, while this exists.
    _alive: (Arc<Lock>, Arc<()>),
}

impl Rewrite {
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        path: &Path,
        old: Arc<dyn DiskFile>,
        mode: u32,
        alive: (Arc<Lock>, Arc<()>),
    ) -> Result<Rewrite, RewriteError> {
        let tmp = tmp_path(path);
        let file = disk
            .open(&tmp, Access::Create(mode))
            // Nobody else can have a file that was just made.
            .and_then(|file| file.claim().map(|_| file))
            .map_err(|error| RewriteError::from_failure(Failure::new("create", &tmp, error)))?;
        // Root may rewrite the journal of a daemon that runs as another user, and must not take it away.
        if let (Ok(Some(before)), Ok(now)) = (old.owner(), file.owner())
            && now != Some(before)
        {
            let _ = file.give(before);
        }
        Ok(Rewrite {
            disk,
            old_path: path.to_path_buf(),
            old,
            tmp,
            file,
            buffer: Vec::new(),
            written: 0,
            base: 0,
            failed: None,
            renamed: false,
            _alive: alive,
        })
    }

    /// Adds framed records. After a failure, of this or another call, every call fails the same.
    pub fn write(&mut self, records: &[u8]) -> Result<(), RewriteError> {
        self.attempt(|rewrite| rewrite.put(records))?;
        self.base += records.len() as u64;
        Ok(())
    }

    /// Copies the records between two positions of the old file behind what has been written.
    /// Done in several rounds, it leaves `install` little to copy.
    pub fn copy_tail(&mut self, from: Position, to: Position) -> Result<(), RewriteError> {
        self.attempt(|rewrite| rewrite.copy(from, to))
    }

    /// Makes what has been written so far survive a loss of power. `install` does it anyway; done
    /// before, on another thread, it leaves little to sync then.
    pub fn sync(&mut self) -> Result<(), RewriteError> {
        self.attempt(|rewrite| {
            rewrite.flush()?;
            rewrite.file.sync().map_err(|error| rewrite.failure("sync", error))
        })
    }

    /// How long the new file is by now.
    pub fn size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn replaces(&self, file: &Arc<dyn DiskFile>) -> bool {
        Arc::ptr_eq(&self.old, file)
    }

    /// Gives the new file, which must be synced, the name of the old one.
    pub(crate) fn rename_over(
        mut self,
        path: &Path,
    ) -> Result<(Arc<dyn DiskFile>, Facts), RewriteError> {
        let facts = self.file.facts().map_err(|error| self.failure("examine", error))?;
        if facts.len == 0 || facts.len != self.written {
            return Err(RewriteError::Range(self.old_path.clone()));
        }
        self.disk.rename(&self.tmp, path).map_err(|error| self.failure("rename", error))?;
        self.renamed = true;
        Ok((Arc::clone(&self.file), facts))
    }

    fn attempt(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        step(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn copy(&mut self, from: Position, to: Position) -> Result<(), RewriteError> {
        if from > to {
            return Err(RewriteError::Range(self.old_path.clone()));
        }
        let mut reader = Reader::new(Arc::clone(&self.old), from, to);
        loop {
            match reader.advance() {
                Ok(true) => self.put(reader.framed())?,
                Ok(false) => return Ok(()),
                Err(ReadError::Io(error)) => {
                    return Err(RewriteError::Io(Failure::new("read", &self.old_path, error)));
                }
                Err(ReadError::Damage(Damage { offset, reason })) => {
                    let path = self.old_path.clone();
                    return Err(RewriteError::Corrupt { path, offset, reason });
                }
            }
        }
    }

    fn put(&mut self, records: &[u8]) -> Result<(), RewriteError> {
        if self.buffer.len() + records.len() > PIECE {
            self.flush()?;
        }
        if records.len() >= PIECE {
            return self.write_through(records);
        }
        self.buffer.extend_from_slice(records);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RewriteError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.write_through(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        write_all(&*self.file, bytes, self.written)
            .map_err(|(_, error)| self.failure("write", error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn failure(&self, action: &'static str, error: std::io::Error) -> RewriteError {
        RewriteError::from_failure(Failure::new(action, &self.tmp, error))
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        if !self.renamed {
            // The next opening removes it too, should this fail.
            let _ = self.disk.remove(&self.tmp);
        }
    }
}
