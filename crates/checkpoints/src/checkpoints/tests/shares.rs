//! The shares of flows that come again beside flows that send one request each, by weight and cost.

use super::fair::fair;
use super::{Kit, spec};
use crate::limit::Limit;
use std::collections::BTreeMap;

/// Clients that send their next request when the last one was served.
#[derive(Clone, Copy)]
struct Load {
    /// Their common flow. Without one, each request is a flow of its own.
    flow: Option<u64>,
    weight: u32,
    cost: u32,
    clients: u64,
}

const fn flow(flow: u64, weight: u32, cost: u32, clients: u64) -> Load {
    Load { flow: Some(flow), weight, cost, clients }
}

const fn once(cost: u32, clients: u64) -> Load {
    Load { flow: None, weight: 1, cost, clients }
}

/// What each load got.
struct Got {
    cost: u64,
    /// The most requests of others that were served between two of its own.
    gap_max: u64,
}

/// One request is served at a time. Its client comes again while the next one is served.
fn serve(loads: &[Load], services: u64) -> Vec<Got> {
    let mut kit = Kit::new(fair(spec(Limit::Concurrency(1))));
    let (mut next, mut owners) = (0, BTreeMap::new());
    let mut come = |kit: &mut Kit, owners: &mut BTreeMap<u64, usize>, index: usize| {
        next += 1;
        let load = &loads[index];
        owners.insert(next, index);
        kit.arrive_with(next, |t| {
            t.flow.0 = load.flow.map_or([1_000 + next, 1], |flow| [flow, 0]);
            (t.weight, t.cost) = (load.weight, load.cost);
        });
    };
    kit.arrive(0);
    for (index, load) in loads.iter().enumerate() {
        (0..load.clients).for_each(|_| come(&mut kit, &mut owners, index));
    }
    let mut got: Vec<Got> = loads.iter().map(|_| Got { cost: 0, gap_max: 0 }).collect();
    let mut gaps = vec![0; loads.len()];
    let mut last = 0;
    for _ in 0..services {
        let before = last;
        last = kit.settle(before).unwrap();
        if let Some(index) = owners.remove(&before) {
            come(&mut kit, &mut owners, index);
        }
        let served = owners[&last];
        got[served].cost += u64::from(loads[served].cost);
        for (index, gap) in gaps.iter_mut().enumerate() {
            *gap = if index == served { 0 } else { *gap + 1 };
            got[index].gap_max = got[index].gap_max.max(*gap);
        }
    }
    got
}

/// Compares the part of all cost that the first load gets with what it deserves, both in millionths.
fn check(loads: &[Load], services: u64, deserved: u64) {
    let got = serve(loads, services);
    let all: u64 = got.iter().map(|got| got.cost).sum();
    let part = got[0].cost * 1_000_000 / all;
    // A tenth more or less of what the smaller side deserves.
    let slack = deserved.min(1_000_000 - deserved) / 10 + 2_000;
    assert!(part.abs_diff(deserved) <= slack, "{part} of a million, not {deserved}");
}

#[test]
fn a_weight_of_10_counts_beside_flows_that_come_once() {
    check(&[flow(1, 10, 1, 20), once(1, 50)], 8_000, 166_667);
}

#[test]
fn a_weight_of_1000_counts_beside_flows_that_come_once() {
    check(&[flow(1, 1_000, 1, 20), once(1, 50)], 40_000, 952_381);
    check(&[flow(1, 1_000, 1, 2), once(1, 50)], 40_000, 952_381);
}

#[test]
fn flows_that_come_once_do_not_lower_an_equal_weight() {
    check(&[flow(1, 1, 1, 20), once(1, 50)], 20_000, 19_608);
    check(&[flow(1, 1, 1, 1), once(1, 5)], 4_000, 166_667);
    check(&[flow(1, 1, 1, 5), once(1, 5)], 4_000, 166_667);
    // Nor do they if a third flow has a high weight.
    let got = serve(&[flow(1, 1, 1, 5), once(1, 5), flow(2, 1_000, 1, 5)], 200_000);
    assert!(got[0].cost.abs_diff(got[1].cost / 5) <= got[0].cost / 5, "{}", got[0].cost);
}

#[test]
fn a_cost_of_10_has_its_part_beside_10000_from_flows_that_come_once() {
    check(&[flow(1, 1, 10, 10), once(10_000, 2)], 30_000, 333_333);
    let fixed = [flow(1, 1, 10, 10), flow(2, 1, 10_000, 1), flow(3, 1, 10_000, 1)];
    check(&fixed, 30_000, 333_333);
}

#[test]
fn a_cost_of_1000_has_its_part_beside_flows_that_come_once() {
    check(&[flow(1, 1, 1_000, 5), once(1, 50)], 1_030_000, 19_608);
}

#[test]
fn flows_that_come_again_share_by_weight() {
    let loads = [flow(1, 1_000, 1, 5), flow(2, 10, 1, 5), flow(3, 1, 1, 5)];
    check(&loads, 50_000, 989_120);
    let [_, ten, one] = &serve(&loads, 50_000)[..] else { panic!("three loads") };
    assert!((470..=510).contains(&ten.cost), "{}", ten.cost);
    assert!((46..=51).contains(&one.cost), "{}", one.cost);
    check(&[flow(1, 1, 1, 1), flow(2, 1, 1, 6)], 1_000, 500_000);
}

/// One request with a large share keeps no flow from being served: neither while it waits nor afterwards.
#[test]
fn a_large_share_holds_up_no_flow() {
    let loads = [flow(1, 1_000, 1, 6), flow(2, 1_000, 1, 1), flow(3, 1, 1_000_000, 1)];
    let got = serve(&loads, 5_000);
    assert!(got[0].gap_max <= 3 && got[1].gap_max <= 3, "{} {}", got[0].gap_max, got[1].gap_max);
}
