//! The side file `.<name>.synced`: up to which position the journal is known to be synced.
//!
//! Owns that file. It has two slots, each with positions and the identity of the journal it describes: its inode, its
//! birth time, and for each position the record that ends there. A copy over an existing file keeps the inode and the
//! birth time, but has other records there.
//!
//! - The first slot is written and synced when a journal comes into service. It says that the file ends at the synced
//!   position: a newly created file has no content that could distinguish it from others.
//! - Before the first append the first slot is written and synced again, and says that the file grows.
//! - The second slot is overwritten after each sync of the journal, and when the journal is closed. It is not synced.
//!
//! A slot that is missing, unreadable or about another journal counts as unknown. So does one of the format before
//! November 2026, which did not name records. A loss of power may damage the
//! second slot, and a write of it may fail. The first slot is then still valid. So the known position may be older
//! than the real one, but never newer, and damage after it is always a torn tail (J2).
//!
//! A failure to write is not an error. If the first slot cannot be written, the file is created anew once. If that
//! fails too, the file is removed, because it may describe another journal, and the log tries again before its next
//! append.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile, Facts, read_full, write_all};
use crate::mark::Mark;
use sha1::{Digest as _, Sha1};

/// What is known about a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The last record that is synced.
    pub synced: Mark,
    /// The last record when the journal was last rewritten.
    pub base: Mark,
    /// Whether more may follow the synced part.
    pub state: State,
}

impl Known {
    /// True if a journal that has `record` is not the one that was described.
    pub fn contradicts(&self, record: &Mark) -> bool {
        self.synced.contradicts(record) || self.base.contradicts(record)
    }
}

/// Whether the journal may be longer than its synced part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Records may have been appended since.
    Grows,
    /// Nothing was appended since: if there is more, another process wrote it.
    Ended,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Grows => "grows",
            State::Ended => "ended",
        }
    }
}

/// The side file of one journal.
#[derive(Debug)]
pub(crate) struct SideFile {
    path: PathBuf,
    /// The open file, once its first slot is synced and describes the current journal in this state.
    file: Option<(Arc<dyn DiskFile>, State)>,
}

impl SideFile {
    pub fn new(journal: &Path) -> Self {
        SideFile { path: beside(journal, ".", ".synced"), file: None }
    }

    /// Reads what is known about the journal that `facts` describes.
    pub fn read(&self, disk: &dyn Disk, facts: &Facts) -> Option<Known> {
        let file = disk.open(&self.path, Access::Read).ok()?;
        let slot = |offset: u64| {
            let mut buffer = [0; LEN];
            let got = read_full(&*file, &mut buffer, offset).ok()?;
            parse(buffer.get(..got)?, facts)
        };
        // The newer one, if both are valid. A file that ended grows before its synced position changes.
        let newer = |known: &Known| (known.synced.end, known.state == State::Grows);
        let known = slot(0).into_iter().chain(slot(SLOT)).max_by_key(newer)?;
        (known.state == State::Grows || facts.len <= known.synced.end).then_some(known)
    }

    /// True if the first slot is synced and describes the current journal in this state.
    pub fn is_settled(&self, state: State) -> bool {
        self.file.as_ref().is_some_and(|(_, settled)| *settled == state)
    }

    /// Writes what is known when a journal comes into service, and syncs it. Whatever happens to later notes, damage
    /// after this position is then known to be a torn tail.
    pub fn settle(&mut self, disk: &dyn Disk, facts: &Facts, known: Known) {
        let text = format(facts, known);
        let before = self.file.take();
        if let (Some((file, State::Ended)), State::Grows) = (before, known.state) {
            let written = write_all(&*file, text.as_bytes(), 0).map_err(|(_, error)| error);
            if written.and_then(|()| file.sync()).is_ok() {
                self.file = Some((file, State::Grows));
                return;
            }
            let _ = disk.remove(&self.path);
        }
        // A file that failed once is not trusted again: the second attempt makes another one (J4).
        for _ in 0..2 {
            if let Ok(file) = self.make(disk, &text) {
                self.file = Some((file, known.state));
                return;
            }
            // Not synced, because every append to a full disk without a side file executes this.
            let _ = disk.remove(&self.path);
        }
    }

    /// Writes what is known after a sync of the journal, or when it is closed.
    pub fn note(&mut self, disk: &dyn Disk, facts: &Facts, known: Known) {
        let Some((file, _)) = &self.file else { return self.settle(disk, facts, known) };
        let text = format(facts, known);
        let is_written = || write_all(&**file, text.as_bytes(), SLOT).is_ok();
        // If both attempts fail, the first slot holds until the next note.
        let _ = is_written() || is_written();
    }

    fn make(&self, disk: &dyn Disk, text: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = disk
            .open(&self.path, Access::Write)
            .or_else(|_| disk.open(&self.path, Access::Create(0o600)))?;
        file.truncate(SLOT + LEN as u64)?;
        for slot in [0, SLOT] {
            write_all(&*file, text.as_bytes(), slot).map_err(|(_, error)| error)?;
        }
        file.sync()?;
        disk.sync_dir(directory(&self.path))?;
        Ok(file)
    }
}

/// The name of a file in the journal's directory, made from the journal's own.
pub(crate) fn beside(journal: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(before);
    name.push(journal.file_name().unwrap_or_default());
    name.push(after);
    journal.with_file_name(name)
}

