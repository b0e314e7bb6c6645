//! S2: the three bounds of a queue hold for every waiter, not only the head.

use super::{Came, ID, Kit, MS, Random, rate, spec};
use crate::hash::KeyHash;
use crate::limit::Limit;
use paceline_types::{Priority, Rank, RequestId, Span, Time};

fn slow() -> crate::spec::Spec {
    rate(1, Span::from_secs(1), 1)
}

#[test]
fn s2_a_counter_has_so_many_waiters() {
    let mut spec = slow();
    spec.queue.len_max = 2;
    let mut kit = Kit::new(spec);
    kit.arrive_all(1..=3);
    let full = Came::Full { max: 2, retry_at: Some(1_000 * MS) };
    assert_eq!(kit.arrive(4), full, "and says when the head passes");
    kit.run(Time(1_000 * MS));
    assert_eq!(kit.arrive(5), Came::Queued(Some(3_000 * MS)));
    assert_eq!(kit.room.stats(ID).unwrap().refused_full, 1);
}

#[test]
fn s2_a_checkpoint_has_so_many_waiters() {
    let mut spec = slow();
    spec.key = Some("user".into());
    spec.queue.total_max = 3;
    let mut kit = Kit::new(spec);
    let user = |user: u64| move |t: &mut super::Ticket| t.key = KeyHash([user, user]);
    for id in 0..3 {
        assert_eq!(kit.arrive_with(2 * id, user(id)), Came::Passed);
        assert_eq!(kit.arrive_with(2 * id + 1, user(id)), Came::Queued(Some(1_000 * MS)));
    }
    assert_eq!(kit.arrive_with(10, user(9)), Came::Passed, "who need not wait may pass");
    let full = Came::Full { max: 3, retry_at: Some(1_000 * MS) };
    assert_eq!(kit.arrive_with(11, user(9)), full);
    assert_eq!(
        (kit.room.queued(kit.now, ID, None), kit.room.queued(kit.now, ID, Some(KeyHash([1, 1])))),
        (3, 1)
    );
}

/// A request that would wait too long is refused at once, with a time to retry.
#[test]
fn s2_nobody_begins_a_wait_that_is_too_long() {
    let mut spec = slow();
    spec.queue.delay_max = Span::from_ms(2_500);
    let mut kit = Kit::new(spec);
    kit.arrive_all(1..=3);
    let too_long = Came::TooLong { wait: 3_000 * MS, max: 2_500 * MS, retry_at: Some(500 * MS) };
    assert_eq!(kit.arrive(4), too_long);
    kit.now = Time(500 * MS);
    assert_eq!(kit.arrive(5), Came::Queued(Some(3_000 * MS)), "that time was right");
    let own = |t: &mut super::Ticket| t.deadline = Some(Time(900 * MS));
    let mut kit = Kit::new(slow());
    kit.arrive(1);
    let too_long = Came::TooLong { wait: 1_000 * MS, max: 900 * MS, retry_at: Some(100 * MS) };
    assert_eq!(kit.arrive_with(2, own), too_long, "its own longest wait counts too");
    assert_eq!(
        kit.arrive_with(3, |t| t.deadline = Some(Time(1_000 * MS))),
        Came::Queued(Some(1_000 * MS))
    );
    assert_eq!(kit.room.stats(ID).unwrap().refused_too_long, 1);
}

