//! Random histories: the configuration, the arrivals and departures of requests, the edits, and the clock.
//!
//! Owns the random numbers. Each step is drawn from the seed and from the state of the model, so a seed
//! determines a whole history. Promises the same history for the same seed. Never looks at the engine.

mod arrivals;
mod configs;
mod edits;
mod profile;
mod renames;
mod routes;

pub use profile::{Focus, Profile};

use crate::model::config::{Arrival, Checkpoint, Config, Limit};
use crate::model::{Model, Stage};
use crate::rng::Rng;
use crate::words::LOCKS;
use std::collections::BTreeSet;

const MS: u64 = 1_000_000;

/// One in this many seeds has frontends, backends and connections.
pub const ROUTES_EVERY: u64 = 8;

/// Seeds with this bit also withdraw, rename, and read the attributes `backend` and `server`: the second
/// 32 of every 64.
pub const WIDE: u64 = 1 << 5;

/// Seeds with this bit undo edits, and create deleted objects again, while many requests run: the second 16,384
/// of every 32,768.
pub const CHURN: u64 = 1 << 14;

/// Seeds with this bit that have frontends rename them: the second 32,768 of every 65,536.
pub const SIGNS: u64 = 1 << 15;

/// Seeds with this bit have sessions that hold claims and ask for more, requests that run within others, and no
/// frontends: the second 65,536 of every 131,072.
pub const NESTS: u64 = 1 << 16;

