//! The log in a file.
//!
//! Owns the descriptor, the positions and the lock of one journal. States:
//!
//! ```text
//! in service --append fails for room or a read-only disk, file cut back--> in service
//! in service --any other failed append, cut or sync--> broken
//! broken ------install of a new file--> in service
//! ```
//!
//! While the log is broken, every append and sync returns the error that broke it (J4). When `append`
//! returns, the file holds the whole batch or nothing of it. If the process is killed during `append`,
//! the batch is a torn tail (J2).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::disk::{Access, Disk, DiskFile, Facts, Lock, RealDisk, write_all};
use crate::error::{AppendError, Failure, OpenError, RewriteError, SyncError};
use crate::follow::{Follow, Mode, lock_path};
use crate::frame::{LEAD, frame};
use crate::log::{Log, Position, SyncDone, SyncJob};
use crate::mark::Mark;
use crate::reader::Reader;
use crate::rewrite::Rewrite;
use crate::side::{Known, SideFile, State, beside, directory};

/// A log in a file, in the format of OVSDB's standalone log.
#[derive(Debug)]
pub struct FileLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    facts: Facts,
    side: SideFile,
    /// None if opened read-only. Shared with a rewrite, so that it stays held while one exists.
    lock: Option<Arc<Lock>>,
    /// The last record.
    last: Mark,
    /// The last record that is synced.
    synced: Mark,
    /// The last record of the last rewrite.
    base: Mark,
    broken: Option<Failure>,
    /// Alive while a rewrite is under way.
    rewriting: Weak<()>,
}

impl FileLog {
    /// Opens an existing file. The `Follow` reads its records and then returns the log.
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Follow, OpenError> {
        Self::open_on(Arc::new(RealDisk), path, mode)
    }

