//! More and more threads on one engine behind a mutex, as in the host: a request is prepared outside the lock, and
//! the clock is read inside.

use super::engine::{Chance, engine, owns, request};
use super::rule_mix;
use crate::Outcome;
use crate::histogram::Histogram;
use crate::measure::{Bench, Load, ROUNDS, Unit};
use paceline_checkpoints::{At, Limit, Spec};
use paceline_engine::{Config, Engine, Outcome as Submitted, Snapshot, prepare};
use paceline_types::{CheckpointId, Request, RequestId, Span, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const SIZES: [usize; 3] = [1, 8, 80];

/// Requests of all threads together in one round.
const REQUESTS: usize = 40_000;

const fn load(name: &'static str, operation: &'static str) -> Load {
    Load { name, operation, of: "threads", unit: Unit::Nanoseconds }
}

const ADMIT: [Load; 3] = [
    load("threads admit, median", "one request prepared outside the lock and submitted inside it"),
    load("threads admit, 99 %", "what 99 of 100 of them stay below"),
    load("threads admit, 99.9 %", "what 999 of 1,000 of them stay below"),
];
const SETTLE: [Load; 3] = [
    load("threads settle, median", "the same request settled, for which the lock is taken again"),
    load("threads settle, 99 %", "what 99 of 100 of them stay below"),
    load("threads settle, 99.9 %", "what 999 of 1,000 of them stay below"),
];
const PAIR: [Load; 3] = [
    load("threads pair, median", "both of the same request"),
    load("threads pair, 99 %", "what 99 of 100 of them stay below"),
    load("threads pair, 99.9 %", "what 999 of 1,000 of them stay below"),
];
const ALL: Load = load("threads together", "time of a round for one request, all threads together");

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    let all = [&ADMIT[..], &SETTLE, &PAIR, &[ALL]].concat();
    if !bench.wants(&all) {
        return Ok(());
    }
    let mut figures = vec![];
    for size in SIZES {
        let host = Host { begin: Instant::now(), engine: Mutex::new(limited()?) };
        let requests = requests()?;
        round(&host, &requests, size)?;
        let mut rounds: [Vec<f64>; 10] = std::array::from_fn(|_| vec![]);
        for _ in 0..ROUNDS {
            let (seen, together) = round(&host, &requests, size)?;
            let parts = [&seen.admit, &seen.settle, &seen.pair]
                .into_iter()
                .flat_map(|all| [0.5, 0.99, 0.999].map(|part| all.quantile(part)));
            rounds.iter_mut().zip(parts.chain([together])).for_each(|(all, one)| all.push(one));
        }
        figures.push((size, rounds));
    }
    for (size, rounds) in figures {
        for (load, rounds) in all.iter().zip(rounds) {
            bench.record(*load, size, rounds);
        }
    }
    Ok(())
}

/// The engine as the host holds it.
struct Host {
    begin: Instant,
    engine: Mutex<Engine>,
}

impl Host {
    fn admit(&self, snapshot: &Snapshot, request: Request) -> Outcome<RequestId> {
        let prepared = prepare(snapshot, request)?;
        match self.with(|engine, now| engine.submit(now, prepared, &owns)) {
            (id, Submitted::Started) => Ok(id),
            (_, other) => Err(format!("a request did not start: {other:?}").into()),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Engine, Time) -> T) -> T {
        let mut engine = self.locked();
        let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        work(&mut engine, Time(now))
    }

    /// Tries a few times before it sleeps, as the host does.
    fn locked(&self) -> MutexGuard<'_, Engine> {
        for round in 0..7 {
            if let Ok(engine) = self.engine.try_lock() {
                return engine;
            }
            (0..1 << round).for_each(|_| std::hint::spin_loop());
        }
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.with(|engine, _| engine.snapshot())
    }
}

/// The measurements of one thread, or of all of them.
struct Seen {
    admit: Histogram,
    settle: Histogram,
    pair: Histogram,
}

impl Seen {
    fn new() -> Self {
        Self { admit: Histogram::new(), settle: Histogram::new(), pair: Histogram::new() }
    }
}

/// One round of all threads: their measurements, and nanoseconds for one request over all threads.
fn round(host: &Host, requests: &[Request], threads: usize) -> Outcome<(Seen, f64)> {
    let begin = Instant::now();
    let seen: Vec<_> = std::thread::scope(|scope| {
        let start = |number: usize| {
            let mine = REQUESTS / threads;
            scope.spawn(move || {
                let of = requests.iter().cycle().skip(number * mine % requests.len()).take(mine);
                one_thread(host, of).map_err(|error| error.to_string())
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running.into_iter().map(|thread| thread.join()).collect()
    });
    let together = begin.elapsed().as_nanos() as f64 / REQUESTS as f64;
    let mut all = Seen::new();
    for seen in seen {
        let seen = seen.map_err(|_| "a thread failed")??;
        all.admit.merge(&seen.admit);
        all.settle.merge(&seen.settle);
        all.pair.merge(&seen.pair);
    }
    Ok((all, together))
}

fn one_thread<'a>(host: &Host, requests: impl Iterator<Item = &'a Request>) -> Outcome<Seen> {
    let snapshot = host.snapshot();
    let mut seen = Seen::new();
    for (number, request) in requests.enumerate() {
        let request = request.clone();
        // Reading the clock in between would add to the time of the pair, so each request measures one or the other.
        let is_pair = number.is_multiple_of(2);
        let begin = Instant::now();
        let id = host.admit(&snapshot, request)?;
        let between = if is_pair { begin } else { Instant::now() };
        if !host.with(|engine, now| engine.settle(now, id)) {
            return Err("a request did not run".into());
        }
        let end = Instant::now();
        let ns = |from: Instant, to: Instant| to.duration_since(from).as_nanos() as u64;
        if is_pair {
            seen.pair.record(ns(begin, end));
        } else {
            seen.admit.record(ns(begin, between));
            seen.settle.record(ns(between, end));
        }
    }
    Ok(seen)
}

/// Ten rules, and one checkpoint that never refuses, with a counter for each user.
fn limited() -> Outcome<Engine> {
    let limit = Limit::Rate { count: 1_000_000, per: Span::from_secs(1), burst: 1_000_000 };
    let mut spec = Spec::new(CheckpointId(1), "per-user", At::Frontend("api".into()), limit);
    spec.key = Some("user".into());
    engine(Config { rules: rule_mix::rules(10)?, checkpoints: vec![spec], ..Config::default() })
}

fn requests() -> Outcome<Vec<Request>> {
    let mut chance = Chance::new(11);
    let one = |number: usize| {
        let (user, host) = (chance.below(1_000), chance.below(100));
        request(&[
            ("frontend", "api"),
            ("user", &format!("user-{user}")),
            ("host", &format!("node-{host}")),
            ("text", &format!("select name from orders_{} where id = {number}", number % 50)),
        ])
    };
    (0..5_000).map(one).collect()
}
