//! Opening a file: its records are read and checked before the log can be written.
//!
//! Owns the steps from a path to a `FileLog`. Each record is handed to the caller as it is read. Damage
//! is a torn tail (J2) or an error (J3). `finish` cuts a torn tail and returns the log. Before `finish`
//! only the lock file changes on disk; in read-only mode nothing does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile, Facts};
use crate::error::{Failure, LockError, OpenError};
use crate::file::FileLog;
use crate::frame::parse_header;
use crate::log::Position;
use crate::mark::Mark;
use crate::reader::{Damage, ReadError, Reader, Record};
use crate::salvage::{Verdict, judge, keep_aside};
use crate::side::{Known, SideFile, beside};

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To be read and then appended to. Takes the lock file.
    ReadWrite,
    /// To be read only. Takes no lock and changes nothing on disk.
    ReadOnly,
}

/// The result of an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The number of records.
    pub records: u64,
    /// Where the last record ends.
    pub position: Position,
    /// The torn tail after it, if there was one: the host should log it.
    pub torn: Option<Torn>,
    /// Up to where the file was known to be synced when it was opened.
    pub synced: Option<Position>,
}

impl Recovery {
    /// True if records that were once synced are missing, which no crash can explain.
    pub fn lost_synced(&self) -> bool {
        self.synced.is_some_and(|synced| self.position < synced)
    }
}

/// A torn tail (J2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins.
    pub offset: Position,
    /// How long it is.
    pub bytes: u64,
    /// What is wrong with the record there.
    pub reason: String,
    /// The file where it is kept. None if there was no room for it, or if the journal was opened read-only and not cut.
    pub kept: Option<PathBuf>,
}

/// A journal that is being opened.
///
/// Call `next` until it returns `None`, then `finish`.
#[derive(Debug)]
pub struct Follow {
    log: FileLog,
    facts: Facts,
    known: Option<Known>,
    reader: Reader,
    records: u64,
    /// The last record that was read.
    last: Mark,
    /// The second record, which is the snapshot in a compacted file, or the first if there is no other.
    second: Mark,
    torn: Option<Torn>,
}

impl Follow {
    pub(crate) fn open(disk: Arc<dyn Disk>, path: &Path, mode: Mode) -> Result<Follow, OpenError> {
        let io = |action, error| OpenError::Io(Failure::new(action, path, error));
        let place = disk.resolve(path).map_err(|error| io("open", error))?;
        let (access, lock) = match mode {
            Mode::ReadOnly => (Access::Read, None),
            Mode::ReadWrite => {
                // If the file is missing, no lock file must be left behind.
                disk.open(&place, Access::Read).map_err(|error| io("open", error))?;
                let lock = disk.lock(&lock_path(&place)).map_err(OpenError::Locked)?;
                (Access::Write, Some(Arc::new(lock)))
            }
        };
        let file = disk.open(&place, access).map_err(|error| io("open", error))?;
        let facts = file.facts().map_err(|error| io("examine", error))?;
        check_kind(&place, &*file, &facts)?;
        if mode == Mode::ReadWrite && !file.claim().map_err(|error| io("lock", error))? {
            return Err(OpenError::Locked(LockError::OtherName(place)));
        }

        let side = SideFile::new(&place);
        let known = side.read(&*disk, &facts);
        let reader = Reader::new(Arc::clone(&file), Position(0), Position(facts.len));
        let log = FileLog::new(disk, place, file, side, lock);
        let (last, second) = (Mark::default(), Mark::default());
        Ok(Follow { log, facts, known, reader, records: 0, last, second, torn: None })
    }

