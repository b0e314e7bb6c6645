//! Edits while requests wait and run.

use super::{Came, ID, Kit, MS, Random, Ticket, rate, spec};
use crate::hash::KeyHash;
use crate::limit::Limit;
use crate::ticket::How;
use paceline_types::limits::STEP_MAX;
use paceline_types::{CheckpointId, RequestId, Span, Time};

fn second(burst: u32) -> crate::spec::Spec {
    rate(1, Span::from_secs(1), burst)
}

#[test]
fn a_faster_rate_lets_waiters_go_earlier() {
    let mut kit = Kit::new(second(1));
    kit.arrive_all(1..=4);
    kit.configure(vec![rate(10, Span::from_secs(1), 1)]);
    let at: Vec<_> = kit.run(Time(9_000 * MS)).iter().map(|(at, ..)| at / MS).collect();
    assert_eq!(at, [100, 200, 300], "one unit is owed, and comes back sooner");
}

#[test]
fn a_slower_rate_holds_waiters_longer() {
    let mut kit = Kit::new(second(1));
    kit.arrive_all(1..=3);
    kit.configure(vec![rate(1, Span::from_secs(5), 1)]);
    let at: Vec<_> = kit.run(Time(60_000 * MS)).iter().map(|(at, ..)| at / MS).collect();
    assert_eq!(at, [5_000, 10_000], "one unit is owed, and takes longer to come back");
}

/// Counters that were not used during an edit are brought up to date when they are used next.
#[test]
fn untouched_counters_follow_an_edit() {
    let key = |n: u64| move |t: &mut Ticket| t.key = KeyHash([n, n]);
    let mut wanted = rate(1, Span::from_secs(100), 5);
    wanted.key = Some("user".into());
    let mut kit = Kit::new(wanted.clone());
    for id in 0..500 {
        kit.arrive_with(id, |t| (t.key, t.cost) = (KeyHash([id, id]), 5));
    }
    wanted.limit = Limit::Rate { count: 1, per: Span::from_secs(1), burst: 2 };
    kit.configure(vec![wanted]);
    for id in 0..500 {
        assert_eq!(kit.arrive_with(1_000 + id, key(id)), Came::Queued(Some(4_000 * MS)));
    }
}

#[test]
fn waiters_of_a_deleted_checkpoint_walk_on() {
    let mut kit = Kit::new(second(1));
    kit.arrive_all(1..=3);
    kit.configure(vec![]);
    assert_eq!(kit.room.poll_timeout(), Some(kit.now));
    assert_eq!(kit.due(), [(0, 2, Came::Gone), (0, 3, Came::Gone)]);
    assert!(kit.room.list.is_empty() && kit.room.ids.is_empty());
    kit.settle(1);
    assert_eq!(kit.arrive(4), Came::Passed, "what does not exist holds nobody back");
    kit.settle(4);
    assert_eq!((kit.room.stats(ID), kit.room.poll_timeout()), (None, None));
}

/// A new key or kind means new counters; waiters arrive again with their rank and deadline.
#[test]
fn new_counters_make_waiters_arrive_again() {
    let mut by_key = second(1);
    by_key.key = Some("user".into());
    let mut strict = spec(Limit::Concurrency(1));
    strict.queue.len_max = 0;
    strict.queue.delay_max = Span::ZERO;
    for wanted in [by_key, strict] {
        let mut kit = Kit::new(second(1));
        kit.arrive_all(1..=3);
        kit.now = Time(500 * MS);
        kit.configure(vec![wanted]);
        assert_eq!(kit.room.inflight(kit.now, ID, None), 0);
        kit.settle(1);
        let mut again = vec![];
        while let Some(moved) = kit.room.next(kit.now) {
            let crate::How::Again(kept) = moved.how else { panic!("{moved:?}") };
            assert_eq!((kept.entered, kept.deadline), (Time(0), Time(30_000 * MS)));
            again.push((moved.request.0, kept));
        }
        assert_eq!(again.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3]);
        let came: Vec<_> = again
            .into_iter()
            .map(|(id, kept)| kit.arrive_with(id, |t| t.kept = Some(kept)))
            .collect();
        assert_eq!(came[0], Came::Passed);
        assert!(matches!(came[1], Came::Queued(_)), "past the bounds");
        let place = kit.room.place(kit.now, RequestId(3)).unwrap();
        assert_eq!((place.entered, place.deadline), (Time(0), Time(30_000 * MS)));
    }
}

