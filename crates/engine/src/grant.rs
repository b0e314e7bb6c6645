//! Claims and run slot, taken together in one step or not at all.
//!
//! A waiter is in its pool's line, ready or parked. The lowest ready rank in a pool with a free slot is tried:
//! it takes its claims and the slot, or is parked where its claims are blocked until that changes. Trying
//! checks everything again, so nothing depends on which waiter was woken for which reason.

use crate::effect::Outcome;
use crate::engine::Engine;
use crate::work::{Stage, Work};
use paceline_claims::{Event, MARKS_MAX, WantedClaims};
use paceline_types::{Place, PoolId, Reason, Refusal, Request, RequestId, Span, Time, Unknown};

impl Engine {
    /// Handles a request that passed all its checkpoints: it runs, waits, or is refused.
    pub(crate) fn enter(&mut self, mut work: Box<Work>) -> Outcome {
        if work.draft.is_connection() {
            return self.start_connection(work);
        }
        if !work.claims() {
            // If there is a slot for every request, no waiter is passed.
            let passes_nobody =
                self.pools.is_unlimited(work.pool) || !self.pools.has_ready(work.pool);
            if self.pools.has_slot(work.pool) && passes_nobody {
                return self.start_at_once(work);
            }
            return self.wait_in_line(work);
        }
        let cost = work.draft.wake(&self.claims);
        self.outstanding.spend(cost);
        if let Some(wanted) = &work.draft.wanted {
            if let Err(refusal) = self.check_claims(&work.draft.request, wanted) {
                return self.refuse(work, refusal);
            }
            if wanted.unknown().len() > 0 && work.draft.request.unknown == Unknown::Wait {
                return self.wait(work, false);
            }
        }
        self.enter_with_claims(work)
    }

    fn enter_with_claims(&mut self, mut work: Box<Work>) -> Outcome {
        if self.has_grant_work() {
            return self.wait_in_line(work);
        }
        let Some(mut wanted) = work.draft.wanted.take() else { return self.wait(work, true) };
        let (id, rank, session) = (work.rank.id, work.rank, work.draft.request.session);
        if self.pools.has_slot(work.pool) && self.claims.check(&mut wanted, rank).is_ok() {
            self.claims.take_at_once(id, rank, session, wanted);
            self.outstanding.spend(self.claims.cost(id));
            return self.start_at_once(work);
        }
        if let Some(refusal) = self.would_wait_for_itself(&work.draft.request, &wanted, rank) {
            return self.refuse(work, refusal);
        }
        work.draft.wanted = Some(wanted);
        self.wait(work, true)
    }

    /// Whether a grant may be possible that has not been tried.
    pub(crate) fn has_grant_work(&self) -> bool {
        self.pools.has_work() || self.claims.has_work() || self.outstanding.has_lost()
    }

    /// Does one step towards a grant: a change of eligibility, an unblocked waiter, an orphan of a deleted
    /// pool, or a try.
    pub(crate) fn grant_step(&mut self) -> bool {
        if let Some(flip) = self.pools.poll_flip() {
            if self.requests.get(flip.request).is_some_and(Work::claims) {
                self.claims.set_eligible(flip.request, flip.eligible);
                self.outstanding.spend(self.claims.cost(flip.request));
            }
            return true;
        }
        let used = self.claims.step(1);
        if used > 0 {
            self.outstanding.spend(used);
            return true;
        }
        if let Some(event) = self.claims.poll() {
            self.claims_event(event);
            return true;
        }
        if let Some(rank) = self.outstanding.next_lost() {
            self.lost_resource(rank.id);
            return true;
        }
        if let Some((rank, _)) = self.pools.orphan() {
            self.rehome(rank.id);
            return true;
        }
        let Some((rank, pool)) = self.pools.next_ready() else { return false };
        let claims = self.requests.get(rank.id).is_some_and(Work::claims);
        if claims {
            self.outstanding.spend(self.claims.cost(rank.id));
        }
        if claims && self.claims.take(rank.id).is_err() {
            self.pools.park(pool, rank);
        } else if self.has_lost_server(rank.id) {
            self.seek_server(rank.id);
        } else {
            self.start_waiter(rank.id);
        }
        true
    }

