//! Damaged files: what is cut, what is refused, and where (J1, J2, J3).
//!
//! A file is written through the journal, with a known synced position; then it is damaged. The expected result is
//! computed here from the records' offsets alone.

use std::path::Path;
use std::sync::Arc;

use paceline_journal::disk::{Death, Disk as _, Faults, FaultyDisk, MemoryDisk};
use paceline_journal::{FileLog, Log, Mode, OpenError, Position};

use crate::{Chance, everything, framed, replay};

/// A journal as written, before damage.
struct Written {
    disk: MemoryDisk,
    bodies: Vec<String>,
    /// Where each record begins, and where the last one ends.
    offsets: Vec<u64>,
    synced: u64,
}

impl Written {
    fn new(chance: &mut Chance) -> Self {
        let disk = MemoryDisk::new();
        let bodies: Vec<String> = (0..2 + chance.below(8)).map(|_| body(chance)).collect();
        let sync_after = chance.below(bodies.len());
        let mut log =
            FileLog::create_on(Arc::new(disk.clone()), "db", bodies[0].as_bytes()).unwrap();
        let mut offsets = vec![0, log.position().0];
        for (index, body) in bodies.iter().enumerate().skip(1) {
            offsets.push(log.append(log.position(), &framed(body)).unwrap().0);
            if index == sync_after {
                log.sync().unwrap();
            }
        }
        let synced = log.synced().0;
        Written { disk, bodies, offsets, synced }
    }

    fn len(&self) -> u64 {
        *self.offsets.last().unwrap()
    }

    /// The record that holds the byte at `offset`.
    fn record_at(&self, offset: u64) -> usize {
        self.offsets.iter().rposition(|start| *start <= offset).unwrap()
    }
}

/// A body like a JSON text: no raw newline, but anything else, including what looks like a header.
fn body(chance: &mut Chance) -> String {
    let parts = ["{\"a\":1}", "OVSDB JSON 3 ", "5f36b2ea290645ee34d943220a14b54ee5ea5be5\\n", "é"];
    let mut body = String::from("x");
    for _ in 0..chance.below(12) {
        body.push_str(parts[chance.below(parts.len())]);
    }
    if chance.below(60) == 0 {
        body = body.repeat(1 + chance.below(20_000));
    }
    body
}

/// The expected result of an opening.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The first `records` records, and whether a tail was cut.
    Opens { records: usize, torn: bool },
    /// Refused, with the damage at this offset.
    Corrupt(u64),
    /// Refused because it is not a database.
    NoDatabase,
}

/// Opens the file read-only and then for writing, and checks the results and the effects on disk.
fn check(written: &Written, expected: Outcome, story: &str) {
    let disk: Arc<MemoryDisk> = Arc::new(written.disk.clone());
    let before = everything(&disk);
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        let outcome = match replay(disk.clone(), "db", mode) {
            Ok((log, recovery, bodies)) => {
                assert_eq!(bodies[..], written.bodies[..bodies.len()], "{story}: no prefix");
                assert_eq!(log.position().0, written.offsets[bodies.len()], "{story}");
                let known = Some(Position(written.synced));
                let lost = recovery.synced == known && log.position().0 < written.synced;
                assert_eq!(recovery.lost_synced(), lost, "{story}");
                if let Some(torn) = &recovery.torn {
                    let aside = torn.kept.as_ref().map(|kept| disk.contents(kept).unwrap());
                    let tail = &before.iter().find(|(name, _)| name.as_os_str() == "db").unwrap().1;
                    let tail = tail[torn.offset.0 as usize..].to_vec();
                    assert_eq!(torn.bytes, tail.len() as u64, "{story}");
                    assert_eq!(aside, (mode == Mode::ReadWrite).then_some(tail), "{story}: kept");
                }
                Outcome::Opens { records: bodies.len(), torn: recovery.torn.is_some() }
            }
            Err(OpenError::Corrupt { offset, .. }) => Outcome::Corrupt(offset.0),
            Err(OpenError::Empty(_) | OpenError::Format(_)) => Outcome::NoDatabase,
            Err(error) => panic!("{story}: {error}"),
        };
        assert_eq!(outcome, expected, "{story}, {mode:?}");
        if mode == Mode::ReadOnly || !matches!(outcome, Outcome::Opens { .. }) {
            assert!(everything(&disk) == before, "{story}, {mode:?}: the disk was changed");
        }
    }
    if let Outcome::Opens { records, .. } = expected {
        let (_, recovery, _) = replay(disk, "db", Mode::ReadWrite).unwrap();
        assert_eq!((recovery.records, recovery.torn), (records as u64, None), "{story}: again");
    }
}

