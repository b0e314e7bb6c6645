//! Tests slots, lines and eligibility against the engine's page in the documentation.

use super::{Flip, Pools};
use crate::{PoolSet, PoolSpec, PoolState, QueueBounds, Range};
use paceline_types::{PoolId, Priority, Rank, RequestId, Span, Time};
use std::collections::BTreeSet;

fn rank(at: u64, id: u64) -> Rank {
    Rank::new(Time(at), Priority::START, Span(0), RequestId(id))
}

/// A started pool for all priorities.
fn spec(max: u32, len_max: u64) -> PoolSpec {
    PoolSpec {
        threads_max: Some(max),
        range: Range::new(Priority::MIN, Priority::MAX),
        queue: QueueBounds { len_max, delay_max: Some(Span::from_secs(1)) },
        state: PoolState::Started,
        ..PoolSpec::new(PoolId(1), "p")
    }
}

fn set_of(spec: &PoolSpec) -> PoolSet {
    PoolSet::of(vec![spec.clone()]).unwrap()
}

fn set_with(max: u32, len_max: u64) -> (PoolSet, PoolId) {
    (set_of(&spec(max, len_max)), PoolId(1))
}

fn flips(pools: &mut Pools) -> Vec<(u64, bool)> {
    let mut all = vec![];
    while let Some(Flip { request, eligible }) = pools.poll_flip() {
        all.push((request.0, eligible));
    }
    all
}

#[test]
fn no_more_run_than_the_maximum_p1() {
    let (set, id) = set_with(2, 10);
    let mut pools = Pools::new(&set);
    pools.take(id);
    assert!(pools.has_slot(id));
    pools.take(id);
    assert!(!pools.has_slot(id));
    pools.join(id, rank(1, 1), None);
    assert_eq!(pools.next_ready(), None);
    pools.release(id, Span(1));
    assert_eq!(pools.next_ready(), Some((rank(1, 1), id)));
    pools.start(id, rank(1, 1), None);
    assert_eq!((pools.running(id), pools.waiting(id)), (2, 0));
}

#[test]
fn a_lowered_maximum_drains_p1() {
    let (set, id) = set_with(2, 10);
    let mut pools = Pools::new(&set);
    pools.take(id);
    pools.take(id);
    pools.join(id, rank(1, 1), None);
    pools.configure(&set_of(&spec(1, 10)));
    pools.release(id, Span(1));
    assert_eq!(pools.next_ready(), None, "one still runs, and one may");
    pools.release(id, Span(1));
    assert_eq!(pools.next_ready(), Some((rank(1, 1), id)));
}

#[test]
fn the_default_pool_has_no_maximum() {
    let mut pools = Pools::new(&PoolSet::new());
    (0..10_000).for_each(|_| pools.take(PoolId::DEFAULT));
    assert!(pools.has_slot(PoolId::DEFAULT));
}

#[test]
fn the_lowest_ready_rank_of_all_pools_is_next() {
    let (first, second) = (PoolId(1), PoolId(2));
    let narrow = |id, name: &str, low, high| PoolSpec {
        id,
        name: name.into(),
        range: Range::new(Priority::new(low).unwrap(), Priority::new(high).unwrap()),
        ..spec(1, 10)
    };
    let (mut p, q) = (narrow(first, "p", 1, 5), narrow(second, "q", 6, 9));
    let mut pools = Pools::new(&PoolSet::of(vec![p.clone(), q.clone()]).unwrap());
    pools.join(first, rank(5, 5), None);
    pools.join(second, rank(3, 3), None);
    pools.join(first, rank(1, 1), None);
    assert_eq!(pools.next_ready(), Some((rank(1, 1), first)));
    pools.park(first, rank(1, 1));
    assert_eq!(pools.next_ready(), Some((rank(3, 3), second)));
    pools.park(second, rank(3, 3));
    assert_eq!(pools.next_ready(), Some((rank(5, 5), first)));
    pools.unpark(first, rank(1, 1));
    assert_eq!(pools.next_ready(), Some((rank(1, 1), first)));
    p.state = PoolState::Stopped;
    pools.configure(&PoolSet::of(vec![p, q]).unwrap());
    assert_eq!(pools.next_ready(), None, "a stopped pool starts nothing");
}

