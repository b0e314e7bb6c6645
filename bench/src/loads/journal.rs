//! Records framed and appended, in memory and to a file that is not synced.

use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_journal::{FileLog, Log, MemoryLog, frame};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZES: [usize; 3] = [100, 1_000, 100_000];

/// Bytes of bodies in one round.
const BYTES: usize = 1_000_000;

/// Bytes that are framed before they are appended together, as the host does under load.
const BATCH: usize = 64 << 10;

const FRAME: Load = Load {
    name: "journal frame",
    operation: "one byte of a record's body, hashed and framed",
    of: "bytes",
    unit: Unit::Megabytes,
};
const MEMORY: Load = Load {
    name: "journal in memory",
    operation: "one byte of a record's body, framed and appended, 64 KiB at a time",
    of: "bytes",
    unit: Unit::Megabytes,
};
const FILE: Load = Load {
    name: "journal in a file",
    operation: "the same to a file in the temporary directory, not synced",
    of: "bytes",
    unit: Unit::Megabytes,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[FRAME, MEMORY, FILE]) {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    for size in SIZES {
        let body = vec![b'x'; size];
        let mut out = Vec::new();
        bench.run(FRAME, size, || {
            let (taken, ()) = time(|| {
                for _ in 0..BYTES / size {
                    out.clear();
                    frame(&body, &mut out);
                }
            });
            Ok((taken, BYTES))
        })?;
        bench.run(MEMORY, size, || append(&mut MemoryLog::new(b"{}")?, &body))?;
        let mut round = 0;
        bench.run(FILE, size, || {
            round += 1;
            let path = scratch.0.join(format!("{size}-{round}"));
            let timed = append(&mut FileLog::create(&path, b"{}")?, &body)?;
            std::fs::remove_file(&path)?;
            Ok(timed)
        })?;
    }
    Ok(())
}

fn append(log: &mut dyn Log, body: &[u8]) -> Outcome<(Duration, usize)> {
    let mut batch = Vec::new();
    let (taken, done) = time(|| -> Outcome<()> {
        for _ in 0..BYTES / body.len() {
            frame(body, &mut batch);
            if batch.len() >= BATCH {
                log.append(log.position(), &batch)?;
                batch.clear();
            }
        }
        log.append(log.position(), &batch)?;
        Ok(())
    });
    done?;
    Ok((taken, BYTES))
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Self> {
        let name = format!("paceline-bench-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        // If this fails, the remaining files are small and in the temporary directory.
        let _ = std::fs::remove_dir_all(path);
    }
}