/// J1, J2, J3: one byte differs from what was written. `known` is false if the side file is lost too.
fn check_flip(seed: u64, known: bool) {
    let mut chance = Chance::new(seed);
    let written = Written::new(&mut chance);
    let at = chance.below(written.len() as usize);
    // Not 0x20: a hash in capital letters is still the same hash.
    let mask = [0x01, 0x02, 0x04, 0x08, 0x10, 0x40, 0x80, 0xff][chance.below(8)];
    written.disk.damage("db", |bytes| bytes[at] ^= mask);
    if !known {
        written.disk.damage(".db.synced", Vec::clear);
    }
    let record = written.record_at(at as u64);
    let offset = written.offsets[record];
    let last = record + 1 == written.bodies.len();
    let expected = if record == 0 {
        let content = written.disk.contents("db").unwrap();
        let header = content.split(|byte| *byte == b'\n').next().unwrap().len();
        // A damaged first header line may still parse, with another length or hash.
        let reads = FileLog::open_on(Arc::new(written.disk.clone()), "db", Mode::ReadOnly).is_ok();
        if at > header || reads { Outcome::Corrupt(0) } else { Outcome::NoDatabase }
    } else if known && offset >= written.synced || last && record > 1 {
        Outcome::Opens { records: record, torn: true }
    } else {
        Outcome::Corrupt(offset)
    };
    check(&written, expected, &format!("seed {seed}, byte {at} xor {mask:#x}, known {known}"));
}

#[test]
fn a_flipped_byte() {
    for seed in 0..3000 {
        check_flip(seed, seed % 3 != 0);
    }
}

/// J2: the file ends too early.
#[test]
fn a_cut_file() {
    for seed in 0..2000 {
        let mut chance = Chance::new(seed);
        let written = Written::new(&mut chance);
        let len = chance.below(written.len() as usize + 1);
        written.disk.damage("db", |bytes| bytes.truncate(len));
        let records = written.record_at(len as u64);
        let first = written.disk.contents("db").unwrap();
        let expected = match records {
            0 if first.contains(&b'\n') => Outcome::Corrupt(0),
            0 => Outcome::NoDatabase,
            // The database would be empty, although its content was synced.
            1 if len as u64 > written.offsets[1] && written.offsets[1] < written.synced => {
                Outcome::Corrupt(written.offsets[1])
            }
            _ => Outcome::Opens { records, torn: written.offsets[records] != len as u64 },
        };
        check(&written, expected, &format!("seed {seed}, cut to {len}"));
    }
}

/// J3: a compacted file is complete before it gets its name, so damage in its snapshot is not a torn tail although no
/// record follows. Records that were appended since may be torn (J2).
#[test]
fn damage_in_a_compacted_part_is_refused() {
    let compacted = |appended: bool| {
        let disk = MemoryDisk::new();
        let mut log = FileLog::create_on(Arc::new(disk.clone()), "db", b"schema").unwrap();
        let mut rewrite = log.rewrite().unwrap();
        rewrite.write(&framed("schema")).unwrap();
        rewrite.write(&framed("snapshot")).unwrap();
        rewrite.sync().unwrap();
        log.install(rewrite, log.position()).unwrap();
        let base = log.position().0 as usize;
        if appended {
            log.append(log.position(), &framed("more")).unwrap();
        }
        (disk, base)
    };
    let snapshot = framed("schema").len();
    for appended in [false, true] {
        let (whole, base) = compacted(appended);
        let len = whole.contents("db").unwrap().len();
        for at in snapshot..len {
            // A cut file, and one with another byte.
            for damage in [0, 1] {
                let (disk, _) = compacted(appended);
                disk.damage("db", |bytes| match damage {
                    0 => bytes.truncate(at),
                    _ => bytes[at] ^= 0x01,
                });
                let before = everything(&disk);
                let opened = replay(Arc::new(disk.clone()), "db", Mode::ReadWrite);
                let story = format!("appended {appended}, byte {at}, damage {damage}");
                match opened {
                    Err(OpenError::Corrupt { offset, .. }) => {
                        assert!(at < base, "{story}");
                        assert_eq!(offset.0, snapshot as u64, "{story}");
                        assert!(everything(&disk) == before, "{story}: the disk was changed");
                    }
                    Ok((_, _, bodies)) => {
                        assert!(at >= base, "{story}");
                        assert_eq!(bodies, ["schema", "snapshot"], "{story}");
                    }
                    Err(error) => panic!("{story}: {error}"),
                }
            }
        }
    }
}

