//! The owner of the files of a restored database.
//!
//! Root may restore the database of a daemon that runs as another user. Promises that the daemon can then open
//! the files: they get the owner, group and mode of the previous file. A new database, and one that root owns
//! in a directory of another user, get the owner of the directory.

use rustix::fs::{Mode, OFlags};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// The owner, group and mode of files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Owner {
    /// The owner of the file at `path`, or of its directory.
    pub fn of(path: &Path) -> io::Result<Self> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = std::fs::metadata(directory.unwrap_or(Path::new(".")))?;
        let owner = |metadata: &Metadata, mode| {
            let (uid, gid) = (metadata.uid(), metadata.gid());
            Self { uid, gid, mode }
        };
        Ok(match std::fs::metadata(path) {
            Ok(file) if file.uid() != 0 => owner(&file, file.mode() & 0o777),
            Ok(file) => owner(&directory, file.mode() & 0o777),
            Err(_) => owner(&directory, 0o600),
        })
    }

    /// Gives a file to this owner, if it exists and belongs to the present user. Nothing else is touched,
    /// whatever the directory's owner put under that name meanwhile.
    pub fn own(self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        let user = rustix::process::geteuid();
        if found.uid() != user.as_raw() || !found.is_file() || found.nlink() != 1 {
            return Ok(());
        }
        // Any user other than root restores their own files.
        if user.is_root() && (found.uid(), found.gid()) != (self.uid, self.gid) {
            fchown(&file, Some(self.uid), Some(self.gid))?;
        }
        if found.mode() & 0o777 != self.mode {
            file.set_permissions(Permissions::from_mode(self.mode))?;
        }
        Ok(())
    }
}
