//! What can be observed of an engine after one step, in plain values: the same for the real engine and for the
//! model, so that the two can be compared and invariants checked on either.

use crate::history::Step;
use crate::model::config::{Config, Server};
use crate::model::{Effect, Model, Outcome, Spot, Tally};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Everything that can be observed after one step.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time of the step, never earlier than that of the step before.
    pub now: u64,
    /// The step.
    pub step: Rc<Step>,
    /// The present configuration.
    pub config: Rc<Config>,
    /// The answer of the call.
    pub answer: Answer,
    /// The effects of the call, in order.
    pub effects: Vec<Effect>,
    /// When it asks to be called again.
    pub timeout: Option<u64>,
    /// All requests that are alive.
    pub alive: BTreeMap<u64, Sight>,
    /// The figures.
    pub figures: Figures,
}

/// The answer of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// Yes or no.
    Done(bool),
    /// The engine rejected a part of the history, for this reason.
    Broken(String),
    /// Whether an ended request had run; `None` if there was none.
    Ended(Option<bool>),
    /// The server that a request has now.
    Server(Option<u32>),
    /// It waits for a server.
    Back,
    /// The outcome of the submitted request.
    Submitted(u64, Outcome),
}

/// What `why` reports about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Where it is.
    pub spot: Spot,
    /// Since when.
    pub since: Option<u64>,
    /// When it will pass, if nothing else changes.
    pub until: Option<u64>,
    /// When it expires.
    pub deadline: Option<u64>,
    /// The requests ahead of it, as far as they are named, and how many there are; the model does not report
    /// them.
    pub ahead: Vec<u64>,
    /// See `ahead`.
    pub ahead_total: usize,
    /// What it was granted, if it runs.
    pub grant: Option<Granted>,
    /// Its attributes `backend` and `server`.
    pub names: [&'static str; 2],
}

/// What was granted to a running request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The priority that the rules gave it.
    pub priority: i8,
    /// The number of its pool.
    pub pool: u32,
    /// The number of its server.
    pub server: Option<u32>,
    /// When it arrived.
    pub arrival: u64,
    /// How long it had waited before.
    pub before: u64,
    /// Since when it runs.
    pub since: u64,
    /// How long it slept at checkpoints and waited in line.
    pub waited: u64,
}

/// Counts by name: of pools, and of checkpoints in total and by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Running in each pool.
    pub running: BTreeMap<&'static str, u64>,
    /// Waiting for each pool.
    pub waiting: BTreeMap<&'static str, u64>,
    /// Past each checkpoint, not settled.
    pub inflight: BTreeMap<(&'static str, Option<&'static str>), u64>,
    /// Waiting at each checkpoint.
    pub queued: BTreeMap<(&'static str, Option<&'static str>), u64>,
    /// For each server whether it is up, and how many requests it has.
    pub servers: BTreeMap<&'static str, (bool, u64)>,
    /// The totals so far.
    pub tally: Tally,
}

impl Figures {
    /// Whether no request runs, waits or holds anything.
    #[must_use]
    pub fn are_zero(&self) -> bool {
        let by_key = self.inflight.values().chain(self.queued.values());
        let by_pool = self.running.values().chain(self.waiting.values());
        let by_server = self.servers.values().map(|(_, held)| held);
        by_key.chain(by_pool).chain(by_server).all(|count| *count == 0)
    }

    /// The same figures under the names that another configuration gives to the same objects.
    #[must_use]
    pub fn renamed(&self, old: &Config, new: &Config) -> Self {
        let pools = |name: &'static str| renamed(&old.pools, &new.pools, name, |p| (p.id, p.name));
        let checkpoints = |name: &'static str| {
            renamed(&old.checkpoints, &new.checkpoints, name, |c| (c.id, c.name))
        };
        let all = |config: &Config| -> Vec<Server> {
            config.backends.iter().flat_map(|backend| backend.servers.clone()).collect()
        };
        let (before, after) = (all(old), all(new));
        let servers = |name: &'static str| renamed(&before, &after, name, |s| (s.id, s.name));
        let by_pool = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| (pools(name), *count)).collect()
        };
        let by_key = |counts: &BTreeMap<(&'static str, Option<&'static str>), u64>| {
            let all = counts.iter();
            all.map(|((name, key), count)| ((checkpoints(name), *key), *count)).collect()
        };
        Self {
            running: by_pool(&self.running),
            waiting: by_pool(&self.waiting),
            inflight: by_key(&self.inflight),
            queued: by_key(&self.queued),
            servers: self.servers.iter().map(|(name, held)| (servers(name), *held)).collect(),
            tally: self.tally,
        }
    }
}

/// The present name of an object that had this name before; a name that no longer exists is put aside.
fn renamed<T>(
    old: &[T],
    new: &[T],
    name: &'static str,
    of: impl Fn(&T) -> (u32, &'static str),
) -> &'static str {
    let id = old.iter().map(&of).find(|(_, other)| *other == name).map(|(id, _)| id);
    let now = new.iter().map(&of).find(|(other, _)| Some(*other) == id);
    now.map_or("(gone)", |(_, name)| name)
}

/// The counters whose figures are compared: each checkpoint in total, and each value of its key.
pub fn counters(config: &Config) -> Vec<(&'static str, Option<&'static str>)> {
    let mut all = vec![];
    for checkpoint in &config.checkpoints {
        all.push((checkpoint.name, None));
        if let Some(attribute) = checkpoint.key {
            all.extend(attribute.values().iter().map(|value| (checkpoint.name, Some(*value))));
        }
    }
    let gated = config.backends.iter().filter(|backend| backend.is_gated());
    all.extend(gated.map(|backend| (backend.gate(), None)));
    all
}

/// The result of a call to the model.
pub fn act_of_model(
    model: &mut Model,
    step: &Rc<Step>,
    config: &Rc<Config>,
    answer: Answer,
) -> Seen {
    Seen {
        now: model.now,
        step: Rc::clone(step),
        config: Rc::clone(config),
        answer,
        effects: model.take_effects(),
        timeout: model.next_event(),
        alive: BTreeMap::new(),
        figures: Figures::default(),
    }
}

/// The requests that are alive in the model, and its figures; the requests ahead of each only if `ahead` is
/// set.
pub fn look_at_model(model: &Model, seen: &mut Seen, ahead: bool) {
    let sight = |id: u64| {
        let ahead = if ahead { model.ahead(id) } else { vec![] };
        Some(Sight {
            spot: model.spot(id)?,
            since: model.since(id),
            until: model.predicted(id),
            deadline: model.deadline(id),
            ahead_total: ahead.len(),
            ahead,
            grant: model.granted(id),
            names: model.names(id),
        })
    };
    seen.alive = model.requests.keys().filter_map(|id| Some((*id, sight(*id)?))).collect();
    let figures = &mut seen.figures;
    figures.tally = model.tally;
    for pool in &seen.config.pools {
        figures.running.insert(pool.name, model.running(pool.name));
        figures.waiting.insert(pool.name, model.waiting(pool.name));
    }
    for (name, key) in counters(&seen.config) {
        figures.inflight.insert((name, key), model.inflight(name, key));
        figures.queued.insert((name, key), model.queued(name, key));
    }
    for server in seen.config.backends.iter().flat_map(|backend| &backend.servers) {
        let figure = (model.is_up(server.id), model.held_at(server.id));
        figures.servers.insert(server.name, figure);
    }
}
