//! The side file `.<name>.synced`: up to which position the journal is known to be synced.
//!
//! Owns that file. It has two slots, each with a position and the identity of the journal it describes.
//!
//! - The first slot is written and synced when a journal comes into service, before anything is appended.
//! - The second slot is overwritten after each sync of the journal, and is not synced.
//!
//! A slot that is missing, unreadable or about another journal counts as unknown. A loss of power may damage the
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
use sha1::{Digest as _, Sha1};

/// What is known about a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Synced up to here.
    pub synced: u64,
    /// The journal's size when it was last rewritten.
    pub base: u64,
}

/// The side file of one journal.
#[derive(Debug)]
pub(crate) struct SideFile {
    path: PathBuf,
    /// The open file, once its first slot is synced and describes the current journal.
    file: Option<Arc<dyn DiskFile>>,
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
        // The newer one, if both are valid.
        slot(0).into_iter().chain(slot(SLOT)).max_by_key(|known| known.synced)
    }

    /// True if the first slot is synced and describes the current journal.
    pub fn is_settled(&self) -> bool {
        self.file.is_some()
    }

    /// Writes what is known when a journal comes into service, and syncs it. Whatever happens to later notes, damage
    /// after this position is then known to be a torn tail.
    pub fn settle(&mut self, disk: &dyn Disk, facts: &Facts, known: Known) {
        let text = format(facts, known);
        self.file = None;
        // A file that failed once is not trusted again: the second attempt makes another one (J4).
        for _ in 0..2 {
            if let Ok(file) = self.make(disk, &text) {
                self.file = Some(file);
                return;
            }
            // Not synced, because every append to a full disk without a side file executes this.
            let _ = disk.remove(&self.path);
        }
    }

    /// Writes what is known after a sync of the journal.
    pub fn note(&mut self, disk: &dyn Disk, facts: &Facts, known: Known) {
        let Some(file) = &self.file else { return self.settle(disk, facts, known) };
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
const LEN: usize = 4 * 20 + "synced  base  inode  born  sum 01234567\n".len();

fn format(facts: &Facts, known: Known) -> String {
    let (Known { synced, base }, Facts { inode, born, .. }) = (known, facts);
    let text = format!("synced {synced:020} base {base:020} inode {inode:020} born {born:020}");
    // A write that a loss of power interrupts may leave digits of two texts, which look like a number.
    let sum = Sha1::digest(text.as_bytes());
    let sum: String = sum.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{text} sum {sum}\n")
}

fn parse(text: &[u8], facts: &Facts) -> Option<Known> {
    let words: Vec<&str> = std::str::from_utf8(text).ok()?.split_ascii_whitespace().collect();
    let ["synced", synced, "base", base, "inode", _, "born", _, "sum", _] = words[..] else {
        return None;
    };
    let known = Known { synced: synced.parse().ok()?, base: base.parse().ok()? };
    (format(facts, known).as_bytes() == text).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(inode: u64, born: u64) -> Facts {
        Facts { len: 0, inode, born, mode: 0o600, regular: true }
    }

    #[test]
    fn only_a_whole_text_about_this_file_is_believed() {
        let known = Known { synced: 700, base: 300 };
        let text = format(&facts(7, 9), known);
        assert_eq!(text.len(), LEN);
        let largest = Known { synced: u64::MAX, base: u64::MAX };
        assert_eq!(format(&facts(u64::MAX, u64::MAX), largest).len(), LEN);

        let half = &text.as_bytes()[..LEN / 2];
        let table: &[(&[u8], Facts, Option<Known>)] = &[
            (text.as_bytes(), facts(7, 9), Some(known)),
            (text.as_bytes(), facts(8, 9), None),
            (text.as_bytes(), facts(7, 8), None),
            (half, facts(7, 9), None),
            (b"", facts(7, 9), None),
            (&[0xff; LEN], facts(7, 9), None),
        ];
        for (text, facts, expected) in table {
            assert_eq!(parse(text, facts), *expected, "{}", String::from_utf8_lossy(text));
        }
    }

    /// J2: whatever a loss of power leaves of the following notes, the first one is known.
    #[test]
    fn a_loss_of_power_leaves_what_was_settled_j2() {
        for seed in 0..200 {
            let disk = crate::disk::MemoryDisk::new();
            let mut side = SideFile::new(Path::new("journal"));
            side.settle(&disk, &facts(7, 9), Known { synced: 10, base: 0 });
            for synced in 11..15 {
                side.note(&disk, &facts(7, 9), Known { synced, base: 0 });
                let known = side.read(&disk, &facts(7, 9)).map(|known| known.synced);
                assert_eq!(known, Some(synced));
            }
            disk.lose_power(seed);
            let known = side.read(&disk, &facts(7, 9)).map(|known| known.synced);
            assert!(known.is_some_and(|synced| (10..15).contains(&synced)), "{seed}: {known:?}");
        }
    }
}
