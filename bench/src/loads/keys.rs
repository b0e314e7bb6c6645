//! One checkpoint with a counter for each of more and more keys.
//!
//! One engine grows through all sizes, and every call is timed. The slowest is the one in which a table grew. At each
//! size the memory is read and random live keys are used. At the end all keys have recovered, and the sweep removes
//! them.

use super::engine::{Chance, engine, prepare_all, submit_and_settle, submit_to_start};
use crate::Outcome;
use crate::calls::Calls;
use crate::measure::{Bench, Load, Unit, time};
use paceline_checkpoints::{At, Limit, Spec};
use paceline_engine::{Config, Engine, prepare};
use paceline_types::{Attributes, CheckpointId, Known, Request, Span, Time};
use std::time::Duration;

const SIZES: [usize; 3] = [1, 1_000, 1_000_000];

/// Takes a minute or two for each of the two checkpoints.
const BIG: usize = 10_000_000;

/// Requests in one round.
const REQUESTS: usize = 10_000;

/// Requests that are prepared together.
const BATCH: usize = 250;

/// With fewer keys, unrelated pages would distort the result.
const BYTES_OF: usize = 1_000_000;

const ID: CheckpointId = CheckpointId(1);

/// What is measured of one kind of checkpoint.
struct Loads {
    locked: Load,
    whole: Load,
    /// Only for the first checkpoint: memory that it has freed hides what a second one takes.
    bytes: Option<Load>,
    most: Load,
    worst: [Load; 2],
    swept: [Load; 2],
}

const fn load(name: &'static str, operation: &'static str) -> Load {
    Load { name, operation, of: "keys", unit: Unit::Nanoseconds }
}

const RATE: Loads = Loads {
    locked: load("keys rate, submit+settle", "submit and settle alone, of a random live key"),
    whole: load("keys rate, whole request", "prepare, submit and settle, of a random live key"),
    bytes: Some(Load {
        unit: Unit::Bytes,
        ..load("keys rate, memory", "resident memory of the process for each key")
    }),
    most: load(
        "keys rate, 99.99 %",
        "what 9,999 of 10,000 calls stay below on the way to that size",
    ),
    worst: [
        load("keys rate, worst call", "the longest single call on the way to that size"),
        load("keys rate, worst call's CPU", "the same in CPU time of the thread"),
    ],
    swept: [
        load(
            "keys rate, worst sweep",
            "the longest single call while all keys are taken away again",
        ),
        load("keys rate, worst sweep's CPU", "the same in CPU time of the thread"),
    ],
};
const CONCURRENCY: Loads = Loads {
    locked: load("keys concurrency, submit+settle", "the same at a concurrency checkpoint"),
    whole: load("keys concurrency, whole request", "the same at a concurrency checkpoint"),
    bytes: None,
    most: load("keys concurrency, 99.99 %", "the same at a concurrency checkpoint"),
    worst: [
        load("keys concurrency, worst call", "the same at a concurrency checkpoint"),
        load("keys concurrency, worst call's CPU", "the same in CPU time of the thread"),
    ],
    swept: [
        load("keys concurrency, worst sweep", "the same at a concurrency checkpoint"),
        load("keys concurrency, worst sweep's CPU", "the same in CPU time of the thread"),
    ],
};

impl Loads {
    fn all(&self) -> Vec<Load> {
        let alone = [self.locked, self.whole, self.most];
        [&alone[..], self.bytes.as_slice(), &self.worst, &self.swept].concat()
    }
}

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    // One in ten minutes: no key recovers before the clock is advanced. The burst is never used up.
    let rate = Limit::Rate { count: 1, per: Span::from_secs(600), burst: 4_000_000 };
    for (loads, limit) in [(RATE, rate), (CONCURRENCY, Limit::Concurrency(1_000))] {
        if bench.wants(&loads.all()) {
            let mut world = grow(bench, &loads, limit)?;
            world.recover()?;
            world.calls.record(bench, world.keys, loads.swept);
        }
    }
    Ok(())
}

fn grow(bench: &mut Bench, loads: &Loads, limit: Limit) -> Outcome<World> {
    // Memory for one batch is freed for the next one before the memory is read.
    World::new(limit)?.grow_to(SIZES[1])?;
    let mut world = World::new(limit)?;
    for size in SIZES.into_iter().chain(bench.big.then_some(BIG)) {
        world.grow_to(size)?;
        if let Some(bytes) = loads.bytes.filter(|_| size >= BYTES_OF) {
            bench.record(bytes, size, vec![world.bytes()? / size as f64]);
        }
        if size >= SIZES[1] {
            bench.record(loads.most, size, vec![world.calls.wall.quantile(0.9999)]);
            world.calls.record(bench, size, loads.worst);
        }
        bench.run(loads.locked, size, || world.locked())?;
        bench.run(loads.whole, size, || world.whole())?;
    }
    Ok(world)
}

