//! The seed's picture: disks, a zpool made of them, and its datasets.

use crate::{Bench, resource};
use paceline_claims::Resource;
use paceline_types::{RequestId, SessionId};

fn disks() -> Vec<Resource> {
    vec![
        resource(1, "disk:/dev/da0", &[]),
        resource(2, "disk:/dev/da1", &[]),
        resource(3, "disk:/dev/da2", &[]),
        resource(4, "zpool:tank", &[1, 2, 3]),
        resource(5, "dataset:tank", &[4]),
        resource(6, "dataset:tank/home", &[5]),
        resource(7, "disk:/dev/da3", &[]),
    ]
}

/// C1: a request that holds a dataset keeps all others off the disks below it.
#[test]
fn a_disk_waits_for_the_dataset_on_it() {
    let mut bench = Bench::new(disks());
    assert!(bench.exclusive(1, "dataset:tank"));
    assert!(!bench.exclusive(2, "disk:/dev/da2"), "a resource that depends on it is held");
    assert!(!bench.exclusive(3, "dataset:tank/home"), "the whole sub-tree is held");
    assert!(bench.exclusive(4, "disk:/dev/da3"), "nothing hangs below that disk");
    let blockers = bench.claims.blockers(RequestId(2), 16).nearest;
    assert_eq!(blockers.len(), 1);
    assert_eq!((&*blockers[0].resource, blockers[0].id.0), ("disk:/dev/da2", 1));
    assert!(blockers[0].is_held);
    bench.remove(1);
    assert_eq!(bench.grants(), [2], "the dataset below it waits for the disk now");
    bench.remove(2);
    assert_eq!(bench.grants(), [3]);
}

/// C1: two disks of one zpool meet in it, although neither is below the other.
#[test]
fn two_disks_of_one_zpool_meet() {
    let mut bench = Bench::new(disks());
    assert!(bench.exclusive(1, "disk:/dev/da0"));
    assert!(!bench.exclusive(2, "disk:/dev/da1"));
    bench.remove(1);
    assert_eq!(bench.grants(), [2]);
}

#[test]
fn shared_claims_go_together() {
    let mut bench = Bench::new(disks());
    assert!(bench.shared(1, "disk:/dev/da0"));
    assert!(bench.shared(2, "disk:/dev/da1"));
    assert!(bench.shared(3, "dataset:tank/home"));
    assert!(!bench.exclusive(4, "dataset:tank/home"));
    assert!(!bench.shared(5, "zpool:tank"), "C3: an exclusive waiter stands before it");
    bench.remove(1);
    bench.remove(2);
    assert_eq!(bench.grants(), []);
    bench.remove(3);
    assert_eq!(bench.grants(), [4]);
    bench.remove(4);
    assert_eq!(bench.grants(), [5]);
}

/// Claims of one request never block each other.
#[test]
fn a_request_does_not_block_itself() {
    let mut bench = Bench::new(disks());
    assert!(bench.exclusive(1, "disk:/dev/da0 dataset:tank disk:/dev/da1 dataset:tank"));
    let view = bench.claims.view("dataset:tank").unwrap();
    assert_eq!((view.holding, view.waiting, view.is_held_below), (1, 0, false));
    assert_eq!(view.holders, [RequestId(1)]);
    assert!(!bench.exclusive(2, "dataset:tank/home"));
    assert_eq!(bench.claims.view("dataset:tank/home").unwrap().waiting, 1);
    let names: Vec<_> = bench.claims.views(None).map(|view| view.resource).collect();
    assert!(names.contains(&"zpool:tank".into()), "{names:?}");
}

/// A request that would wait for its own session is found, also through another waiter.
#[test]
fn own_way_is_found_through_waiters() {
    let mut bench = Bench::new(disks());
    assert!(bench.exclusive(1, "dataset:tank"));
    assert!(!bench.exclusive(2, "disk:/dev/da2 disk:/dev/da3"));
    let wanted = bench.wanted("disk:/dev/da3", paceline_types::Mode::Exclusive);
    let rank = crate::rank(3, 3);
    let own = bench.claims.own_way(&wanted, rank, SessionId(1), &[]);
    assert_eq!(own, Some(("disk:/dev/da3".into(), RequestId(1))));
    assert_eq!(bench.claims.own_way(&wanted, rank, SessionId(2), &[]), None, "2 holds nothing");
    bench.claims.set_eligible(RequestId(2), false);
    assert_eq!(bench.claims.own_way(&wanted, rank, SessionId(1), &[]), None, "2 is passed by");
}