/// J3: the same in a copy without the side file, whose second record may be a snapshot. What follows it may be torn (J2).
#[test]
fn damage_in_the_second_record_of_a_copy_is_refused() {
    let copy = |appended: bool| {
        let disk = MemoryDisk::new();
        let mut log = FileLog::create_on(Arc::new(disk.clone()), "db", b"schema").unwrap();
        log.append(log.position(), &framed("snapshot")).unwrap();
        if appended {
            log.append(log.position(), &framed("more")).unwrap();
        }
        drop(log);
        disk.damage(".db.synced", Vec::clear);
        disk
    };
    let (first, second) = (framed("schema").len(), framed("snapshot").len());
    for (appended, at) in
        [(false, first + 1), (false, first + second - 1), (true, first + second + 1)]
    {
        for cuts in [false, true] {
            let disk = copy(appended);
            disk.damage("db", |bytes| match cuts {
                true => bytes.truncate(at),
                false => bytes[at] ^= 0x01,
            });
            let opened = replay(Arc::new(disk), "db", Mode::ReadWrite);
            let story = format!("byte {at}, cut {cuts}");
            match opened {
                Err(OpenError::Corrupt { offset, .. }) => {
                    assert!(!appended && offset.0 == first as u64, "{story}");
                }
                Ok((_, recovery, _)) => assert!(appended && recovery.torn.is_some(), "{story}"),
                Err(error) => panic!("{story}: {error}"),
            }
        }
    }
}

/// J2: the bytes after the last record are not a record: zeros, text, half a header.
#[test]
fn garbage_at_the_end() {
    let tails: [&[u8]; 6] =
        [&[0; 5000], b"\n", b"OVSDB JSON 5 ", b"OVSDB CLUSTER 3 ", &[0xff; 3], b"OVSDB JSON "];
    for (seed, tail) in tails.iter().cycle().take(60).enumerate() {
        let written = Written::new(&mut Chance::new(seed as u64));
        written.disk.damage("db", |bytes| bytes.extend_from_slice(tail));
        let expected = Outcome::Opens { records: written.bodies.len(), torn: true };
        check(&written, expected, &format!("seed {seed}, tail {tail:?}"));
    }
}

/// J2: tails cut at one offset are all kept.
#[test]
fn an_older_tail_is_never_overwritten() {
    let disk = MemoryDisk::new();
    let log = grown(&disk, 1);
    let end = log.position();
    drop(log);
    for (tail, name) in [("one", ""), ("two", ".1"), ("three", ".2")] {
        disk.damage("db", |bytes| bytes.extend_from_slice(tail.as_bytes()));
        let (_, recovery, _) = replay(Arc::new(disk.clone()), "db", Mode::ReadWrite).unwrap();
        let kept = recovery.torn.unwrap().kept.unwrap();
        assert_eq!(kept.to_str().unwrap(), format!("db.torn-{end}{name}"));
        assert_eq!(disk.contents(kept).unwrap(), tail.as_bytes());
    }
    assert_eq!(disk.contents("db.torn-".to_string() + &end.to_string()).unwrap(), b"one");
}