struct World {
    engine: Engine,
    now: Time,
    keys: usize,
    chance: Chance,
    calls: Calls,
    /// Resident memory before there were keys.
    before: f64,
}

impl World {
    fn new(limit: Limit) -> Outcome<Self> {
        let mut spec = Spec::new(ID, "per-user", At::Frontend("api".into()), limit);
        spec.key = Some("user".into());
        spec.keys_max = 2 * BIG;
        spec.period = Span::from_secs(3_600);
        let engine = engine(Config { checkpoints: vec![spec], ..Config::default() })?;
        let (chance, calls) = (Chance::new(5), Calls::new());
        Ok(Self { engine, now: Time(1), keys: 0, chance, calls, before: resident()? })
    }

    /// Adds keys up to `size`, and times every call.
    fn grow_to(&mut self, size: usize) -> Outcome<()> {
        while self.keys < size {
            let end = (self.keys + BATCH).min(size);
            let requests = (self.keys..end).map(request).collect::<Outcome<_>>()?;
            for prepared in prepare_all(&self.engine, requests)? {
                self.now.0 += 100;
                let (engine, now) = (&mut self.engine, self.now);
                let id = self.calls.call(|| submit_to_start(engine, now, prepared))?;
                self.calls.call(|| engine.settle(now, id));
            }
            self.keys = end;
        }
        self.check_keys(size)
    }

    /// Checks that every key has a counter.
    fn check_keys(&self, size: usize) -> Outcome<()> {
        let stats = self.engine.checkpoints().stats(ID).ok_or("no checkpoint")?;
        match stats.keys == size as u64 && stats.overflowed == 0 {
            true => Ok(()),
            false => Err(format!("{} keys are live, not {size}", stats.keys).into()),
        }
    }

    fn bytes(&self) -> Outcome<f64> {
        Ok(resident()? - self.before)
    }

    fn locked(&mut self) -> Outcome<(Duration, usize)> {
        let mut all = Duration::ZERO;
        for _ in 0..REQUESTS / BATCH {
            let requests = self.requests()?;
            let prepared = prepare_all(&self.engine, requests)?;
            let (engine, now) = (&mut self.engine, &mut self.now);
            let (taken, done) = time(|| {
                prepared.into_iter().try_for_each(|prepared| {
                    now.0 += 100;
                    submit_and_settle(engine, *now, prepared)
                })
            });
            done?;
            all += taken;
        }
        Ok((all, REQUESTS))
    }

    fn whole(&mut self) -> Outcome<(Duration, usize)> {
        let mut all = Duration::ZERO;
        for _ in 0..REQUESTS / BATCH {
            let requests = self.requests()?;
            let snapshot = self.engine.snapshot();
            let (engine, now) = (&mut self.engine, &mut self.now);
            let (taken, done) = time(|| {
                requests.into_iter().try_for_each(|request| {
                    now.0 += 100;
                    submit_and_settle(engine, *now, prepare(&snapshot, request)?)
                })
            });
            done?;
            all += taken;
        }
        Ok((all, REQUESTS))
    }

    /// Requests of one batch, with random live keys.
    fn requests(&mut self) -> Outcome<Vec<Request>> {
        (0..BATCH).map(|_| request(self.chance.below(self.keys))).collect()
    }

    /// Advances the clock and makes calls until the sweep has removed all other keys.
    fn recover(&mut self) -> Outcome<()> {
        self.calls = Calls::new();
        self.now = self.now.plus(Span::from_secs(10_000 * 86_400));
        for _ in 0..self.keys {
            let requests = (0..BATCH).map(|_| request(0)).collect::<Outcome<_>>()?;
            for prepared in prepare_all(&self.engine, requests)? {
                self.now.0 += 100;
                let (engine, now) = (&mut self.engine, self.now);
                let id = self.calls.call(|| submit_to_start(engine, now, prepared))?;
                self.calls.call(|| engine.settle(now, id));
            }
            if self.check_keys(1).is_ok() {
                return Ok(());
            }
        }
        Err("the sweep does not come to an end".into())
    }
}

fn request(key: usize) -> Outcome<Request> {
    let mut attributes = Attributes::new();
    attributes.set_known(Known::Frontend, "api")?;
    attributes.set_known(Known::User, &format!("user-{key}"))?;
    Ok(Request::new(attributes))
}

/// Resident memory of this process in bytes.
fn resident() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = text.split_whitespace().nth(1).ok_or("statm has no second number")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
