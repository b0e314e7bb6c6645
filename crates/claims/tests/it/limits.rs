//! Bounds: one call does a bounded amount, whatever is waiting or held.

use crate::{Bench, rank, resource};
use paceline_claims::{Event, Graph};
use paceline_types::{Mode, RequestId, limits};
use std::sync::Arc;

/// A wide tree with everybody waiting for its root: a release hands waiters out one by one.
#[test]
fn a_release_hands_out_one_by_one() {
    let mut list = vec![resource(0, "root", &[])];
    list.extend((1..=2_000).map(|id| resource(id, &format!("leaf{id}"), &[0])));
    let mut bench = Bench::new(list);
    assert!(bench.exclusive(1, "root"));
    for id in 2..2_002 {
        assert!(!bench.exclusive(id, &format!("leaf{}", id - 1)));
    }
    assert_eq!(bench.claims.stats().parked, 2_000);
    bench.remove(1);
    for left in (0..2_000).rev() {
        let Some(Event::Unblocked(id)) = bench.claims.poll() else { panic!("{left} are left") };
        assert_eq!(bench.claims.stats().parked, left, "one poll moves one waiter");
        bench.claims.take(id).unwrap();
    }
    assert_eq!(bench.claims.poll(), None);
}

/// A holder with very many marks is released in steps, and blocks until the last of them is gone.
#[test]
fn a_large_release_goes_in_steps() {
    let many = 10_000;
    let mut list = vec![resource(0, "one", &[]), resource(1, "two", &[])];
    list.extend((2..many + 2).map(|id| resource(id, &format!("leaf{id}"), &[0, 1])));
    let mut bench = Bench::new(list);
    assert!(bench.exclusive(1, "one"), "every leaf is a side door");
    assert!(!bench.exclusive(2, "two"));
    bench.remove(1);
    assert!(bench.claims.has_work());
    let mut steps = 0;
    while bench.claims.step(1) > 0 {
        steps += 1;
    }
    assert!(steps > 1, "{steps}");
    assert_eq!(bench.grants(), [2]);
    assert_eq!(bench.claims.stats().nodes as u64, many + 1, "only the new holder's marks are left");
}

/// An edit that concerns everybody is worked in by steps, and nothing is taken before it is.
#[test]
fn a_large_edit_goes_in_steps() {
    let list = |top: &[u64]| {
        let mut list = vec![resource(0, "top", &[]), resource(1, "root", top)];
        list.extend((2..3_002).map(|id| resource(id, &format!("leaf{id}"), &[1])));
        list
    };
    let mut bench = Bench::new(list(&[]));
    for id in 2..3_002 {
        assert!(bench.exclusive(id, &format!("leaf{id}")));
    }
    assert!(bench.exclusive(1, "top"));
    bench.remove(1);
    let graph = Arc::new(Graph::build(Some(bench.claims.graph()), list(&[0])).unwrap());
    bench.claims.configure(graph);
    let mut steps = 0;
    while bench.claims.is_busy() {
        let mut wanted = bench.wanted("top", Mode::Exclusive);
        assert!(bench.claims.check(&mut wanted, rank(9_000, 9_000)).is_err(), "nothing is taken");
        assert!(bench.claims.step(limits::STEP_MAX) <= limits::STEP_MAX * 2);
        steps += 1;
    }
    assert!(steps > 10, "{steps}");
    assert!(!bench.exclusive(9_001, "top"), "C1: all leaves are below it now");
}

/// Many edits in a row: only a few may wait, then the oldest is finished first.
#[test]
fn edits_do_not_pile_up() {
    let list = |parents: &[u64]| vec![resource(1, "a", &[]), resource(2, "b", parents)];
    let mut bench = Bench::new(list(&[]));
    assert!(bench.exclusive(1, "b"));
    for round in 0..100 {
        let parents: &[u64] = if round % 2 == 0 { &[1] } else { &[] };
        let graph = Graph::build(Some(bench.claims.graph()), list(parents)).unwrap();
        bench.claims.configure(Arc::new(graph));
        assert!(bench.claims.stats().edits <= 8);
    }
    bench.edit(list(&[1]));
    assert!(!bench.exclusive(2, "a"));
}

/// The search for one's own way gives up after so many waiters, and takes no time without them.
#[test]
fn blockers_are_as_many_as_asked_for() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    for id in 1..1_000 {
        assert_eq!(bench.exclusive(id, "a"), id == 1);
    }
    let blockers = bench.claims.blockers(RequestId(999), limits::AHEAD_MAX);
    let ids: Vec<_> = blockers.iter().map(|blocker| blocker.id.0).collect();
    let mut expected = vec![1];
    expected.extend((984..999).rev());
    assert_eq!(ids, expected, "the holder, then the nearest");
    let wanted = bench.wanted("a", Mode::Shared);
    assert_eq!(bench.claims.blockers_of(&wanted, rank(5, 5_000), 3).len(), 3);
}
