//! What the loads of the engine share: an engine with a configuration, requests, and a repeatable source of random
//! numbers.

use crate::Outcome;
use paceline_engine::{Config, Engine, Outcome as Submitted, Plan, Prepared, prepare};
use paceline_types::{Attributes, Request, RequestId, SessionId, Time, UuidSource};

/// An engine that uses `config`.
pub fn engine(config: Config) -> Outcome<Engine> {
    let mut engine = Engine::new(7);
    let plan = Plan::new(&engine.snapshot(), config)?;
    engine.configure(Time(0), &plan);
    Ok(engine)
}

/// A request with these attributes.
pub fn request(attributes: &[(&str, &str)]) -> Outcome<Request> {
    let mut all = Attributes::new();
    for (name, value) in attributes {
        all.set(name, value)?;
    }
    Ok(Request::new(all))
}

/// The requests, prepared for the current state of the engine.
pub fn prepare_all(engine: &Engine, requests: Vec<Request>) -> Outcome<Vec<Prepared>> {
    let snapshot = engine.snapshot();
    let prepared = requests.into_iter().map(|request| prepare(&snapshot, request));
    Ok(prepared.collect::<Result<_, _>>()?)
}

/// No session owns a lock: no request here requires one.
pub fn owns(_: SessionId, _: &str) -> bool {
    false
}

/// Submits a request that starts at once, and settles it.
pub fn submit_and_settle(engine: &mut Engine, now: Time, prepared: Prepared) -> Outcome<()> {
    let id = submit_to_start(engine, now, prepared)?;
    if engine.settle(now, id) { Ok(()) } else { Err("a request did not run".into()) }
}

/// Submits a request that starts at once.
pub fn submit_to_start(engine: &mut Engine, now: Time, prepared: Prepared) -> Outcome<RequestId> {
    match engine.submit(now, prepared, &owns) {
        (id, Submitted::Started) => Ok(id),
        (_, other) => Err(format!("a request did not start: {other:?}").into()),
    }
}

/// Random numbers, the same on every run.
pub struct Chance(UuidSource);

impl Chance {
    /// A source with this seed.
    pub fn new(seed: u64) -> Self {
        Self(UuidSource::from_number(seed))
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count.max(1) as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A random element.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
