//! Tags, from the definition of weighted fair queuing in the engine note.

use super::{Ahead, Fair, FlowKey, SHARE, is_shared};
use crate::hash::KeyHash;
use paceline_types::limits::{FLOWS_MAX, SHARED_FLOWS};
use paceline_types::{Priority, Rank, RequestId, Span, Time, Toll};
use std::collections::BTreeMap;

fn rank(id: u64) -> Rank {
    Rank::new(Time(id), Priority::START, Span(0), RequestId(id))
}

fn join(fair: &mut Fair, flow: u64, id: u64, share: u64) -> FlowKey {
    let weight = (SHARE / share) as u32;
    fair.join(KeyHash([flow, 0]), rank(id), Toll { cost: 1, share }, weight)
}

fn serve(fair: &mut Fair) -> u64 {
    fair.serve().unwrap().0.id.0
}

/// A flow that rested returns without credit, and does not lose its place by leaving.
#[test]
fn a_resting_flow_has_neither_credit_nor_debt() {
    let mut fair = Fair::default();
    for id in 1..=6 {
        join(&mut fair, 1, id, 10);
    }
    join(&mut fair, 2, 7, 10);
    assert_eq!([serve(&mut fair), serve(&mut fair), serve(&mut fair)], [1, 7, 2]);
    // V is 10, the second flow's F is 10: it is forgotten, and starts anew at V.
    assert_eq!(fair.flows.len(), 1);
    join(&mut fair, 2, 8, 10);
    assert_eq!([serve(&mut fair), serve(&mut fair)], [8, 3]);
    // V is 20; F of the second is 20. Served last at S = 10, it waits behind no other flow.
    let key = join(&mut fair, 2, 9, 10);
    assert_eq!(fair.leave(key, rank(9)), Some(Toll { cost: 1, share: 10 }));
    assert_eq!(fair.leave(key, rank(9)), None);
    join(&mut fair, 2, 10, 10);
    assert_eq!([serve(&mut fair), serve(&mut fair)], [10, 4]);
}

/// A flow that was just served and returns at once starts at its finish tag, which is ahead of V.
#[test]
fn an_idle_flow_is_remembered_while_it_is_ahead() {
    let mut fair = Fair::default();
    for id in 1..=5 {
        join(&mut fair, 1, id, 10);
    }
    join(&mut fair, 2, 6, 25);
    assert_eq!([serve(&mut fair), serve(&mut fair), serve(&mut fair)], [1, 2, 6]);
    // V is 14. From there it would finish at 34, before the fourth.
    assert_eq!(fair.time, 14);
    join(&mut fair, 2, 7, 20);
    let order = [serve(&mut fair), serve(&mut fair), serve(&mut fair), serve(&mut fair)];
    assert_eq!(order, [3, 4, 7, 5]);
    assert_eq!(fair.len(), 0);
}

#[test]
fn flows_are_bounded_and_forgotten() {
    let mut fair = Fair::default();
    let count = FLOWS_MAX as u64;
    for flow in 0..count {
        assert_eq!(join(&mut fair, flow, flow, 5), FlowKey::Own(KeyHash([flow, 0])));
    }
    // As many flows are shared, and each of them stands for several.
    let shared = SHARED_FLOWS as u64;
    for flow in count..count + 2 * shared {
        let key = FlowKey::Shared((flow % shared) as u16);
        assert_eq!(join(&mut fair, flow, flow, 5), key);
    }
    assert_eq!(join(&mut fair, 3, count + 2 * shared, 5), FlowKey::Own(KeyHash([3, 0])));
    assert_eq!(fair.flows.len(), FLOWS_MAX + SHARED_FLOWS);
    for _ in 0..count + shared {
        serve(&mut fair);
    }
    // The next head starts at 5, where all the others finished: their places are free.
    serve(&mut fair);
    for flow in 2 * count..3 * count - 2 {
        assert_eq!(join(&mut fair, flow, flow, 5), FlowKey::Own(KeyHash([flow, 0])), "{flow}");
        assert!(fair.flows.len() <= FLOWS_MAX + SHARED_FLOWS);
    }
    for flow in 2 * count..3 * count - 2 {
        fair.leave(FlowKey::Own(KeyHash([flow, 0])), rank(flow)).unwrap();
    }
    while fair.serve().is_some() {}
    // V passes all their tags.
    for id in 0..2 {
        join(&mut fair, 0, id, 100);
        serve(&mut fair);
    }
    (0..FLOWS_MAX + SHARED_FLOWS).for_each(|_| fair.forget());
    assert!(fair.flows.len() <= 2, "{} flows are left", fair.flows.len());
    assert_eq!(fair.shared, fair.flows.keys().filter(|key| is_shared(**key)).count());
}

