//! Bounds: one call does a bounded amount of work, whatever waits or is held.

use crate::{Bench, rank, resource};
use paceline_claims::{
    Blocked, EDGES_WALKED_MAX, Event, Graph, MARKS_MAX, Resource, ResourceId, Stats,
};
use paceline_types::{Mode, RequestId, limits};
use std::sync::Arc;

/// A wide tree whose root all waiters want: a release returns waiters one by one.
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

/// A resource "one" with `doors` resources below it, each of which has another parent as well.
fn wide(doors: u64) -> Vec<Resource> {
    let mut list = vec![resource(0, "one", &[])];
    for door in 1..=doors {
        let side = 1_000_000 + door;
        list.push(resource(side, &format!("side{door}"), &[]));
        list.push(resource(door, &format!("door{door}"), &[0, side]));
    }
    list
}

/// The number of side doors with which a claim on "one" has the maximum number of marks.
const DOORS_MAX: u64 = MARKS_MAX as u64 - 1;

/// C1: one of the children with the same parents represents all, however many they are.
#[test]
fn children_with_the_same_parents_are_few_marks() {
    let mut list = vec![resource(0, "one", &[]), resource(1, "two", &[]), resource(2, "top", &[])];
    list[0].parents.push(ResourceId(2));
    list.extend((3..100_003).map(|id| resource(id, &format!("leaf{id}"), &[0, 1])));
    let mut bench = Bench::new(list);
    assert!(bench.exclusive(1, "leaf7"));
    assert!(bench.exclusive(2, "leaf8"), "they have only parents in common");
    assert!(!bench.exclusive(3, "two"));
    bench.remove(1);
    bench.remove(2);
    assert_eq!(bench.grants(), [3]);
    assert!(bench.claims.stats().nodes <= 4, "{:?}", bench.claims.stats());
    assert!(!bench.exclusive(4, "leaf9"));
    assert!(!bench.exclusive(5, "top"), "they have all leaves in common");
}

/// With one mark more than allowed the claim is refused; nothing of that width can be taken.
#[test]
fn a_claim_has_a_width() {
    let bench = Bench::new(wide(DOORS_MAX));
    let mut wanted = bench.wanted("one", Mode::Exclusive);
    assert_eq!(wanted.too_wide(), None);
    assert_eq!(bench.claims.check(&mut wanted, rank(1, 1)), Ok(()));
    let bench = Bench::new(wide(DOORS_MAX + 1));
    let mut wanted = bench.wanted("side1 one", Mode::Exclusive);
    assert_eq!(wanted.too_wide(), Some("one"));
    assert_eq!(bench.claims.check(&mut wanted, rank(1, 1)), Err(Blocked::TooWide));
    assert_eq!(
        bench.wanted("door1", Mode::Shared).too_wide(),
        None,
        "smaller parts may be claimed"
    );
}

/// Edges that are only inside a claim make no marks, but take time to walk.
#[test]
fn a_claim_has_a_longest_walk() {
    let inside = |doors: u64| {
        let mut list = vec![resource(0, "one", &[])];
        for door in 1..=doors {
            let side = 1_000_000 + door;
            list.push(resource(side, &format!("side{door}"), &[0]));
            list.push(resource(door, &format!("door{door}"), &[0, side]));
        }
        Bench::new(list)
    };
    // Three edges for each door on the way down, and two back up.
    let most = EDGES_WALKED_MAX as u64 / 5;
    assert_eq!(inside(most).wanted("one", Mode::Exclusive).too_wide(), None);
    assert_eq!(inside(most + 1).wanted("one", Mode::Exclusive).too_wide(), Some("one"));
}

/// C1: an edit that makes a claim too wide takes nothing from its holder; waiters are reported.
#[test]
fn an_edit_can_make_a_claim_too_wide() {
    let mut bench = Bench::new(wide(1));
    assert!(bench.exclusive(1, "one"));
    assert!(!bench.exclusive(2, "one"));
    assert!(!bench.exclusive(3, "door1"));
    bench.edit(wide(DOORS_MAX + 1));
    assert_eq!(bench.claims.poll(), Some(Event::TooWide(RequestId(2))));
    assert_eq!(bench.claims.too_wide(RequestId(2)), Some("one"));
    assert_eq!(bench.claims.missing(RequestId(2)), None);
    assert_eq!(bench.claims.take(RequestId(2)), Err(Blocked::NotWaiting));
    assert!(!bench.exclusive(4, &format!("side{}", DOORS_MAX + 1)), "all doors are held");
    bench.remove(2);
    bench.remove(1);
    let mut granted = bench.grants();
    granted.sort_unstable();
    assert_eq!(granted, [3, 4]);
    assert_eq!(bench.claims.stats().waiting, 0);
}