/// A waiter that is overtaken leaves at its deadline, from any place in the queue, in order of deadlines.
#[test]
fn s2_every_waiter_has_its_deadline() {
    let mut spec = slow();
    spec.queue.delay_max = Span::from_ms(3_000);
    let mut kit = Kit::new(spec);
    kit.arrive_all(1..=4);
    let urgent = |id: u64| {
        move |t: &mut super::Ticket| {
            let priority = Priority::new(100).unwrap();
            t.rank = Rank::new(Time(0), priority, Span::from_secs(1), RequestId(id));
        }
    };
    for id in 10..13 {
        let came = kit.arrive_with(id, urgent(id));
        assert_eq!(came, Came::Queued(Some((id - 9) * 1_000 * MS)));
    }
    let moves = kit.run(Time(20_000 * MS));
    let retry_at = Some(4_000 * MS);
    assert_eq!(
        moves,
        [
            (1_000 * MS, 10, Came::Passed),
            (2_000 * MS, 11, Came::Passed),
            (3_000 * MS, 12, Came::Passed),
            (3_000 * MS, 2, Came::Expired { waited: 3_000 * MS, retry_at }),
            (3_000 * MS, 3, Came::Expired { waited: 3_000 * MS, retry_at }),
            (3_000 * MS, 4, Came::Expired { waited: 3_000 * MS, retry_at }),
        ],
        "a pass comes before an expiry of the same time, then rank"
    );
    assert_eq!(kit.room.stats(ID).unwrap().expired, 3);
}

/// No wait at a concurrency checkpoint can be predicted; a maximum wait of zero is refused at once.
#[test]
fn s2_a_concurrency_checkpoint_has_the_same_bounds() {
    let mut wanted = spec(Limit::Concurrency(1));
    wanted.queue.len_max = 2;
    wanted.queue.delay_max = Span::from_ms(100);
    let mut kit = Kit::new(wanted.clone());
    assert_eq!(kit.arrive(1), Came::Passed);
    let now = kit.now;
    let expired = Came::Expired { waited: 0, retry_at: None };
    assert_eq!(kit.arrive_with(2, |t| t.deadline = Some(now)), expired);
    assert_eq!(kit.arrive(3), Came::Queued(None));
    assert_eq!(kit.arrive_with(4, |t| t.deadline = Some(Time(40 * MS))), Came::Queued(None));
    assert_eq!(kit.arrive(5), Came::Full { max: 2, retry_at: None }, "nobody knows how long");
    let expired = |ms| Came::Expired { waited: ms * MS, retry_at: None };
    assert_eq!(kit.run(Time(500 * MS)), [(40 * MS, 4, expired(40)), (100 * MS, 3, expired(100))]);
    assert_eq!(kit.settle(1), None);
    assert_eq!(kit.arrive(6), Came::Passed);
    kit.arrive_all(7..9);
    let retry_at = Some(1_000 * MS);
    assert_eq!(kit.arrive(9), Came::Full { max: 2, retry_at }, "one mean hold of 500 ms from now");
    wanted.queue.delay_max = Span::ZERO;
    let mut kit = Kit::new(wanted);
    kit.arrive(1);
    assert_eq!(kit.arrive(2), Came::Expired { waited: 0, retry_at: None });
}

/// In random histories no waiter ever waits past its deadline, and no queue is ever too long.
#[test]
fn s2_holds_in_every_history() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut wanted = rate(1 + random.below(5) as u32, Span(1 + random.below(200)), 2);
        wanted.queue.len_max = random.below(6);
        wanted.queue.delay_max = Span(random.below(400));
        wanted.fair = random.chance(50).then(|| "host".into());
        let (len_max, delay_max) = (wanted.queue.len_max, wanted.queue.delay_max.0);
        let mut kit = Kit::new(wanted);
        let mut entered = vec![];
        for id in 0..200 {
            let until = Time(kit.now.0 + random.below(60));
            for (at, id, _) in kit.run(until) {
                let entered: u64 = entered[id as usize];
                assert!(at - entered <= delay_max, "seed {seed}: waited {}", at - entered);
            }
            entered.push(kit.now.0);
            kit.arrive_with(id, |t| {
                let priority = Priority::new(id as i64 % 7 - 3).unwrap();
                t.rank = Rank::new(Time(until.0), priority, Span(30), RequestId(id));
                t.flow.0[0] = id % 3;
            });
            assert!(kit.room.queued(kit.now, ID, None) <= len_max, "seed {seed}");
        }
    }
}
