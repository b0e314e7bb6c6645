//! Rates: exact in the long run, bounded in every window, refunds, the seed's queue timer.

use super::{Came, Kit, MS, Random, SLIP, passed, rate};
use paceline_types::{Priority, Rank, RequestId, Span, Time};

/// A queue that is never empty lets out exactly the rate: 3 per 1s over 10^6 passes, and rates whose N does
/// not divide D.
#[test]
fn the_long_run_rate_is_the_limit_to_the_nanosecond() {
    for (count, per, passes) in [
        (3, Span::from_secs(1), 1_000_000),
        (7, Span(1_000_003), 100_000),
        (999_983, Span::from_secs(1), 100_000),
        (13, Span(5), 100_000),
    ] {
        let mut spec = rate(count, per, 1);
        spec.queue.delay_max = Span(u64::MAX / 4);
        let mut kit = Kit::new(spec);
        assert_eq!(kit.arrive(0), Came::Passed);
        kit.arrive(1);
        let (mut next, mut last) = (2, 0);
        while last < passes {
            kit.arrive(next);
            next += 1;
            let at = kit.room.poll_timeout().unwrap();
            kit.now = at;
            let moved = kit.room.next(at).unwrap();
            last = moved.request.0;
            let (id, came) = kit.took(moved);
            assert_eq!(came, Came::Passed);
            let exact = (u128::from(id) * u128::from(per.0)).div_ceil(u128::from(count));
            assert_eq!(u128::from(at.0), exact, "pass {id} of {count} per {per}");
            kit.settle(id);
        }
    }
}

/// S1: in any window T at most rate x (T + slip) + burst pass, however late the wakes and whatever
/// the clock does. Refunded requests do not count.
#[test]
fn s1_holds_in_every_window() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let (count, per) = (1 + random.below(9) as u32, Span(1 + random.below(2_000)));
        let burst = 1 + random.below(6) as u32;
        let mut spec = rate(count, per, burst);
        spec.queue.delay_max = Span(40_000);
        let mut kit = Kit::new(spec);
        kit.room.slip = Span(random.below(300));
        let mut passes: Vec<(u64, u64, u64)> = vec![];
        let mut costs = vec![];
        for id in 0..300 {
            let step = [random.below(50), random.below(3_000), 0][random.below(3) as usize];
            kit.now =
                Time((kit.now.0 + step).saturating_sub(if random.chance(4) { 500 } else { 0 }));
            costs.push(1 + random.below(3) as u32);
            // Requests that pass now pass at the latest time that the room has seen.
            for (_, id, came) in kit.due() {
                if came == Came::Passed {
                    passes.push((kit.room.now.0, id, costs[id as usize].into()));
                }
            }
            if kit.arrive_with(id, |t| t.cost = costs[id as usize]) == Came::Passed {
                passes.push((kit.room.now.0, id, costs[id as usize].into()));
            }
            if random.chance(15) && !passes.is_empty() {
                let back = 1 + random.below(passes.len().min(4) as u64) as usize;
                let (_, id, _) = passes.remove(passes.len() - back);
                kit.refund(id);
            }
        }
        for (i, (from, ..)) in passes.iter().enumerate() {
            let mut sum = 0;
            for (until, _, cost) in &passes[i..] {
                sum += cost;
                let window = u128::from(until - from + kit.room.slip.0);
                let most = u128::from(count) * window + u128::from(burst) * u128::from(per.0);
                assert!(u128::from(sum) * u128::from(per.0) <= most, "seed {seed}: {sum}");
            }
        }
    }
}

/// A wake less than `slip` late loses nothing; a later one loses the time beyond it.
#[test]
fn late_wakes_are_made_up_within_slip() {
    let late = |by: u64| {
        let mut kit = Kit::new(rate(10, Span::from_secs(1), 1));
        kit.arrive_all(0..4);
        kit.now = Time(100 * MS + by);
        assert_eq!(passed(&kit.due()), [1]);
        kit.run(Time(1_000 * MS)).iter().map(|(at, ..)| *at).collect::<Vec<_>>()
    };
    assert_eq!(late(0), [200 * MS, 300 * MS]);
    assert_eq!(late(SLIP.0), [200 * MS, 300 * MS]);
    assert_eq!(late(SLIP.0 + 7), [200 * MS + 7, 300 * MS + 7]);
    assert_eq!(late(60 * MS), [255 * MS, 355 * MS]);
}

