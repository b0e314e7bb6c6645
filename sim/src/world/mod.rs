//! The real engine as a subject: plain values in, plain values out.
//!
//! Owns one engine and the set of pools it is configured with. Promises to call only the engine's public
//! functions. Never decides anything.

mod translate;

use crate::history::Step;
use crate::model::config::{Arrival, Checkpoint, Config};
use crate::model::{Effect, Outcome, Spot, Tally};
use crate::seen::{self, Answer, Figures, Granted, Seen, Sight};
use crate::subject::{Owned, Subject};
use crate::words::known;
use paceline_engine::{
    self as engine, Ended, Engine, Foreseen, Plan, Prepared, Rerouted, Snapshot, WaitsFor, prepare,
};
use paceline_expr::Counter;
use paceline_pools::PoolSet;
use paceline_types::{CheckpointId, Known, RequestId, ServerId, SessionId, Time, limits};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Turns of the engine that one step may need before it counts as an endless loop.
const TURNS_MAX: usize = 10_000;

/// One in this many requests is prepared before the last edit and submitted after it.
const LATE_EVERY: u64 = 3;

/// One in this many is prepared again before it is submitted.
const RENEWED_EVERY: u64 = 5;

/// For one in this many, the outcome is predicted with `explain` first.
const EXPLAINED_EVERY: u64 = 2;

/// Whether a session owns a lock.
type Owns<'a> = dyn Fn(SessionId, &str) -> bool + 'a;

/// An engine and its configuration.
#[derive(Debug)]
pub struct World {
    engine: Engine,
    config: Rc<Config>,
    pools: PoolSet,
    now: u64,
    /// The configuration before the last edit: some requests were prepared for it and are submitted late.
    before: Arc<Snapshot>,
    submitted: u64,
}

impl World {
    /// A new engine.
    #[must_use]
    pub fn new() -> Self {
        let engine = Engine::new(7);
        let before = engine.snapshot();
        let config = Rc::new(Config::empty());
        Self { engine, config, pools: PoolSet::new(), now: 0, before, submitted: 0 }
    }

    fn call(&mut self, now: Time, step: &Step, owned: &Owned) -> Answer {
        match step {
            Step::Submit(arrival) => return self.submit(now, arrival, owned),
            Step::Settle(id) => return Answer::Done(self.engine.settle(now, RequestId(*id))),
            Step::Withdraw(id) => return Answer::Done(self.engine.withdraw(now, RequestId(*id))),
            Step::End(id) => {
                let ended = self.engine.end(now, RequestId(*id));
                return Answer::Ended(match ended {
                    Ended::Settled => Some(true),
                    Ended::Left => Some(false),
                    Ended::Unknown => None,
                });
            }
            Step::Cancel(id) => return Answer::Done(self.engine.cancel(now, RequestId(*id))),
            Step::EndSession(session) => self.engine.end_session(now, SessionId(*session)),
            Step::LockTaken(..) => {}
            Step::LockLost(session, lock) => {
                self.engine.lock_lost(now, SessionId(*session), lock);
            }
            Step::Configure(config, _) => return self.configure(now, config),
            Step::SetUp(server, up) => self.engine.set_up(now, ServerId(*server), *up),
            Step::Reroute(id) => {
                return match self.engine.reroute(now, RequestId(*id)) {
                    Rerouted::Server(server) => Answer::Server(Some(server.0)),
                    Rerouted::Back => Answer::Back,
                    Rerouted::Nowhere => Answer::Server(None),
                };
            }
            Step::Timeout => self.engine.handle_timeout(now),
        }
        Answer::None
    }

    fn submit(&mut self, now: Time, arrival: &Arrival, owned: &Owned) -> Answer {
        let owns = |session: SessionId, lock: &str| owned.iter().any(|o| *o == (session.0, lock));
        self.submitted += 1;
        let late = self.submitted.is_multiple_of(LATE_EVERY);
        let snapshot = if late { Arc::clone(&self.before) } else { self.engine.snapshot() };
        let mut prepared = match prepare(&snapshot, translate::request(arrival)) {
            Ok(prepared) => prepared,
            Err(error) => return broken(&error),
        };
        if self.submitted.is_multiple_of(RENEWED_EVERY) {
            prepared.renew(&self.engine.snapshot());
            assert!(self.engine.is_current(&prepared), "what was prepared anew is up to date");
        }
        let foreseen = self.explain(now, &prepared, &owns);
        let (id, outcome) = self.engine.submit(now, prepared, &owns);
        if let Some(text) = foreseen.and_then(|foreseen| misjudged(&foreseen, &outcome)) {
            return Answer::Broken(text);
        }
        Answer::Submitted(id.0, translate::outcome(outcome))
    }