/// D1: with waiters in all possible flows, and as many more, a newcomer waits for about twice as many
/// requests as in one line, although the others always come again.
#[test]
fn a_newcomer_past_the_maximum_is_not_starved_d1() {
    let mut fair = Fair::default();
    let count = 4 * FLOWS_MAX as u64;
    let mut next = 0;
    let mut come = |fair: &mut Fair, flow| {
        next += 1;
        join(fair, flow, next, 5);
        next
    };
    let mut flows: BTreeMap<u64, u64> =
        (0..count).map(|flow| (come(&mut fair, flow), flow)).collect();
    let newcomer = come(&mut fair, count);
    let mut served = 0;
    loop {
        let id = serve(&mut fair);
        if id == newcomer {
            break;
        }
        served += 1;
        assert!(served <= 2 * count, "{served} are served before it, and {count} wait");
        let flow = flows.remove(&id).unwrap();
        flows.insert(come(&mut fair, flow), flow);
    }
}

/// Flows that send one request each, and always some of them, leave a flow that comes again its part: with four of
/// them waiting, it is about one of five. It is served after few others, and no later than its prediction by much.
#[test]
fn flows_that_come_once_do_not_starve_one_that_comes_again() {
    for others in [1, 4, 30] {
        let mut fair = Fair::default();
        let mut next = 0;
        let mut come = |fair: &mut Fair, flow: u64| {
            next += 1;
            join(fair, flow, next, 1 << 20);
            next
        };
        let mut fresh = 1_000;
        for _ in 0..others {
            fresh += 1;
            come(&mut fair, fresh);
        }
        let mut modest = come(&mut fair, 1);
        let (mut passed, mut most) = (0, 0);
        for _ in 0..100 * (others + 1) {
            if serve(&mut fair) == modest {
                most = most.max(passed);
                passed = 0;
                modest = come(&mut fair, 1);
            } else {
                passed += 1;
                fresh += 1;
                come(&mut fair, fresh);
            }
        }
        assert!(most.max(passed) <= 2 * others + 1, "{} of {others} others", most.max(passed));
    }
}

/// One waiter with a large share does not hold up a flow that comes again beside one that always waits: both have
/// the same share, so they take turns.
#[test]
fn a_large_share_holds_up_no_other_flow() {
    let mut fair = Fair::default();
    let mut next = 0;
    let mut join_flow = |fair: &mut Fair, flow: u64, share: u64| {
        next += 1;
        join(fair, flow, next, share);
        next
    };
    for _ in 0..6 {
        join_flow(&mut fair, 1, 10);
    }
    let mut serial = join_flow(&mut fair, 2, 10);
    join_flow(&mut fair, 3, 1_000_000);
    let mut passed = 0;
    for _ in 0..300 {
        if serve(&mut fair) == serial {
            passed = 0;
            serial = join_flow(&mut fair, 2, 10);
        } else {
            passed += 1;
            join_flow(&mut fair, 1, 10);
        }
        assert!(passed <= 4, "{passed} were served before it");
    }
}

/// A waiter of this cost and a weight of one.
fn join_cost(fair: &mut Fair, flow: u64, id: u64, cost: u64) {
    fair.join(KeyHash([flow, 0]), rank(id), Toll { cost, share: cost * SHARE }, 1);
}

