//! The machine's own file system.
//!
//! Owns only the system calls. Descriptors are closed on exec. Reads and writes name their offset, so that
//! the writer and a reader on another thread can share a descriptor.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Access, Disk, DiskFile, Facts, Lock};
use crate::error::LockError;
use crate::lock;

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// As many links as Linux itself follows.
const LINKS_MAX: usize = 40;

impl Disk for RealDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.canonicalize()?,
                _ => Path::new(".").canonicalize()?,
            };
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let place = parent.join(name);
            match fs::read_link(&place) {
                Ok(target) => path = parent.join(target),
                // Not a link, or it does not exist yet: in both cases this is the path itself.
                Err(_) => return Ok(place),
            }
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }

    fn lock(&self, path: &Path) -> Result<Lock, LockError> {
        lock::take(path).map(|held| Box::new(held) as Lock)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        let file = match access {
            Access::Read => options.open(path)?,
            Access::Write => options.write(true).open(path)?,
            Access::Create(mode) => {
                let file = options.write(true).create_new(true).mode(mode).open(path)?;
                // The umask may have removed permission bits that the file to be replaced has.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                file
            }
        };
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn facts(&self) -> io::Result<Facts> {
        let metadata = self.0.metadata()?;
        let age = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(Facts {
            len: metadata.len(),
            inode: metadata.ino(),
            born: age.and_then(|age| u64::try_from(age.as_nanos()).ok()).unwrap_or(0),
            mode: metadata.mode() & 0o777,
            regular: metadata.is_file(),
        })
    }

    fn owner(&self) -> io::Result<Option<(u32, u32)>> {
        let metadata = self.0.metadata()?;
        Ok(Some((metadata.uid(), metadata.gid())))
    }

    fn give(&self, (user, group): (u32, u32)) -> io::Result<()> {
        std::os::unix::fs::fchown(&self.0, Some(user), Some(group))
    }

    fn claim(&self) -> io::Result<bool> {
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            // On a file system without such locks only the lock file protects the journal.
            Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