/// A jump of the clock lets out no more than slip and burst allow at once.
#[test]
fn a_clock_jump_does_not_let_a_crowd_out() {
    let mut spec = rate(1_000, Span::from_secs(1), 1);
    spec.queue.delay_max = Span::from_secs(3_600);
    let mut kit = Kit::new(spec);
    kit.arrive_all(0..1_001);
    kit.now = Time(500_000 * MS);
    assert_eq!(passed(&kit.due()), [1, 2, 3, 4, 5, 6], "5 ms of slip at 1 per ms, and one");
}

#[test]
fn bursts_and_costs_are_spent_at_once_and_come_back() {
    let mut kit = Kit::new(rate(10, Span::from_secs(1), 5));
    assert_eq!(kit.arrive_with(1, |t| t.cost = 3), Came::Passed);
    assert_eq!(kit.arrive_with(2, |t| t.cost = 2), Came::Passed);
    assert_eq!(kit.arrive_with(3, |t| t.cost = 5), Came::Queued(Some(500 * MS)));
    assert_eq!(kit.arrive(4), Came::Queued(Some(600 * MS)), "behind it, however small");
    assert_eq!(kit.arrive_with(5, |t| t.cost = 6), Came::CostTooHigh { burst: 5 });
    let moves = kit.run(Time(2_000 * MS));
    assert_eq!(moves, [(500 * MS, 3, Came::Passed), (600 * MS, 4, Came::Passed)]);
    assert_eq!(kit.arrive_with(6, |t| t.cost = 5), Came::Passed, "all came back");
}

/// A refund lets the head pass earlier, and leaves the counter as if the cost had never been spent.
#[test]
fn a_refund_gives_back_what_was_spent() {
    let mut kit = Kit::new(rate(1, Span::from_secs(1), 2));
    assert_eq!(kit.arrive_with(1, |t| t.cost = 2), Came::Passed);
    assert_eq!(kit.arrive(2), Came::Queued(Some(1_000 * MS)));
    assert_eq!(kit.arrive(3), Came::Queued(Some(2_000 * MS)));
    kit.now = Time(300 * MS);
    kit.refund(1);
    assert_eq!(passed(&kit.due()), [2, 3], "two units came back");
    assert_eq!(kit.arrive(4), Came::Queued(Some(1_300 * MS)), "as if the first had never been");
}

/// Cost that has recovered by itself is not refunded a second time.
#[test]
fn a_late_refund_is_worth_nothing() {
    let mut kit = Kit::new(rate(1, Span::from_secs(1), 1));
    assert_eq!(kit.arrive(1), Came::Passed);
    kit.now = Time(10_000 * MS);
    assert_eq!(kit.arrive(2), Came::Passed);
    kit.refund(1);
    assert_eq!(kit.arrive(3), Came::Queued(Some(11_000 * MS)));
    kit.now = Time(10_400 * MS);
    kit.refund(2);
    assert_eq!(kit.due(), [(10_400 * MS, 3, Came::Passed)]);
}

/// A better rank passes first although it arrived later, and is predicted to.
#[test]
fn rank_orders_a_queue() {
    let mut kit = Kit::new(rate(1, Span::from_secs(1), 1));
    kit.arrive(1);
    kit.arrive(2);
    kit.arrive(3);
    let urgent = |t: &mut super::Ticket| {
        let priority = Priority::new(5).unwrap();
        t.rank = Rank::new(Time(0), priority, Span::from_secs(1), RequestId(4));
    };
    assert_eq!(kit.arrive_with(4, urgent), Came::Queued(Some(1_000 * MS)));
    assert_eq!(kit.arrive(5), Came::Queued(Some(4_000 * MS)));
    let place = kit.room.place(kit.now, RequestId(3)).unwrap();
    assert_eq!((place.ahead, place.nearest.as_slice()), (2, &[RequestId(2), RequestId(4)][..]));
    assert_eq!(place.pass_at, Some(Time(3_000 * MS)));
    assert_eq!(place.deadline, Time(30_000 * MS));
    assert_eq!(passed(&kit.run(Time(9_000 * MS))), [4, 2, 3, 5]);
    assert_eq!(kit.room.place(kit.now, RequestId(3)), None);
}

