//! Watch mode: decides as an enforcing checkpoint would, counts the decisions, and lets everything pass.

use super::{Came, ID, Kit, MS, rate, spec};
use crate::hash::KeyHash;
use crate::limit::Limit;
use crate::spec::{Mode, Spec};
use crate::ticket::How;
use paceline_types::{Span, Time};

fn watch(mut spec: Spec) -> Spec {
    spec.mode = Mode::Watch;
    spec
}

#[test]
fn a_watched_rate_tells_who_would_wait_or_be_refused() {
    let mut wanted = watch(rate(1, Span::from_secs(1), 1));
    wanted.queue.delay_max = Span::from_ms(2_000);
    let mut kit = Kit::new(wanted);
    for id in 1..=5 {
        assert_eq!(kit.arrive(id), Came::Passed);
    }
    // Would pass now, after 1 s and after 2 s; the last two would wait too long, and do not spend.
    let stats = kit.room.stats(ID).unwrap();
    assert_eq!((stats.would_wait, stats.would_refuse, stats.passed), (2, 2, 5));
    assert_eq!((stats.queued_now, kit.room.inflight(kit.now, ID, None)), (0, 5));
    kit.now = Time(1_000 * MS);
    assert_eq!(kit.arrive(6), Came::Passed);
    assert_eq!(kit.room.stats(ID).unwrap().would_wait, 3, "a second later there is room for one");
    assert_eq!(kit.arrive_with(7, |t| t.cost = 2), Came::Passed);
    assert_eq!(kit.room.stats(ID).unwrap().would_refuse, 3, "a cost over the burst");
}

#[test]
fn a_watched_concurrency_tells_who_would_wait() {
    let mut kit = Kit::new(watch(spec(Limit::Concurrency(1))));
    (1..=3).for_each(|id| assert_eq!(kit.arrive(id), Came::Passed));
    assert_eq!(kit.room.stats(ID).unwrap().would_wait, 2);
    assert_eq!(kit.room.inflight(kit.now, ID, None), 3);
    kit.configure(vec![spec(Limit::Concurrency(1))]);
    assert_eq!(kit.arrive(4), Came::Queued(None), "enforced from now on");
    assert_eq!((kit.settle(1), kit.settle(2), kit.settle(3)), (None, None, Some(4)));
}

/// When a checkpoint is switched to watch mode, its waiters arrive again and so pass.
#[test]
fn turning_to_watch_lets_waiters_go() {
    let mut kit = Kit::new(rate(1, Span::from_secs(1), 1));
    kit.arrive_all(1..=3);
    kit.configure(vec![watch(rate(1, Span::from_secs(1), 1))]);
    assert_eq!(kit.due(), [(0, 2, Came::Again), (0, 3, Came::Again)]);
    (2..=3).for_each(|id| assert_eq!(kit.arrive(id), Came::Passed));
    // When it enforces again, its debt is at most one burst.
    kit.configure(vec![rate(1, Span::from_secs(1), 1)]);
    assert_eq!(kit.arrive(4), Came::Queued(Some(1_000 * MS)));
}

/// A request that must arrive again is metered once; new meters have not seen it yet.
#[test]
fn an_arrival_is_metered_once() {
    let plain = rate(1, Span::from_secs(1), 1);
    let fair = Spec { fair: Some("host".into()), ..plain.clone() };
    let keyed = Spec { key: Some("user".into()), ..plain.clone() };
    for (wanted, metered) in [(watch(plain.clone()), 3), (fair, 3), (keyed, 2)] {
        let mut kit = Kit::new(plain.clone());
        kit.arrive_all(1..=3);
        kit.configure(vec![wanted]);
        let mut again = 0;
        while let Some(moved) = kit.room.next(kit.now) {
            let How::Again(kept) = moved.how else { panic!("{moved:?}") };
            kit.arrive_with(moved.request.0, |t| t.kept = Some(kept));
            again += 1;
        }
        assert_eq!(again, 2);
        assert_eq!(kit.room.rate(kit.now, ID, None), f64::from(metered));
        assert_eq!(kit.room.rate(kit.now, ID, Some(KeyHash::default())), f64::from(metered));
    }
}