/// Seeds with this bit have requests that had waited before they arrive: the second 131,072 of every 262,144.
pub const RETURNS: u64 = 1 << 17;

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request arrives.
    Submit(Box<Arrival>),
    /// A running request is settled; sometimes one that does not run.
    Settle(u64),
    /// A running request is withdrawn because no work was done; sometimes one that does not run.
    Withdraw(u64),
    /// A request ends, whether it waits or runs.
    End(u64),
    /// A waiter is cancelled; sometimes a request that does not wait.
    Cancel(u64),
    /// A session ends.
    EndSession(u64),
    /// A session gets a lock, which is not reported to the engine.
    LockTaken(u64, &'static str),
    /// A session loses a lock.
    LockLost(u64, &'static str),
    /// The configuration changes; the text describes the edit.
    Configure(Box<Config>, String),
    /// A server goes up or down.
    SetUp(u32, bool),
    /// A request could not reach its server.
    Reroute(u64),
    /// Only time passes.
    Timeout,
}

/// Removes from a configuration what remembers more than which request holds what: rates, conditions that read
/// meters, and keys past the maximum.
pub fn without_memory(config: &mut Config) {
    config.checkpoints.retain(|checkpoint| !matches!(checkpoint.limit, Limit::Rate { .. }));
    for checkpoint in &mut config.checkpoints {
        (checkpoint.when, checkpoint.keys_max) = (None, 1_000);
    }
    config.rules.iter_mut().for_each(|rule| rule.when = None);
    config.frontends.clear();
}

/// The random numbers of one seed.
#[derive(Clone, Debug)]
pub struct History {
    rng: Rng,
    /// The mix of steps of this seed.
    pub profile: Profile,
    /// Which session owns which lock.
    pub owned: BTreeSet<(u64, &'static str)>,
    clock: u64,
    /// Numbers of checkpoints, pools and resources are never reused.
    next_checkpoint: u32,
    next_pool: u32,
    next_resource: u32,
    next_backend: u32,
    next_server: u32,
    /// Resources that were deleted, by the name they had last.
    deleted: Vec<(u32, &'static str)>,
    /// Checkpoints as they were before they were edited.
    past: Vec<Checkpoint>,
}

impl History {
    /// The history of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut profile = Profile::draw(&mut rng);
        profile.wide = seed & WIDE != 0;
        let every = if profile.wide { ROUTES_EVERY / 2 } else { ROUTES_EVERY };
        profile.nests = seed & NESTS != 0;
        profile.routes = seed % every == every - 1 && !profile.nests;
        profile.churn = seed & CHURN != 0;
        profile.signs = seed & SIGNS != 0 && profile.routes;
        profile.returns = seed & RETURNS != 0;
        profile.widen();
        profile.stir();
        profile.nest();
        let clock = rng.pick(&[0, 1, 1_000_000 * MS, 1_000_000 * MS, 1_000_000_000 * MS]);
        Self {
            rng,
            profile,
            owned: BTreeSet::new(),
            clock,
            next_checkpoint: 1,
            next_pool: 1,
            next_resource: 1,
            next_backend: 1,
            next_server: 1,
            deleted: vec![],
            past: vec![],
        }
    }

    /// The configuration at the start, and the start time.
    pub fn start(&mut self) -> (u64, Config) {
        let config = self.config();
        (self.clock, config)
    }

    /// The next step, and its time.
    pub fn step(&mut self, model: &Model) -> (u64, Step) {
        let mix = self.profile.mix;
        if let Some(step) = self.serve(model) {
            return (self.tick(model, false), step);
        }
        let step = match self.rng.weighted(&mix) {
            0 => Step::Submit(Box::new(self.arrival(&model.config))),
            1 => self.settle(model),
            2 => Step::Cancel(self.someone(model, false)),
            3 => Step::EndSession(self.rng.between(1, 3)),
            4 => {
                let (session, lock) = (self.rng.between(1, 3), self.rng.pick(&LOCKS));
                if self.owned.insert((session, lock)) {
                    Step::LockTaken(session, lock)
                } else {
                    self.owned.remove(&(session, lock));
                    Step::LockLost(session, lock)
                }
            }
            5 => match self.edit(model) {
                Some((config, what)) => Step::Configure(Box::new(config), what),
                None => Step::Timeout,
            },
            _ => Step::Timeout,
        };
        (self.tick(model, matches!(step, Step::Timeout)), step)
    }

    /// Settles, withdraws or ends a request.
    fn settle(&mut self, model: &Model) -> Step {
        let way = if self.profile.wide { self.rng.weighted(&[60, 30, 10]) } else { 0 };
        match way {
            0 => Step::Settle(self.someone(model, true)),
            1 => Step::Withdraw(self.someone(model, true)),
            _ => {
                let runs = self.rng.chance(70);
                Step::End(self.someone(model, runs))
            }
        }
    }

    /// The time of the next call: mostly near, often exactly when something is due, sometimes late, far, or
    /// backwards.
    fn tick(&mut self, model: &Model, timeout: bool) -> u64 {
        // Delays that are meant to be endless are not waited for.
        let far = self.clock + 600_000 * MS;
        let next = model.next_event().filter(|next| *next < far);
        let exact = if timeout { 60 } else { 10 };
        let way = self.rng.weighted(&[exact, 12, 4, 30, 20, 2, 3]);
        self.clock = match (way, next) {
            (0, Some(next)) => next.max(self.clock),
            (1, Some(next)) => next.max(self.clock) + self.rng.below(20 * MS),
            (2, Some(next)) => next.max(self.clock) + self.rng.below(3_000 * MS),
            (3, _) => self.clock,
            (5, _) => self.clock + self.rng.below(60_000 * MS),
            (6, _) => return self.clock.saturating_sub(self.rng.below(50 * MS)),
            _ => {
                let scale = self.rng.pick(&[1_000, MS, 10 * MS, 100 * MS]);
                self.clock + self.rng.below(scale)
            }
        };
        self.clock
    }

    /// A request that runs or waits; sometimes any request, including ended ones.
    fn someone(&mut self, model: &Model, runs: bool) -> u64 {
        if self.rng.chance(3) {
            return self.rng.below(30) + 1;
        }
        let fits = |stage: &Stage| (*stage == Stage::Running) == runs;
        let all: Vec<u64> =
            model.requests.iter().filter(|(_, r)| fits(&r.stage)).map(|(id, _)| *id).collect();
        self.rng.pick_any(&all).unwrap_or(0)
    }
}
