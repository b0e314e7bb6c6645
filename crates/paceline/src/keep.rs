//! New files that are complete or do not exist, whatever happens while they are written.
//!
//! Promises that a file is written under another name in the same directory, readable only by its owner,
//! synced, and then renamed in one step; and that an existing file is not replaced unless requested, even if it
//! was created in between.

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Removes a file that was begun and not finished.
struct Begun(PathBuf);

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a new file with the output of `write`, and returns its result.
///
/// # Errors
///
/// Those of `write`, and those of the system, converted by `failed`.
pub fn keep<T, E>(
    file: &Path,
    replaces: bool,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    if !replaces && file.symlink_metadata().is_ok() {
        return Err(failed(io::Error::from(io::ErrorKind::AlreadyExists)));
    }
    let begun = Begun(beside(file).map_err(&failed)?);
    let mut out = OpenOptions::new();
    let mut out = out.write(true).create_new(true).mode(0o600).open(&begun.0).map_err(&failed)?;
    let written = write(&mut out)?;
    out.sync_all().map_err(&failed)?;
    place(&begun.0, file, replaces).map_err(failed)?;
    Ok(written)
}

/// A name in the same directory that no other file has.
fn beside(file: &Path) -> io::Result<PathBuf> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file");
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().ok_or_else(no_name)?);
    name.push(format!(".{}", std::process::id()));
    Ok(file.with_file_name(name))
}

fn place(from: &Path, to: &Path, replaces: bool) -> io::Result<()> {
    match replaces {
        true => renameat(CWD, from, CWD, to)?,
        false => renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?,
    }
    let directory = to.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::keep;
    use std::io::{self, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pl-keep-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn count(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_whole_and_its_owners_alone() {
        let scratch = Scratch::new("whole");
        let file = scratch.0.join("f");
        let written: io::Result<u8> =
            keep(&file, false, |error| error, |out| out.write_all(b"text").map(|()| 7));
        assert_eq!(written.unwrap(), 7);
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(scratch.count(), 1);
    }

    #[test]
    fn what_is_there_stays_unless_it_is_to_be_replaced() {
        let scratch = Scratch::new("there");
        let file = scratch.0.join("f");
        let late = |replaces: bool| -> io::Result<()> {
            keep(
                &file,
                replaces,
                |error| error,
                |out| {
                    // Another process creates it in the meantime.
                    std::fs::write(&file, "theirs")?;
                    out.write_all(b"ours")
                },
            )
        };
        assert_eq!(late(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
        let early: io::Result<()> = keep(&file, false, |error| error, |_| panic!("it is there"));
        assert_eq!(early.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        late(true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"ours");
        assert_eq!(scratch.count(), 1, "nothing half done is left");
    }

    #[test]
    fn what_failed_leaves_nothing() {
        let scratch = Scratch::new("failed");
        let file = scratch.0.join("f");
        let failed: io::Result<()> =
            keep(&file, false, |error| error, |_| Err(io::Error::other("enough")));
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!(scratch.count(), 0);
    }
}
