//! Disks that fail: the errors, what stays in the file, and how the log recovers (J4, J5, J6).

use std::sync::Arc;

use paceline_journal::disk::{Death, Faults, FaultyDisk, MemoryDisk};
use paceline_journal::{
    AppendError, FileLog, Log, MemoryLog, Mode, OpenError, Position, RewriteError,
};

use crate::{framed, replay};

/// A fresh journal on a disk that has no faults yet.
fn start() -> (MemoryDisk, Arc<FaultyDisk>, FileLog) {
    let memory = MemoryDisk::new();
    let inner = Arc::new(memory.clone());
    let faulty = Arc::new(FaultyDisk::new(inner, Faults::default(), Death::Pretend));
    let mut log = FileLog::create_on(faulty.clone(), "db", b"schema").unwrap();
    log.append(log.position(), &framed("first")).unwrap();
    log.sync().unwrap();
    (memory, faulty, log)
}

fn batch() -> Vec<u8> {
    [framed("second"), framed("third")].concat()
}

/// The bodies in the file, as the next process would find them.
fn bodies(memory: &MemoryDisk) -> Vec<String> {
    let (_, recovery, bodies) = replay(Arc::new(memory.clone()), "db", Mode::ReadOnly).unwrap();
    assert_eq!(recovery.torn, None);
    bodies
}

fn word(error: &AppendError) -> &'static str {
    match error {
        AppendError::Full(_) => "full",
        AppendError::ReadOnly(_) => "read-only",
        AppendError::Io(_) => "io",
        AppendError::Moved { .. } => "moved",
    }
}

/// One failed append: its error, what is left in the file, and the result of the next append without faults.
fn check_append(faults: &str, expected: &str, then: &str) {
    let (memory, faulty, mut log) = start();
    let position = log.position();
    faulty.set(faults.parse().unwrap());
    let error = log.append(position, &batch()).unwrap_err();
    assert_eq!(word(&error), expected, "{faults}: {error}");
    assert_eq!(log.position(), position, "{faults}");
    if !faults.contains("truncate-error") {
        assert_eq!(bodies(&memory), ["schema", "first"], "{faults}: a half batch stayed");
    }

    faulty.set(Faults::default());
    let again = match log.append(log.position(), &batch()) {
        Ok(_) => "ok",
        Err(again) => {
            assert_eq!(again.to_string(), error.to_string(), "{faults}: not the same error");
            assert_eq!(log.sync().unwrap_err().to_string(), error.to_string(), "{faults}");
            "broken"
        }
    };
    assert_eq!(again, then, "{faults}");
    assert_eq!(log.broken().is_some(), then == "broken", "{faults}");
    if then == "ok" {
        log.sync().unwrap();
        assert_eq!(bodies(&memory), ["schema", "first", "second", "third"], "{faults}");
    }
}

#[test]
fn failed_appends() {
    // J5: a full disk, before the first byte, within a header, a record, the batch.
    for room in [0, 1, 30, 60, 70, 100] {
        check_append(&format!("full-after={room}"), "full", "ok");
        check_append(&format!("full-after={room},short-write=7"), "full", "ok");
    }
    // J4: a failed write, the first or after short ones, breaks the file.
    check_append("write-error=1", "io", "broken");
    check_append("write-error=3,short-write=10", "io", "broken");
    // J4: so does a batch that cannot be removed, or whose removal cannot be synced.
    check_append("full-after=70,truncate-error=1", "io", "broken");
    check_append("full-after=70,sync-error=1", "io", "broken");
    // J6: a read-only file system has its own error.
    check_append("read-only-at=1", "read-only", "ok");
}

/// Short writes alone are not a failure.
#[test]
fn short_writes() {
    for size in [1, 2, 7, 100] {
        let (memory, faulty, mut log) = start();
        faulty.set(Faults { short_write: Some(size), ..Faults::default() });
        log.append(log.position(), &batch()).unwrap();
        assert_eq!(bodies(&memory), ["schema", "first", "second", "third"], "{size}");
    }
}