/// J5: on a full disk the journal opens without the tail, if the tail was never synced. No partial copy is left, and
/// what may have been synced is not cut.
#[test]
fn a_tail_that_there_is_no_room_for_is_cut() {
    let disk = MemoryDisk::new();
    let mut log = FileLog::create_on(Arc::new(disk.clone()), "db", b"schema").unwrap();
    log.append(log.position(), &framed("first")).unwrap();
    let (end, whole) = (log.position(), disk.contents("db").unwrap());
    drop(log);
    let full = || {
        let faults = Faults { full_after: Some(2), ..Faults::default() };
        Arc::new(FaultyDisk::new(Arc::new(disk.clone()), faults, Death::Pretend))
    };
    disk.damage("db", |bytes| bytes.extend_from_slice(b"torn"));
    let (_, recovery, _) = replay(full(), "db", Mode::ReadWrite).unwrap();
    assert_eq!(recovery.torn.unwrap().kept, None);
    assert_eq!(disk.contents("db").unwrap(), whole);
    assert_eq!(disk.contents(format!("db.torn-{end}")), None);

    disk.damage("db", |bytes| bytes.extend_from_slice(b"torn"));
    disk.remove(Path::new(".db.synced")).unwrap();
    let error = replay(full(), "db", Mode::ReadWrite).unwrap_err();
    assert!(error.to_string().contains("save the torn tail"), "{error}");
    assert_eq!(disk.contents("db").unwrap().len(), whole.len() + 4);
}

/// J3: files that are not a standalone database, with the displayed messages.
#[test]
fn files_of_other_kinds() {
    let table: &[(&str, &str)] = &[
        ("", "db: the file is empty; this is not a database"),
        ("hello\n", "db: not an OVSDB standalone database file"),
        ("OVSDB JSON 3 xyz\n{}\n", "db: not an OVSDB standalone database file"),
        (
            "OVSDB CLUSTER 3 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n{}\n",
            "db: clustered databases are not supported; \
             convert it with `ovsdb-tool cluster-to-standalone`",
        ),
        (
            "OVSDB JSON 3 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n[]\n",
            "db: corrupt record at offset 0: the first record is damaged: \
             its SHA-1 hash does not match",
        ),
        (
            "OVSDB JSON 9999999999 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n{}\n",
            "db: corrupt record at offset 0: the first record is damaged: \
             its length of 9999999999 bytes is over the maximum of 4294967296",
        ),
    ];
    for (content, expected) in table {
        let disk = MemoryDisk::new();
        disk.put("db", content.as_bytes());
        let error = replay(Arc::new(disk), "db", Mode::ReadWrite).unwrap_err();
        assert_eq!(error.to_string(), *expected);
    }
}

/// A complete record that its reader rejects is named by its offset, and nothing is cut.
#[test]
fn a_record_can_be_rejected() {
    let disk = MemoryDisk::new();
    let mut log = FileLog::create_on(Arc::new(disk.clone()), "db", b"schema").unwrap();
    let at = log.position();
    log.append(at, &framed("nonsense")).unwrap();
    drop(log);
    let before = everything(&disk);
    let mut follow = FileLog::open_on(Arc::new(disk.clone()), "db", Mode::ReadWrite).unwrap();
    follow.next().unwrap().unwrap();
    let offset = follow.next().unwrap().unwrap().offset;
    assert_eq!(offset, at);
    let error = follow.reject(offset, "no transaction");
    assert_eq!(error.to_string(), format!("db: invalid record at offset {at}: no transaction"));
    drop(follow);
    assert!(everything(&disk) == before);
}

/// D4: random files, some with a valid beginning, never cause a panic.
#[test]
fn chance_files() {
    for seed in 0..2000 {
        let mut chance = Chance::new(seed);
        let whole = [framed("schema"), framed("first")].concat();
        let mut bytes = if seed % 2 == 0 { whole } else { Vec::new() };
        let words: [&[u8]; 5] = [b"OVSDB ", b"JSON ", b"18446744073709551615 ", b"\n", &[0, 255]];
        for _ in 0..chance.below(40) {
            bytes.extend_from_slice(words[chance.below(words.len())]);
        }
        let disk = MemoryDisk::new();
        disk.put("db", &bytes);
        let opened = replay(Arc::new(disk), "db", Mode::ReadWrite);
        assert_eq!(opened.is_ok(), seed % 2 == 0, "seed {seed}");
    }
}

