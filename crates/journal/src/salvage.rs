//! Handling of damage: decides whether it is a torn tail, and saves the tail before it is cut.
//!
//! Owns the decision between J2 and J3. Damage is a torn tail if it is at or after the last position known to be
//! synced, or if no valid record follows it. If no synced position is known, only the second condition counts. The caller
//! has checked that the file still has the records that the synced position is about.
//! Promises that the whole tail is synced in its own file before the journal is cut, and that no older such file is
//! overwritten.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha1::{Digest, Sha1};

use crate::disk::{Access, Disk, DiskFile, read_full, write_all};
use crate::error::Failure;
use crate::frame::{HEADER_LEN_MAX, Header, LEAD, parse_header};
use crate::log::Position;
use crate::side::beside;

/// How much is read, or copied, at once.
const PIECE: usize = 1 << 20;

/// How many tails that were cut at one offset are kept. Beyond that the operator must remove some.
const KEPT_MAX: usize = 1000;

/// The verdict on damage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Cut it off (J2).
    Torn,
    /// Refuse (J3): a valid record follows at this position.
    Corrupt { next: Position },
}

/// Judges damage at `offset` in a file of length `len`.
pub(crate) fn judge(
    file: &dyn DiskFile,
    offset: Position,
    len: u64,
    synced: Option<Position>,
) -> io::Result<Verdict> {
    if synced.is_some_and(|synced| offset >= synced) {
        return Ok(Verdict::Torn);
    }
    let next = next_valid(file, offset.0 + 1, len)?;
    Ok(next.map_or(Verdict::Torn, |next| Verdict::Corrupt { next: Position(next) }))
}

/// Where the first valid record begins at or after `from`.
fn next_valid(file: &dyn DiskFile, from: u64, len: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; PIECE];
    let mut start = from;
    while start < len {
        let got = read_full(file, &mut buffer, start)?;
        let piece = buffer.get(..got).unwrap_or_default();
        for (at, window) in piece.windows(LEAD.len()).enumerate() {
            if window != LEAD {
                continue;
            }
            let Some(header) = parse_header(piece.get(at..).unwrap_or_default()) else { continue };
            let offset = start + at as u64;
            if body_matches(file, offset, &header, len)? {
                return Ok(Some(offset));
            }
        }
        if got < PIECE {
            break;
        }
        // A header line may span two pieces.
        start += (PIECE - HEADER_LEN_MAX) as u64;
    }
    Ok(None)
}

/// True if the body after `header` is complete and has the right hash.
fn body_matches(file: &dyn DiskFile, at: u64, header: &Header, len: u64) -> io::Result<bool> {
    let mut offset = at + header.line_len as u64;
    if header.body_len > len.saturating_sub(offset) {
        return Ok(false);
    }
    let mut left = header.body_len;
    let mut sha1 = Sha1::new();
    let mut buffer = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
    while left > 0 {
        let want = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
        let got = read_full(file, buffer.get_mut(..want).unwrap_or_default(), offset)?;
        if got == 0 {
            return Ok(false);
        }
        sha1.update(buffer.get(..got).unwrap_or_default());
        offset += got as u64;
        left -= got as u64;
    }
    Ok(sha1.finalize()[..] == header.hash)
}

/// Copies the bytes from `offset` on into a new file beside the journal and syncs it.
pub(crate) fn keep_aside(
    disk: &dyn Disk,
    journal: &Path,
    file: &dyn DiskFile,
    offset: Position,
) -> Result<PathBuf, Failure> {
    let (path, kept) = create_kept(disk, journal, offset)?;
    let copied = copy_tail(journal, file, offset, (&path, &*kept));
    if copied.is_err() {
        // A partial copy is useless, and room may be short.
        let _ = disk.remove(&path);
    }
    copied.map(|()| path)
}

fn copy_tail(
    journal: &Path,
    file: &dyn DiskFile,
    offset: Position,
    (path, kept): (&Path, &dyn DiskFile),
) -> Result<(), Failure> {
    let failed = |error| Failure::new("save the torn tail", path, error);
    let mut buffer = vec![0; PIECE];
    let mut done = 0;
    loop {
        let got = read_full(file, &mut buffer, offset.0 + done)
            .map_err(|error| Failure::new("read", journal, error))?;
        let piece = buffer.get(..got).unwrap_or_default();
        write_all(kept, piece, done).map_err(|(_, error)| failed(error))?;
        done += got as u64;
        if got < PIECE {
            break;
        }
    }
    kept.sync().map_err(failed)
}

fn create_kept(
    disk: &dyn Disk,
    journal: &Path,
    offset: Position,
) -> Result<(PathBuf, Arc<dyn DiskFile>), Failure> {
    let mut path = beside(journal, "", &format!(".torn-{offset}"));
    for count in 1..=KEPT_MAX {
        match disk.open(&path, Access::Create(0o600)) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = beside(journal, "", &format!(".torn-{offset}.{count}"));
            }
            Err(error) => return Err(Failure::new("create", &path, error)),
        }
    }
    Err(Failure::new("create", &path, io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::frame::frame;

    /// J3: a valid record is found wherever it is, even across two pieces.
    #[test]
    fn a_later_record_is_found() {
        let mut record = Vec::new();
        frame(b"{}", &mut record);
        let around = |middle: usize| middle - HEADER_LEN_MAX..=middle + 2;
        for at in (1..3).chain(around(PIECE)).chain(around(2 * PIECE - HEADER_LEN_MAX)) {
            let mut bytes = vec![b'O'; at];
            bytes.extend_from_slice(&record);
            let disk = MemoryDisk::new();
            disk.put("db", &bytes);
            let file = disk.open(Path::new("db"), Access::Read).unwrap();
            let len = bytes.len() as u64;
            let verdict = judge(&*file, Position(0), len, None).unwrap();
            assert_eq!(verdict, Verdict::Corrupt { next: Position(at as u64) });
            let verdict = judge(&*file, Position(at as u64), len, None).unwrap();
            assert_eq!(verdict, Verdict::Torn, "nothing is behind the record at {at}");
        }
    }
}
