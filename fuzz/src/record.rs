//! Journal records and journals: any bytes are read, truncated or refused without a panic, and refused input changes
//! nothing (promises J1 to J3).

use crate::world::{self, check_derived, contents, kept};
use paceline_journal::disk::MemoryDisk;
use paceline_journal::{FileLog, Log, Mode, OpenError, frame};
use paceline_tables::{Database, json, write_record};
use paceline_types::UuidSource;
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::sync::Arc;

const RECORDS_MAX: usize = 8;
const NAME: &str = "db";

/// Treats `data` as a journal if it begins like one, otherwise as records, one on each line.
pub fn check(data: &[u8]) {
    if data.starts_with(b"OVSDB") {
        open(data);
        return;
    }
    let lines: Vec<&[u8]> = data.split(|c| *c == b'\n').take(RECORDS_MAX).collect();
    apply(&lines);
    journal_of(&lines, data.len());
}

/// Applies records to a database. A refused record leaves no trace; an accepted one can be undone and written again.
fn apply(lines: &[&[u8]]) {
    let (mut database, mut replica) = (world::database(1), world::database(2));
    for line in lines {
        let before = contents(database.store());
        let Ok(changes) = database.apply_record(line) else {
            assert_eq!(contents(database.store()), before, "a refused record changes nothing");
            check_derived(database.store());
            continue;
        };
        assert!(json::parse(line, JSON_DEPTH_MAX_OVSDB).is_ok(), "what is not JSON is no record");
        check_derived(database.store());
        database.undo(&changes);
        assert_eq!(contents(database.store()), before, "undo leaves no trace");
        let changes = database.apply_record(line).expect("the second time is like the first");
        let mut text = Vec::new();
        if write_record(&changes, database.schema(), &[], "", 0, &mut text) {
            let applied = replica.apply_record(&text);
            let text = String::from_utf8_lossy(&text);
            assert!(applied.is_ok(), "{:?}: {text}", applied.err());
        }
        assert_eq!(kept(&database), kept(&replica));
    }
    check_snapshot(&database);
}

/// A snapshot alone restores the same database.
fn check_snapshot(database: &Database) {
    let text = kept(database);
    let mut fresh = Database::new(database.schema().clone(), UuidSource::from_number(3));
    let applied = fresh.apply_record(text.as_bytes());
    assert!(applied.is_ok(), "{:?}: {text}", applied.err());
    assert_eq!(kept(&fresh), text);
}

/// A journal of these records returns them. Truncated anywhere, it returns a prefix of them.
fn journal_of(bodies: &[&[u8]], chance: usize) {
    let mut file = Vec::new();
    for body in bodies {
        frame(body, &mut file);
    }
    assert_eq!(read(&file).expect("a whole journal"), bodies);
    let cut = chance.wrapping_mul(7_919) % file.len();
    if let Some(records) = open(&file[..cut]) {
        assert!(bodies.starts_with(&records.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    }
    let mut damaged = file.clone();
    damaged[cut] ^= 1;
    open(&damaged);
}

/// The bodies of a journal, opened read-only.
fn read(file: &[u8]) -> Result<Vec<Vec<u8>>, OpenError> {
    let disk = MemoryDisk::new();
    disk.put(NAME, file);
    let names = disk.names();
    let records = read_on(&disk, Mode::ReadOnly).map(|(records, _)| records);
    assert_eq!(disk.names(), names, "read-only leaves no file behind");
    assert_eq!(disk.contents(NAME).as_deref(), Some(file), "read-only changes nothing");
    records
}

fn read_on(disk: &MemoryDisk, mode: Mode) -> Result<(Vec<Vec<u8>>, FileLog), OpenError> {
    let mut follow = FileLog::open_on(Arc::new(disk.clone()), NAME, mode)?;
    let mut records = Vec::new();
    while let Some(record) = follow.next()? {
        records.push(record.body.to_vec());
    }
    let (log, recovery) = follow.finish()?;
    assert_eq!(recovery.records, records.len() as u64);
    Ok((records, log))
}

/// Opens a journal of any bytes for reading and writing, and continues after the records that could be kept.
fn open(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let disk = MemoryDisk::new();
    disk.put(NAME, file);
    let seen = read(file);
    let opened = read_on(&disk, Mode::ReadWrite);
    assert_eq!(seen.is_ok(), opened.is_ok(), "both modes judge alike");
    let Ok((records, mut log)) = opened else {
        assert_eq!(disk.contents(NAME).as_deref(), Some(file), "what is refused is not changed");
        return None;
    };
    assert_eq!(records, seen.ok()?);
    let end = log.position().0 as usize;
    let whole = disk.contents(NAME).unwrap_or_default();
    assert_eq!(whole, &file[..end], "only the tail is cut");
    if end < file.len() {
        let kept = disk.names().into_iter().find(|name| name.to_string_lossy().contains(".torn-"));
        let kept = disk.contents(kept.expect("a tail is kept aside")).unwrap_or_default();
        assert_eq!(kept, &file[end..], "the tail is kept whole");
    }
    let mut more = Vec::new();
    frame(b"{}", &mut more);
    log.append(log.position(), &more).expect("there is room");
    log.sync().expect("memory can be synced");
    drop(log);
    let (again, _) = read_on(&disk, Mode::ReadWrite).expect("a settled journal opens");
    assert_eq!(again.split_last(), Some((&b"{}".to_vec(), records.as_slice())));
    Some(records)
}