    /// Handles an event of the claims about a waiter.
    fn claims_event(&mut self, event: Event) {
        match event {
            Event::Unblocked(id) => {
                let Some(work) = self.requests.get(id) else { return };
                if matches!(work.stage, Stage::Line { .. }) {
                    self.pools.unpark(work.pool, work.rank);
                }
            }
            Event::Known(id) => self.found_resource(id),
            Event::Unknown(id) | Event::TooWide(id) => {
                if let Some(work) = self.requests.get(id) {
                    self.outstanding.lose(work.rank);
                }
            }
        }
    }

    /// Removes a waiter from its pool's queue and from the claims.
    pub(crate) fn leave_line(&mut self, work: &Work, deadline: Option<Time>) {
        self.outstanding.unlose(work.rank);
        self.pools.leave(work.pool, work.rank, deadline);
        if work.claims() {
            self.remove_claims(work.rank.id);
        }
    }

    /// Removes a waiter or holder from the claims.
    pub(crate) fn remove_claims(&mut self, id: RequestId) {
        self.outstanding.spend(self.claims.cost(id));
        self.claims.remove(id);
    }

    /// Handles the deadline of a waiter in line or aside.
    pub(crate) fn expire_in_pool(&mut self, id: RequestId) {
        let Some(work) = self.requests.get(id) else { return };
        let waited = match work.stage {
            Stage::Line { since, .. } | Stage::Aside { since, .. } => self.now.since(since),
            _ => Span::ZERO,
        };
        let refusal = self.expired(work, waited);
        self.refuse_waiter(id, refusal);
    }

    /// Refuses a claim on a resource that does not exist, unless the request asks otherwise, and a claim that
    /// is too wide.
    pub(crate) fn check_claims(
        &self,
        request: &Request,
        wanted: &WantedClaims,
    ) -> Result<(), Refusal> {
        match (wanted.unknown().next(), wanted.too_wide()) {
            (Some(claim), _) if request.unknown == Unknown::Refuse => {
                Err(self.no_resource(claim.resource.clone()))
            }
            (_, Some(resource)) => Err(too_wide(resource)),
            _ => Ok(()),
        }
    }

    fn no_resource(&self, resource: Box<str>) -> Refusal {
        let near = self.snapshot.graph.near(&resource).map(Into::into);
        Refusal::lasting(Reason::UnknownResource { resource, near })
    }

    /// Called when all resources of a waiter exist, or exist again: it waits in line.
    fn found_resource(&mut self, id: RequestId) {
        if let Some(refusal) = self.blocks_itself(id) {
            self.refuse_waiter(id, refusal);
            return;
        }
        self.leave_deleted_pool(id);
        let Some(work) = self.requests.get_mut(id) else { return };
        match work.stage {
            Stage::Aside { since, deadline } => {
                work.stage = Stage::Line { since, deadline };
                self.pools.step_in(work.pool, work.rank);
            }
            // Its resource was deleted and created again before that had any effect.
            Stage::Line { deadline, .. } => {
                self.outstanding.unlose(work.rank);
                self.pools.leave(work.pool, work.rank, deadline);
                self.claims.set_eligible(id, false);
                self.pools.join(work.pool, work.rank, deadline);
            }
            Stage::Moving | Stage::Checkpoint { .. } | Stage::Running { .. } => {}
        }
    }