    /// Opens an existing file on a given disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        path: impl AsRef<Path>,
        mode: Mode,
    ) -> Result<Follow, OpenError> {
        Follow::open(disk, path.as_ref(), mode)
    }

    /// Creates a file whose first record has the body `schema`. Fails if the file exists.
    pub fn create(path: impl AsRef<Path>, schema: &[u8]) -> Result<FileLog, OpenError> {
        Self::create_on(Arc::new(RealDisk), path, schema)
    }

    /// Creates a file on a given disk.
    pub fn create_on(
        disk: Arc<dyn Disk>,
        path: impl AsRef<Path>,
        schema: &[u8],
    ) -> Result<FileLog, OpenError> {
        let path = path.as_ref();
        let io = |error| OpenError::Io(Failure::new("create", path, error));
        let place = disk.resolve(path).map_err(io)?;
        let exists = |disk: &dyn Disk| match disk.open(&place, Access::Read) {
            Ok(_) => Err(OpenError::Exists(place.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io(error)),
        };
        exists(&*disk)?;
        let lock = Arc::new(disk.lock(&lock_path(&place)).map_err(OpenError::Locked)?);
        // Checked again under the lock: another process may just have created it.
        exists(&*disk)?;

        let tmp = tmp_path(&place);
        remove_if_there(&*disk, &tmp).map_err(OpenError::Io)?;
        let mut record = Vec::new();
        frame(schema, &mut record);
        // The file gets its name when it is complete, so that no partial file is ever visible.
        let made = (|| {
            let file = disk.open(&tmp, Access::Create(0o600))?;
            file.claim()?;
            write_all(&*file, &record, 0).map_err(|(_, error)| error)?;
            file.sync()?;
            disk.rename(&tmp, &place)?;
            disk.sync_dir(directory(&place))?;
            let facts = file.facts()?;
            Ok((file, facts))
        })();
        let (file, facts) = made.map_err(|error| {
            let _ = disk.remove(&tmp);
            io(error)
        })?;
        let side = SideFile::new(&place);
        let mut log = FileLog::new(disk, place, file, side, Some(lock));
        let schema = Mark::last(&record, 0);
        log.begin(facts, schema, schema);
        Ok(log)
    }

    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        file: Arc<dyn DiskFile>,
        side: SideFile,
        lock: Option<Arc<Lock>>,
    ) -> Self {
        FileLog {
            disk,
            path,
            file,
            facts: Facts { len: 0, inode: 0, born: 0, mode: 0o600, regular: true },
            side,
            lock,
            last: Mark::default(),
            synced: Mark::default(),
            base: Mark::default(),
            broken: None,
            rewriting: Weak::new(),
        }
    }

    /// Puts the log in service after the record `last`, up to which the file is synced and its name is safe.
    pub(crate) fn begin(&mut self, facts: Facts, last: Mark, base: Mark) {
        self.enter(facts, last, base);
        if !self.is_read_only() {
            self.settle_side(State::Ended);
        }
    }

    fn enter(&mut self, facts: Facts, last: Mark, base: Mark) {
        self.facts = facts;
        self.last = last;
        self.synced = last;
        self.base = base;
        self.broken = None;
    }

    fn settle_side(&mut self, state: State) {
        self.side.settle(&*self.disk, &self.facts, self.known(state));
    }

    fn known(&self, state: State) -> Known {
        Known { synced: self.synced, base: self.base, state }
    }

    /// The file's name, with symbolic links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the log was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.lock.is_none()
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    pub(crate) fn sync_dir(&self) -> Result<(), Failure> {
        let dir = directory(&self.path);
        self.disk.sync_dir(dir).map_err(|error| Failure::new("sync", dir, error))
    }

    /// Removes the temporary file of a rewrite that was killed.
    pub(crate) fn remove_stale(&self) -> Result<(), Failure> {
        remove_if_there(&*self.disk, &tmp_path(&self.path))
    }

    fn failure(&self, action: &'static str, error: io::Error) -> Failure {
        Failure::new(action, &self.path, error)
    }

    fn read_only(&self, action: &'static str) -> Failure {
        let kind = io::ErrorKind::ReadOnlyFilesystem;
        self.failure(action, io::Error::new(kind, "the file is opened read-only"))
    }

    /// Removes a batch that failed after `written` bytes, and returns the error for the caller.
    fn take_back(&mut self, written: usize, error: io::Error) -> AppendError {
        let failure = self.failure("append", error);
        let mut restored = self.file.truncate(self.last.end);
        if written > 0 && restored.is_ok() {
            // A refused batch must not reappear if power is lost before the next sync.
            restored = self.file.sync();
        }
        if failure.is_read_only() && written == 0 {
            return AppendError::ReadOnly(failure);
        }
        match restored {
            Ok(()) if failure.is_full() => AppendError::Full(failure),
            Ok(()) if failure.is_read_only() => AppendError::ReadOnly(failure),
            Err(error) if failure.is_full() => self.break_with(self.failure("cut back", error)),
            _ => self.break_with(failure),
        }
    }

    fn break_with(&mut self, failure: Failure) -> AppendError {
        self.broken = Some(failure.clone());
        AppendError::Io(failure)
    }
}

impl Log for FileLog {
    fn append(&mut self, expected: Position, records: &[u8]) -> Result<Position, AppendError> {
        debug_assert!(records.is_empty() || records.starts_with(LEAD), "records must be framed");
        if let Some(failure) = &self.broken {
            return Err(AppendError::Io(failure.clone()));
        }
        if self.is_read_only() {
            return Err(AppendError::ReadOnly(self.read_only("append")));
        }
        if expected != self.position() {
            return Err(AppendError::Moved { expected, actual: self.position() });
        }
        if !self.side.is_settled(State::Grows) {
            // Without the side file, a loss of power before the next sync could look like damage (J2).
            self.settle_side(State::Grows);
        }
        match write_all(&*self.file, records, expected.0) {
            Ok(()) => {
                if !records.is_empty() {
                    self.last = Mark::last(records, expected.0);
                }
                Ok(self.position())
            }
            Err((written, error)) => Err(self.take_back(written, error)),
        }
    }

