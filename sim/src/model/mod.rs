//! A second engine, as naive as possible: the meaning of `docs/internals/engine.md` and nothing else.
//!
//! Owns the requests that are alive and, per rate or fair counter, its few numbers. Everything else (which
//! requests wait, hold or run) is counted again each time it is needed. Correctness is its only goal. Never
//! shares code with the engine.

pub mod config;

mod answers;
mod checkpoints;
mod circles;
mod configure;
mod flows;
mod graph;
mod line;
mod room;
mod rules;
mod seats;
mod servers;
mod sites;
#[cfg(test)]
mod tests;
mod told;

pub use answers::Spot;
pub use checkpoints::{Counter, NUMBERS, TICKS, position};
pub use servers::is_gate;
use servers::{Later, Shares};
pub use sites::Site;
use sites::Sites;
pub use told::{Effect, Outcome, Place, Reason, Tally};

use config::{Arrival, Checkpoint, Config};
use paceline_types::Mode;
use std::collections::BTreeMap;

/// The order in every queue: arrival - time waited before - priority x age step, then the number.
pub type Rank = (i128, u64);

/// The order in the walk: list, number, id.
pub type Position = (usize, u32, u32);

/// The name of the counter that keys past the maximum share.
pub const SHARED: &str = "(shared)";

/// The counter that a request uses, and its key: the same, unless the counter is the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The key.
    pub key: Option<&'static str>,
    /// The counter.
    pub counter: Option<&'static str>,
}

/// A checkpoint that a request has passed and holds a count of.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The checkpoint.
    pub checkpoint: u32,
    /// Its counter.
    pub seat: Seat,
    /// When the cost was spent there, if it was.
    pub spent: Option<u64>,
}

/// A place in a checkpoint's queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    /// The checkpoint.
    pub checkpoint: u32,
    /// The counter.
    pub seat: Seat,
    /// The flow.
    pub flow: &'static str,
    /// The cost.
    pub cost: u64,
    /// The share.
    pub share: u64,
    /// Since when.
    pub since: u64,
    /// Until when.
    pub deadline: Option<u64>,
}

/// A place in a pool's queue.
#[derive(Clone, Debug, PartialEq)]
pub struct InPool {
    /// Since when.
    pub since: u64,
    /// Until when.
    pub deadline: Option<u64>,
    /// In line, or aside because a resource is unknown.
    pub in_line: bool,
}

/// The progress of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// On its way, or releasing what it holds.
    Moving,
    /// In a checkpoint's queue.
    Queued(Queued),
    /// In its pool's queue.
    InPool(InPool),
    /// Running.
    Running,
}

/// What a claim names, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The name it was asked for by.
    pub name: &'static str,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The resource, once one was found.
    pub bound: Option<u32>,
    /// The nodes that were below it when it was granted.
    pub granted: u128,
}

/// One request that is alive.
#[derive(Clone, Debug)]
pub struct Request {
    /// As it arrived.
    pub arrival: Arrival,
    /// When it arrived.
    pub at: u64,
    /// The priority that the rules gave it.
    pub priority: i8,
    /// Its place in every queue.
    pub rank: Rank,
    /// Its pool.
    pub pool: u32,
    /// Its claims.
    pub claims: Vec<Claimed>,
    /// What it must release, in the order of the walk.
    pub walk: Vec<Passed>,
    /// Its progress.
    pub stage: Stage,
    /// The number of its backend, if its frontend was configured when it arrived.
    pub backend: Option<u32>,
    /// The number of its server.
    pub seat: Option<u32>,
    /// The site of its server when it got it.
    pub site: Site,
    /// How long it slept at its backend's gate before it left it.
    pub gate_slept: u64,
    /// Sites that it could not reach.
    pub tried: Vec<u32>,
    /// The number of edits when it last checked its whole way.
    pub looked_after: u64,
    /// Since when it runs, if it does.
    pub started: u64,
    /// The number of the last request that had arrived when it started.
    pub last_at_start: u64,
    /// How long it ran before it returned to wait for another server.
    pub ran: u64,
    /// Whether it is doing so at present.
    pub back: bool,
}

impl Request {
    /// The deadline of its own longest wait.
    fn own_deadline(&self) -> Option<u64> {
        self.arrival.wait_max.map(|wait| self.at.saturating_add(wait))
    }
}