/// J4: a failed sync breaks the file. Nothing is synced or retried until it is replaced.
#[test]
fn a_failed_sync() {
    let (memory, faulty, mut log) = start();
    let synced = log.synced();
    let position = log.append(log.position(), &batch()).unwrap();
    faulty.set(Faults { sync_error: Some(1), ..Faults::default() });
    let error = log.sync().unwrap_err().to_string();
    assert!(error.starts_with("db: cannot sync: "), "{error}");
    let calls = faulty.calls();
    assert_eq!(log.sync().unwrap_err().to_string(), error);
    assert_eq!(log.append(position, &batch()).unwrap_err().to_string(), error);
    assert_eq!(faulty.calls(), calls, "a broken file was touched");
    assert_eq!(log.synced(), synced);

    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&[framed("schema"), framed("first")].concat()).unwrap();
    let position = log.install(rewrite, position).unwrap();
    log.append(position, &framed("fourth")).unwrap();
    log.sync().unwrap();
    assert_eq!(bodies(&memory), ["schema", "first", "fourth"]);
}

/// J4: a sync on another thread while the log continues, with and without a failure.
#[test]
fn a_sync_on_the_side() {
    let (_, faulty, mut log) = start();
    let upto = log.append(log.position(), &batch()).unwrap();
    let job = log.begin_sync().unwrap();
    let end = log.append(upto, &batch()).unwrap();
    let done = std::thread::spawn(|| job.run()).join().unwrap();
    assert_eq!(log.end_sync(done).unwrap(), upto, "what came later is not synced");

    // The sync job of a file that was replaced in the meantime says nothing about the new one.
    faulty.set(Faults { sync_error: Some(1), ..Faults::default() });
    let failed = log.begin_sync().unwrap().run();
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&framed("schema")).unwrap();
    let position = log.install(rewrite, end).unwrap();
    assert_eq!(log.end_sync(failed).unwrap(), position);
    assert!(log.broken().is_none());
}

/// Any failure before the rename leaves the old file in service and no new one behind; a failed
/// sync of the directory after it leaves the new one, broken (J4).
#[test]
fn failed_rewrites() {
    // The syncs are: the rewrite's own, install's, the directory's.
    let table = [
        ("full-after=0", "full", true),
        ("full-after=100", "full", true),
        ("write-error=1", "io", true),
        ("sync-error=1", "io", true),
        ("sync-error=2", "io", true),
        ("rename-error=1", "io", true),
        ("read-only-at=2", "read-only", true),
        ("sync-error=3", "io", false),
    ];
    for (faults, expected, old_stays) in table {
        let (memory, faulty, mut log) = start();
        let position = log.position();
        faulty.set(faults.parse().unwrap());
        let outcome = (|| {
            let mut rewrite = log.rewrite()?;
            rewrite.write(&[framed("schema"), framed("compact")].concat())?;
            rewrite.sync()?;
            log.install(rewrite, position)
        })();
        let word = match outcome.unwrap_err() {
            RewriteError::Full(_) => "full",
            RewriteError::ReadOnly(_) => "read-only",
            RewriteError::Io(_) => "io",
            other => panic!("{faults}: {other}"),
        };
        assert_eq!(word, expected, "{faults}");
        faulty.set(Faults::default());
        if !faults.contains("read-only") {
            assert_eq!(memory.contents("db.tmp"), None, "{faults}: the new file stayed");
        }
        let second = if old_stays { "first" } else { "compact" };
        assert_eq!(bodies(&memory), ["schema", second], "{faults}");
        assert_eq!(log.append(log.position(), &batch()).is_ok(), old_stays, "{faults}");
        if !old_stays {
            let mut rewrite = log.rewrite().unwrap();
            rewrite.write(&framed("schema")).unwrap();
            log.install(rewrite, log.position()).unwrap();
            log.append(log.position(), &batch()).unwrap();
        }
    }
}

/// A rewrite that failed stays failed on every later call: an incomplete file is never put in place (J4).
#[test]
fn a_failed_rewrite_cannot_be_installed() {
    let (memory, faulty, mut log) = start();
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&framed("schema")).unwrap();
    faulty.set(Faults { sync_error: Some(1), ..Faults::default() });
    let error = rewrite.sync().unwrap_err().to_string();
    assert_eq!(rewrite.write(&framed("more")).unwrap_err().to_string(), error);
    assert_eq!(log.install(rewrite, log.position()).unwrap_err().to_string(), error);
    assert_eq!(bodies(&memory), ["schema", "first"]);
}

