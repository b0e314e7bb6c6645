//! Which requests may pass others, and requests for resources that do not exist.

use crate::{Bench, rank, resource};
use paceline_claims::{Blocked, Event};
use paceline_types::{Mode, RequestId};

/// C3: a later request passes an earlier waiter only if they do not conflict, or the earlier one cannot run.
#[test]
fn passing_follows_the_rule() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    assert!(bench.exclusive(1, "a"));
    assert!(!bench.exclusive(2, "a b"));
    assert!(!bench.exclusive(3, "b"), "would pass an earlier waiter");
    bench.claims.set_eligible(RequestId(2), false);
    assert_eq!(bench.grants(), [3], "the earlier one could not run anyway");
    bench.claims.set_eligible(RequestId(2), true);
    bench.remove(1);
    assert_eq!(bench.grants(), []);
    bench.remove(3);
    assert_eq!(bench.grants(), [2], "it kept its rank");
}

/// C2: a waiter holds nothing, so an ineligible waiter for two resources blocks neither.
#[test]
fn waiting_holds_nothing() {
    let mut bench = Bench::new(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    assert!(bench.exclusive(1, "a"));
    let wanted = bench.wanted("a b", Mode::Exclusive);
    bench.claims.add(RequestId(2), rank(2, 2), None, wanted);
    let by = Blocked::By { id: RequestId(1), is_held: true };
    assert_eq!(bench.claims.take(RequestId(2)), Err(by));
    assert!(bench.exclusive(3, "b"));
}

#[test]
fn made_names_conflict_for_as_long_as_they_are_claimed() {
    let mut bench = Bench::new(vec![]);
    assert!(bench.exclusive(1, "job"));
    assert!(!bench.exclusive(2, "job other"));
    assert_eq!(bench.claims.stats().made, 2);
    assert!(!bench.shared(3, "other"), "C3: 2 stands before it");
    assert_eq!(
        bench.wanted("job", Mode::Shared).unknown().len(),
        1,
        "only the graph makes it known"
    );
    bench.remove(1);
    assert_eq!(bench.grants(), [2]);
    bench.remove(2);
    assert_eq!(bench.grants(), [3]);
    bench.remove(3);
    assert_eq!(bench.claims.stats(), paceline_claims::Stats::default());
}

#[test]
fn aside_until_all_names_exist() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    let wanted = bench.wanted("a b c", Mode::Exclusive);
    assert!(bench.claims.add_aside(RequestId(1), rank(1, 1), None, wanted));
    bench.claims.set_eligible(RequestId(1), false);
    assert!(bench.exclusive(2, "a"), "who stands aside is in nobody's way");
    assert_eq!(bench.claims.take(RequestId(1)), Err(Blocked::NotWaiting));
    bench.edit(vec![resource(1, "a", &[]), resource(2, "b", &[])]);
    assert_eq!(bench.claims.poll(), None, "c is missing");
    assert_eq!(bench.claims.missing(RequestId(1)), Some("c"));
    bench.edit(vec![resource(1, "a", &[]), resource(2, "b", &[]), resource(3, "c", &[])]);
    assert_eq!(bench.claims.poll(), Some(Event::Known(RequestId(1))));
    assert!(bench.claims.take(RequestId(1)).is_err());
    bench.remove(2);
    assert_eq!(bench.grants(), [1]);
    let wanted = bench.wanted("a", Mode::Exclusive);
    assert!(!bench.claims.add_aside(RequestId(3), rank(3, 3), None, wanted), "all exist");
    assert!(bench.claims.take(RequestId(3)).is_err());
}

#[test]
fn strangers_are_told_apart() {
    let mut bench = Bench::new(vec![resource(1, "a", &[])]);
    assert_eq!(bench.claims.take(RequestId(9)), Err(Blocked::NotWaiting));
    assert!(!bench.claims.remove(RequestId(9)) && !bench.claims.create(RequestId(9)));
    assert!(bench.exclusive(1, "a"));
    assert_eq!(bench.claims.take(RequestId(1)), Err(Blocked::NotWaiting), "it holds them already");
    bench.claims.set_eligible(RequestId(1), true);
    assert!(bench.claims.blockers(RequestId(1), 16).nearest.is_empty());
}
