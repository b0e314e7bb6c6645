//! A disk that fails on purpose. It wraps another one.
//!
//! Owns the count of calls and the faults to inject, for tests of the layers above: short writes, a
//! disk that becomes full, writes and syncs that fail, a file system that becomes read-only, and the death
//! of the process at a given call, with half of it done if it is a write. Every call that changes the disk
//! counts; the first is number 1.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use super::{Access, Disk, DiskFile, Facts, Lock};
use crate::error::LockError;

/// The faults to inject; none by default. Calls are counted from 1.
///
/// As text, for example `short-write=7,full-after=10000,sync-error=3`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// No write accepts more bytes than this.
    pub short_write: Option<u64>,
    /// The disk is full after this many more bytes.
    pub full_after: Option<u64>,
    /// This write fails with an I/O error.
    pub write_error: Option<u64>,
    /// This sync, of a file or a directory, fails with an I/O error.
    pub sync_error: Option<u64>,
    /// This truncation fails with an I/O error.
    pub truncate_error: Option<u64>,
    /// This rename fails with an I/O error.
    pub rename_error: Option<u64>,
    /// From this call on the file system is read-only.
    pub read_only_at: Option<u64>,
    /// At this call the process dies.
    pub kill_at: Option<u64>,
}

/// Text that does not name a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseFaultsError(String);

impl fmt::Display for ParseFaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a fault; the faults are short-write=N, full-after=N, ", self.0)?;
        write!(f, "write-error=N, sync-error=N, truncate-error=N, rename-error=N, ")?;
        write!(f, "read-only-at=N, kill-at=N")
    }
}

impl Error for ParseFaultsError {}

impl FromStr for Faults {
    type Err = ParseFaultsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut faults = Faults::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || ParseFaultsError(part.to_string());
            let (name, number) = part.split_once('=').ok_or_else(wrong)?;
            let place = match name {
                "short-write" => &mut faults.short_write,
                "full-after" => &mut faults.full_after,
                "write-error" => &mut faults.write_error,
                "sync-error" => &mut faults.sync_error,
                "truncate-error" => &mut faults.truncate_error,
                "rename-error" => &mut faults.rename_error,
                "read-only-at" => &mut faults.read_only_at,
                "kill-at" => &mut faults.kill_at,
                _ => return Err(wrong()),
            };
            *place = Some(number.parse().map_err(|_| wrong())?);
        }
        Ok(faults)
    }
}

/// How the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The process lives, but every later call fails and changes nothing.
    Pretend,
    /// The process kills itself.
    Real,
}

/// A disk that fails on purpose.
#[derive(Debug)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    injector: Arc<Injector>,
}

impl FaultyDisk {
    /// Wraps `inner` and injects `faults`.
    pub fn new(inner: Arc<dyn Disk>, faults: Faults, death: Death) -> Self {
        let state = State { faults, ..State::default() };
        FaultyDisk { inner, injector: Arc::new(Injector { death, state: Mutex::new(state) }) }
    }

    /// Injects other faults from now on, and counts from 1 again.
    pub fn set(&self, faults: Faults) {
        self.injector.with(|state| *state = State { faults, dead: state.dead, ..State::default() });
    }

    /// How many calls have changed the disk, or tried to.
    pub fn calls(&self) -> u64 {
        self.injector.with(|state| state.calls)
    }

    /// True once the process has died, or pretends to have.
    pub fn is_dead(&self) -> bool {
        self.injector.with(|state| state.dead)
    }
}

#[derive(Debug)]
struct Injector {
    death: Death,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    calls: u64,
    writes: u64,
    syncs: u64,
    truncates: u64,
    renames: u64,
    taken: u64,
    dead: bool,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Create,
    /// The number of bytes, and how many of them make the file longer.
    Write(usize, usize),
    Sync,
    Truncate,
    Rename,
    Remove,
}

/// The decision on a call.
enum Order {
    /// Make the call; a write with at most this many bytes.
    Go(usize),
    /// Write this many bytes, and then die.
    Die(usize),
}

