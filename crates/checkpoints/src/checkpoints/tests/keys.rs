//! Keys: each has its own counter, their number is bounded, and counters that equal a new one are swept.

use super::{Came, ID, Kit, MS, Ticket, rate, spec};
use crate::checkpoint::Checkpoint;
use crate::hash::{KeyHash, KeyHasher};
use crate::limit::Limit;
use crate::spec::Spec;
use crate::store::ENTRIES_MAX;
use paceline_types::{Span, Time};

fn keyed(mut spec: Spec) -> Spec {
    spec.key = Some("user".into());
    spec
}

fn hash(key: u64) -> KeyHash {
    KeyHasher::new(7).hash(&key.to_le_bytes())
}

fn key(key: u64) -> impl Fn(&mut Ticket) {
    move |t| t.key = hash(key)
}

#[test]
fn each_key_has_its_own_counter() {
    let mut kit = Kit::new(keyed(rate(1, Span::from_secs(1), 1)));
    for id in 0..1_000 {
        assert_eq!(kit.arrive_with(id, key(id)), Came::Passed);
    }
    for id in 0..1_000 {
        assert_eq!(kit.arrive_with(1_000 + id, key(id)), Came::Queued(Some(1_000 * MS)));
    }
    assert_eq!(kit.room.stats(ID).unwrap().keys, 1_000);
    assert_eq!(kit.room.rate(kit.now, ID, Some(hash(5))), 2.0);
    assert_eq!(kit.room.rate(kit.now, ID, None), 2_000.0);
    assert_eq!(kit.room.inflight(kit.now, ID, Some(hash(5))), 1);
    assert_eq!(kit.room.queued(kit.now, ID, Some(hash(5))), 1);
    assert_eq!(kit.room.poll_timeout(), Some(Time(1_000 * MS)));
    assert_eq!(kit.run(Time(1_000 * MS)).len(), 1_000);
}

/// S3: keys past the maximum share one counter, which has the limit of one key.
#[test]
fn s3_overflow_shares_one_counter() {
    for limit in
        [Limit::Concurrency(2), Limit::Rate { count: 1, per: Span::from_secs(1_000), burst: 2 }]
    {
        let mut wanted = keyed(spec(limit));
        wanted.keys_max = 100;
        let mut kit = Kit::new(wanted);
        for id in 0..100 {
            assert_eq!(kit.arrive_with(id, key(id)), Came::Passed);
        }
        let mut passed = 0;
        for id in 100..1_100 {
            passed += u64::from(kit.arrive_with(id, key(id)) == Came::Passed);
        }
        assert_eq!(passed, 2, "{limit:?}: a thousand keys got what one key gets");
        let stats = kit.room.stats(ID).unwrap();
        assert_eq!((stats.keys, stats.overflowed), (100, 1_000));
        assert_eq!(kit.arrive_with(2_000, key(5)), Came::Passed, "a key that has one keeps it");
        assert_eq!(
            kit.room.inflight(kit.now, ID, Some(hash(5_555))),
            2,
            "a rule reads what would decide"
        );
        assert!(kit.room.rate(kit.now, ID, Some(hash(5_555))) >= 1.0);
    }
}

/// A key that uses the shared counter gets no counter of its own, because its limit would then apply twice.
#[test]
fn s3_a_key_is_never_counted_twice_p1() {
    let mut wanted = keyed(spec(Limit::Concurrency(1)));
    wanted.keys_max = 1;
    let mut kit = Kit::new(wanted);
    assert_eq!(kit.arrive_with(1, key(1)), Came::Passed);
    assert_eq!(kit.arrive_with(2, key(2)), Came::Passed, "at the shared counter");
    kit.settle(1);
    kit.now = Time(10_000 * MS);
    assert_eq!(kit.arrive_with(3, key(2)), Came::Queued(None), "there is room, but 2 is held");
    assert_eq!(kit.arrive_with(4, key(4)), Came::Passed, "another key has room");
    kit.settle(2);
    kit.settle(3);
    assert!(kit.room.list[0].overflow_users.is_empty());
}

