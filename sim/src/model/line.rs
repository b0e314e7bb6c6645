//! Claims and run slot, in one step: which requests are in line, which can run, and the grants.

use super::config::{Pool, PoolState, Unknown};
use super::{Claimed, InPool, Model, Place, Reason, Stage};

impl Model {
    /// Step 6 of the path.
    pub(super) fn enter(&mut self, id: u64) {
        if self.requests[&id].arrival.connection {
            return self.start(id);
        }
        if let Some(name) = self.unknown_refused(id) {
            return self.refuse(id, Reason::UnknownResource(name));
        }
        let in_line = self.bind(id).is_none();
        if in_line && self.requests[&id].back {
            return self.enter_again(id);
        }
        if in_line && self.can_run(id) {
            self.start(id);
            return self.grant();
        }
        if in_line && self.in_its_own_way(id) {
            return self.refuse(id, Reason::BlocksItself);
        }
        if in_line && self.would_deadlock(id) {
            return self.refuse(id, Reason::Deadlock);
        }
        if !in_line {
            self.name_claims(id);
        }
        let Some(pool) = self.pool_of(id).cloned() else { return };
        if self.waiting(pool.name) >= pool.max_len {
            return self.refuse(id, Reason::QueueFull(Place::Pool(pool.name), pool.max_len));
        }
        let longest = pool.max_delay.map(|delay| self.now.saturating_add(delay));
        let deadline = longest.into_iter().chain(self.requests[&id].own_deadline()).min();
        let now = self.now;
        if deadline.is_some_and(|deadline| deadline <= now) {
            return self.refuse(id, Reason::Expired(Place::Pool(pool.name)));
        }
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = Stage::InPool(InPool { since: now, deadline, in_line });
        }
        self.grant();
    }

    /// Handles a request that released its slot in this very call: it is in line when the slot is granted, and
    /// only then is it checked whether it may wait.
    fn enter_again(&mut self, id: u64) {
        let Some(pool) = self.pool_of(id).cloned() else { return };
        let now = self.now;
        let longest = pool.max_delay.map(|delay| now.saturating_add(delay));
        let deadline = longest.into_iter().chain(self.requests[&id].own_deadline()).min();
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = Stage::InPool(InPool { since: now, deadline, in_line: true });
        }
        self.grant_all();
        if !matches!(self.stage(id), Some(Stage::InPool(_))) {
            return self.break_circles();
        }
        if self.in_its_own_way(id) {
            self.refuse(id, Reason::BlocksItself);
        } else if self.would_deadlock(id) {
            self.refuse(id, Reason::Deadlock);
        } else if self.waiting(pool.name) > pool.max_len {
            self.refuse(id, Reason::QueueFull(Place::Pool(pool.name), pool.max_len));
        } else if deadline.is_some_and(|deadline| deadline <= now) {
            self.refuse(id, Reason::Expired(Place::Pool(pool.name)));
        } else {
            self.break_circles();
        }
    }

    /// Starts all requests that can run; afterwards none may wait in a circle.
    pub(super) fn grant(&mut self) {
        self.grant_all();
        self.break_circles();
    }

    /// Starts the lowest rank that can run, repeatedly, until none can.
    fn grant_all(&mut self) {
        loop {
            self.step_in();
            let Some(id) = self.line().into_iter().find(|id| self.can_run(*id)) else { return };
            if self.has_lost_server(id) {
                self.seek_server(id);
            } else {
                self.start(id);
            }
        }
    }

    /// All requests in line, by rank.
    #[must_use]
    pub fn line(&self) -> Vec<u64> {
        let stands = |stage: &Stage| matches!(stage, Stage::InPool(place) if place.in_line);
        let ids = self.requests.iter().filter(|(_, r)| stands(&r.stage)).map(|(id, _)| *id);
        self.by_rank(ids.collect())
    }

    /// Whether a request could run now: a slot is free, and no holder and no eligible waiter blocks it.
    #[must_use]
    pub fn can_run(&self, id: u64) -> bool {
        let Some(pool) = self.pool_of(id) else { return false };
        pool.state != PoolState::Stopped
            && pool.max.is_none_or(|max| self.running(pool.name) < max)
            && self.in_the_way(id).is_empty()
    }

    /// The holders and the earlier, eligible waiters that a request waits for.
    #[must_use]
    pub fn in_the_way(&self, id: u64) -> Vec<u64> {
        let rank = self.requests[&id].rank;
        let others = self.requests.iter().filter(|(other, request)| {
            **other != id
                && match &request.stage {
                    Stage::Running => true,
                    Stage::InPool(place) => place.in_line && request.rank < rank,
                    Stage::Moving | Stage::Queued(_) => false,
                }
        });
        let counts = |other: &u64| {
            self.conflict(id, *other)
                && (self.stage(*other) == Some(&Stage::Running) || self.eligible(*other))
        };
        others.map(|(other, _)| *other).filter(counts).collect()
    }

    /// Whether a waiter's turn at its pool could come: the pool starts work, and fewer than its maximum are
    /// before it.
    fn eligible(&self, id: u64) -> bool {
        let Some(pool) = self.pool_of(id) else { return false };
        let rank = self.requests[&id].rank;
        let before = self.line().into_iter().filter(|other| {
            self.requests[other].pool == pool.id && self.requests[other].rank < rank
        });
        pool.state != PoolState::Stopped && pool.max.is_none_or(|max| (before.count() as u64) < max)
    }

    /// Whether a request waits, directly or through other waiters, for a claim that its own session holds, or
    /// one that it runs within.
    fn in_its_own_way(&self, id: u64) -> bool {
        let sessions: Vec<u64> = self.requests[&id].arrival.sessions().collect();
        let (mut seen, mut todo) = (vec![id], vec![id]);
        while let Some(waiter) = todo.pop() {
            for other in self.in_the_way(waiter) {
                let request = &self.requests[&other];
                if request.stage == Stage::Running {
                    if request.arrival.session.is_some_and(|own| sessions.contains(&own)) {
                        return true;
                    }
                } else if !seen.contains(&other) {
                    seen.push(other);
                    todo.push(other);
                }
            }
        }
        false
    }

    /// Puts waiters that were aside and whose resources all exist now in line, unless they block themselves.
    fn step_in(&mut self) {
        let refused = self.find_aside();
        if !refused.is_empty() {
            self.refuse_all(refused, &Reason::BlocksItself);
        }
    }

    /// The same, without refusing any: waiters that block themselves are nowhere in line.
    pub(super) fn find_aside(&mut self) -> Vec<u64> {
        let mut refused = vec![];
        loop {
            let aside = |stage: &Stage| matches!(stage, Stage::InPool(place) if !place.in_line);
            let all: Vec<u64> =
                self.requests.iter().filter(|(_, r)| aside(&r.stage)).map(|(id, _)| *id).collect();
            let found = |id: &u64| {
                self.look_up_again(*id);
                self.bind(*id).is_none()
            };
            let Some(id) = all.into_iter().find(found) else { return refused };
            if let Some(request) = self.requests.get_mut(&id)
                && let Stage::InPool(place) = &mut request.stage
            {
                place.in_line = true;
            }
            if self.in_its_own_way(id) {
                if let Some(request) = self.requests.get_mut(&id) {
                    request.stage = Stage::Moving;
                }
                refused.push(id);
            }
        }
    }

    /// A request that goes aside claims existing resources by their names at that time.
    fn name_claims(&mut self, id: u64) {
        for index in 0..self.requests[&id].claims.len() {
            let bound = self.requests[&id].claims[index].bound;
            let found = self.config.resources.iter().find(|resource| Some(resource.id) == bound);
            let name = found.map(|resource| resource.name);
            if let (Some(name), Some(request)) = (name, self.requests.get_mut(&id)) {
                request.claims[index].name = name;
            }
        }
    }

    /// The claims of a request that is aside are names.
    fn look_up_again(&mut self, id: u64) {
        let request = self.requests.get_mut(&id);
        for claim in request.into_iter().flat_map(|request| &mut request.claims) {
            claim.bound = None;
        }
    }

    /// The first unknown resource of a request that does not wait for it.
    pub(super) fn unknown_refused(&mut self, id: u64) -> Option<&'static str> {
        let unknown = self.bind(id);
        unknown.filter(|_| self.requests[&id].arrival.unknown == Unknown::Refuse)
    }

    /// Finds the resources of a request's claims that were not found yet, or were deleted, by their names.
    /// Returns the first unknown name.
    pub(super) fn bind(&mut self, id: u64) -> Option<&'static str> {
        let makes = self.requests[&id].arrival.unknown == Unknown::Create;
        for index in 0..self.requests[&id].claims.len() {
            let Claimed { name, bound, .. } = self.requests[&id].claims[index];
            let made = || if makes { Self::made(name) } else { None };
            let known = bound.filter(|bound| self.exists(*bound));
            let bound = known.or_else(|| self.find_resource(name)).or_else(made);
            if let Some(request) = self.requests.get_mut(&id) {
                request.claims[index].bound = bound;
            }
        }
        self.missing(id)
    }

    /// The name of the first resource of a request's claims that does not exist.
    pub(super) fn missing(&self, id: u64) -> Option<&'static str> {
        let there = |bound: u32| self.exists(bound) || Self::is_made(bound);
        let claims = &self.requests[&id].claims;
        claims.iter().find(|claim| !claim.bound.is_some_and(there)).map(|claim| claim.name)
    }

    pub(super) fn pool_of(&self, id: u64) -> Option<&Pool> {
        let pool = self.requests[&id].pool;
        self.config.pools.iter().find(|other| other.id == pool)
    }
}