    /// Predicts the outcome of every other request. Two cases are left out: a condition may read what the
    /// request itself changes on its way, and a call that stops at its budget may decide otherwise later.
    fn explain(&mut self, now: Time, prepared: &Prepared, owns: &Owns<'_>) -> Option<Foreseen> {
        let reads = |checkpoint: &Checkpoint| checkpoint.when.is_some_and(|when| when.counts());
        let is_sure =
            self.config.step_max == limits::STEP_MAX && !self.config.checkpoints.iter().any(reads);
        let is_asked = self.submitted.is_multiple_of(EXPLAINED_EVERY);
        (is_asked && is_sure).then(|| self.engine.explain(now, prepared, owns).foreseen)
    }

    fn configure(&mut self, now: Time, config: &Config) -> Answer {
        match translate::pools(config) {
            Ok(pools) => self.pools = pools,
            Err(error) => return broken(&error),
        }
        self.config = Rc::new(config.clone());
        self.before = self.engine.snapshot();
        match Plan::new(&self.engine.snapshot(), translate::config(config, &self.pools)) {
            Ok(plan) => drop(self.engine.configure(now, &plan)),
            Err(error) => return broken(&error),
        }
        Answer::None
    }

    /// Takes the effects of the calls, and lets the engine finish what it left for later.
    fn finish(&mut self, effects: &mut Vec<Effect>) {
        for _ in 0..TURNS_MAX {
            while let Some(effect) = self.engine.poll_effect() {
                effects.push(translate::effect(effect));
            }
            if self.engine.poll_timeout().is_none_or(|at| at.0 > self.now) {
                break;
            }
            self.engine.handle_timeout(Time(self.now));
        }
    }

    fn sight(&self, id: RequestId) -> Option<Sight> {
        let why = self.engine.why(id)?;
        let attributes = &self.engine.request(id)?.attributes;
        let names = [Known::Backend, Known::Server].map(|name| known(attributes.known(name)));
        let slept: u64 = self.engine.slept(id).iter().map(|(_, span)| span.0).sum();
        let pool = known(&why.pool);
        let spot = match why.waits_for {
            WaitsFor::Nothing => Spot::Running,
            WaitsFor::Checkpoint { place } => match translate::place(&place) {
                crate::model::Place::Checkpoint(name, key) => Spot::Checkpoint(name, key),
                crate::model::Place::Pool(name) => Spot::Slot(name),
            },
            WaitsFor::Resource { .. } => Spot::Claims,
            WaitsFor::Slot { .. } => Spot::Slot(pool),
            WaitsFor::Start { .. } => Spot::Stopped(pool),
            WaitsFor::Creation { .. } => Spot::Unknown,
            WaitsFor::Turn => return None,
        };
        Some(Sight {
            spot,
            since: Some(why.since.0),
            until: why.until.map(|at| at.0),
            deadline: why.deadline.map(|at| at.0),
            ahead: why.ahead.iter().map(|id| id.0).collect(),
            ahead_total: why.ahead_total,
            grant: self.engine.grant(id).map(|grant| Granted {
                priority: grant.priority.number(),
                pool: grant.pool.0,
                server: grant.server().map(|server| server.0),
                arrival: grant.arrival.0,
                before: grant.waited_before.0,
                since: grant.since.0,
                waited: slept + self.engine.lined(id).0,
            }),
            names,
        })
    }