/// Nor does one that was served before the others came: V does not rise by all of its cost.
#[test]
fn a_large_share_that_was_served_holds_up_no_other_flow() {
    let mut fair = Fair::default();
    join_cost(&mut fair, 3, 0, 1_000_000);
    join_cost(&mut fair, 4, 1, 1_000_000);
    serve(&mut fair);
    for id in 2..8 {
        join_cost(&mut fair, 1, id, 1);
    }
    let (mut serial, mut passed) = (8, 0);
    join_cost(&mut fair, 2, serial, 1);
    for id in 9..300 {
        if serve(&mut fair) == serial {
            (serial, passed) = (id, 0);
            join_cost(&mut fair, 2, id, 1);
        } else {
            passed += 1;
            join_cost(&mut fair, 1, id, 1);
        }
        assert!(passed <= 4, "{passed} were served before it");
    }
}

/// A newcomer does not start behind all flows that wait: it would be served until it has caught up with them.
#[test]
fn a_newcomer_starts_no_earlier_than_the_first_waiter() {
    let mut fair = Fair::default();
    for id in 0..3 {
        join_cost(&mut fair, 1, id, 1_000_000);
    }
    assert_eq!(serve(&mut fair), 0);
    join_cost(&mut fair, 2, 3, 1);
    assert_eq!([serve(&mut fair), serve(&mut fair)], [3, 1]);
    assert_eq!(fair.time, 1_000_000 * u128::from(SHARE));
}

/// The cheap lower bound of the cost before a waiter never exceeds the real cost, and is short by no more
/// than one waiter of each flow.
#[test]
fn the_least_cost_before_is_close() {
    let mut state = 5u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
        (state >> 33) % bound
    };
    for round in 0..40 {
        let mut fair = Fair::default();
        let flows = 1 + below(50);
        let (costs, same) = (1 + below(9), round % 2 == 0);
        for id in 0..below(600) {
            let flow = below(flows);
            let weight = if same { 1 + flow % 7 } else { 1 + below(7) };
            let cost = 1 + below(costs);
            let toll = Toll { cost, share: (cost << 20) / weight };
            let rank = rank(1_000 + below(1_000) * 1_000 + id);
            fair.join(KeyHash([flow, 0]), rank, toll, weight as u32);
            if below(3) == 0 {
                fair.serve();
            }
        }
        for probe in 0..200 {
            let key = fair.flow_of(KeyHash([below(flows + 2), 0]));
            let rank = rank(below(1_100) * 1_000 + 999);
            let share = ((1 + below(costs)) << 20) / (1 + below(7));
            let (least, exact) =
                (fair.cost_before_min(key, rank, share), fair.cost_before(key, rank, share, None));
            assert!(least <= exact, "round {round}, probe {probe}: {least} {exact}");
            let most = least + (flows + 1) * (costs + 1);
            assert!(!same || exact <= most, "round {round}, probe {probe}: {exact} {most}");
        }
    }
}

/// The waiters ahead of a waiter are those served before it, in that order. The test finds them by serving
/// all.
#[test]
fn who_is_ahead_is_who_is_served_before() {
    let mut state = 11u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
        (state >> 33) % bound
    };
    for round in 0..30 {
        let (mut fair, flows, mut keys) = (Fair::default(), 1 + below(12), BTreeMap::new());
        for id in 0..1 + below(500) {
            let toll = Toll { cost: 1 + below(4), share: 1 + below(5) };
            let rank = rank(1_000 + below(50) * 1_000 + id);
            let weight = 1 + below(4) as u32;
            keys.insert(rank, fair.join(KeyHash([below(flows), 0]), rank, toll, weight));
            if below(4) == 0 {
                keys.remove(&fair.serve().unwrap().0);
            }
        }
        let ahead = |(rank, key): (&Rank, &FlowKey)| (*rank, fair.ahead(*key, *rank, 5));
        let told: BTreeMap<Rank, Ahead> = keys.iter().map(ahead).collect();
        let (mut served, mut cost): (Vec<RequestId>, u64) = (vec![], 0);
        while let Some((rank, toll)) = fair.serve() {
            let nearest: Vec<RequestId> = served.iter().rev().take(5).copied().collect();
            let expected = Ahead { count: served.len(), cost, nearest };
            assert_eq!(told[&rank], expected, "round {round}, {rank:?}");
            served.push(rank.id);
            cost += toll.cost;
        }
        assert_eq!(served.len(), keys.len());
    }
}
