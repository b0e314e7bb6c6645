//! The time to explain why one of more and more waiters waits.

use super::engine::{Chance, engine, owns, request};
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_checkpoints::{At, Limit, QueueSpec, Spec};
use paceline_claims::{Resource, ResourceId};
use paceline_engine::{Config, Engine, Outcome as Submitted, WaitsFor, prepare};
use paceline_pools::{PoolSet, PoolSpec, QueueBounds};
use paceline_types::{CheckpointId, Claim, Mode, Request, RequestId, Span, Time};
use std::time::Duration;

const SIZES: [usize; 3] = [100, 1_000, 100_000];

/// Explanations in one round.
const TIMES: usize = 500;

const RATE: Load = Load {
    name: "why, rate",
    operation: "the answer to why of a random waiter in one queue of a rate checkpoint",
    of: "waiters",
    unit: Unit::Nanoseconds,
};
const SLOTS: Load = Load {
    name: "why, slots",
    operation: "the same where all wait for a slot of one pool",
    of: "waiters",
    unit: Unit::Nanoseconds,
};
const RESOURCE: Load = Load {
    name: "why, resource",
    operation: "the same where all claim one resource",
    of: "waiters",
    unit: Unit::Nanoseconds,
};
const FRONT: Load = Load {
    name: "why, front",
    operation: "the same for the first of those that wait for a slot, behind none but the one that runs",
    of: "waiters",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[RATE, SLOTS, RESOURCE, FRONT]) {
        return Ok(());
    }
    for size in SIZES {
        let mut plain = request(&[("frontend", "api")])?;
        let queue = queue(&plain, rate_config(), size)?;
        bench.run(RATE, size, || ask(&queue, |at| matches!(at, WaitsFor::Checkpoint { .. })))?;
        let queue = self::queue(&plain, slots_config()?, size)?;
        bench.run(SLOTS, size, || ask(&queue, |at| matches!(at, WaitsFor::Slot { .. })))?;
        let front = Queue { waiters: vec![queue.waiters[0]], ..queue };
        bench.run(FRONT, size, || ask(&front, |at| matches!(at, WaitsFor::Slot { .. })))?;
        plain.claims.push(Claim { resource: "disk".into(), mode: Mode::Exclusive });
        let queue = self::queue(&plain, resource_config()?, size)?;
        bench.run(RESOURCE, size, || ask(&queue, |at| matches!(at, WaitsFor::Resource { .. })))?;
    }
    Ok(())
}

/// An engine and its waiters.
struct Queue {
    engine: Engine,
    waiters: Vec<RequestId>,
}

/// Submits the same request until `size` of them wait.
fn queue(request: &Request, config: Config, size: usize) -> Outcome<Queue> {
    let mut queue = Queue { engine: engine(config)?, waiters: vec![] };
    for at in 0..=size {
        let prepared = prepare(&queue.engine.snapshot(), request.clone())?;
        let (id, outcome) = queue.engine.submit(Time(1), prepared, &owns);
        match outcome {
            Submitted::Started if at == 0 => {}
            Submitted::Waiting => queue.waiters.push(id),
            other => return Err(format!("request {at} does not wait: {other:?}").into()),
        }
    }
    Ok(queue)
}

fn ask(queue: &Queue, right: impl Fn(&WaitsFor) -> bool) -> Outcome<(Duration, usize)> {
    let mut chance = Chance::new(3);
    let ids: Vec<_> = (0..TIMES).map(|_| *chance.one(&queue.waiters)).collect();
    let answer = |id: &RequestId| {
        let why = std::hint::black_box(queue.engine.why(*id));
        why.is_some_and(|why| right(&why.waits_for) && !why.ahead.is_empty())
    };
    let (taken, all) = time(|| {
        // The first waiter of a rate's queue has no request ahead of it.
        ids.iter().filter(|id| answer(id)).count() >= TIMES - TIMES / 10
    });
    if all { Ok((taken, TIMES)) } else { Err("a waiter waits for something else".into()) }
}

fn rate_config() -> Config {
    let limit = Limit::Rate { count: 1, per: Span::from_secs(60), burst: 1 };
    let mut spec = Spec::new(CheckpointId(1), "one", At::Frontend("api".into()), limit);
    spec.queue = QueueSpec {
        len_max: 1_000_000,
        total_max: 1_000_000,
        delay_max: Span::from_secs(10_000 * 86_400),
    };
    Config { checkpoints: vec![spec], ..Config::default() }
}

fn slots_config() -> Outcome<Config> {
    Ok(Config { pools: default_pool(Some(1))?, ..Config::default() })
}

fn resource_config() -> Outcome<Config> {
    let disk = Resource { id: ResourceId(1), name: "disk".into(), parents: vec![] };
    Ok(Config { resources: vec![disk], pools: default_pool(None)?, ..Config::default() })
}

/// The default pool with this many slots, and room for a million waiters.
pub fn default_pool(slots: Option<u32>) -> Outcome<PoolSet> {
    let queue = QueueBounds { len_max: 1_000_000, delay_max: None };
    let pool = PoolSpec { threads_max: slots, queue, ..PoolSpec::default_pool() };
    Ok(PoolSet::of(vec![pool])?)
}
