//! Graph edits under load, one sentence of the design each.

use crate::{Bench, claim, rank, resource};
use paceline_claims::{Event, Graph, WantedClaims};
use paceline_types::{Mode, RequestId};
use std::sync::Arc;

/// A holder keeps what an edit moved out of its sub-tree, and holds what its sub-tree gained.
#[test]
fn holders_keep_and_gain() {
    let tree = |b_parent: &[u64], c_parent: &[u64]| {
        vec![resource(1, "a", &[]), resource(2, "b", b_parent), resource(3, "c", c_parent)]
    };
    let mut bench = Bench::new(tree(&[1], &[]));
    assert!(bench.exclusive(1, "a"));
    assert!(bench.exclusive(2, "c"), "not below a yet");
    bench.remove(2);
    bench.edit(tree(&[], &[1]));
    assert!(!bench.exclusive(3, "b"), "was below a when a was granted");
    assert!(!bench.exclusive(4, "c"), "is below a now");
    bench.remove(1);
    let mut granted = bench.grants();
    granted.sort_unstable();
    assert_eq!(granted, [3, 4]);
}

/// A deleted resource that is held stays held, also when a new resource has its name.
#[test]
fn a_deleted_resource_is_held_until_release() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[1])]);
    assert!(bench.exclusive(1, "a"));
    bench.edit(vec![]);
    assert_eq!(bench.claims.stats().made, 2, "both names are remembered");
    assert_eq!(bench.wanted("a", Mode::Exclusive).unknown().len(), 1, "it does not exist");
    bench.edit(vec![resource(7, "b", &[]), resource(8, "below-b", &[7])]);
    assert!(!bench.exclusive(2, "b"), "the name is held");
    assert!(!bench.exclusive(3, "below-b"), "and so is what hangs below it now");
    bench.remove(1);
    assert_eq!(bench.grants(), [2]);
    assert_eq!(bench.claims.stats().made, 0);
}

#[test]
fn renames_are_free() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    assert!(bench.exclusive(1, "a"));
    assert!(!bench.exclusive(2, "a"));
    bench.edit(vec![resource(1, "z", &[]), resource(2, "a", &[])]);
    assert!(bench.exclusive(3, "a"), "another resource by now");
    assert!(!bench.exclusive(4, "z"));
    bench.remove(1);
    assert_eq!(bench.grants(), [2], "it waits for what is called z now");
}

/// Waiters use the new graph.
#[test]
fn an_edit_frees_waiters() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[1])]);
    assert!(bench.exclusive(1, "b"));
    assert!(!bench.exclusive(2, "a"));
    bench.edit(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    assert_eq!(bench.grants(), [2]);
}

#[test]
fn a_waiter_whose_resource_is_deleted_is_told() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    assert!(bench.exclusive(1, "a"));
    assert!(!bench.exclusive(2, "a"));
    assert!(!bench.exclusive(3, "a"));
    bench.edit(vec![]);
    assert_eq!(bench.claims.poll(), Some(Event::Unknown(RequestId(2))));
    assert_eq!(bench.claims.poll(), Some(Event::Unknown(RequestId(3))));
    assert_eq!(bench.claims.missing(RequestId(2)), Some("a"));
    assert!(bench.claims.create(RequestId(3)), "as its request says");
    assert!(bench.claims.take(RequestId(3)).is_err(), "the deleted one is still held");
    bench.remove(1);
    assert_eq!(bench.grants(), [3]);
    bench.edit(vec![resource(5, "a", &[])]);
    assert_eq!(bench.claims.poll(), Some(Event::Known(RequestId(2))));
    assert!(bench.claims.take(RequestId(2)).is_err(), "the made one became this resource");
    bench.remove(3);
    assert_eq!(bench.grants(), [2]);
}

/// Claims that were resolved before an edit hold ids: a rename in between changes nothing.
#[test]
fn old_claims_are_resolved_again() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    let mut renamed = bench.wanted("a", Mode::Exclusive);
    let mut moved = renamed.clone();
    assert!(bench.exclusive(1, "b"));
    bench.edit(vec![resource(1, "z", &[]), resource(2, "b", &[3]), resource(3, "a", &[])]);
    assert!(bench.claims.check(&mut renamed, rank(9, 9)).is_ok(), "b hangs below the new a only");
    bench.edit(vec![resource(1, "z", &[]), resource(2, "b", &[1]), resource(3, "a", &[])]);
    assert!(bench.claims.check(&mut moved, rank(9, 9)).is_err(), "b hangs below it now");
}