#[test]
fn deadlines_come_in_order_and_leave_with_the_waiter() {
    let (set, id) = set_with(0, 10);
    let mut pools = Pools::new(&set);
    assert_eq!(pools.deadline(id, Time(5)), Some(Time(1_000_000_005)));
    pools.join(id, rank(1, 1), Some(Time(30)));
    pools.join(id, rank(2, 2), Some(Time(20)));
    pools.stand_aside(id, rank(3, 3), Some(Time(10)));
    assert_eq!(pools.next_due(), Some((Time(10), rank(3, 3), id)));
    pools.leave(id, rank(3, 3), Some(Time(10)));
    assert_eq!(pools.next_due(), Some((Time(20), rank(2, 2), id)));
    pools.leave(id, rank(2, 2), Some(Time(20)));
    pools.leave(id, rank(1, 1), Some(Time(30)));
    assert_eq!(pools.next_due(), None);
}

#[test]
fn those_aside_count_for_the_bound_and_nothing_else() {
    let (set, id) = set_with(1, 2);
    let mut pools = Pools::new(&set);
    pools.stand_aside(id, rank(1, 1), None);
    assert_eq!(pools.full(id, 0), None);
    assert_eq!(pools.next_ready(), None);
    pools.join(id, rank(2, 2), None);
    assert_eq!(pools.full(id, 0), Some(2));
    assert_eq!(pools.place(id, rank(2, 2)).ahead_total, 0);
    pools.step_in(id, rank(1, 1));
    assert_eq!(pools.next_ready(), Some((rank(1, 1), id)));
    assert_eq!(pools.place(id, rank(2, 2)).ahead, [RequestId(1)]);
}

#[test]
fn waiters_of_a_deleted_pool_come_out_and_what_runs_ends() {
    let (set, id) = set_with(1, 10);
    let mut pools = Pools::new(&set);
    pools.take(id);
    pools.join(id, rank(1, 1), None);
    pools.stand_aside(id, rank(2, 2), None);
    pools.configure(&PoolSet::new());
    for expected in [rank(1, 1), rank(2, 2)] {
        assert_eq!(pools.orphan(), Some((expected, id)));
        pools.leave(id, expected, None);
    }
    assert_eq!(pools.orphan(), None);
    assert_eq!(pools.running(id), 1);
    pools.release(id, Span(1));
    assert_eq!(pools.running(id), 0);
    assert!(!pools.has_work());
}

#[test]
fn a_pool_that_comes_back_works_again() {
    let (set, id) = set_with(1, 10);
    let mut pools = Pools::new(&set);
    pools.take(id);
    pools.join(id, rank(1, 1), None);
    pools.configure(&PoolSet::new());
    assert!(!pools.is_open(id));
    pools.configure(&set);
    assert_eq!(pools.orphan(), None);
    pools.release(id, Span(1));
    assert_eq!(pools.next_ready(), Some((rank(1, 1), id)));
}

/// In every history, the waiters reported as eligible are the first `max` in line; while the pool
/// is stopped, none are.
#[test]
fn the_eligible_are_the_front_of_the_line() {
    for seed in 0..300u64 {
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            (state >> 33) % below
        };
        let mut spec = spec(3, 1_000);
        let (mut pools, id) = (Pools::new(&set_of(&spec)), spec.id);
        let (mut told, mut line) = (BTreeSet::new(), BTreeSet::new());
        let (mut max, mut open) = (3, true);
        for step in 0..200 {
            match next(10) {
                0 => {
                    max = next(6) as usize;
                    spec.threads_max = Some(max as u32);
                    pools.configure(&set_of(&spec));
                }
                1 => {
                    open = !open;
                    spec.state = if open { PoolState::Started } else { PoolState::Stopped };
                    pools.configure(&set_of(&spec));
                }
                2..=4 if !line.is_empty() => {
                    let index = next(line.len() as u64) as usize;
                    let gone: Rank = *line.iter().nth(index).unwrap();
                    line.remove(&gone);
                    told.remove(&gone.id.0);
                    pools.leave(id, gone, None);
                }
                _ => {
                    let new = rank(next(1_000), step);
                    line.insert(new);
                    pools.join(id, new, None);
                }
            }
            for (request, eligible) in flips(&mut pools) {
                let changed = if eligible { told.insert(request) } else { told.remove(&request) };
                assert!(changed, "seed {seed} step {step}: {request} was told twice");
            }
            let front = line.iter().take(if open { max } else { 0 });
            let expected: BTreeSet<u64> = front.map(|rank| rank.id.0).collect();
            assert_eq!(told, expected, "seed {seed} step {step}");
        }
    }
}