    /// Called when a resource that a waiter claims was deleted: the waiter is refused, waits aside, or creates
    /// the resource. Also called when its claims have become too wide: it is refused.
    fn lost_resource(&mut self, id: RequestId) {
        if let Some(resource) = self.claims.too_wide(id) {
            return self.refuse_waiter(id, too_wide(resource));
        }
        self.leave_deleted_pool(id);
        let Some(work) = self.requests.get_mut(id) else { return };
        let Stage::Line { since, deadline } = work.stage else { return };
        match work.draft.request.unknown {
            Unknown::Refuse => {
                let resource = self.claims.missing(id).unwrap_or_default().into();
                let refusal = self.no_resource(resource);
                self.refuse_waiter(id, refusal);
            }
            Unknown::Wait => {
                work.stage = Stage::Aside { since, deadline };
                self.pools.leave(work.pool, work.rank, deadline);
                self.claims.set_eligible(id, false);
                self.pools.stand_aside(work.pool, work.rank, deadline);
            }
            Unknown::Create => {
                self.claims.create(id);
                if let Some(resource) = self.claims.too_wide(id) {
                    return self.refuse_waiter(id, too_wide(resource));
                }
                self.pools.leave(work.pool, work.rank, deadline);
                self.claims.set_eligible(id, false);
                self.pools.join(work.pool, work.rank, deadline);
            }
        }
    }

    pub(crate) fn start_at_once(&mut self, mut work: Box<Work>) -> Outcome {
        self.pools.take(work.pool);
        work.start(self.now);
        self.started(work.pool, work.rank.id);
        self.requests.put(work);
        Outcome::Started
    }

    /// Starts a connection, which runs in no pool.
    pub(crate) fn start_connection(&mut self, mut work: Box<Work>) -> Outcome {
        work.start(self.now);
        self.totals.start();
        self.requests.put(work);
        Outcome::Started
    }

    fn start_waiter(&mut self, id: RequestId) {
        let now = self.now;
        let Some(work) = self.requests.get_mut(id) else { return };
        let Stage::Line { since, deadline } = work.stage else { return };
        work.stand(now.since(since));
        work.start(now);
        let pool = work.pool;
        self.pools.start(pool, work.rank, deadline);
        self.started(pool, id);
        self.tell(id, Outcome::Started);
    }

    fn started(&mut self, pool: PoolId, id: RequestId) {
        self.totals.start();
        if !self.pools.is_unlimited(pool) {
            self.requests.take_slot(pool, id);
        }
    }

    /// Puts a request in line while it may turn out that it can run at once: then it may, whatever the bounds
    /// of the queue. Whether it may wait is checked when the grants have been made.
    fn wait_in_line(&mut self, work: Box<Work>) -> Outcome {
        if !self.has_grant_work() {
            return self.wait(work, true);
        }
        self.outstanding.put_off(work.rank.id);
        self.join_line(work, true)
    }

    /// Decides whether a request that arrived while grants were being made, and got none, may wait.
    pub(crate) fn decide_next(&mut self) -> bool {
        let Some(id) = self.outstanding.next_undecided() else { return false };
        if let Some(refusal) = self.cannot_stay(id) {
            self.refuse_waiter(id, refusal);
        }
        true
    }

    /// Why a request that is in line already may not wait there; `None` if it may. Undecided requests that
    /// arrived after it do not count.
    fn cannot_stay(&self, id: RequestId) -> Option<Refusal> {
        let work = self.requests.waiting(id)?;
        let is_later = |other: &RequestId| {
            self.requests.waiting(*other).is_some_and(|other| other.pool == work.pool)
        };
        let later = self.outstanding.undecided().filter(is_later).count();
        self.waits_for_itself(id).or_else(|| self.cannot_wait_beside(work, self.now, later + 1))
    }

    /// Puts a request in line, or aside if a resource is unknown; or refuses it if it may not wait.
    fn wait(&mut self, work: Box<Work>, known: bool) -> Outcome {
        match self.cannot_wait(&work, self.now) {
            Some(refusal) => self.refuse(work, refusal),
            None => self.join_line(work, known),
        }
    }

    fn join_line(&mut self, mut work: Box<Work>, mut known: bool) -> Outcome {
        if let Some(wanted) = work.draft.wanted.take() {
            let (id, session) = (work.rank.id, work.draft.request.session);
            if known {
                self.claims.add(id, work.rank, session, wanted);
            } else {
                known = !self.claims.add_aside(id, work.rank, session, wanted);
            }
            let request = &work.draft.request;
            if !request.within.is_empty() || !request.beside.is_empty() {
                self.claims.set_within(id, &request.within, &request.beside);
            }
            self.outstanding.spend(self.claims.cost(id));
        }
        let (since, deadline) = (self.now, self.pool_deadline(&work, self.now));
        if known {
            work.stage = Stage::Line { since, deadline };
            self.pools.join(work.pool, work.rank, deadline);
        } else {
            work.stage = Stage::Aside { since, deadline };
            self.pools.stand_aside(work.pool, work.rank, deadline);
        }
        self.requests.put(work);
        Outcome::Waiting
    }

