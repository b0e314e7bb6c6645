//! Fair queues: equal shares, weights, and many flows.

use super::{Came, ID, Kit, Random, Ticket, rate, spec};
use crate::limit::Limit;
use crate::spec::Spec;
use paceline_types::limits::{FLOWS_MAX, SHARED_FLOWS};
use paceline_types::{RequestId, Span, Time};

pub(super) fn fair(mut spec: Spec) -> Spec {
    spec.fair = Some("host".into());
    spec.queue.len_max = 1_000_000;
    spec.queue.total_max = 1_000_000;
    spec.queue.delay_max = Span::from_secs(1_000_000);
    spec
}

fn flow(flow: u64, weight: u32) -> impl Fn(&mut Ticket) {
    move |t| (t.flow.0[0], t.weight) = (flow, weight)
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Two flows with 180 and 20 waiters: as long as both wait, they are served equally.
#[test]
fn a_long_flow_does_not_crowd_out_a_short_one() {
    let mut kit = Kit::new(fair(rate(1, Span::from_secs(1), 1)));
    kit.arrive_with(0, flow(9, 1));
    for id in 1..=200 {
        kit.arrive_with(id, flow(u64::from(id > 180), 1));
    }
    let moves = kit.run(Time(40_000_000_000));
    let short = moves.iter().filter(|(_, id, _)| *id > 180).count() as f64;
    let long = moves.len() as f64 - short;
    assert_eq!(long + short, 40.0);
    assert!(jain(&[long, short]) >= 0.99, "{long} to {short}");
    assert_eq!(kit.run(Time(400_000_000_000)).len(), 160, "then the rest");
}

/// The same with requests that come and go for a long time, at different costs.
#[test]
fn shares_are_equal_in_the_long_run() {
    let mut kit = Kit::new(fair(rate(1, Span(1_000), 4)));
    let mut random = Random::new(3);
    let (mut served, mut owners) = ([0.0, 0.0], vec![]);
    for id in 0..40_000u64 {
        // Nine of ten belong to the first flow, whose requests are small.
        let first = random.below(10) < 9;
        let cost = if first { 1 } else { 2 };
        owners.push((usize::from(!first), f64::from(cost)));
        kit.arrive_with(id, |t| (t.flow.0[0], t.cost) = (u64::from(first), cost));
        let until = Time(kit.now.0 + 333);
        for (_, id, _) in kit.run(until) {
            let (flow, cost) = owners[id as usize];
            served[flow] += cost;
        }
    }
    // The second asks for a fifth of a unit per 333 ns, more than half of the rate.
    assert!(jain(&served) >= 0.99, "{served:?}");
}

#[test]
fn weights_share_by_one_to_three() {
    for limit in [Limit::Concurrency(1), Limit::Rate { count: 1, per: Span(10), burst: 1 }] {
        let mut kit = Kit::new(fair(spec(limit)));
        kit.arrive_with(0, flow(9, 1));
        for id in 1..=800 {
            kit.arrive_with(id, flow(id % 2, if id % 2 == 0 { 3 } else { 1 }));
        }
        let mut light = 0;
        let mut last = 0;
        for _ in 0..400 {
            last = match limit {
                Limit::Concurrency(_) => kit.settle(last).unwrap(),
                _ => {
                    let at = kit.room.poll_timeout().unwrap();
                    kit.run(at)[0].1
                }
            };
            light += last % 2;
        }
        assert!((99..=101).contains(&light), "{limit:?}: {light}");
    }
}

/// The least finish tag is served next; rank orders within a flow and breaks ties.
#[test]
fn rank_orders_within_a_flow() {
    let mut kit = Kit::new(fair(spec(Limit::Concurrency(1))));
    kit.arrive(0);
    for (id, which) in [(1, 5), (2, 5), (3, 5), (4, 6), (5, 6)] {
        kit.arrive_with(id, flow(which, 1));
    }
    let place = kit.room.place(kit.now, RequestId(3)).unwrap();
    assert_eq!(place.ahead, 4);
    assert_eq!(place.nearest, [5, 2, 4, 1].map(RequestId));
    let mut order = vec![];
    let mut last = 0;
    while let Some(next) = kit.settle(last) {
        order.push(next);
        last = next;
    }
    assert_eq!(order, [1, 4, 2, 5, 3]);
}

/// Flows are bounded: flows past the maximum share as many more, and leave nothing behind.
#[test]
fn flows_past_the_maximum_share_some() {
    let mut kit = Kit::new(fair(rate(1, Span(1_000), 1)));
    kit.arrive(0);
    let flows = (FLOWS_MAX + SHARED_FLOWS) as u64 + 50;
    for id in 1..=flows {
        assert!(matches!(kit.arrive_with(id, flow(id, 1)), Came::Queued(_)));
    }
    let second = flows + 1;
    kit.arrive_with(second, flow(1, 1));
    let moves = kit.run(Time(u64::MAX / 2));
    assert_eq!(moves.len() as u64, flows + 1);
    // The first waiter of every flow passes before the second of any flow. The 50 that found their flow
    // shared came before it.
    let at = |wanted| moves.iter().position(|(_, id, _)| *id == wanted).unwrap();
    assert_eq!(at(second), flows as usize);
    assert!((flows - 49..=flows).all(|late| at(late) >= FLOWS_MAX + SHARED_FLOWS));
    assert_eq!(kit.room.queued(kit.now, ID, None), 0);
}

/// With thousands of flows, a newcomer is still judged correctly: within the bound or past it.
#[test]
fn many_flows_are_judged_by_the_same_bound() {
    let mut wanted = fair(rate(1, Span(1_000), 1));
    wanted.queue.delay_max = Span(2_000_000);
    let mut kit = Kit::new(wanted);
    kit.arrive(0);
    for id in 1..=2_000u64 {
        assert!(matches!(kit.arrive_with(id, flow(id % 500, 1)), Came::Queued(_)), "{id}");
    }
    // 2,000 wait, four of each flow: a newcomer's first passes after 500 firsts, a fifth after all.
    let came = kit.arrive_with(3_000, flow(7, 1));
    assert!(matches!(came, Came::TooLong { max: 2_000_000, .. }), "{came:?}");
    let came = kit.arrive_with(3_001, flow(9_999, 1));
    assert_eq!(came, Came::Queued(None), "when, is worked out for those who ask");
    let place = kit.room.place(kit.now, RequestId(3_001)).unwrap();
    assert_eq!((place.ahead, place.pass_at), (500, Some(Time(501_000))));
}