/// J3: what is known about a file does not apply to a copy over it, which keeps its inode: the copy is judged as one that
/// has no side file.
#[test]
fn a_copy_over_the_file_is_judged_by_itself_j3() {
    // A compacted file, to which records were appended.
    let schema = framed("schema");
    let long = [schema.clone(), framed("snapshot"), framed("a"), framed("b"), framed("c")].concat();
    let at = |body: &str| {
        let record = framed(body);
        long.windows(record.len()).position(|window| window == record).unwrap()
    };
    let flipped = |at: usize| {
        let mut bytes = long.clone();
        bytes[at] ^= 1;
        bytes
    };
    let (snapshot, middle) = (at("snapshot"), at("b"));
    let backup = [schema.clone(), framed("older")].concat();
    let table: &[(&str, Vec<u8>, Result<usize, usize>)] = &[
        ("whole", long.clone(), Ok(5)),
        ("a backup", backup, Ok(2)),
        ("cut in the snapshot", long[..snapshot + 60].to_vec(), Err(snapshot)),
        ("cut in its header", long[..snapshot + 3].to_vec(), Err(snapshot)),
        ("flipped in the snapshot", flipped(snapshot + 60), Err(snapshot)),
        ("flipped in the middle", flipped(middle + 54), Err(middle)),
    ];
    for (state, make) in STATES {
        for (story, content, expected) in table {
            let disk = MemoryDisk::new();
            make(&disk);
            disk.damage("db", |bytes| bytes.clone_from(content));
            let before = everything(&disk);
            for mode in [Mode::ReadOnly, Mode::ReadWrite] {
                let story = format!("{story} over {state}, {mode:?}");
                match replay(Arc::new(disk.clone()), "db", mode) {
                    Ok((_, recovery, bodies)) => {
                        assert_eq!(Ok(bodies.len()), *expected, "{story}");
                        assert_eq!(recovery.torn, None, "{story}");
                    }
                    Err(OpenError::Corrupt { offset, .. }) => {
                        assert_eq!(Err(offset.0 as usize), *expected, "{story}");
                        assert!(everything(&disk) == before, "{story}: the disk was changed");
                    }
                    Err(error) => panic!("{story}: {error}"),
                }
            }
        }
    }
}

/// Makes a file on a disk.
type Make = fn(&MemoryDisk);

/// Files that another one is copied over. Killed ones are not closed.
const STATES: &[(&str, Make)] = &[
    ("a new file", |disk| drop(created(disk))),
    ("a killed new file", |disk| kill(disk, created(disk))),
    ("a killed file without records", |disk| {
        drop(created(disk));
        kill(disk, replay(Arc::new(disk.clone()), "db", Mode::ReadWrite).unwrap().0);
    }),
    ("a short file", |disk| drop(grown(disk, 1))),
    ("a killed short file", |disk| kill(disk, grown(disk, 1))),
    ("a long file", |disk| drop(grown(disk, 20))),
    ("a killed long file", |disk| kill(disk, grown(disk, 20))),
    ("a compacted file", |disk| {
        let mut log = grown(disk, 2);
        let mut rewrite = log.rewrite().unwrap();
        rewrite.write(&[framed("schema"), framed(&"much".repeat(500))].concat()).unwrap();
        log.install(rewrite, log.position()).unwrap();
    }),
];

fn kill(disk: &MemoryDisk, log: FileLog) {
    std::mem::forget(log);
    disk.kill();
}

fn created(disk: &MemoryDisk) -> FileLog {
    FileLog::create_on(Arc::new(disk.clone()), "db", b"schema").unwrap()
}

fn grown(disk: &MemoryDisk, records: usize) -> FileLog {
    let mut log = created(disk);
    for number in 0..records {
        log.append(log.position(), &framed(&format!("other {number}"))).unwrap();
    }
    log.sync().unwrap();
    log
}