impl State {
    fn order(&mut self, call: Call) -> io::Result<Order> {
        self.calls += 1;
        let (faults, calls) = (self.faults.clone(), self.calls);
        if faults.read_only_at.is_some_and(|from| calls >= from) {
            return Err(Errno::ROFS.into());
        }
        let mut room = 0;
        let fails = match call {
            Call::Write(len, more) => {
                room = self.room(len, more)?;
                nth(&mut self.writes, faults.write_error)
            }
            Call::Sync => nth(&mut self.syncs, faults.sync_error),
            Call::Truncate => nth(&mut self.truncates, faults.truncate_error),
            Call::Rename => nth(&mut self.renames, faults.rename_error),
            Call::Create | Call::Remove => false,
        };
        if faults.kill_at == Some(calls) {
            self.dead = true;
            return Ok(Order::Die(room / 2));
        }
        if fails {
            return Err(Errno::IO.into());
        }
        if let Call::Write(len, more) = call {
            self.taken += room.saturating_sub(len - more) as u64;
        }
        Ok(Order::Go(room))
    }

    /// How many bytes a write accepts if `more` of them make the file longer. A full disk still accepts overwrites.
    fn room(&self, len: usize, more: usize) -> io::Result<usize> {
        let at_most = |limit: u64, len: usize| len.min(usize::try_from(limit).unwrap_or(len));
        let mut room = self.faults.short_write.map_or(len, |limit| at_most(limit, len));
        if let Some(limit) = self.faults.full_after {
            let left = limit.saturating_sub(self.taken).saturating_add((len - more) as u64);
            room = at_most(left, room);
            if room == 0 && len > 0 {
                return Err(Errno::NOSPC.into());
            }
        }
        Ok(room)
    }
}

fn nth(count: &mut u64, fails: Option<u64>) -> bool {
    *count += 1;
    fails == Some(*count)
}

impl Injector {
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a call that changes the disk, or fails it. `what` gets the number of bytes that a write may
    /// accept.
    fn change<T>(&self, call: Call, what: impl FnOnce(usize) -> io::Result<T>) -> io::Result<T> {
        self.alive()?;
        match self.with(|state| state.order(call))? {
            Order::Go(room) => what(room),
            Order::Die(room) => {
                if room > 0 {
                    let _ = what(room);
                }
                if self.death == Death::Real {
                    let _ = kill_process(getpid(), Signal::KILL);
                }
                Err(dead())
            }
        }
    }

    fn alive(&self) -> io::Result<()> {
        if self.with(|state| state.dead) { Err(dead()) } else { Ok(()) }
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl Disk for FaultyDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn lock(&self, path: &Path) -> Result<Lock, LockError> {
        self.inner.lock(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let open = |_| self.inner.open(path, access);
        let inner = match access {
            Access::Create(_) => self.injector.change(Call::Create, open)?,
            Access::Read | Access::Write => self.injector.alive().and_then(|()| open(0))?,
        };
        Ok(Arc::new(FaultyFile { inner, injector: Arc::clone(&self.injector) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.injector.change(Call::Rename, |_| self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.injector.change(Call::Remove, |_| self.inner.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.injector.change(Call::Sync, |_| self.inner.sync_dir(dir))
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    injector: Arc<Injector>,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.injector.alive()?;
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(bytes.len() as u64);
        let more = end.saturating_sub(self.inner.facts()?.len.max(offset));
        let more = usize::try_from(more).unwrap_or(usize::MAX).min(bytes.len());
        self.injector.change(Call::Write(bytes.len(), more), |room| {
            self.inner.write_at(bytes.get(..room).unwrap_or(bytes), offset)
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.injector.change(Call::Truncate, |_| self.inner.truncate(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.injector.change(Call::Sync, |_| self.inner.sync())
    }

    fn facts(&self) -> io::Result<Facts> {
        self.inner.facts()
    }

    fn claim(&self) -> io::Result<bool> {
        self.inner.claim()
    }

    fn owner(&self) -> io::Result<Option<(u32, u32)>> {
        self.inner.owner()
    }

    fn give(&self, owner: (u32, u32)) -> io::Result<()> {
        self.inner.give(owner)
    }
}
