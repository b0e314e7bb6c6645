//! Every operation and failure that seed 000 names.

use super::{Change, POOLS_MAX, PoolError, PoolSet};
use crate::{DEFAULT_NAME, PoolSpec, Range, State};
use paceline_types::{PoolId, Priority, limits};

fn range(low: i64, high: i64) -> Range {
    Range::new(Priority::new(low).unwrap(), Priority::new(high).unwrap()).unwrap()
}

fn with_range(low: i64, high: i64) -> Change {
    Change { range: Some(range(low, high)), ..Change::default() }
}

/// A pool "batch" for -127 to -1, started, and a pool "bare" as it was made.
fn sample() -> PoolSet {
    let mut set = PoolSet::new();
    set.create("batch").unwrap();
    set.configure("batch", with_range(-127, -1)).unwrap();
    set.start("batch").unwrap();
    set.create("bare").unwrap();
    set
}

/// Fails with `error` and changes nothing.
fn refused(operation: impl FnOnce(&mut PoolSet) -> Result<(), PoolError>, error: PoolError) {
    let before = sample();
    let mut set = before.clone();
    assert_eq!(operation(&mut set), Err(error));
    assert_eq!(set, before, "a refused operation changes nothing");
}

#[test]
fn a_created_pool_is_stopped_without_a_range_and_transient() {
    let mut set = PoolSet::new();
    let id = set.create("batch").unwrap();
    let pool = set.pool("batch").unwrap();
    assert_eq!(set.by_id(id), Some(pool));
    assert_eq!((pool.state, pool.range, pool.persistent), (State::Stopped, None, false));
    assert_eq!((pool.threads_min, pool.threads_max), (0, None), "0 to unlimited");
}

#[test]
fn there_is_always_the_default_pool() {
    let set = PoolSet::new();
    let pool = set.pool(DEFAULT_NAME).unwrap();
    assert_eq!((pool.state, pool.persistent, pool.threads_max), (State::Started, true, None));
    refused(|set| set.stop(DEFAULT_NAME), PoolError::DefaultPool { what: "stopped" });
    refused(|set| set.drain(DEFAULT_NAME), PoolError::DefaultPool { what: "drained" });
    refused(|set| set.unpersist(DEFAULT_NAME), PoolError::DefaultPool { what: "made transient" });
    refused(|set| set.delete(DEFAULT_NAME), PoolError::DefaultPool { what: "deleted" });
    refused(
        |set| set.configure(DEFAULT_NAME, with_range(1, 2)),
        PoolError::DefaultPool { what: "given a range" },
    );
    refused(
        |set| set.persist(DEFAULT_NAME),
        PoolError::AlreadyPersistent { name: DEFAULT_NAME.into() },
    );
}

#[test]
fn every_operation_fails_on_a_pool_that_does_not_exist() {
    let none = || PoolError::NoSuchPool { name: "none".into() };
    refused(|set| set.configure("none", Change::default()), none());
    refused(|set| set.start("none"), none());
    refused(|set| set.stop("none"), none());
    refused(|set| set.drain("none"), none());
    refused(|set| set.persist("none"), none());
    refused(|set| set.unpersist("none"), none());
    refused(|set| set.delete("none"), none());
}

#[test]
fn create_fails_for_names_in_use_or_wrong_and_when_out_of_resources() {
    refused(|set| set.create("batch").map(drop), PoolError::AlreadyExists { name: "batch".into() });
    let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    for name in ["", "a b", "a\n", &long] {
        let shown = name.chars().take(64).collect();
        refused(|set| set.create(name).map(drop), PoolError::Name { name: shown });
    }
    let mut set = PoolSet::new();
    for number in 1..POOLS_MAX {
        set.create(&format!("pool{number}")).unwrap();
    }
    assert_eq!(set.create("more"), Err(PoolError::OutOfResources { max: POOLS_MAX }));
}

#[test]
fn persistence_changes_once() {
    let mut set = sample();
    set.persist("batch").unwrap();
    assert_eq!(set.persist("batch"), Err(PoolError::AlreadyPersistent { name: "batch".into() }));
    set.unpersist("batch").unwrap();
    assert_eq!(set.unpersist("batch"), Err(PoolError::AlreadyTransient { name: "batch".into() }));
}

#[test]
fn starting_needs_a_range_and_may_be_repeated() {
    refused(|set| set.start("bare"), PoolError::NoRange { name: "bare".into() });
    refused(|set| set.drain("bare"), PoolError::NoRange { name: "bare".into() });
    let mut set = sample();
    set.start("batch").unwrap();
    set.stop("batch").unwrap();
    set.stop("batch").unwrap();
    assert_eq!(set.pool("batch").unwrap().state, State::Stopped);
}

