//! The state machine: commands in, effects out.
//!
//! Every command handles, in this order: events that are due, the command itself, events that it made due. One
//! call moves at most `step_max` requests; while some are left, `poll_timeout` returns `now`.
//! `docs/internals/engine.md` specifies all of it.
//!
//! Each part that has an invariant of its own keeps its fields private: the rooms, [`Requests`], [`Outstanding`] and
//! [`Totals`]. The engine owns the path of a request through them.
//!
//! The stages are in separate files: [`walk`](crate::walk) (classify and shape), [`servers`](crate::servers)
//! (backends and servers), [`grant`](crate::grant) (claims and slots), [`why`](crate::why),
//! [`explain`](crate::explain).

use crate::config::Plan;
use crate::effect::{Effect, Ended, Grant, Outcome};
use crate::outstanding::{Chore, Outstanding, Return};
use crate::prepare::Prepared;
use crate::requests::Requests;
use crate::snapshot::Snapshot;
use crate::totals::{Stats, Totals};
use crate::work::Stage;
use paceline_checkpoints::Checkpoints;
use paceline_claims::Claims;
use paceline_expr::Counter;
use paceline_pools::Pools;
use paceline_routing::Fleet;
use paceline_rules::Counts;
use paceline_types::{CheckpointId, Reason, Refusal, Request, RequestId, SessionId, Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Which work runs now, which waits, and which is refused.
#[derive(Debug)]
pub struct Engine {
    pub(crate) now: Time,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) claims: Claims,
    pub(crate) pools: Pools,
    pub(crate) fleet: Fleet,
    pub(crate) rule_counts: Counts,
    pub(crate) requests: Requests,
    pub(crate) outstanding: Outstanding,
    pub(crate) totals: Totals,
    pub(crate) effects: VecDeque<Effect>,
}