/// The same for a request that was aside until its other resource was created.
#[test]
fn who_comes_back_may_be_too_wide() {
    let mut bench = Bench::new(wide(DOORS_MAX));
    for id in [1, 2] {
        let wanted = bench.wanted("one other", Mode::Exclusive);
        assert_eq!(wanted.too_wide(), None);
        assert!(bench.claims.add_aside(RequestId(id), rank(id, id), None, wanted));
    }
    bench.edit(wide(DOORS_MAX + 1));
    assert_eq!(bench.claims.poll(), None, "it still waits for the other");
    assert!(!bench.claims.create(RequestId(2)));
    assert_eq!(bench.claims.too_wide(RequestId(2)), Some("one"));
    let mut list = wide(DOORS_MAX + 1);
    list.push(resource(9_999_999, "other", &[]));
    bench.edit(list);
    assert_eq!(bench.claims.poll(), Some(Event::TooWide(RequestId(1))));
    bench.remove(1);
    bench.remove(2);
    assert_eq!(bench.claims.stats(), Stats::default());
}

/// A holder that an edit gave very many marks is released in steps, and blocks until the last mark is removed.
#[test]
fn a_large_release_goes_in_steps() {
    let many = 10_000;
    let mut bench = Bench::new(wide(1));
    assert!(bench.exclusive(1, "one"));
    bench.edit(wide(many));
    assert!(!bench.exclusive(2, "side1"));
    bench.remove(1);
    assert!(bench.claims.has_work());
    let mut steps = 0;
    while bench.claims.step(1) > 0 {
        steps += 1;
    }
    assert!(steps > 1, "{steps}");
    assert_eq!(bench.grants(), [2]);
    assert_eq!(bench.claims.stats().nodes, 2, "only the new holder's marks are left");
}

/// An edit that affects all requests is applied in steps, and nothing is taken before it is complete.
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

/// Many edits in a row: only a few wait, the others are merged, and the call itself applies none.
#[test]
fn edits_do_not_pile_up() {
    let list = |parents: &[u64]| vec![resource(1, "a", &[]), resource(2, "b", parents)];
    let mut bench = Bench::new(list(&[]));
    assert!(bench.exclusive(1, "b"));
    for round in 0..100 {
        let parents: &[u64] = if round % 2 == 0 { &[1] } else { &[] };
        let graph = Graph::build(Some(bench.claims.graph()), list(parents)).unwrap();
        bench.claims.configure(Arc::new(graph));
        assert_eq!(bench.claims.stats().edits, 8.min(round + 1));
    }
    bench.edit(list(&[1]));
    assert!(!bench.exclusive(2, "a"));
}

/// A waiter whose resource appeared and disappeared in edits that were merged still gets its name.
#[test]
fn a_left_out_edit_leaves_its_names() {
    let mut bench = Bench::new(vec![]);
    let configure = |bench: &mut Bench, list| {
        let graph = Graph::build(Some(bench.claims.graph()), list).unwrap();
        bench.claims.configure(Arc::new(graph));
    };
    for id in 1..=8 {
        configure(&mut bench, vec![resource(id, "a", &[])]);
    }
    configure(&mut bench, vec![resource(9, "b", &[]), resource(10, "c", &[])]);
    let wanted = bench.wanted("c b", Mode::Exclusive);
    bench.claims.add(RequestId(1), rank(1, 1), None, wanted);
    configure(&mut bench, vec![]);
    while bench.claims.is_busy() {
        assert!(bench.claims.step(1) > 0);
    }
    assert_eq!(bench.claims.poll(), Some(Event::Unknown(RequestId(1))));
    assert_eq!(bench.claims.missing(RequestId(1)), Some("c"));
}

/// The blocking requests are named as far as asked for, and counted up to a bound.
#[test]
fn blockers_are_as_many_as_asked_for() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    for id in 1..1_000 {
        assert_eq!(bench.exclusive(id, "a"), id == 1);
    }
    let blockers = bench.claims.blockers(RequestId(999), limits::AHEAD_MAX);
    let ids: Vec<_> = blockers.nearest.iter().map(|blocker| blocker.id.0).collect();
    let mut expected = vec![1];
    expected.extend((984..999).rev());
    assert_eq!(ids, expected, "the holder, then the nearest");
    assert_eq!(blockers.total, limits::STEP_MAX, "counted as far as that");
    let wanted = bench.wanted("a", Mode::Shared);
    assert_eq!(bench.claims.blockers_of(&wanted, rank(5, 5_000), 3).nearest.len(), 3);
}