/// The directory of a file.
pub(crate) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the second slot begins: in another sector than the first.
const SLOT: u64 = 4_096;

/// Every text has this length, so that each completely replaces the previous one.
const LEN: usize =
    6 * 20 + 2 * 16 + "synced  to   base  to   grows inode  born  sum 01234567\n".len();

fn format(facts: &Facts, known: Known) -> String {
    let (Known { synced, base, state }, Facts { inode, born, .. }) = (known, facts);
    let mark = |Mark { start, end, hash }: Mark| format!("{start:020} to {end:020} {hash:016x}");
    let (synced, base, state) = (mark(synced), mark(base), state.word());
    let text = format!("synced {synced} base {base} {state} inode {inode:020} born {born:020}");
    // A write that a loss of power interrupts may leave digits of two texts, which look like a number.
    let sum = Sha1::digest(text.as_bytes());
    let sum: String = sum.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{text} sum {sum}\n")
}

fn parse(text: &[u8], facts: &Facts) -> Option<Known> {
    let words: Vec<&str> = std::str::from_utf8(text).ok()?.split_ascii_whitespace().collect();
    let ["synced", ref synced @ .., state, "inode", _, "born", _, "sum", _] = words[..] else {
        return None;
    };
    let [synced_start, "to", synced_end, synced_hash, "base", start, "to", end, hash] = synced[..]
    else {
        return None;
    };
    let state = [State::Grows, State::Ended].into_iter().find(|known| known.word() == state)?;
    let synced = parse_mark(synced_start, synced_end, synced_hash)?;
    let known = Known { synced, base: parse_mark(start, end, hash)?, state };
    (format(facts, known).as_bytes() == text).then_some(known)
}

fn parse_mark(start: &str, end: &str, hash: &str) -> Option<Mark> {
    let hash = u64::from_str_radix(hash, 16).ok()?;
    Some(Mark { start: start.parse().ok()?, end: end.parse().ok()?, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(end: u64) -> Mark {
        Mark { start: end / 2, end, hash: end }
    }

    fn known(synced: u64, base: u64) -> Known {
        Known { synced: mark(synced), base: mark(base), state: State::Grows }
    }

    const OLD: &[u8] =
        b"synced 00000000000000000700 base 00000000000000000300 inode 00000000000000000007 \
        born 00000000000000000009 sum 741c8b4e\n";

    fn facts(inode: u64, born: u64) -> Facts {
        Facts { len: 0, inode, born, mode: 0o600, regular: true }
    }

    #[test]
    fn only_a_whole_text_about_this_file_is_believed() {
        let known = known(700, 300);
        let text = format(&facts(7, 9), known);
        assert_eq!(text.len(), LEN);
        let most = Mark { start: u64::MAX, end: u64::MAX, hash: u64::MAX };
        let largest = Known { synced: most, base: most, state: State::Ended };
        assert_eq!(format(&facts(u64::MAX, u64::MAX), largest).len(), LEN);

        let half = &text.as_bytes()[..LEN / 2];
        let table: &[(&[u8], Facts, Option<Known>)] = &[
            (text.as_bytes(), facts(7, 9), Some(known)),
            (text.as_bytes(), facts(8, 9), None),
            (text.as_bytes(), facts(7, 8), None),
            (half, facts(7, 9), None),
            // The previous format, which did not name records.
            (OLD, facts(7, 9), None),
            (b"", facts(7, 9), None),
            (&[0xff; LEN], facts(7, 9), None),
        ];
        for (text, facts, expected) in table {
            assert_eq!(parse(text, facts), *expected, "{}", String::from_utf8_lossy(text));
        }
    }

    /// J3: what follows the end of a file that did not grow was not written by us.
    #[test]
    fn a_file_that_ended_is_not_longer() {
        for (state, len, believed) in [
            (State::Grows, 11, true),
            (State::Ended, 11, false),
            (State::Ended, 10, true),
            (State::Ended, 9, true),
        ] {
            let disk = crate::disk::MemoryDisk::new();
            let mut side = SideFile::new(Path::new("journal"));
            side.settle(&disk, &facts(7, 9), Known { state, ..known(10, 0) });
            let found = side.read(&disk, &Facts { len, ..facts(7, 9) });
            assert_eq!(found.is_some(), believed, "{state:?} {len}");
        }
    }

    /// J2: whatever a loss of power leaves of the following notes, the first one is known.
    #[test]
    fn a_loss_of_power_leaves_what_was_settled_j2() {
        for seed in 0..200 {
            let disk = crate::disk::MemoryDisk::new();
            let mut side = SideFile::new(Path::new("journal"));
            side.settle(&disk, &facts(7, 9), known(10, 0));
            for synced in 11..15 {
                side.note(&disk, &facts(7, 9), known(synced, 0));
                let known = side.read(&disk, &facts(7, 9)).map(|known| known.synced.end);
                assert_eq!(known, Some(synced));
            }
            disk.lose_power(seed);
            let known = side.read(&disk, &facts(7, 9)).map(|known| known.synced.end);
            assert!(known.is_some_and(|synced| (10..15).contains(&synced)), "{seed}: {known:?}");
        }
    }
}