/// A graph that was built to follow another one is compared with the one in use.
#[test]
fn edits_need_not_follow_each_other() {
    let list = |parents: &[u64]| vec![resource(1, "a", &[]), resource(2, "b", parents)];
    let mut bench = Bench::new(list(&[]));
    assert!(bench.exclusive(1, "b"));
    assert!(bench.exclusive(2, "a"));
    bench.remove(2);
    bench.claims.configure(Arc::new(Graph::build(None, list(&[1])).unwrap()));
    bench.claims.configure(Arc::new(Graph::build(None, list(&[])).unwrap()));
    bench.claims.configure(Arc::new(Graph::build(None, list(&[1])).unwrap()));
    assert!(bench.claims.is_busy());
    while bench.claims.is_busy() {
        bench.claims.step(1);
    }
    assert!(!bench.exclusive(3, "a"), "b hangs below it");
}

/// A resource is deleted and created again before an event is polled: its waiter is tried again all the same.
#[test]
fn a_resource_that_comes_back_at_once_loses_nobody() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    assert!(bench.exclusive(1, "a"));
    assert!(!bench.exclusive(2, "a"));
    for list in [vec![], vec![resource(2, "a", &[])]] {
        let graph = Graph::build(Some(bench.claims.graph()), list).unwrap();
        bench.claims.configure(Arc::new(graph));
    }
    while bench.claims.is_busy() {
        bench.claims.step(1);
    }
    bench.remove(1);
    assert_eq!(bench.grants(), [2]);
}

/// Of several missing resources the first in the order of the claims is named.
#[test]
fn the_first_missing_claim_is_named() {
    let list = || vec![resource(1, "a", &[]), resource(2, "b", &[]), resource(3, "c", &[])];
    let mut bench = Bench::new(list());
    assert!(bench.exclusive(1, "a b c"));
    assert!(!bench.exclusive(2, "c b a"));
    bench.edit(vec![resource(2, "b", &[])]);
    assert_eq!(bench.claims.poll(), Some(Event::Unknown(RequestId(2))));
    assert_eq!(bench.claims.missing(RequestId(2)), Some("c"));
    bench.edit(vec![resource(4, "c", &[])]);
    assert_eq!(bench.claims.missing(RequestId(2)), Some("b"));
    bench.edit(vec![]);
    assert_eq!(bench.claims.missing(RequestId(2)), Some("c"), "it is gone again");
    let unknown = |wanted: WantedClaims| {
        let names: Vec<_> = wanted.unknown().map(|claim| claim.resource.to_string()).collect();
        names.join(" ")
    };
    assert_eq!(unknown(bench.wanted("c a b", Mode::Exclusive)), "c a b");
    bench.edit(list());
    let mut wanted = bench.wanted("c x a", Mode::Exclusive);
    bench.edit(vec![]);
    bench.claims.refresh(&mut wanted);
    assert_eq!(unknown(wanted), "c x a");
}

/// A request that sleeps elsewhere keeps ids, and no graph: a renamed resource is the one it claimed, and a
/// deleted one is searched by the name it was claimed by.
#[test]
fn claims_rest() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    let claims: Vec<_> = "b a x a".split(' ').map(|name| claim(name, Mode::Exclusive)).collect();
    let resting = bench.claims.graph().resolve(&claims).unwrap().rest();
    let graph = Arc::downgrade(bench.claims.graph());
    bench.edit(vec![resource(1, "z", &[]), resource(2, "b", &[]), resource(3, "a", &[])]);
    assert!(graph.upgrade().is_none(), "nobody keeps the old graph");
    assert!(bench.exclusive(1, "a"));
    let mut wanted = bench.claims.wake(&resting, &claims);
    assert_eq!(wanted.unknown().len(), 1);
    assert_eq!(bench.claims.check(&mut wanted, rank(9, 9)), Ok(()), "the new a is another");
    assert!(bench.exclusive(2, "z"));
    let mut wanted = bench.claims.wake(&resting, &claims);
    assert!(bench.claims.check(&mut wanted, rank(9, 9)).is_err(), "it claimed what z is now");
    bench.edit(vec![resource(4, "x", &[])]);
    let wanted = bench.claims.wake(&resting, &claims);
    let names: Vec<_> = wanted.unknown().map(|claim| &*claim.resource).collect();
    assert_eq!(names, ["b", "a"], "the names it claimed, in their order");
}