/// The naive engine.
#[derive(Clone, Debug)]
pub struct Model {
    /// What is configured.
    pub config: Config,
    /// The latest time that it was called with.
    pub now: u64,
    /// The requests that are alive.
    pub requests: BTreeMap<u64, Request>,
    counters: Vec<Counter>,
    /// Arrivals: checkpoint, counter and time.
    met: Vec<(u32, Option<&'static str>, u64)>,
    effects: Vec<Effect>,
    /// Requests that were handed a count and have still to walk on, and from where.
    handed: Vec<(u64, Position)>,
    /// The waiter that left its queue for a newcomer, until it is refused.
    displaced: Option<(u64, Reason)>,
    walking: bool,
    /// The places of waiters that are about to arrive again: they still count as waiting there.
    again: Vec<Queued>,
    /// Deleted checkpoints, by name.
    buried: Vec<(&'static str, u32)>,
    /// Deleted pools, by name.
    gone_pools: Vec<(&'static str, u32)>,
    last_id: u64,
    /// The totals so far.
    pub tally: Tally,
    /// The request that the running call submitted, and why it was refused.
    submitted: Option<u64>,
    refused: Option<Reason>,
    /// What the choices of servers remember, and which servers are down.
    shares: Shares,
    /// Where servers are.
    sites: Sites,
    /// What is released when the requests that lost their server have moved.
    later: Vec<Later>,
    /// Whether these are moving at present.
    astray: bool,
    /// How many edits there were.
    edits: u64,
    /// Whether an edit is not applied yet.
    editing: bool,
}

impl Model {
    /// Nothing configured, no request.
    #[must_use]
    pub fn new() -> Self {
        Self {
            config: Config::empty(),
            now: 0,
            requests: BTreeMap::new(),
            counters: vec![],
            met: vec![],
            effects: vec![],
            handed: vec![],
            displaced: None,
            walking: false,
            again: vec![],
            buried: vec![],
            gone_pools: vec![],
            last_id: 0,
            tally: Tally::default(),
            submitted: None,
            refused: None,
            shares: Shares::new(7),
            sites: Sites::default(),
            later: vec![],
            astray: false,
            edits: 0,
            editing: false,
        }
    }

    /// Submits a request.
    pub fn submit(
        &mut self,
        now: u64,
        arrival: Arrival,
        owns: &dyn Fn(u64, &str) -> bool,
    ) -> (u64, Outcome) {
        self.begin(now);
        self.last_id += 1;
        self.tally.submitted += 1;
        let id = self.last_id;
        self.submitted = Some(id);
        self.refused = None;
        if self.requests.len() >= self.config.requests_max {
            self.refused = Some(Reason::Exhausted);
            self.tally.refused += 1;
        } else {
            self.requests.insert(id, self.newcomer(id, arrival));
            self.classify(id, owns);
        }
        self.due();
        self.submitted = None;
        let outcome = match (self.requests.get(&id), self.refused.take()) {
            (Some(request), _) if request.stage == Stage::Running => Outcome::Started,
            (_, Some(reason)) => Outcome::Refused(reason),
            _ => Outcome::Waiting,
        };
        (id, outcome)
    }

    /// Settles a running request; false if it does not run.
    pub fn settle(&mut self, now: u64, id: u64) -> bool {
        self.begin(now);
        let runs = self.stage(id) == Some(&Stage::Running);
        if runs {
            self.tally.ended(true);
            self.end(id, true);
        }
        self.due();
        runs
    }

    /// Ends a running request that was of no use: what it spent is refunded. False if it does not run.
    pub fn withdraw(&mut self, now: u64, id: u64) -> bool {
        self.begin(now);
        let runs = self.stage(id) == Some(&Stage::Running);
        if runs {
            self.tally.cancelled += 1;
            self.end(id, false);
        }
        self.due();
        runs
    }

    /// Ends a request, whether it waits or runs. Returns whether it ran, if it existed.
    pub fn end_either(&mut self, now: u64, id: u64) -> Option<bool> {
        self.begin(now);
        let ran = self.stage(id).map(|stage| *stage == Stage::Running);
        if let Some(ran) = ran {
            self.tally.ended(ran);
            self.end(id, ran);
        }
        self.due();
        ran
    }

    /// Removes a waiter; false if it does not wait.
    pub fn cancel(&mut self, now: u64, id: u64) -> bool {
        self.begin(now);
        let waits = self.stage(id).is_some_and(|stage| *stage != Stage::Running);
        if waits {
            self.tally.ended(false);
            self.end(id, false);
        }
        self.due();
        waits
    }

    /// The first waiter.
    #[must_use]
    pub fn first_waiter(&self) -> Option<u64> {
        let waits = |(_, request): &(&u64, &Request)| request.stage != Stage::Running;
        self.requests.iter().find(waits).map(|(id, _)| *id)
    }

    /// Removes a session's waiters, then settles its running requests, each by number. What one of them makes
    /// due is handled before the next.
    pub fn end_session(&mut self, now: u64, session: u64) {
        self.begin(now);
        let runs = |id: &u64| self.stage(*id) == Some(&Stage::Running);
        let (running, waiting): (Vec<u64>, Vec<u64>) =
            self.of_session(session).into_iter().partition(runs);
        let waiting = waiting.into_iter().map(|id| (id, false));
        let ends: Vec<_> = waiting.chain(running.into_iter().map(|id| (id, true))).collect();
        self.effects.extend(ends.iter().map(|(id, ran)| Effect::End(*id, *ran)));
        ends.iter().for_each(|(_, ran)| self.tally.ended(*ran));
        self.end_all(ends);
        self.due();
    }

    /// Called when a session lost a lock: its waiters that require it are refused.
    pub fn lock_lost(&mut self, now: u64, session: u64, lock: &'static str) {
        self.begin(now);
        let requires = |id: &u64| {
            let waits = self.stage(*id).is_some_and(|stage| *stage != Stage::Running);
            waits && self.requests[id].arrival.locks.contains(&lock)
        };
        let lost: Vec<u64> = self.of_session(session).into_iter().filter(requires).collect();
        let refusals = lost.iter().map(|id| Effect::Refuse(*id, Reason::NotOwner(lock)));
        self.effects.extend(refusals);
        self.tally.refused += lost.len() as u64;
        self.end_all(lost.into_iter().map(|id| (id, false)).collect());
        self.due();
    }

    /// Advances the time.
    pub fn handle_timeout(&mut self, now: u64) {
        self.begin(now);
        self.due();
    }

    /// The effects of the calls so far.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_event(&self) -> Option<u64> {
        self.earliest().map(|event| event.at)
    }

    fn newcomer(&self, id: u64, arrival: Arrival) -> Request {
        let claims = arrival.claims.iter().map(|(name, mode)| Claimed {
            name,
            mode: *mode,
            bound: self.find_resource(name),
            granted: 0,
        });
        Request {
            at: self.now,
            priority: 0,
            rank: (i128::from(self.now) - i128::from(arrival.waited), id),
            pool: 0,
            claims: claims.collect(),
            walk: vec![],
            stage: Stage::Moving,
            backend: None,
            seat: None,
            site: (0, 0),
            gate_slept: 0,
            tried: vec![],
            looked_after: self.edits,
            started: 0,
            last_at_start: 0,
            ran: 0,
            back: false,
            arrival,
        }
    }

    /// Steps 1 to 4 of the path, and then the walk.
    fn classify(&mut self, id: u64, owns: &dyn Fn(u64, &str) -> bool) {
        self.forget_names(id);
        for checkpoint in self.frontend_counts(id) {
            self.arrive(id, &checkpoint, None);
        }
        if self.requests[&id].arrival.connection {
            return self.walk(id, None);
        }
        if let Err(reason) = self.choose_backend(id) {
            return self.refuse(id, reason);
        }
        let priority = match self.verdict(id) {
            Ok(priority) => priority,
            Err(rule) => return self.refuse(id, Reason::Rejected(rule)),
        };
        let came = i128::from(self.now) - i128::from(self.requests[&id].arrival.waited);
        let rank = came - i128::from(priority) * i128::from(self.config.age_step);
        let pool = self.pool_for(priority).clone();
        if let Some(request) = self.requests.get_mut(&id) {
            request.priority = priority;
            request.rank = (rank, id);
            request.pool = pool.id;
        }
        if pool.state == config::PoolState::Draining {
            return self.refuse(id, Reason::Draining(pool.name));
        }
        let arrival = &self.requests[&id].arrival;
        let owned = |lock: &&str| arrival.session.is_some_and(|session| owns(session, lock));
        if let Some(lock) = arrival.locks.iter().copied().find(|lock| !owned(lock)) {
            return self.refuse(id, Reason::NotOwner(lock));
        }
        if let Some(name) = self.unknown_refused(id) {
            return self.refuse(id, Reason::UnknownResource(name));
        }
        self.walk(id, None);
    }

    /// Handles everything that is due, the earliest first.
    fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.due();
    }

    fn due(&mut self) {
        while let Some(event) = self.earliest().filter(|event| event.at <= self.now) {
            if event.expiry {
                let place = self.queue_place(event.id);
                self.refuse(event.id, Reason::Expired(place));
            } else {
                self.pass_head(event.id);
            }
        }
    }

    fn earliest(&self) -> Option<Event> {
        let passes = self.pass_events();
        let expiries = self.requests.iter().filter_map(|(id, request)| {
            let deadline = match &request.stage {
                Stage::Queued(queued) => queued.deadline,
                Stage::InPool(place) => place.deadline,
                Stage::Moving | Stage::Running => None,
            };
            Some(Event { at: deadline?, expiry: true, rank: request.rank, id: *id })
        });
        passes.chain(expiries).min()
    }

    /// Refuses a request and releases what it holds.
    fn refuse(&mut self, id: u64, reason: Reason) {
        self.refuse_all(vec![id], &reason);
    }

    /// The same for several at once.
    fn refuse_all(&mut self, ids: Vec<u64>, reason: &Reason) {
        ids.iter().for_each(|id| self.tell_refused(*id, reason.clone()));
        self.end_all(ids.into_iter().map(|id| (id, false)).collect());
    }

    fn tell_refused(&mut self, id: u64, reason: Reason) {
        self.tally.refused += 1;
        if self.submitted == Some(id) {
            self.refused = Some(reason);
        } else {
            self.effects.push(Effect::Refuse(id, reason));
        }
    }

    fn end(&mut self, id: u64, ran: bool) {
        self.end_all(vec![(id, ran)]);
    }

    /// Ends requests, each with whether it ran: first all their slots and claims, then each checkpoint in the
    /// order of their walks. Then the requests that were handed a count walk on.
    fn end_all(&mut self, ends: Vec<(u64, bool)>) {
        for (id, _) in &ends {
            self.leave_ungated_seat(*id);
            let Some(request) = self.requests.get_mut(id) else { continue };
            let was = std::mem::replace(&mut request.stage, Stage::Moving);
            if let Stage::Queued(queued) = &was {
                self.forget_tags_if_empty(queued.checkpoint, queued.seat.counter);
            }
        }
        self.later.extend(ends.into_iter().map(|(id, ran)| Later::End(id, ran)));
        self.grant();
        self.give_back_later();
    }

    /// Releases what an ended request holds.
    fn give_back_all(&mut self, id: u64, ran: bool) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let (cost, walk) = (request.arrival.cost, std::mem::take(&mut request.walk));
        for passed in walk {
            if is_gate(passed.checkpoint)
                && let Some(request) = self.requests.get_mut(&id)
            {
                request.seat = None;
            }
            self.give_back(&passed, if ran { 0 } else { cost });
        }
        self.requests.remove(&id);
    }

