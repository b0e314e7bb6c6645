//! The numbers of restored copies, at made-up times.

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
