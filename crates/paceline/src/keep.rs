//! New files that are whole or not there at all, whatever happens while they are written.
//!
//! Promises that a file is written under another name beside its place, readable by its owner only,
//! synced, and then put in its place in one step; and that a file that is there already is not
//! replaced unless that was asked for, also if it came in between.

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Removes what was begun and not finished.
struct Begun(PathBuf);

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a new file with what `write` gives, and answers what it answers.
///
/// # Errors
/// Those of `write`, and those of the system as `failed` tells them.
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

/// A name in the same directory that nobody else uses.
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