/// When a key gets a counter of its own, what it spent at the shared counter stays spent.
#[test]
fn s3_a_key_does_not_spend_twice_s1() {
    let mut wanted = keyed(rate(1, Span::from_secs(1_000), 5));
    wanted.keys_max = 1;
    let mut kit = Kit::new(wanted);
    assert_eq!(kit.arrive_with(1, key(1)), Came::Passed);
    kit.refund(1);
    kit.now = Time(1_999_000 * MS);
    for id in 10..15 {
        assert_eq!(kit.arrive_with(id, key(2)), Came::Passed, "at the shared counter");
        kit.settle(id);
    }
    kit.now = Time(2_001_000 * MS);
    let mut late = |id: u64| {
        kit.arrive_with(id, |t| {
            t.key = hash(2);
            t.deadline = Some(Time(0));
        })
    };
    assert!((20..30).all(|id| late(id) != Came::Passed), "five passed two seconds ago");
}

/// A counter that equals a new one counts as none, whether or not the sweep has reached it: in both cases the
/// key starts with what the shared counter owes.
#[test]
fn s3_the_sweep_decides_no_answer() {
    for sweep in [false, true] {
        let mut wanted = keyed(rate(1, Span::from_secs(1_000), 5));
        wanted.keys_max = 1;
        wanted.queue.delay_max = Span::from_secs(10_000);
        let mut kit = Kit::new(wanted);
        assert_eq!(kit.arrive_with(1, key(1)), Came::Passed);
        kit.settle(1);
        kit.now = Time(1_500_000 * MS);
        for id in 10..15 {
            assert_eq!(kit.arrive_with(id, key(2)), Came::Passed, "at the shared counter");
            kit.settle(id);
        }
        kit.now = Time(2_001_000 * MS);
        if sweep {
            let checkpoint: &mut Checkpoint = &mut kit.room.list[0];
            checkpoint.table.sweep(100, kit.now, checkpoint.period, &checkpoint.edits);
            assert_eq!(checkpoint.table.keys(), 0);
        }
        let pass_at = Some(2_500_000 * MS);
        let mut asked = super::ticket(kit.now, 20);
        asked.key = hash(1);
        let outlook = crate::Outlook::Queue { pass_at: pass_at.map(Time) };
        assert_eq!(kit.room.preview(kit.now, ID, &asked), outlook, "sweep: {sweep}");
        assert_eq!(kit.arrive_with(20, key(1)), Came::Queued(pass_at), "sweep: {sweep}");
        assert_eq!(kit.room.stats(ID).unwrap().keys, 1);
    }
}

/// After `keys_max` is lowered, a counter that equals a new one has no place of its own any more.
#[test]
fn s3_fewer_keys_take_places_away() {
    let mut wanted = keyed(spec(Limit::Concurrency(1)));
    let mut kit = Kit::new(wanted.clone());
    (1..=3).for_each(|id| assert_eq!(kit.arrive_with(id, key(id)), Came::Passed));
    kit.settle(3);
    wanted.keys_max = 2;
    kit.configure(vec![wanted]);
    kit.now = Time(5_000 * MS);
    assert_eq!(kit.room.inflight(kit.now, ID, Some(hash(3))), 0);
    assert_eq!(kit.arrive_with(4, key(4)), Came::Passed, "at the shared counter");
    assert_eq!(kit.room.inflight(kit.now, ID, Some(hash(3))), 1, "it would share too");
    assert_eq!(kit.arrive_with(5, key(3)), Came::Queued(None), "and does");
    assert_eq!(kit.room.stats(ID).unwrap().keys, 2);
}

