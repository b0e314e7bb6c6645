//! The file that is to replace the journal, while it is being written.
//!
//! Owns `<name>.tmp` from its creation to the rename, and removes it if the rewrite is abandoned. It may
//! be written on another thread while the journal stays in use. Promises that every record copied from
//! the old file is checked, and that the new file is synced before it takes the old one's name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile, Facts, Lock, write_all};
use crate::error::{Failure, RewriteError};
use crate::file::tmp_path;
use crate::log::Position;
use crate::mark::Mark;
use crate::reader::{Damage, ReadError, Reader};

/// How many bytes are buffered before they are written.
const PIECE: usize = 256 * 1024;

/// A replacement for a journal, begun by `Log::rewrite`, put in place by `Log::install`.
///
/// Dropping it abandons the rewrite: the new file is removed, and the old one stays in service.
#[derive(Debug)]
pub struct Rewrite {
    disk: Arc<dyn Disk>,
    old_path: PathBuf,
    old: Arc<dyn DiskFile>,
    tmp: PathBuf,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// How much of the new file is written, without the buffer.
    written: u64,
    /// The last record that the caller wrote, without copied tails.
    base: Mark,
    /// The last record of all.
    last: Mark,
    /// The first failure, if any. After it nothing more is written or installed.
    failed: Option<RewriteError>,
    /// True once the new file has its final name.
    renamed: bool,
    /// While this exists, the lock stays held and the log knows of the rewrite.
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
            // No other process can have opened a file that was just created.
            .and_then(|file| file.claim().map(|_| file))
            .map_err(|error| RewriteError::from_failure(Failure::new("create", &tmp, error)))?;
        // Root may rewrite the journal of a daemon that runs as another user; the file must stay that user's.
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
            base: Mark::default(),
            last: Mark::default(),
            failed: None,
            renamed: false,
            _alive: alive,
        })
    }

    /// Adds framed records. After a call has failed, every later call returns the same error.
    pub fn write(&mut self, records: &[u8]) -> Result<(), RewriteError> {
        self.attempt(|rewrite| rewrite.put(records))?;
        self.base = self.last;
        Ok(())
    }

    /// Appends the records between two positions of the old file. A caller that does this in several rounds leaves
    /// little for `install` to copy.
    pub fn copy_tail(&mut self, from: Position, to: Position) -> Result<(), RewriteError> {
        self.attempt(|rewrite| rewrite.copy(from, to))
    }

    /// Makes what has been written so far survive a loss of power. `install` syncs in any case; an
    /// earlier sync on another thread leaves it little to do.
    pub fn sync(&mut self) -> Result<(), RewriteError> {
        self.attempt(|rewrite| {
            rewrite.flush()?;
            rewrite.file.sync().map_err(|error| rewrite.failure("sync", error))
        })
    }

    /// The current length of the new file.
    pub fn size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn base(&self) -> Mark {
        self.base
    }

    pub(crate) fn last(&self) -> Mark {
        self.last
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
        if !records.is_empty() {
            self.last = Mark::last(records, self.size());
        }
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
            // If this fails, the next opening removes it.
            let _ = self.disk.remove(&self.tmp);
        }
    }
}