/// Invalid rewrites are refused and change nothing.
#[test]
fn rewrites_out_of_place() {
    let (memory, _, mut log) = start();
    let first = log.rewrite().unwrap();
    assert!(matches!(log.rewrite(), Err(RewriteError::Busy(_))));
    assert!(matches!(log.install(first, log.position()), Err(RewriteError::Range(_))), "empty");
    let mut beyond = log.rewrite().unwrap();
    beyond.write(&framed("schema")).unwrap();
    let position = Position(log.position().0 + 1);
    assert!(matches!(log.install(beyond, position), Err(RewriteError::Range(_))), "beyond the end");
    let mut within = log.rewrite().unwrap();
    within.write(&framed("schema")).unwrap();
    assert!(matches!(log.install(within, Position(3)), Err(RewriteError::Corrupt { .. })));

    let mut other = MemoryLog::new(b"schema").unwrap();
    let foreign = other.rewrite().unwrap();
    assert!(matches!(log.install(foreign, log.position()), Err(RewriteError::Stale(_))));
    assert_eq!(bodies(&memory), ["schema", "first"]);
}

/// An append that expects another end of the log is refused.
#[test]
fn the_expected_position_counts() {
    let mut log = MemoryLog::new(b"schema").unwrap();
    let start = log.position();
    let end = log.append(start, &batch()).unwrap();
    let error = log.append(start, &batch()).unwrap_err();
    assert!(matches!(error, AppendError::Moved { expected, actual }
        if expected == start && actual == end));
    assert_eq!(log.append(end, b"").unwrap(), end);

    let mut reader = log.follow(start);
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        found.push((record.offset, String::from_utf8(record.body.to_vec()).unwrap()));
    }
    let third = Position(start.0 + framed("second").len() as u64);
    assert_eq!(found, [(start, "second".to_string()), (third, "third".to_string())]);
    assert_eq!(reader.position(), end);
}

/// A log opened read-only is read-only.
#[test]
fn read_only_logs() {
    let (memory, _, log) = start();
    let (mut reading, _, _) = replay(Arc::new(memory), "db", Mode::ReadOnly).unwrap();
    let error = reading.append(reading.position(), &batch()).unwrap_err();
    assert!(matches!(error, AppendError::ReadOnly(_)));
    assert_eq!(error.to_string(), "db: cannot append: the file is opened read-only");
    assert!(matches!(reading.rewrite(), Err(RewriteError::ReadOnly(_))));
    drop(log);
}

/// The size used to judge growth survives the process, and is estimated for a file without a side file.
#[test]
fn the_base_is_the_size_after_the_last_rewrite() {
    let (memory, _, mut log) = start();
    let snapshot = [framed("schema"), framed("a"), framed("b"), framed("c")].concat();
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&snapshot).unwrap();
    log.install(rewrite, log.position()).unwrap();
    log.append(log.position(), &batch()).unwrap();
    assert_eq!(log.base(), snapshot.len() as u64);
    drop(log);
    let open = || replay(Arc::new(memory.clone()), "db", Mode::ReadWrite).unwrap().0;
    assert_eq!(open().base(), snapshot.len() as u64);
    memory.damage(".db.synced", Vec::clear);
    assert_eq!(open().base(), [framed("schema"), framed("a")].concat().len() as u64);
}

/// J5, J6: when a file cannot be created or opened, the error says why, and nothing is left behind.
#[test]
fn failed_creations() {
    let memory = MemoryDisk::new();
    for (faults, expected) in [
        ("full-after=10", "db: cannot create: No space left on device (os error 28)"),
        ("read-only-at=1", "db.tmp: cannot remove: Read-only file system (os error 30)"),
        ("sync-error=1", "db: cannot create: Input/output error (os error 5)"),
    ] {
        let faults = faults.parse().unwrap();
        let faulty = FaultyDisk::new(Arc::new(memory.clone()), faults, Death::Pretend);
        let error = FileLog::create_on(Arc::new(faulty), "db", b"schema").unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(memory.names().is_empty(), "{expected}");
    }
    FileLog::create_on(Arc::new(memory.clone()), "db", b"schema").unwrap();
    let again = FileLog::create_on(Arc::new(memory.clone()), "db", b"schema").unwrap_err();
    assert!(matches!(again, OpenError::Exists(_)));
    assert_eq!(bodies(&memory), ["schema"]);
}

#[test]
fn faults_as_text() {
    let faults: Faults = "short-write=7,full-after=0,kill-at=12".parse().unwrap();
    let expected = Faults {
        short_write: Some(7),
        full_after: Some(0),
        kill_at: Some(12),
        ..Faults::default()
    };
    assert_eq!(faults, expected);
    for wrong in ["sync-error", "sync-error=x", "sync-error=-1", "flood=1", "a=1=2"] {
        assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
    }
}