    fn figures(&self) -> Figures {
        let stats = self.engine.stats();
        let tally = Tally {
            submitted: stats.submitted,
            started: stats.started,
            refused: stats.refused,
            cancelled: stats.cancelled,
            settled: stats.settled,
        };
        let mut figures = Figures { tally, ..Figures::default() };
        let count = |counter, key: Option<&str>| self.engine.counter(counter, key) as u64;
        for pool in &self.config.pools {
            let Some(spec) = self.pools.pool(pool.name) else { continue };
            figures.running.insert(pool.name, count(Counter::Running(spec.id), None));
            figures.waiting.insert(pool.name, count(Counter::Waiting(spec.id), None));
        }
        let gates = self.config.backends.iter().map(|b| (b.gate(), b.id | 1 << 31));
        let ids: BTreeMap<&str, u32> =
            self.config.checkpoints.iter().map(|c| (c.name, c.id)).chain(gates).collect();
        for (name, key) in seen::counters(&self.config) {
            let id = CheckpointId(ids[name]);
            figures.inflight.insert((name, key), count(Counter::Inflight(id), key));
            figures.queued.insert((name, key), count(Counter::Queued(id), key));
        }
        for server in self.config.backends.iter().flat_map(|backend| &backend.servers) {
            let found = self.engine.fleet().server(ServerId(server.id));
            let found = found.map(|found| (found.up, u64::from(found.held)));
            figures.servers.insert(server.name, found.unwrap_or_default());
        }
        figures
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Subject for World {
    fn act(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Seen {
        let mut effects = vec![];
        // Only a call gives the engine the time, and a lock that is taken is not reported to it.
        if !matches!(&**step, Step::LockTaken(..)) {
            self.now = self.now.max(now);
            // With a tiny budget one call may not complete what was due before it.
            if self.config.step_max < limits::STEP_MAX {
                self.finish(&mut effects);
            }
        }
        let mut answer = self.call(Time(now), step, owned);
        self.finish(&mut effects);
        if let Answer::Submitted(id, outcome) = &mut answer {
            merge(*id, outcome, &mut effects);
        }
        Seen {
            now: self.now,
            step: Rc::clone(step),
            config: Rc::clone(&self.config),
            answer,
            effects,
            timeout: self.engine.poll_timeout().map(|at| at.0),
            alive: BTreeMap::new(),
            figures: Figures::default(),
        }
    }

    fn restart(&mut self, now: u64) {
        self.now = self.now.max(now);
        let old = std::mem::replace(&mut self.engine, Engine::new(7));
        self.engine.number_from(old.next_number());
        let config = (*self.config).clone();
        let configured = self.configure(Time(self.now), &config);
        assert_eq!(configured, Answer::None, "what was configured can be configured");
        for id in old.requests() {
            let (Some(request), Some(why)) = (old.request(id), old.why(id)) else { continue };
            assert_eq!(why.waits_for, WaitsFor::Nothing, "nobody waits");
            let prepared = prepare(&self.engine.snapshot(), request.clone());
            assert!(prepared.is_ok(), "what was a request is one");
            if let Ok(prepared) = prepared {
                self.engine.restore(Time(self.now), id, prepared, why.priority, &old.places(id));
            }
        }
        self.before = self.engine.snapshot();
    }

    fn look(&self, seen: &mut Seen) {
        let all = self.engine.requests();
        seen.alive = all.filter_map(|id| Some((id.0, self.sight(id)?))).collect();
        seen.figures = self.figures();
    }
}

/// Merges effects on a request within the step that submitted it into its outcome.
fn merge(id: u64, outcome: &mut Outcome, effects: &mut Vec<Effect>) {
    effects.retain(|effect| match effect {
        Effect::Start(other) if *other == id => {
            *outcome = Outcome::Started;
            false
        }
        Effect::Refuse(other, reason) if *other == id => {
            *outcome = Outcome::Refused(reason.clone());
            false
        }
        _ => true,
    });
}

/// How the prediction differs from the outcome.
fn misjudged(foreseen: &Foreseen, outcome: &engine::Outcome) -> Option<String> {
    let is_right = match (foreseen, outcome) {
        (Foreseen::Start, engine::Outcome::Started)
        | (Foreseen::Wait { .. }, engine::Outcome::Waiting) => true,
        (Foreseen::Refuse(one), engine::Outcome::Refused(other)) => one == other,
        _ => false,
    };
    (!is_right).then(|| format!("foreseen: {foreseen:?}, came: {outcome:?}"))
}

/// Histories consist of valid parts only; a part that the engine rejects is a broken history.
fn broken(error: &dyn std::error::Error) -> Answer {
    Answer::Broken(error.to_string())
}
