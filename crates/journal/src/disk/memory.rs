//! A disk in memory that can lose power.
//!
//! Owns files and names, and for both the state that would survive. After a loss of power a write that was
//! not synced is present, missing or partial, independently of other writes. Changes of names survive in
//! order, and all changes before a sync of the directory survive. There is one directory, and there are
//! no links.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Disk, DiskFile, Facts, Lock};
use crate::error::LockError;

/// A disk in memory. Clones share one disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    names: Names,
    durable: Names,
    /// The changes that lead from `durable` to `names`.
    pending: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    inode: u64,
}

type Names = BTreeMap<PathBuf, Arc<MemoryFile>>;

#[derive(Debug)]
enum NameChange {
    Create(PathBuf, Arc<MemoryFile>),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates the death of the process: locks are released, files stay as they are.
    pub fn kill(&self) {
        hold(&self.0).locks.clear();
    }

    /// Simulates a loss of power: the seed decides which part of what was not synced survives. Files that
    /// are still open are detached from this disk.
    pub fn lose_power(&self, seed: u64) {
        let mut chance = Chance(seed);
        let mut state = hold(&self.0);
        let mut names = std::mem::take(&mut state.durable);
        let pending = std::mem::take(&mut state.pending);
        let kept = chance.below(pending.len() as u64 + 1) as usize;
        pending.into_iter().take(kept).for_each(|change| apply(&mut names, change));
        for file in names.values_mut() {
            *file = Arc::new(file.after_power_loss(&mut chance));
        }
        state.durable = names.clone();
        state.names = names;
        state.locks.clear();
    }

    /// The contents of a file.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let file = hold(&self.0).names.get(path.as_ref()).cloned()?;
        let content = hold(&file.content);
        Some(content.now.clone())
    }

    /// Creates or replaces a file, synced.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut state = hold(&self.0);
        let file = state.new_file(0o600);
        *hold(&file.content) =
            Content { now: bytes.to_vec(), durable: bytes.to_vec(), ..Content::default() };
        state.names.insert(path.as_ref().to_path_buf(), Arc::clone(&file));
        state.durable.insert(path.as_ref().to_path_buf(), file);
    }

    /// Changes the contents of a file behind the journal's back, as a failing disk would.
    pub fn damage(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(file) = hold(&self.0).names.get(path.as_ref()) {
            let mut content = hold(&file.content);
            change(&mut content.now);
            content.durable = content.now.clone();
            content.pending.clear();
        }
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<PathBuf> {
        hold(&self.0).names.keys().cloned().collect()
    }
}

impl State {
    fn new_file(&mut self, mode: u32) -> Arc<MemoryFile> {
        self.inode += 1;
        Arc::new(MemoryFile { inode: self.inode, mode, content: Mutex::default() })
    }

    fn change(&mut self, change: NameChange) {
        match &change {
            NameChange::Create(path, file) => {
                self.names.insert(path.clone(), Arc::clone(file));
            }
            NameChange::Rename(from, to) => rename(&mut self.names, from, to.clone()),
            NameChange::Remove(path) => {
                self.names.remove(path);
            }
        }
        self.pending.push(change);
    }
}

fn apply(names: &mut Names, change: NameChange) {
    match change {
        NameChange::Create(path, file) => {
            names.insert(path, file);
        }
        NameChange::Rename(from, to) => rename(names, &from, to),
        NameChange::Remove(path) => {
            names.remove(&path);
        }
    }
}

fn rename(names: &mut Names, from: &Path, to: PathBuf) {
    if let Some(file) = names.remove(from) {
        names.insert(to, file);
    }
}

impl Disk for MemoryDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    fn lock(&self, path: &Path) -> Result<Lock, LockError> {
        if !hold(&self.0).locks.insert(path.to_path_buf()) {
            return Err(LockError::Ourselves(path.to_path_buf()));
        }
        Ok(Box::new(Held { disk: self.clone(), path: path.to_path_buf() }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = hold(&self.0);
        let found = state.names.get(path).cloned();
        let file = match (access, found) {
            (Access::Read | Access::Write, Some(file)) => file,
            (Access::Read | Access::Write, None) => return Err(io::ErrorKind::NotFound.into()),
            (Access::Create(_), Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Access::Create(mode), None) => {
                let file = state.new_file(mode);
                state.change(NameChange::Create(path.to_path_buf(), Arc::clone(&file)));
                file
            }
        };
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = hold(&self.0);
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(NameChange::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = hold(&self.0);
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(NameChange::Remove(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut state = hold(&self.0);
        state.pending.clear();
        state.durable = state.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct Held {
    disk: MemoryDisk,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        hold(&self.disk.0).locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    inode: u64,
    mode: u32,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// The changes that lead from `durable` to `now`.
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl MemoryFile {
    fn after_power_loss(&self, chance: &mut Chance) -> MemoryFile {
        let mut content = hold(&self.content);
        let mut survives = std::mem::take(&mut content.durable);
        for change in content.pending.drain(..) {
            match change {
                Change::Truncate(len) if chance.below(2) == 0 => survives.resize(len, 0),
                Change::Truncate(_) => {}
                Change::Write(offset, bytes) => match chance.below(4) {
                    0 => {}
                    1 => {
                        let part = chance.below(bytes.len() as u64 + 1) as usize;
                        overwrite(&mut survives, offset, bytes.get(..part).unwrap_or_default());
                    }
                    2 => {
                        let lost = chance.below(bytes.len() as u64 + 1) as usize;
                        let part = bytes.get(lost..).unwrap_or_default();
                        overwrite(&mut survives, offset + lost, part);
                    }
                    _ => overwrite(&mut survives, offset, &bytes),
                },
            }
        }
        let content = Content { now: survives.clone(), durable: survives, pending: Vec::new() };
        MemoryFile { inode: self.inode, mode: self.mode, content: Mutex::new(content) }
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = hold(&self.content);
        let rest = content.now.get(index(offset)?..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let offset = index(offset)?;
        let mut content = hold(&self.content);
        overwrite(&mut content.now, offset, bytes);
        content.pending.push(Change::Write(offset, bytes.to_vec()));
        Ok(bytes.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = index(len)?;
        let mut content = hold(&self.content);
        content.now.resize(len, 0);
        content.pending.push(Change::Truncate(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = hold(&self.content);
        let Content { durable, pending, .. } = &mut *content;
        for change in pending.drain(..) {
            match change {
                Change::Truncate(len) => durable.resize(len, 0),
                Change::Write(offset, bytes) => overwrite(durable, offset, &bytes),
            }
        }
        Ok(())
    }

    fn facts(&self) -> io::Result<Facts> {
        let len = hold(&self.content).now.len() as u64;
        Ok(Facts { len, inode: self.inode, born: 0, mode: self.mode, regular: true })
    }
}

fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    if let Some(place) = content.get_mut(offset..offset + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeatable random numbers: splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
