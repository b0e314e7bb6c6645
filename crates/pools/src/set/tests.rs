//! Tests which sets of pools are accepted, and why others are refused.

use super::{POOLS_MAX, PoolError, PoolSet};
use crate::{DEFAULT_NAME, PoolSpec, PoolState, Range};
use paceline_types::{PoolId, Priority, limits};

fn range(low: i64, high: i64) -> Range {
    Range::new(Priority::new(low).unwrap(), Priority::new(high).unwrap()).unwrap()
}

/// A pool that is started if it has a range.
fn pool(id: u32, name: &str, range: Option<Range>) -> PoolSpec {
    let state = if range.is_some() { PoolState::Started } else { PoolState::Stopped };
    PoolSpec { range, state, ..PoolSpec::new(PoolId(id), name) }
}

fn refused(specs: Vec<PoolSpec>, error: &PoolError) {
    assert_eq!(PoolSet::of(specs).as_ref(), Err(error));
}

#[test]
fn a_new_pool_is_stopped_without_a_range_and_transient() {
    let set = PoolSet::of(vec![PoolSpec::new(PoolId(4), "batch")]).unwrap();
    let pool = set.pool("batch").unwrap();
    assert_eq!(set.by_id(PoolId(4)), Some(pool));
    assert_eq!((pool.state, pool.range, pool.persistent), (PoolState::Stopped, None, false));
    assert_eq!((pool.threads_min, pool.threads_max), (0, None), "0 to unlimited");
    assert_eq!((set.pool("none"), set.by_id(PoolId(5))), (None, None));
}

#[test]
fn there_is_always_the_default_pool() {
    let set = PoolSet::new();
    assert_eq!(PoolSet::of(vec![]).as_ref(), Ok(&set));
    let default = set.pool(DEFAULT_NAME).unwrap();
    assert_eq!(
        (default.state, default.persistent, default.threads_max),
        (PoolState::Started, true, None)
    );
    let changed = |change: fn(&mut PoolSpec)| {
        let mut spec = PoolSpec::default_pool();
        change(&mut spec);
        PoolSet::of(vec![pool(1, "low", None), spec]).map(|set| set.list()[0].threads_max)
    };
    assert_eq!(changed(|spec| spec.threads_max = Some(2)), Ok(Some(2)), "it comes first");
    let cannot = |what| Err(PoolError::DefaultPool { what });
    assert_eq!(changed(|spec| spec.state = PoolState::Stopped), cannot("stopped"));
    assert_eq!(changed(|spec| spec.state = PoolState::Draining), cannot("drained"));
    assert_eq!(changed(|spec| spec.persistent = false), cannot("made transient"));
    assert_eq!(changed(|spec| spec.name = "other".into()), cannot("renamed"));
    assert_eq!(changed(|spec| spec.range = Some(range(1, 2))), cannot("given a range"));
}

#[test]
fn names_are_names_and_differ() {
    let twice = PoolError::AlreadyExists { name: "a".into() };
    refused(vec![pool(1, "a", None), pool(2, "a", None)], &twice);
    let default = PoolError::AlreadyExists { name: DEFAULT_NAME.into() };
    refused(vec![pool(1, DEFAULT_NAME, None)], &default);
    let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    for name in ["", "a b", "a\n", &long] {
        let shown = name.chars().take(64).collect();
        refused(vec![pool(1, name, None)], &PoolError::Name { name: shown });
    }
}

#[test]
fn there_are_not_too_many() {
    let pools = |count| (1..=count).map(|id| pool(id, &format!("pool{id}"), None)).collect();
    let most = POOLS_MAX as u32 - 1;
    assert_eq!(PoolSet::of(pools(most)).unwrap().list().len(), POOLS_MAX);
    refused(pools(most + 1), &PoolError::OutOfResources { max: POOLS_MAX });
}

#[test]
fn only_a_stopped_pool_has_no_range() {
    for state in [PoolState::Started, PoolState::Draining] {
        let bare = PoolSpec { state, ..pool(1, "bare", None) };
        refused(vec![bare], &PoolError::NoRange { name: "bare".into() });
    }
}

#[test]
fn ranges_do_not_overlap() {
    let batch = || pool(1, "batch", Some(range(-127, -1)));
    for (low, high) in [(-127, -127), (-1, -1), (-1, 5), (-50, -40), (-127, 127)] {
        let error = PoolError::OverlappingRange {
            name: "other".into(),
            range: range(low, high),
            other: "batch".into(),
            other_range: range(-127, -1),
        };
        refused(vec![batch(), pool(2, "other", Some(range(low, high)))], &error);
    }
    PoolSet::of(vec![batch(), pool(2, "other", Some(range(0, 127)))]).unwrap();
    assert!(Range::new(Priority::MAX, Priority::MIN).is_none(), "a range has two ends in order");
}

#[test]
fn threads_are_a_range() {
    let with = |min, max| PoolSpec {
        threads_min: min,
        threads_max: max,
        ..pool(1, "batch", Some(range(-127, -1)))
    };
    let error = |min, max| PoolError::Threads { name: "batch".into(), min, max };
    refused(vec![with(5, Some(4))], &error(5, 4));
    refused(vec![with(0, Some(2_000_000))], &error(0, 2_000_000));
    for max in [Some(8), None] {
        assert_eq!(PoolSet::of(vec![with(1, max)]).unwrap().list()[1].threads_max, max);
    }
}

#[test]
fn zero_is_the_default_pool_and_so_is_what_no_range_holds() {
    let set = PoolSet::of(vec![pool(1, "wide", Some(range(-10, 10)))]).unwrap();
    let of = |number| set.pool_for(Priority::new(number).unwrap()).id;
    assert_eq!(of(0), PoolId::DEFAULT, "though the range spans 0");
    assert_eq!((of(-10), of(10), of(1)), (PoolId(1), PoolId(1), PoolId(1)));
    assert_eq!((of(11), of(-11), of(127)), (PoolId::DEFAULT, PoolId::DEFAULT, PoolId::DEFAULT));
}

#[test]
fn pools_keep_their_order() {
    let specs = vec![
        pool(1, "low", Some(range(1, 10))),
        pool(7, "high", Some(range(-10, -1))),
        pool(3, "bare", None),
    ];
    let set = PoolSet::of(specs).unwrap();
    let names: Vec<_> = set.list().iter().map(|pool| &*pool.name).collect();
    assert_eq!(names, [DEFAULT_NAME, "low", "high", "bare"]);
}