/// Counts from an earlier generation of counters do not count in the new one.
#[test]
fn old_counts_do_not_come_back_to_new_counters() {
    let mut kit = Kit::new(spec(Limit::Concurrency(2)));
    kit.arrive_all(1..=2);
    let mut wanted = spec(Limit::Concurrency(2));
    wanted.key = Some("user".into());
    kit.configure(vec![wanted]);
    kit.arrive_all(3..=4);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 2);
    assert_eq!((kit.settle(1), kit.settle(2)), (None, None));
    assert_eq!(kit.room.inflight(kit.now, ID, None), 2);
}

#[test]
fn other_checkpoints_are_left_alone() {
    let mut other = second(1);
    (other.id, other.name) = (CheckpointId(2), "two".into());
    let mut kit = Kit::new(second(1));
    kit.arrive(1);
    kit.arrive(2);
    kit.configure(vec![other.clone(), second(1)]);
    assert_eq!(kit.due(), []);
    kit.configure(vec![second(1)]);
    assert_eq!(kit.due(), []);
    assert_eq!(kit.run(Time(1_000 * MS)), [(1_000 * MS, 2, Came::Passed)]);
}

/// An edit that concerns many queues is carried out in steps. No waiter is lost, and the room asks to be
/// called again until the edit is done.
#[test]
fn a_large_edit_goes_in_steps() {
    let mut wanted = second(1);
    wanted.key = Some("user".into());
    let mut kit = Kit::new(wanted.clone());
    let queues = 5 * STEP_MAX as u64;
    for id in 0..queues {
        let key = |t: &mut Ticket| t.key = KeyHash([id, id]);
        kit.arrive_with(id, key);
        kit.arrive_with(queues + id, key);
    }
    wanted.limit = Limit::Rate { count: 10, per: Span::from_secs(1), burst: 1 };
    kit.configure(vec![wanted]);
    kit.now = Time(100 * MS);
    let (mut calls, mut moved) = (0, 0);
    while kit.room.poll_timeout().is_some_and(|at| at <= kit.now) {
        calls += 1;
        moved += kit.due().len();
    }
    assert_eq!(moved as u64, queues);
    assert!((3..10).contains(&calls), "{calls} calls");
    kit.configure(vec![]);
    assert_eq!(kit.room.dropped.len(), 1);
    for _ in 0..queues {
        kit.room.leave(kit.now, RequestId(u64::MAX));
    }
    assert!(kit.room.dropped.is_empty(), "memory is given back bit by bit");
}

/// A slower rate gives nothing away: debt is kept in units of cost.
#[test]
fn s1_edits_give_no_burst_away() {
    let mut kit = Kit::new(rate(1_000, Span::from_secs(1), 100));
    let mut passed = 0;
    let mut id = 0;
    for count in [1_000, 100, 10, 1, 500] {
        kit.configure(vec![rate(count, Span::from_secs(1), 100)]);
        for _ in 0..200 {
            id += 1;
            let came = kit.arrive_with(id, |t| t.deadline = Some(Time(0)));
            passed += u32::from(came == Came::Passed);
        }
    }
    assert_eq!(passed, 100, "one burst at one time, whatever the edits");
}