    /// Why a request may not begin to wait in its pool's queue; `None` if it may.
    pub(crate) fn cannot_wait(&self, work: &Work, now: Time) -> Option<Refusal> {
        self.cannot_wait_beside(work, now, 0)
    }

    /// The same, without counting `left_out` of the waiters.
    fn cannot_wait_beside(&self, work: &Work, now: Time, left_out: usize) -> Option<Refusal> {
        if let Some(max) = self.pools.full(work.pool, left_out) {
            let place = Place::Pool(self.snapshot.pool_name(work.pool));
            let retry_at = self.pools.retry_at(work.pool, now);
            return Some(Refusal {
                reason: Reason::QueueFull { place, max },
                retry_at,
                status: None,
            });
        }
        let deadline = self.pool_deadline(work, now)?;
        (deadline <= now).then(|| self.expired(work, Span::ZERO))
    }

    fn pool_deadline(&self, work: &Work, now: Time) -> Option<Time> {
        let bound = self.pools.deadline(work.pool, now);
        [bound, work.deadline].into_iter().flatten().min()
    }

    /// A deleted pool is dropped when its last waiter leaves it, so no waiter may leave it and return.
    fn leave_deleted_pool(&mut self, id: RequestId) {
        let pool = self.requests.get(id).map(|work| work.pool);
        if pool.is_some_and(|pool| self.snapshot.pools.by_id(pool).is_none()) {
            self.rehome(id);
        }
    }

    /// Moves a waiter whose pool was deleted to the pool of its priority, with its rank.
    fn rehome(&mut self, id: RequestId) {
        let snapshot = self.snapshot();
        let Some(work) = self.requests.get_mut(id) else { return };
        let (Stage::Line { deadline, .. } | Stage::Aside { deadline, .. }) = work.stage else {
            return;
        };
        self.pools.leave(work.pool, work.rank, deadline);
        work.pool = snapshot.pools.pool_for(work.priority).id;
        if matches!(work.stage, Stage::Aside { .. }) {
            self.pools.stand_aside(work.pool, work.rank, deadline);
        } else {
            if work.claims() {
                self.claims.set_eligible(id, false);
            }
            self.pools.join(work.pool, work.rank, deadline);
        }
    }

    fn expired(&self, work: &Work, waited: Span) -> Refusal {
        let place = Place::Pool(self.snapshot.pool_name(work.pool));
        let (resource, stopped) = (self.missed_resource(work), !self.pools.is_open(work.pool));
        // How long requests run says nothing about claims, or about a pool that is stopped.
        let is_slot = resource.is_none() && !stopped;
        let retry_at = self.pools.retry_at(work.pool, self.now).filter(|_| is_slot);
        let reason = Reason::Expired { place, waited, resource, stopped };
        Refusal { reason, retry_at, status: None }
    }

    /// The resource that an expired waiter did not get.
    fn missed_resource(&self, work: &Work) -> Option<Box<str>> {
        let id = work.rank.id;
        let blockers = match (&work.stage, &work.draft.wanted) {
            _ if !work.claims() || !self.pools.is_open(work.pool) => return None,
            (Stage::Aside { .. }, _) => return self.claims.missing(id).map(Into::into),
            (Stage::Line { .. }, _) => self.claims.blockers(id, 1),
            (_, Some(wanted)) => self.claims.blockers_of(wanted, work.rank, 1),
            (_, None) => return None,
        };
        blockers.nearest.into_iter().next().map(|blocker| blocker.resource)
    }
}

fn too_wide(resource: &str) -> Refusal {
    Refusal::lasting(Reason::TooWide { resource: resource.into(), max: MARKS_MAX })
}