/// A preview for a key sees the room that its arrival would find.
#[test]
fn s3_quiet_keys_make_room_for_a_preview() {
    let mut wanted = keyed(spec(Limit::Concurrency(1)));
    wanted.keys_max = 2;
    let mut kit = Kit::new(wanted);
    (1..=3).for_each(|id| assert_eq!(kit.arrive_with(id, key(id)), Came::Passed));
    kit.settle(1);
    let mut asked = super::ticket(kit.now, 4);
    asked.key = hash(4);
    let shares = crate::Outlook::Queue { pass_at: None };
    assert_eq!(kit.room.preview(kit.now, ID, &asked), shares, "the first key was just there");
    kit.now = Time(2_000 * MS);
    assert_eq!(kit.room.preview(kit.now, ID, &asked), crate::Outlook::Pass);
    assert_eq!(kit.room.inflight(kit.now, ID, Some(hash(4))), 0);
    assert_eq!(kit.arrive_with(4, key(4)), Came::Passed);
    assert_eq!(kit.room.stats(ID).unwrap().overflowed, 1);
}

/// A key whose sub-table is full uses the shared counter, like a key past the maximum.
#[test]
fn s3_a_full_sub_table_shares() {
    let mut kit = Kit::new(keyed(spec(Limit::Concurrency(1))));
    let meets = |n: usize| move |t: &mut Ticket| t.key = KeyHash([0, n as u64]);
    for n in 0..ENTRIES_MAX + 1 {
        assert_eq!(kit.arrive_with(n as u64, meets(n)), Came::Passed, "{n}");
    }
    let stats = kit.room.stats(ID).unwrap();
    assert_eq!((stats.keys, stats.overflowed), (ENTRIES_MAX as u64, 1));
    assert_eq!(kit.arrive_with(1_000, meets(1_000)), Came::Queued(None), "at the shared counter");
    let other = KeyHash([0, 2_000]);
    assert_eq!(kit.room.inflight(kit.now, ID, Some(other)), 1, "a rule reads what would decide");
}

/// When the old keys are quiet, new keys get counters of their own again.
#[test]
fn s3_quiet_keys_make_room() {
    let mut wanted = keyed(rate(10, Span::from_secs(1), 1));
    wanted.keys_max = 50;
    let mut kit = Kit::new(wanted);
    for id in 0..50 {
        kit.arrive_with(id, key(id));
        kit.settle(id);
    }
    kit.now = Time(5_000 * MS);
    for id in 50..100 {
        assert_eq!(kit.arrive_with(id, key(id)), Came::Passed);
        kit.settle(id);
    }
    assert_eq!(kit.room.stats(ID).unwrap().overflowed, 0);
    assert!(kit.room.stats(ID).unwrap().keys <= 50);
}

/// Keys that are used once do not accumulate: the sweep keeps pace.
#[test]
fn the_sweep_keeps_pace() {
    let mut kit = Kit::new(keyed(rate(1_000, Span::from_ms(1), 1)));
    let mut most = 0;
    for id in 0..50_000 {
        kit.now = Time(id * MS / 100);
        assert_eq!(kit.arrive_with(id, key(id)), Came::Passed);
        kit.settle(id);
        most = most.max(kit.room.stats(ID).unwrap().keys);
    }
    // A hundred arrive in a millisecond, and each matters for two.
    assert!(most < 600, "{most} keys were kept");
}

/// Reading creates no counter.
#[test]
fn reading_makes_nothing() {
    let kit = Kit::new(keyed(rate(1, Span::from_secs(1), 1)));
    let mut asked = super::ticket(kit.now, 1);
    for number in 0..100 {
        asked.key = hash(number);
        assert_eq!(kit.room.preview(kit.now, ID, &asked), crate::Outlook::Pass);
        assert_eq!(kit.room.rate(kit.now, ID, Some(hash(number))), 0.0);
        assert_eq!(kit.room.inflight(kit.now, ID, Some(hash(number))), 0);
        assert_eq!(kit.room.queued(kit.now, ID, Some(hash(number))), 0);
    }
    assert_eq!(kit.room.stats(ID).unwrap().keys, 0);
}