/// S1 over edits of the burst: when it is lowered and raised repeatedly, no more passes than the rate and the
/// larger burst allow. (50/s, 20 to 1 and back, 20 times in 2 s: 361 passed where 120 may.)
#[test]
fn s1_a_burst_that_is_lowered_and_raised_forgets_nothing() {
    let mut kit = Kit::new(rate(50, Span::from_secs(1), 20));
    let (mut passed, mut id) = (0, 0);
    for step in 0..2_000 {
        kit.now = Time(step * MS);
        if step % 50 == 0 {
            let burst = if step % 100 == 0 { 20 } else { 1 };
            kit.configure(vec![rate(50, Span::from_secs(1), burst)]);
        }
        id += 1;
        let now = kit.now;
        let came = kit.arrive_with(id, |t| t.deadline = Some(now));
        passed += u32::from(came == Came::Passed);
    }
    assert_eq!(passed, 20 + 97, "the larger burst, and 50 a second until it was last lowered");
}

/// S1 over any series of edits of rate and burst, also for keys that are not used during many of them: in any
/// window no more passes than the rates in force, and the burst in force at its end, allow.
#[test]
fn s1_holds_over_edits_in_every_window() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let pick = |random: &mut Random| {
            let count = [1, 3, 10, 50][random.below(4) as usize];
            (count, 50 + random.below(4) * 50, 1 + random.below(8) as u32)
        };
        let keyed = |(count, per, burst): (u32, u64, u32)| {
            let mut spec = rate(count, Span(per), burst);
            spec.key = Some("user".into());
            spec
        };
        let mut paces = vec![(0, pick(&mut random))];
        let mut kit = Kit::new(keyed(paces[0].1));
        let mut passes: Vec<(u64, u64, u32)> = vec![];
        for id in 0..600 {
            kit.now = Time(kit.now.0 + random.below(12));
            if random.chance(20) {
                paces.push((kit.now.0, pick(&mut random)));
                kit.configure(vec![keyed(paces[paces.len() - 1].1)]);
            }
            let (key, now) = (random.below(12).saturating_sub(6), kit.now);
            let came = kit.arrive_with(id, |t| {
                (t.key, t.deadline) = (KeyHash([key, key]), Some(now));
            });
            if came == Came::Passed {
                passes.push((key, now.0, paces[paces.len() - 1].1.2));
            }
        }
        // In units of 1/600, no rate here has a fraction.
        let parts = |from: u64, until: u64| -> u64 {
            let ends = paces.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
            let spans = paces.iter().zip(ends).map(|((at, (count, per, _)), end)| {
                let span = end.min(until).saturating_sub((*at).max(from));
                span * u64::from(*count) * (600 / per)
            });
            spans.sum()
        };
        for (i, (key, from, _)) in passes.iter().enumerate() {
            let mut sum = 0;
            for (_, until, burst) in passes[i..].iter().filter(|(other, ..)| other == key) {
                sum += 1;
                let most = parts(*from, *until) + u64::from(*burst) * 600;
                assert!(sum * 600 <= most, "seed {seed}: {sum} of {key} in {from}..{until}");
            }
        }
    }
}

/// What was spent before an edit is not refunded at the new rate.
#[test]
fn s1_refunds_do_not_reach_past_an_edit() {
    let mut kit = Kit::new(rate(1_000, Span::from_secs(1), 100));
    kit.arrive_all(0..100);
    kit.now = Time(MS);
    kit.configure(vec![rate(1, Span::from_secs(1), 100)]);
    (0..50).for_each(|id| kit.refund(id));
    let late = |t: &mut Ticket| t.deadline = Some(Time(MS));
    let passed = (1_000..1_200).filter(|id| kit.arrive_with(*id, late) == Came::Passed).count();
    assert_eq!(passed, 1, "one came back in a millisecond at the old rate");
}

/// An edit of the order of a queue changes no counter.
#[test]
fn an_edit_of_fairness_keeps_counters_p1() {
    let mut kit = Kit::new(spec(Limit::Concurrency(1)));
    assert_eq!(kit.arrive(1), Came::Passed);
    assert_eq!(kit.arrive(2), Came::Queued(None));
    let mut fair = spec(Limit::Concurrency(1));
    fair.fair = Some("user".into());
    kit.configure(vec![fair]);
    assert_eq!(kit.arrive(3), Came::Queued(None), "one is in flight");
    let moved = kit.room.next(kit.now).unwrap();
    assert!(matches!(moved.how, How::Again(_)) && moved.request.0 == 2);
}