    /// The next record, or `None` at the end of the file or where its torn tail begins.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, OpenError> {
        Ok(if self.advance()? { Some(self.reader.record()) } else { None })
    }

    /// The error for a record that is undamaged but rejected by its reader.
    pub fn reject(&self, offset: Position, reason: impl Into<String>) -> OpenError {
        let path = self.log.path().to_path_buf();
        OpenError::Invalid { path, offset, reason: reason.into() }
    }

    /// How long the file was when it was opened.
    pub fn file_len(&self) -> u64 {
        self.facts.len
    }

    /// Reads the remaining records, cuts a torn tail, syncs, and returns the log.
    pub fn finish(mut self) -> Result<(FileLog, Recovery), OpenError> {
        while self.advance()? {}
        let position = self.reader.position();
        if self.known.is_some_and(|known| position.0 < known.base.end) {
            self.judge(Damage { offset: position, reason: "the file ends here".to_owned() })?;
        }
        if !self.log.is_read_only() {
            self.settle(position).map_err(OpenError::Io)?;
        }
        let base = self.known.map_or(self.second, |known| known.base);
        self.log.begin(self.facts, self.last, base);
        let synced = self.known.map(|known| Position(known.synced.end));
        let recovery = Recovery { records: self.records, position, torn: self.torn, synced };
        Ok((self.log, recovery))
    }

    fn advance(&mut self) -> Result<bool, OpenError> {
        if self.torn.is_some() {
            return Ok(false);
        }
        match self.reader.advance() {
            Ok(true) => {
                self.records += 1;
                self.last = self.reader.mark();
                if self.records <= 2 {
                    self.second = self.last;
                }
                // Another file was copied over this one, so nothing is known about the content (J3).
                self.known = self.known.filter(|known| !known.contradicts(&self.last));
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(ReadError::Io(error)) => Err(self.io("read", error)),
            Err(ReadError::Damage(damage)) => self.judge(damage).map(|()| false),
        }
    }

    fn judge(&mut self, Damage { offset, reason }: Damage) -> Result<(), OpenError> {
        let corrupt =
            |reason| OpenError::Corrupt { path: self.log.path().to_path_buf(), offset, reason };
        if offset == Position(0) {
            // Without its schema the file is not a database, whatever else it holds.
            return Err(corrupt(format!("the first record is damaged: {reason}")));
        }
        if let Some(base) = self.known.map(|known| known.base.end).filter(|base| offset.0 < *base) {
            // A rewritten file gets its name after it is synced, so no crash tears this part. Its snapshot is one
            // record: if it were cut as a torn tail, the database would be empty.
            return Err(corrupt(format!(
                "{reason}; the file was complete up to offset {base} when it was last compacted"
            )));
        }
        let synced = self.known.map(|known| Position(known.synced.end));
        if self.records == 1 && synced.is_none_or(|synced| offset < synced) {
            // No crash damages a record that is known to be synced. Without the side file it is unknown whether the
            // second record is a snapshot, as in a copy of a compacted file. If it were cut, the database would be empty.
            return Err(corrupt(format!(
                "{reason}; it may be the whole content, so it is not cut off as a torn tail"
            )));
        }
        let verdict = judge(self.log.file(), offset, self.facts.len, synced);
        match verdict.map_err(|error| self.io("read", error))? {
            Verdict::Torn => {
                let bytes = self.facts.len - offset.0;
                self.torn = Some(Torn { offset, bytes, reason, kept: None });
                Ok(())
            }
            Verdict::Corrupt { next } => {
                Err(corrupt(format!("{reason}, and a valid record follows at offset {next}")))
            }
        }
    }

    /// Prepares the disk for appending: cuts the torn tail, syncs names and contents.
    fn settle(&mut self, position: Position) -> Result<(), Failure> {
        let log = &self.log;
        log.remove_stale()?;
        let synced = self.known.map(|known| known.synced.end);
        if let Some(torn) = &mut self.torn {
            torn.kept = match keep_aside(log.disk(), log.path(), log.file(), position) {
                Ok(kept) => Some(kept),
                // Records that were never synced were not acknowledged as durable, so it is better to serve than to
                // keep the tail (J5).
                Err(failure) if failure.is_full() && synced.is_some_and(|at| at <= position.0) => {
                    None
                }
                Err(failure) => return Err(failure),
            };
        }
        // The kept tail's name must be safe before the tail is cut. This is needed without a tail too: the previous
        // process may have been killed before its last rename reached the disk.
        log.sync_dir()?;
        if self.torn.is_some() {
            let cut = log.file().truncate(position.0);
            cut.map_err(|error| Failure::new("cut", log.path(), error))?;
        }
        log.file().sync().map_err(|error| Failure::new("sync", log.path(), error))
    }

    fn io(&self, action: &'static str, error: std::io::Error) -> OpenError {
        OpenError::Io(Failure::new(action, self.log.path(), error))
    }
}

/// OVS's name for the lock file of a database.
pub(crate) fn lock_path(journal: &Path) -> PathBuf {
    beside(journal, ".", ".~lock~")
}

/// Refuses files that are not standalone databases.
fn check_kind(path: &Path, file: &dyn DiskFile, facts: &Facts) -> Result<(), OpenError> {
    if !facts.regular {
        return Err(OpenError::NotAFile(path.to_path_buf()));
    }
    if facts.len == 0 {
        return Err(OpenError::Empty(path.to_path_buf()));
    }
    let mut start = [0; crate::frame::HEADER_LEN_MAX];
    let got = crate::disk::read_full(file, &mut start, 0)
        .map_err(|error| OpenError::Io(Failure::new("read", path, error)))?;
    let start = start.get(..got).unwrap_or_default();
    if start.starts_with(b"OVSDB CLUSTER ") {
        return Err(OpenError::Clustered(path.to_path_buf()));
    }
    match parse_header(start) {
        Some(_) => Ok(()),
        None => Err(OpenError::Format(path.to_path_buf())),
    }
}