#[test]
fn ranges_do_not_overlap() {
    for (low, high) in [(-127, -127), (-1, -1), (-1, 5), (-50, -40), (-127, 127)] {
        refused(
            |set| set.configure("bare", with_range(low, high)),
            PoolError::OverlappingRange {
                name: "bare".into(),
                range: range(low, high),
                other: "batch".into(),
                other_range: range(-127, -1),
            },
        );
    }
    let mut set = sample();
    set.configure("bare", with_range(0, 127)).unwrap();
    set.configure("batch", with_range(-127, -2)).unwrap();
    assert!(Range::new(Priority::MAX, Priority::MIN).is_none(), "a range has two ends in order");
}

#[test]
fn threads_are_a_range() {
    let threads =
        |min, max| Change { threads_min: Some(min), threads_max: Some(max), ..Change::default() };
    refused(
        |set| set.configure("batch", threads(5, Some(4))),
        PoolError::Threads { name: "batch".into(), min: 5, max: 4 },
    );
    refused(
        |set| set.configure("batch", threads(0, Some(2_000_000))),
        PoolError::Threads { name: "batch".into(), min: 0, max: 2_000_000 },
    );
    let mut set = sample();
    set.configure(DEFAULT_NAME, threads(1, Some(8))).unwrap();
    for name in [DEFAULT_NAME, "batch"] {
        set.configure(name, threads(1, None)).unwrap();
        assert_eq!(set.pool(name).unwrap().threads_max, None, "unlimited");
    }
}

#[test]
fn zero_is_the_default_pool_and_so_is_what_no_range_holds() {
    let mut set = PoolSet::new();
    let wide = set.create("wide").unwrap();
    set.configure("wide", with_range(-10, 10)).unwrap();
    let pool = |number| set.pool_for(Priority::new(number).unwrap()).id;
    assert_eq!(pool(0), PoolId::DEFAULT, "though the range spans 0");
    assert_eq!((pool(-10), pool(10), pool(1)), (wide, wide, wide));
    assert_eq!(
        (pool(11), pool(-11), pool(127)),
        (PoolId::DEFAULT, PoolId::DEFAULT, PoolId::DEFAULT)
    );
}

#[test]
fn persistent_pools_come_back_started_and_transient_ones_do_not() {
    let mut set = sample();
    set.persist("batch").unwrap();
    set.stop("batch").unwrap();
    set.create("bare-but-kept").unwrap();
    set.persist("bare-but-kept").unwrap();
    set.restart();
    let names: Vec<_> = set.list().iter().map(|pool| (&*pool.name, pool.state)).collect();
    assert_eq!(
        names,
        [
            (DEFAULT_NAME, State::Started),
            ("batch", State::Started),
            ("bare-but-kept", State::Stopped)
        ]
    );
}

#[test]
fn a_deleted_pool_is_gone_and_its_number_is_not_used_again() {
    let mut set = sample();
    let old = set.pool("batch").unwrap().id;
    set.delete("batch").unwrap();
    assert!(set.pool("batch").is_none());
    assert_ne!(set.create("batch").unwrap(), old);
}

#[test]
fn several_pools_change_at_once_or_not_at_all() {
    let pool = |id, name: &str, range| PoolSpec {
        range,
        state: if range.is_some() { State::Started } else { State::Stopped },
        ..PoolSpec::new(PoolId(id), name)
    };
    // Two ranges that are swapped overlap in between, but not as a whole.
    let set = PoolSet::of(vec![
        pool(1, "low", Some(range(1, 10))),
        pool(7, "high", Some(range(-10, -1))),
        pool(3, "bare", None),
    ]);
    let mut set = set.unwrap();
    let names: Vec<_> = set.list().iter().map(|pool| &*pool.name).collect();
    assert_eq!(names, [DEFAULT_NAME, "low", "high", "bare"]);
    assert_eq!(set.create("next"), Ok(PoolId(8)), "no number is used twice");

    let default = |change: fn(&mut PoolSpec)| {
        let mut spec = PoolSpec::default_pool();
        change(&mut spec);
        PoolSet::of(vec![pool(1, "low", None), spec]).map(|set| set.list()[0].threads_max)
    };
    assert_eq!(default(|spec| spec.threads_max = Some(2)), Ok(Some(2)), "it comes first");
    let cannot = |what| Err(PoolError::DefaultPool { what });
    assert_eq!(default(|spec| spec.state = State::Stopped), cannot("stopped"));
    assert_eq!(default(|spec| spec.persistent = false), cannot("made transient"));
    assert_eq!(default(|spec| spec.name = "other".into()), cannot("renamed"));

    let fails = |specs| PoolSet::of(specs).unwrap_err().to_string();
    assert_eq!(
        fails(vec![pool(1, "a", Some(range(1, 5))), pool(2, "b", Some(range(5, 9)))]),
        "priorities 5 to 9 of pool \"b\" overlap 1 to 5 of pool \"a\""
    );
    assert_eq!(fails(vec![pool(1, "a", None), pool(2, "a", None)]), "pool \"a\" already exists");
    assert_eq!(fails(vec![pool(1, DEFAULT_NAME, None)]), "pool \"default\" already exists");
    let started = PoolSpec { state: State::Started, ..pool(1, "a", None) };
    assert!(fails(vec![started]).starts_with("pool \"a\" has no range of priorities"));
}
