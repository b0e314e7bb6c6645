//! Claims among more and more resources and waiters.
//!
//! A step settles a random running request, with everything that follows from it, and submits a new one. As many
//! requests wait as there are resources. Steps are long enough for the machine to do other work in between, so the
//! report gives CPU time.

use super::engine::{Chance, engine, owns, prepare_all};
use super::resources::{Resources, Shape, leaf, star};
use super::why::default_pool;
use crate::Outcome;
use crate::calls::Calls;
use crate::measure::{Bench, Load, ROUNDS, Unit, each, time};
use paceline_engine::{Config, Effect, Engine, Outcome as Submitted, Prepared, prepare};
use paceline_types::{Attributes, Claim, Mode, Request, RequestId, SessionId, Time};
use std::time::Duration;

const SIZES: [usize; 3] = [100, 10_000, 100_000];

/// Steps in one round.
const STEPS: usize = 1_000;

/// Slots of the pool with a maximum.
const SLOTS: u32 = 64;

const fn load(name: &'static str, operation: &'static str) -> Load {
    Load { name, operation, of: "waiters", unit: Unit::Nanoseconds }
}

/// One kind of claims, and what is measured of it.
struct Way {
    step: Load,
    worst: [Load; 2],
    shape: Shape,
    slots: Option<u32>,
    /// Whether each request belongs to one of many sessions, so that it may conflict with its own session.
    sessions: bool,
}

const WAYS: [Way; 5] = [
    Way {
        step: load("claims tree", "a random request settled, and a new one submitted"),
        worst: [
            load("claims tree, worst call", "the longest single call of these"),
            load("claims tree, worst call's CPU", "the same in CPU time of the thread"),
        ],
        shape: Shape::Tree,
        slots: None,
        sessions: false,
    },
    Way {
        step: load("claims graph", "the same where resources have several parents"),
        worst: [
            load("claims graph, worst call", "the longest single call of these"),
            load("claims graph, worst call's CPU", "the same in CPU time of the thread"),
        ],
        shape: Shape::Graph,
        slots: None,
        sessions: false,
    },
    Way {
        step: load("claims tree, 64 slots", "as in the tree, in a pool that runs 64 at once"),
        worst: [
            load("claims tree, 64 slots, worst call", "the longest single call of these"),
            load("claims tree, 64 slots, worst call's CPU", "the same in CPU time of the thread"),
        ],
        shape: Shape::Tree,
        slots: Some(SLOTS),
        sessions: false,
    },
    Way {
        step: load("claims graph, 64 slots", "as in the graph, in a pool that runs 64 at once"),
        worst: [
            load("claims graph, 64 slots, worst call", "the longest single call of these"),
            load("claims graph, 64 slots, worst call's CPU", "the same in CPU time of the thread"),
        ],
        shape: Shape::Graph,
        slots: Some(SLOTS),
        sessions: false,
    },
    Way {
        step: load(
            "claims graph, sessions",
            "as in the graph, by sessions that hold claims already",
        ),
        worst: [
            load("claims graph, sessions, worst call", "the longest single call of these"),
            load("claims graph, sessions, worst call's CPU", "the same in CPU time of the thread"),
        ],
        shape: Shape::Graph,
        slots: None,
        sessions: true,
    },
];
const PREPARE: Load = load("claims prepare", "prepare of such a request in the graph");
const RELEASE: Load =
    load("claims release", "one waiter of all, when the root above them is freed");
const RELEASE_WORST: [Load; 2] = [
    load("claims release, worst call", "the longest single call of these"),
    load("claims release, worst call's CPU", "the same in CPU time of the thread"),
];

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    for size in SIZES {
        for way in &WAYS {
            if bench.wants(&[way.step, way.worst[0], way.worst[1]]) {
                steps(bench, way, size)?;
            }
        }
        if bench.wants(&[PREPARE]) {
            let mut world = World::new(&WAYS[1], size)?;
            bench.run(PREPARE, size, || world.prepare())?;
        }
        if bench.wants(&[RELEASE, RELEASE_WORST[0], RELEASE_WORST[1]]) {
            release(bench, size)?;
        }
    }
    Ok(())
}

fn steps(bench: &mut Bench, way: &Way, size: usize) -> Outcome<()> {
    let mut world = World::new(way, size)?;
    world.fill()?;
    world.round()?;
    world.calls = Calls::new();
    let rounds = (0..ROUNDS).map(|_| world.round().map(each)).collect::<Outcome<_>>()?;
    bench.record(way.step, size, rounds);
    world.calls.record(bench, size, way.worst);
    Ok(())
}

/// An engine with many resources and waiters.
struct World {
    engine: Engine,
    resources: Resources,
    running: Vec<RequestId>,
    waiting: usize,
    size: usize,
    sessions: bool,
    now: Time,
    chance: Chance,
    calls: Calls,
}

impl World {
    fn new(way: &Way, size: usize) -> Outcome<Self> {
        let mut chance = Chance::new(23);
        let resources = Resources::new(size, way.shape, &mut chance);
        let pools = default_pool(way.slots)?;
        let config = Config { resources: resources.all.clone(), pools, ..Config::default() };
        Ok(Self {
            engine: engine(config)?,
            resources,
            running: vec![],
            waiting: 0,
            size,
            sessions: way.sessions,
            now: Time(1),
            chance,
            calls: Calls::new(),
        })
    }