    /// Lets requests that were handed a count walk on, in the order they got it; those that get one meanwhile
    /// are last.
    fn walk_handed(&mut self) {
        if self.walking {
            return;
        }
        self.walking = true;
        while !self.handed.is_empty() {
            let (id, after) = self.handed.remove(0);
            self.walk(id, Some(after));
        }
        self.walking = false;
    }

    fn start(&mut self, id: u64) {
        let subtrees: Vec<u128> = {
            let claims = &self.requests[&id].claims;
            claims.iter().map(|claim| claim.bound.map_or(0, |root| self.subtree(root))).collect()
        };
        let (now, last) = (self.now, self.last_id);
        let Some(request) = self.requests.get_mut(&id) else { return };
        for (claim, nodes) in request.claims.iter_mut().zip(subtrees) {
            claim.granted = nodes;
        }
        request.stage = Stage::Running;
        request.started = now;
        request.last_at_start = last;
        self.tally.started += 1;
        if self.submitted != Some(id) {
            self.effects.push(Effect::Start(id));
        }
    }

    fn stage(&self, id: u64) -> Option<&Stage> {
        self.requests.get(&id).map(|request| &request.stage)
    }

    fn of_session(&self, session: u64) -> Vec<u64> {
        let its = |request: &Request| request.arrival.session == Some(session);
        self.requests.iter().filter(|(_, r)| its(r)).map(|(id, _)| *id).collect()
    }

    fn by_rank(&self, mut ids: Vec<u64>) -> Vec<u64> {
        ids.sort_by_key(|id| self.requests[id].rank);
        ids
    }

    fn checkpoint(&self, id: u32) -> Option<&Checkpoint> {
        self.config.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

/// A due event: ordered by time, then passes before expiries, then rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    expiry: bool,
    rank: Rank,
    id: u64,
}