/// A waiter that leaves spends nothing, and the waiters behind it move up.
#[test]
fn leaving_spends_nothing() {
    let mut kit = Kit::new(rate(1, Span::from_secs(1), 1));
    kit.arrive_all(1..=4);
    assert!(kit.room.leave(kit.now, RequestId(2)));
    assert!(!kit.room.leave(kit.now, RequestId(2)));
    assert!(!kit.room.leave(kit.now, RequestId(1)), "it does not wait");
    let moves = kit.run(Time(9_000 * MS));
    assert_eq!(moves, [(1_000 * MS, 3, Came::Passed), (2_000 * MS, 4, Came::Passed)]);
    assert_eq!(kit.room.stats(super::ID).unwrap().left, 1);
}

/// On a quiet system every request passes exactly when it was predicted at arrival, if no request of a better
/// rank arrives, and exactly when `place` says at any time.
#[test]
fn predictions_come_true() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut spec = rate(
            1 + random.below(9) as u32,
            Span(1 + random.below(1 << 24)),
            1 + random.below(4) as u32,
        );
        let fair = random.chance(60);
        spec.fair = fair.then(|| "host".into());
        spec.queue.delay_max = Span::from_secs(1_000_000);
        let mut kit = Kit::new(spec);
        let mut predicted = std::collections::BTreeMap::new();
        for id in 0..60 {
            kit.now = Time(kit.now.0 + random.below(1 << 18));
            for (_, id, _) in kit.due() {
                predicted.remove(&id);
            }
            let (cost, flow, weight) = (1, random.below(5), 1 + random.below(4) as u32);
            let came = kit.arrive_with(id, |t| {
                (t.cost, t.weight, t.flow.0) = (cost, weight, [flow, 0]);
            });
            if let Came::Queued(pass_at) = came {
                let place = kit.room.place(kit.now, RequestId(id)).unwrap();
                assert_eq!(place.pass_at.map(|at| at.0), pass_at, "seed {seed}");
                predicted.insert(id, pass_at);
            }
        }
        for (id, pass_at) in &mut predicted {
            let now = kit.room.place(kit.now, RequestId(*id)).unwrap().pass_at.map(|at| at.0);
            assert!(fair || now == *pass_at, "seed {seed}: nobody of a better rank came");
            *pass_at = now;
        }
        let moves = kit.run(Time(u64::MAX / 2));
        assert_eq!(moves.len(), predicted.len());
        for (at, id, came) in moves {
            assert_eq!((came, Some(at)), (Came::Passed, predicted[&id]), "seed {seed}, {id}");
        }
    }
}

/// At the end of time a sum cannot be distinguished from the last nanosecond; this must not let more pass.
#[test]
fn s1_holds_at_the_end_of_time() {
    for (step, queues) in [(1, false), (7, true), (400, true), (1_000, false)] {
        let mut wanted = rate(1, Span(1_000), 3);
        wanted.queue.len_max = if queues { 1_000 } else { 0 };
        let mut kit = Kit::new(wanted);
        let start = u64::MAX - 5_500;
        let (mut passed, mut id) = (0, 0);
        let mut at = start;
        loop {
            passed += super::passed(&kit.run(Time(at))).len() as u64;
            id += 1;
            passed += u64::from(kit.arrive(id) == Came::Passed);
            if at == u64::MAX {
                break;
            }
            at = at.saturating_add(step);
        }
        // Late wakes do not occur here, so the slip is zero.
        assert!(passed <= 3 + 5, "step {step}: {passed} passed in 5.5 steps");
        assert!(passed >= 3, "step {step}: only {passed} passed");
        let held: Vec<u64> = kit.held.keys().copied().collect();
        held.into_iter().for_each(|id| kit.refund(id));
        let late = (10_000..10_100).filter(|id| kit.arrive(*id) == Came::Passed).count();
        assert!(late as u64 <= passed, "step {step}: {late} in the place of {passed} refunded");
    }
}
