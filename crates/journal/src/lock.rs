//! The lock file that keeps two servers, ours or OVS's own, from using one database.
//!
//! Owns the file `.<name>.~lock~` while it is held. A POSIX record lock excludes only other processes,
//! and closing any descriptor of the file releases it. Therefore a table lists the lock files that this
//! process holds, and a second opening fails before it opens the file. As in OVS, the file is never
//! removed: otherwise two processes could lock two files of the same name.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::error::{Failure, LockError};

/// Device and inode of every lock file this process holds.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// A lock file that is held. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Held {
    // Holds the lock by being open.
    file: Option<File>,
    identity: (u64, u64),
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = table();
        // Closed under the table's mutex. Otherwise another thread could take the lock in between, and this
        // close would release it.
        self.file = None;
        held.remove(&self.identity);
    }
}

/// Takes the lock file at `path`, creating it if need be, without waiting.
pub(crate) fn take(path: &Path) -> Result<Held, LockError> {
    let failed = |error| LockError::Io(Failure::new("lock", path, error));
    let mut held = table();
    match fs::metadata(path) {
        Ok(metadata) if held.contains(&identity(&metadata)) => {
            return Err(LockError::Ourselves(path.to_path_buf()));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }

    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(failed)?;
    let identity = identity(&file.metadata().map_err(failed)?);
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            held.insert(identity);
            Ok(Held { file: Some(file), identity })
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(LockError::Process { path: path.to_path_buf(), pid: holder(&file) })
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// The process that holds the lock, if the system reports it.
fn holder(file: &File) -> Option<u32> {
    let lock = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??;
    u32::try_from(lock.pid?.as_raw_nonzero().get()).ok()
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn table() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    // A panic elsewhere cannot leave a set half changed.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}