    /// Submits requests until enough of them wait.
    fn fill(&mut self) -> Outcome<()> {
        while self.waiting < self.size {
            let mut request = self.request();
            // Most requests get no session, because submitting takes very long with one.
            request.session = request.session.filter(|_| self.chance.percent(10));
            let prepared = prepare(&self.engine.snapshot(), request)?;
            self.submit(prepared)?;
        }
        Ok(())
    }

    fn round(&mut self) -> Outcome<(Duration, usize)> {
        self.fill()?;
        self.calls.take_taken();
        let requests = (0..STEPS).map(|_| self.request()).collect();
        for prepared in prepare_all(&self.engine, requests)? {
            let at = self.chance.below(self.running.len());
            if self.running.is_empty() {
                return Err("nothing runs".into());
            }
            self.settle(at)?;
            self.submit(prepared)?;
        }
        Ok((self.calls.take_taken(), STEPS))
    }

    fn settle(&mut self, at: usize) -> Outcome<()> {
        self.now.0 += 1_000;
        let (engine, now, id) = (&mut self.engine, self.now, self.running.swap_remove(at));
        if !self.calls.call(|| engine.settle(now, id)) {
            return Err("a request did not run".into());
        }
        while engine.poll_timeout().is_some_and(|at| at <= now) {
            self.calls.call(|| engine.handle_timeout(now));
        }
        self.take_effects()
    }

    /// Submits a request. A request that conflicts with its own session is refused and dropped.
    fn submit(&mut self, prepared: Prepared) -> Outcome<()> {
        self.now.0 += 1_000;
        let (engine, now) = (&mut self.engine, self.now);
        let (id, outcome) = self.calls.call(|| engine.submit(now, prepared, &owns));
        match outcome {
            Submitted::Started => self.running.push(id),
            Submitted::Waiting => self.waiting += 1,
            Submitted::Refused(_) if self.sessions => {}
            Submitted::Refused(refusal) => return Err(refusal.to_string().into()),
        }
        self.take_effects()
    }

    fn take_effects(&mut self) -> Outcome<()> {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Start { id } => {
                    self.running.push(id);
                    self.waiting -= 1;
                }
                // It waited in a circle of sessions.
                Effect::Refuse { .. } if self.sessions => self.waiting -= 1,
                other => return Err(format!("unexpected: {other:?}").into()),
            }
        }
        Ok(())
    }

    fn request(&mut self) -> Request {
        let mut request = self.resources.request(&mut self.chance);
        if self.sessions {
            request.session = Some(SessionId(self.chance.below(self.size / 50) as u64));
        }
        request
    }

    fn prepare(&mut self) -> Outcome<(Duration, usize)> {
        let requests = (0..STEPS).map(|_| self.request()).collect();
        let (taken, prepared) = time(|| prepare_all(&self.engine, requests));
        prepared?;
        Ok((taken, STEPS))
    }
}

/// All requests wait below a root that one request holds; then that request is settled.
fn release(bench: &mut Bench, size: usize) -> Outcome<()> {
    let config = Config { resources: star(size), pools: default_pool(None)?, ..Config::default() };
    let mut engine = engine(config)?;
    let mut calls = Calls::new();
    let mut rounds = vec![];
    for round in 0..=ROUNDS.min(500_000 / size) {
        let now = Time(1 + round as u64);
        let (root, _) = submit_claim(&mut engine, now, 0)?;
        for at in 1..=size {
            let (_, outcome) = submit_claim(&mut engine, now, at)?;
            if outcome != Submitted::Waiting {
                return Err("a request did not wait".into());
            }
        }
        let mut started = Vec::with_capacity(size);
        calls.take_taken();
        calls.call(|| engine.settle(now, root));
        take_started(&mut engine, &mut started);
        while engine.poll_timeout().is_some_and(|at| at <= now) {
            calls.call(|| engine.handle_timeout(now));
            take_started(&mut engine, &mut started);
        }
        rounds.push(each((calls.take_taken(), size)));
        let settled = started.iter().filter(|id| engine.settle(now, **id)).count();
        if settled != size {
            return Err(format!("{settled} requests were started, not {size}").into());
        }
    }
    bench.record(RELEASE, size, rounds.split_off(1));
    calls.record(bench, size, RELEASE_WORST);
    Ok(())
}

fn take_started(engine: &mut Engine, started: &mut Vec<RequestId>) {
    while let Some(Effect::Start { id }) = engine.poll_effect() {
        started.push(id);
    }
}

fn submit_claim(engine: &mut Engine, now: Time, at: usize) -> Outcome<(RequestId, Submitted)> {
    let mut request = Request::new(Attributes::new());
    request.claims.push(Claim { resource: leaf(at).into(), mode: Mode::Exclusive });
    let prepared = prepare(&engine.snapshot(), request)?;
    Ok(engine.submit(now, prepared, &owns))
}