impl Engine {
    /// An engine with no rules, no checkpoints, and only the default pool. `seed` keys the hashes of
    /// keys, so that no client can make them collide.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        let claims = Claims::new();
        let snapshot = Arc::new(Snapshot::first(seed, Arc::clone(claims.graph())));
        Self {
            now: Time(0),
            checkpoints: Checkpoints::new(seed, snapshot.slip),
            claims,
            pools: Pools::new(&snapshot.pools),
            fleet: Fleet::new(seed),
            rule_counts: Counts::new(&[]),
            requests: Requests::new(),
            outstanding: Outstanding::default(),
            totals: Totals::default(),
            effects: VecDeque::new(),
            snapshot,
        }
    }

    /// Numbers requests from `first` on, so that no number of an earlier run is reused. To be called before the
    /// first request.
    pub fn number_from(&mut self, first: RequestId) {
        self.requests.number_from(first);
    }

    /// The number of the next request.
    #[must_use]
    pub const fn next_number(&self) -> RequestId {
        self.requests.next_number()
    }

    /// The configuration in use, to prepare requests and plans against.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Whether a request was prepared for the configuration in use. If not, it should be prepared again before
    /// it is submitted; otherwise that is done under the engine's lock.
    #[must_use]
    pub fn is_current(&self, prepared: &Prepared) -> bool {
        prepared.0.draft.generation == self.snapshot.generation
    }

    /// Submits a request. `owns` says whether a session owns a lock at present.
    pub fn submit(
        &mut self,
        now: Time,
        prepared: Prepared,
        owns: &dyn Fn(SessionId, &str) -> bool,
    ) -> (RequestId, Outcome) {
        self.begin(now);
        let id = self.requests.number();
        self.claims.note_submitted(id);
        self.totals.submit();
        let admitted = match self.exhausted(prepared.request()) {
            Some(refusal) => Err(refusal),
            None => self.classify(id, prepared, owns),
        };
        let outcome = match admitted {
            Ok(work) => {
                self.requests.open(&work);
                self.walk(work, None)
            }
            Err(refusal) => {
                self.totals.refuse();
                Outcome::Refused(refusal)
            }
        };
        self.run();
        (id, outcome)
    }

    /// Ends a running request: everything it holds is released, once. Returns whether it ran; if it did not,
    /// nothing happens.
    pub fn settle(&mut self, now: Time, id: RequestId) -> bool {
        self.begin(now);
        let ran = self.settle_one(id);
        self.run();
        ran
    }

    /// Ends a running request for which no work was done, because its client had disconnected: everything it
    /// holds is released, and what it spent is refunded. Returns whether it ran.
    pub fn withdraw(&mut self, now: Time, id: RequestId) -> bool {
        self.begin(now);
        let ran = self.end_running(id, false);
        self.run();
        ran
    }

    /// Removes a waiter at once, which has spent nothing. Returns whether it waited; if it did not, nothing
    /// happens.
    pub fn cancel(&mut self, now: Time, id: RequestId) -> bool {
        self.begin(now);
        let waited = self.cancel_one(id);
        self.run();
        waited
    }

    /// Ends a request whether it waits or runs: it is removed or settled.
    pub fn end(&mut self, now: Time, id: RequestId) -> Ended {
        self.begin(now);
        let ended = self.end_one(id);
        self.run();
        ended
    }

    /// Ends a session: its waiters are removed, and its permits are settled.
    pub fn end_session(&mut self, now: Time, session: SessionId) {
        self.begin(now);
        let all = self.requests.of_session(session);
        let (waiting, running): (Vec<_>, Vec<_>) =
            all.partition(|id| self.requests.waiting(*id).is_some());
        self.outstanding.add_chores(waiting.into_iter().chain(running).map(Chore::End));
        self.run();
    }

    /// Called when a session lost a lock: its waiters that require it are refused. Running requests continue.
    pub fn lock_lost(&mut self, now: Time, session: SessionId, lock: &str) {
        self.begin(now);
        let users = self.requests.of_lock(session, lock);
        let waiters = users.filter(|id| self.requests.waiting(*id).is_some());
        self.outstanding.add_chores(waiters.map(|id| Chore::Lost(id, lock.into())));
        self.run();
    }

    /// Swaps in a new configuration. Returns the old one, which may be large: to be dropped after the engine's
    /// lock is released.
    pub fn configure(&mut self, now: Time, plan: &Plan) -> Arc<Snapshot> {
        self.begin(now);
        // Two plans may have been made from the same configuration, so they get their number only here.
        let generation = self.snapshot.generation + 1;
        let new = plan.snapshot();
        let same_rules = Arc::ptr_eq(&self.snapshot.rules, &new.rules);
        let rules_since = if same_rules { self.snapshot.rules_since } else { generation };
        let renames = match Arc::ptr_eq(&self.snapshot.routing, &new.routing) {
            true => Arc::clone(&self.snapshot.renames),
            false => {
                let old = Arc::clone(&self.snapshot.routing);
                self.rename_frontends(generation, &old, &new.routing).into()
            }
        };
        let snapshot = Snapshot { generation, rules_since, renames, ..(**new).clone() };
        let snapshot = Arc::new(snapshot);
        let old = std::mem::replace(&mut self.snapshot, Arc::clone(&snapshot));
        if !same_rules {
            self.rule_counts = self.rule_counts.carry_over(&old.rules, &snapshot.rules);
        }
        self.checkpoints.set_slip(snapshot.slip);
        if !Arc::ptr_eq(&old.routing, &snapshot.routing) {
            self.fleet.configure(snapshot.routing.backends());
        }
        if !Arc::ptr_eq(&old.checkpoints, &snapshot.checkpoints) {
            let set = Arc::clone(&snapshot.checkpoints);
            let renewed = self.checkpoints.configure(self.now, set);
            self.count_holders_again(&renewed);
        }
        self.set_limits();
        self.leave_lost_servers(&old);
        let heirs = self.pools.configure(&snapshot.pools);
        self.move_slots(&heirs);
        self.name_slot_users(&old.pools);
        self.claims.configure(Arc::clone(&snapshot.graph));
        self.run();
        old
    }

    /// Handles what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.begin(now);
    }

    /// The next effect to carry out.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call [`Engine::handle_timeout`]: at once if that is not later than `now`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.has_work() {
            return Some(self.now);
        }
        let expiry = self.pools.next_due().map(|(at, _, _)| at);
        [expiry, self.checkpoints.poll_timeout()].into_iter().flatten().min()
    }

    /// The totals since the engine was created.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        self.totals.stats()
    }

    /// How often each rule was evaluated and matched.
    #[must_use]
    pub const fn rule_counts(&self) -> &Counts {
        &self.rule_counts
    }

    /// The checkpoints, for their figures.
    #[must_use]
    pub const fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The pools, for their figures.
    #[must_use]
    pub const fn pools(&self) -> &Pools {
        &self.pools
    }

    /// The claims, to show which request holds which resource.
    #[must_use]
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// What was granted to a request that runs.
    #[must_use]
    pub fn grant(&self, id: RequestId) -> Option<Grant> {
        let work = self.requests.get(id)?;
        let Stage::Running { since } = work.stage else { return None };
        let (priority, pool, arrival) = (work.priority, work.pool, work.arrival);
        let site = work.seat.as_ref().map(|seat| Arc::clone(seat.site()));
        let waited_before = work.draft.request.waited;
        Some(Grant { priority, pool, site, arrival, waited_before, since })
    }

    /// How long ago a request arrived, plus the time that it had waited before.
    #[must_use]
    pub fn age(&self, now: Time, id: RequestId) -> Option<Span> {
        let work = self.requests.get(id)?;
        Some(Span(now.since(work.arrival).0.saturating_add(work.draft.request.waited.0)))
    }

    /// The checkpoints where a request slept, and how long.
    #[must_use]
    pub fn slept(&self, id: RequestId) -> &[(CheckpointId, Span)] {
        self.requests.get(id).map_or(&[], |work| &work.slept)
    }

    /// How long a request that runs waited in its pool's line, for its claims and a slot.
    #[must_use]
    pub fn lined(&self, id: RequestId) -> Span {
        self.requests.get(id).map_or(Span::ZERO, |work| work.lined)
    }

    /// Whether a request that runs counts towards a concurrency limit of a checkpoint, a server or a pool.
    #[must_use]
    pub fn is_limited(&self, id: RequestId) -> bool {
        let Some(work) = self.requests.running(id) else { return false };
        let has_slot = work.has_slot() && !self.pools.is_unlimited(work.pool);
        has_slot || work.held.iter().any(|held| held.counter().is_some())
    }

    /// The servers, for their figures.
    #[must_use]
    pub const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The request with this number, if it waits or runs.
    #[must_use]
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(id).map(|work| &work.draft.request)
    }

    /// How many requests run, and how many wait. Connections that were admitted count as running.
    #[must_use]
    pub const fn open_requests(&self) -> (usize, usize) {
        let running = self.totals.running();
        (running, self.requests.open_count().saturating_sub(running))
    }

    /// Every request that waits or runs, in order of arrival.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.requests_from(RequestId(0))
    }

    /// The same, starting at this number.
    pub fn requests_from(&self, first: RequestId) -> impl Iterator<Item = RequestId> {
        self.requests.from(first).map(|(id, _)| id)
    }

    /// The requests of one session.
    pub fn requests_of(&self, session: SessionId) -> impl Iterator<Item = RequestId> {
        self.requests.of_session(session)
    }

    /// The value of a counter, as expressions read it.
    #[must_use]
    pub fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        let key = key.map(|key| self.snapshot.hasher.hash(key.as_bytes()));
        match counter {
            Counter::Rate(id) => self.checkpoints.rate(self.now, id, key),
            Counter::Inflight(id) => self.checkpoints.inflight(self.now, id, key) as f64,
            Counter::Queued(id) => self.checkpoints.queued(self.now, id, key) as f64,
            Counter::Running(id) => f64::from(self.pools.running(id)),
            Counter::Waiting(id) => self.pools.waiting(id) as f64,
        }
    }

    /// Advances the clock, sets the budget of the call, and handles what is due.
    pub(crate) fn begin(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.outstanding.allow(self.snapshot.step_max);
        self.run();
    }

    /// Moves the requests that can move, as far as the budget allows.
    pub(crate) fn run(&mut self) {
        let open = self.requests.open_count();
        debug_assert!(self.totals.balances(open), "each request ends once");
        debug_assert!(
            open > 0 || self.requests.is_blank(),
            "no index leads to a request that ended"
        );
        if self.poll_timeout().is_none_or(|at| at > self.now) {
            return;
        }
        while self.outstanding.may_go_on() {
            let moved = self.chore()
                || self.grant_step()
                || self.decide_next()
                || self.look_for_circle()
                || self.return_next()
                || self.move_handed()
                || self.move_due();
            if !moved {
                return;
            }
            self.outstanding.count_one();
        }
    }

    fn return_next(&mut self) -> bool {
        let Some(Return { id, held, ran, seat }) = self.outstanding.next_return() else {
            return false;
        };
        // The place at the server is released first, so that the next request that gets the count finds it.
        if let Some(seat) = seat {
            self.leave_seat(seat);
        }
        self.requests.drop_count(id, &held);
        if ran {
            self.checkpoints.settle(self.now, held);
        } else {
            self.checkpoints.refund(self.now, held);
        }
        true
    }

    fn has_work(&self) -> bool {
        self.pools.has_work()
            || self.claims.has_work()
            || self.claims.has_looks()
            || !self.outstanding.is_empty()
    }

    fn chore(&mut self) -> bool {
        let Some(chore) = self.outstanding.next_chore() else { return false };
        match chore {
            Chore::End(id) => {
                let ended = self.end_one(id);
                self.effects.push_back(Effect::End { id, ended });
            }
            Chore::Lost(id, lock) => {
                if self.requests.waiting(id).is_some() {
                    self.refuse_waiter(id, Refusal::lasting(Reason::NotOwner { lock }));
                }
            }
            Chore::Astray(id) => self.move_on(id),
            Chore::Tangled(id) => self.break_tangle(id),
        }
        true
    }

    fn end_one(&mut self, id: RequestId) -> Ended {
        if self.settle_one(id) {
            Ended::Settled
        } else if self.cancel_one(id) {
            Ended::Left
        } else {
            Ended::Unknown
        }
    }

    fn settle_one(&mut self, id: RequestId) -> bool {
        self.end_running(id, true)
    }

    /// Ends a request that runs. If it was of no use, what it spent is refunded.
    fn end_running(&mut self, id: RequestId, was_of_use: bool) -> bool {
        let Some(Stage::Running { since }) = self.requests.get(id).map(|work| work.stage) else {
            return false;
        };
        let Some(mut work) = self.requests.take(id) else { return false };
        if was_of_use {
            self.totals.settle();
        } else {
            self.totals.cancel_running();
        }
        self.requests.close(&work);
        if !work.draft.is_connection() {
            self.requests.leave_slot(work.pool, id);
            self.pools.release(work.pool, self.now.since(since));
        }
        if work.claims() {
            self.remove_claims(id);
        }
        self.return_all(&mut work, was_of_use);
        true
    }

    fn cancel_one(&mut self, id: RequestId) -> bool {
        if self.requests.waiting(id).is_none() {
            return false;
        }
        let Some(mut work) = self.requests.take(id) else { return false };
        self.totals.cancel();
        self.leave_queue(&mut work);
        self.give_back(work);
        true
    }

    /// Why there is no room for one more request, if there is none.
    pub(crate) fn exhausted(&self, request: &Request) -> Option<Refusal> {
        let Snapshot { requests_max, requests_bytes_max, .. } = *self.snapshot;
        let (of, max) = self.requests.lacks(request, requests_max, requests_bytes_max)?;
        Some(Refusal::lasting(Reason::Exhausted { of, max: max as u64 }))
    }
}
