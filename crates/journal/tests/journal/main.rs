//! The journal from outside: crashes, damage, failing disks, OVS's own tool.
//!
//! Owns what the suites share: replaying a log into bodies, and repeatable random numbers.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crash;
mod damage;
mod faults;
mod files;
mod place;
mod tool;

use std::sync::Arc;

use paceline_journal::disk::{Disk, MemoryDisk};
use paceline_journal::{FileLog, Mode, OpenError, Recovery, frame};

/// Opens the file `path` and returns the log with the bodies of all its records.
fn replay(
    disk: Arc<dyn Disk>,
    path: &str,
    mode: Mode,
) -> Result<(FileLog, Recovery, Vec<String>), OpenError> {
    let mut follow = FileLog::open_on(disk, path, mode)?;
    let mut bodies = Vec::new();
    while let Some(record) = follow.next()? {
        bodies.push(String::from_utf8(record.body.to_vec()).unwrap());
    }
    let (log, recovery) = follow.finish()?;
    assert_eq!(recovery.records, bodies.len() as u64);
    Ok((log, recovery, bodies))
}

/// All files on the disk with their contents.
fn everything(disk: &MemoryDisk) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.contents(name).unwrap())).collect()
}

fn framed(body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame(body.as_bytes(), &mut out);
    out
}

/// Repeatable random numbers (xorshift64*): a failure names the seed that repeats it.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound as u64) as usize
    }
}
