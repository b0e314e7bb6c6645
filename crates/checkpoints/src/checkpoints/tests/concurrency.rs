//! P1: the count in use never exceeds the limit, and a freed count passes straight to the next waiter.

use super::{Came, ID, Kit, MS, spec};
use crate::limit::Limit;
use paceline_types::{RequestId, Time};

#[test]
fn p1_a_freed_count_goes_straight_to_the_next() {
    let mut kit = Kit::new(spec(Limit::Concurrency(2)));
    assert_eq!((kit.arrive(1), kit.arrive(2)), (Came::Passed, Came::Passed));
    for id in 3..6 {
        assert_eq!(kit.arrive_with(id, |t| t.cost = 7), Came::Queued(None), "one count each");
    }
    let place = kit.room.place(kit.now, RequestId(4)).unwrap();
    assert_eq!((place.ahead, place.held, place.limit), (1, 2, Some(2)));
    assert_eq!(place.pass_at, None);
    assert_eq!(kit.settle(1), Some(3));
    assert_eq!(kit.room.inflight(kit.now, ID, None), 2);
    assert_eq!(kit.arrive(6), Came::Queued(None), "nobody slips in between");
    assert_eq!(kit.settle(3), Some(4));
    kit.refund(2);
    let moves = kit.due();
    assert_eq!(moves, [(0, 5, Came::Passed)], "next tells it as well");
    assert_eq!(kit.settle(4), Some(6));
    assert_eq!((kit.settle(5), kit.settle(6)), (None, None));
    assert_eq!(kit.room.inflight(kit.now, ID, None), 0);
    assert_eq!(kit.arrive(7), Came::Passed);
}

#[test]
fn p1_lowering_drains_and_raising_lets_go() {
    let mut kit = Kit::new(spec(Limit::Concurrency(3)));
    kit.arrive_all(1..=6);
    kit.configure(vec![spec(Limit::Concurrency(1))]);
    assert_eq!((kit.settle(1), kit.settle(2)), (None, None), "one is still held");
    assert_eq!(kit.arrive(7), Came::Queued(None));
    assert_eq!(kit.settle(3), Some(4));
    assert_eq!(kit.due(), []);
    kit.configure(vec![spec(Limit::Concurrency(3))]);
    assert_eq!(kit.room.poll_timeout(), Some(kit.now));
    let moves = kit.due();
    assert_eq!(moves, [(0, 5, Came::Passed), (0, 6, Came::Passed)]);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 3);
    assert_eq!(kit.room.queued(kit.now, ID, None), 1);
}

/// A waiter that was just handed a count and leaves gives it to the next.
#[test]
fn p1_no_count_is_lost_on_the_way() {
    let mut kit = Kit::new(spec(Limit::Concurrency(1)));
    kit.arrive_all(1..=3);
    let held = kit.held.remove(&1).unwrap();
    kit.room.settle(kit.now, held);
    assert!(kit.room.leave(kit.now, RequestId(2)));
    assert_eq!(kit.due(), [(0, 3, Came::Passed)]);
    assert_eq!((kit.room.inflight(kit.now, ID, None), kit.room.queued(kit.now, ID, None)), (1, 0));
}

/// Requests in flight are counted at rate and count checkpoints too.
#[test]
fn every_kind_counts_who_is_in_flight() {
    let mut kit = Kit::new(super::rate(100, paceline_types::Span::from_secs(1), 2));
    kit.arrive_all(1..=3);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 2);
    kit.run(Time(50 * MS));
    assert_eq!(kit.room.inflight(kit.now, ID, None), 3);
    for id in 1..=3 {
        kit.settle(id);
    }
    assert_eq!(kit.room.inflight(kit.now, ID, None), 0);
    let mut kit = Kit::new(spec(Limit::Count));
    let held = kit.room.count(Time(0), ID, crate::KeyHash::default());
    assert_eq!(kit.arrive(1), Came::Passed);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 2);
    assert_eq!(kit.room.rate(Time(0), ID, None), 2.0);
    kit.room.settle(Time(0), held);
    kit.settle(1);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 0);
}
