//! The numbers of restored copies, at made-up times, and the files.

use super::*;
use paceline_types::{Uuid, UuidSource};

/// Microseconds since 1970 in November 2026.
const NOW_US: u64 = 1_795_000_000_000_000;

/// A database of one daemon that has given numbers up to `given`; of a copy if it names no machine.
fn database(given: i64, machine: &str) -> Database {
    let schema = Arc::new(own::schema().unwrap());
    let mut database = Database::new(Arc::clone(&schema), UuidSource::from_number(1));
    let table = schema.table_id(own::DAEMON_TABLE).unwrap();
    let columns = schema.table(table).columns.iter().skip(ColumnId::FIRST);
    let value = |name: &str| match name {
        "name" => Atom::string("paceline"),
        "machine" => Atom::string(machine),
        _ => Atom::Integer(given),
    };
    let row = columns.map(|column| Datum::One(value(&column.name))).collect();
    database.maintain(vec![(table, Uuid::from_halves(7, 7), Some(row))]).unwrap();
    database
}

/// The lowest of the numbers that go on after a copy of `given` is restored.
fn restored(given: i64, known: Given<'_>, wall_us: u64) -> i64 {
    let mut copy = database(given + NUMBERS_SKIPPED, "");
    number(&mut copy, known, wall_us).unwrap();
    let daemon = Daemon::of(&copy).unwrap();
    NUMBERS.map(|name| daemon.integer(name)).into_iter().min().unwrap()
}

/// L2: each restore is above all before, whichever copies are restored, also if a backup was made between.
#[test]
fn numbers_rise_with_the_time_of_the_restore_whichever_copy_it_is_l2() {
    let day_us = 86_400_000_000;
    let mut backups = vec![10, 20, 5_000_000];
    let mut last = 5_000_001;
    let mut now = NOW_US;
    for step in 0..60 {
        // From one millisecond to ten days, in no order.
        now += [1_000, 3_000_000, 10 * day_us, 60_000_000][step % 4];
        let copy = backups[step * 7 % backups.len()];
        let next = restored(copy, Given::Unknown, now);
        assert!(next > last, "restore {step} of a copy of {copy}: {last}, then {next}");
        // The daemon gives some, and another backup is made.
        last = next + 500;
        backups.push(last);
    }
    assert!(last < 1 << 53, "a number of JSON");
}

#[test]
fn numbers_go_on_behind_the_file_before_and_never_fall_behind_the_copy() {
    let before = database(3_000, "machine");
    assert_eq!(restored(1_000, Given::All(&before), NOW_US), 3_000);
    assert_eq!(restored(1_000, Given::Some(&before), NOW_US), NOW_US.cast_signed());
    // The clock was set back, or is not set yet.
    assert_eq!(restored(5_000, Given::Unknown, 0), 5_000 + NUMBERS_SKIPPED);
    let ahead = database(NOW_US.cast_signed() + 5, "machine");
    let next = restored(5_000, Given::Some(&ahead), NOW_US);
    assert_eq!(next, NOW_US.cast_signed() + 5 + NUMBERS_SKIPPED);
}

/// An empty directory of a test.
fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("paceline-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Makes the file of a daemon that has given numbers up to `given`.
fn file(path: &Path, given: i64, machine: &str) {
    let database = database(given, machine);
    let mut log = create_file(Arc::new(RealDisk), path, database.schema()).unwrap();
    write(&database.snapshot(), &mut log).unwrap();
}

/// The numbers that the file of a daemon has given.
fn given(path: &Path) -> i64 {
    let loaded = load_file(Arc::new(RealDisk), path, Mode::ReadOnly).unwrap();
    Daemon::of(&loaded.database).unwrap().integer(NUMBERS[0])
}

/// The database is on another volume: `paceline.db` is a symbolic link.
#[test]
fn a_database_behind_a_symbolic_link_is_kept_beside_its_file() {
    for is_damaged in [false, true] {
        let root = directory("restored-link");
        let (data, store) = (root.join("data"), root.join("store"));
        for directory in [&data, &store] {
            std::fs::create_dir(directory).unwrap();
        }
        let (link, real, copy) =
            (data.join("paceline.db"), store.join("real.db"), root.join("copy"));
        file(&real, 3_000, "machine");
        file(&copy, 1_000 + NUMBERS_SKIPPED, "");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        if is_damaged {
            std::fs::write(&real, "no database").unwrap();
        }
        let before = std::fs::read(&real).unwrap();
        let restored = restore(&copy, &link, "1").unwrap();
        assert_eq!(restored.numbers_go_on, !is_damaged);
        assert!(link.is_symlink(), "the daemon finds its file as before");
        assert!(given(&link) >= 3_000);
        assert_eq!(given(&real), given(&link));
        let kept = restored.kept.unwrap();
        assert_eq!(kept, store.canonicalize().unwrap().join("real.db.before-restore-1"));
        assert_eq!(std::fs::read(&kept).unwrap(), before, "the previous file");
        assert!(!kept.is_symlink());
        let names = std::fs::read_dir(&data).unwrap().map(|file| file.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["paceline.db"], "nothing is left beside the link");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