    fn begin_sync(&self) -> Result<SyncJob, SyncError> {
        match &self.broken {
            Some(failure) => Err(SyncError(failure.clone())),
            None => Ok(SyncJob { file: Arc::clone(&self.file), upto: self.last }),
        }
    }

    fn end_sync(&mut self, done: SyncDone) -> Result<Position, SyncError> {
        // If the file has been replaced in the meantime, the outcome no longer matters: the new file was synced
        // before it replaced the old one.
        if Arc::ptr_eq(&done.file, &self.file) {
            let upto = done.upto;
            if let Some(failure) = done.failure(&self.path) {
                self.broken.get_or_insert(failure);
            }
            if let Some(failure) = &self.broken {
                return Err(SyncError(failure.clone()));
            }
            if upto.end > self.synced.end {
                self.synced = upto;
                let known = self.known(State::Grows);
                self.side.note(&*self.disk, &self.facts, known);
            }
        }
        Ok(self.synced())
    }

    fn take_back_to(&mut self, to: Position) {
        if self.broken.is_some() && to < self.position() && self.file.truncate(to.0).is_ok() {
            // Which record ends there is not needed: nothing is synced until the file is replaced.
            self.last = Mark { start: to.0, end: to.0, hash: 0 };
        }
    }

    fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    fn position(&self) -> Position {
        Position(self.last.end)
    }

    fn synced(&self) -> Position {
        Position(self.synced.end)
    }

    fn base(&self) -> u64 {
        self.base.end
    }

    fn follow(&self, from: Position) -> Reader {
        Reader::new(Arc::clone(&self.file), from, self.position())
    }

    fn rewrite(&mut self) -> Result<Rewrite, RewriteError> {
        let Some(lock) = &self.lock else {
            return Err(RewriteError::ReadOnly(self.read_only("rewrite")));
        };
        if self.rewriting.strong_count() > 0 {
            return Err(RewriteError::Busy(self.path.clone()));
        }
        let alive = Arc::new(());
        self.rewriting = Arc::downgrade(&alive);
        remove_if_there(&*self.disk, &tmp_path(&self.path)).map_err(RewriteError::from_failure)?;
        Rewrite::begin(
            Arc::clone(&self.disk),
            &self.path,
            Arc::clone(&self.file),
            self.facts.mode,
            (Arc::clone(lock), alive),
        )
    }

    fn install(
        &mut self,
        mut rewrite: Rewrite,
        copy_from: Position,
    ) -> Result<Position, RewriteError> {
        if !rewrite.replaces(&self.file) {
            return Err(RewriteError::Stale(self.path.clone()));
        }
        let base = rewrite.base();
        rewrite.copy_tail(copy_from, self.position())?;
        rewrite.sync()?;
        let last = rewrite.last();
        let (file, facts) = rewrite.rename_over(&self.path)?;
        // From here on the name refers to the new file, whatever happens next.
        self.file = file;
        if let Err(failure) = self.sync_dir() {
            // A loss of power could still restore the old file. So nothing more may be written to the new one until
            // its name is safe, and the side file continues to describe the old one.
            self.enter(facts, last, base);
            self.broken = Some(failure.clone());
            return Err(RewriteError::Io(failure));
        }
        self.enter(facts, last, base);
        // It is in service already, so the next append is near.
        self.settle_side(State::Grows);
        Ok(self.position())
    }
}

/// Notes that the file ends where it is synced, so that whatever is found after that is not ours.
impl Drop for FileLog {
    fn drop(&mut self) {
        let is_whole = self.broken.is_none() && self.last == self.synced;
        if is_whole && self.side.is_settled(State::Grows) {
            let known = self.known(State::Ended);
            self.side.note(&*self.disk, &self.facts, known);
        }
    }
}

/// The name of the file that is to replace the journal.
pub(crate) fn tmp_path(journal: &Path) -> PathBuf {
    beside(journal, "", ".tmp")
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), Failure> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new("remove", path, error))
        }
        _ => Ok(()),
    }
}
