//! Edits of the configuration.
//!
//! The new configuration counts at once; then the waiters that it moves are moved, by rank.

use super::checkpoints::{TICKS, position};
use super::config::{Checkpoint, Config, Limit};
use super::{Model, Place, Queued, Reason, State};

impl Model {
    /// Uses another configuration from now on.
    pub fn configure(&mut self, now: u64, config: Config) {
        self.begin(now);
        let old = std::mem::replace(&mut self.config, config);
        for checkpoint in &old.checkpoints {
            self.checkpoint_changed(checkpoint);
        }
        self.pools_changed();
        self.resources_changed();
        self.grant();
        self.due();
    }

    fn checkpoint_changed(&mut self, old: &Checkpoint) {
        let Some(new) = self.checkpoint(old.id).cloned() else {
            return self.deleted(old);
        };
        let kind = std::mem::discriminant(&old.limit) != std::mem::discriminant(&new.limit);
        if kind || old.key != new.key || old.fair != new.fair {
            for (id, was) in self.empty(old) {
                self.walk_again(id, &new, &was);
            }
        } else if old.limit != new.limit {
            self.limit_changed(&new);
        }
    }

    /// Its waiters walk on; nobody gives anything back to it any more.
    fn deleted(&mut self, old: &Checkpoint) {
        for (id, _) in self.empty(old) {
            self.walk(id, Some(position(old)));
        }
    }

    fn limit_changed(&mut self, at: &Checkpoint) {
        match at.limit {
            Limit::Concurrency(_) => self.hand_over_all(at),
            Limit::Rate { n, d, burst } => {
                let t = i128::from(d) * TICKS / i128::from(n);
                let latest = whole_up(i128::from(self.now) * TICKS + i128::from(burst) * t);
                let its = self.counters.iter_mut().filter(|c| c.checkpoint == at.id);
                its.for_each(|counter| counter.tat = whole_up(counter.tat).min(latest));
                self.refuse_too_costly(at, burst);
            }
            Limit::Count => {}
        }
    }

    /// Waiters that cost more than the new burst could never pass.
    fn refuse_too_costly(&mut self, at: &Checkpoint, burst: u64) {
        for (id, queued) in self.waiters(at) {
            if self.requests[&id].arrival.cost > burst {
                let place = Place::Checkpoint(at.name, queued.key);
                self.refuse(id, Reason::CostTooHigh(place));
            }
        }
    }

    /// Forgets all counters of a checkpoint; returns its former waiters by rank, in no queue now.
    fn empty(&mut self, at: &Checkpoint) -> Vec<(u64, Queued)> {
        let waiters = self.waiters(at);
        self.counters.retain(|counter| counter.checkpoint != at.id);
        for request in self.requests.values_mut() {
            request.walk.retain(|passed| passed.checkpoint != at.id);
        }
        for (id, _) in &waiters {
            if let Some(request) = self.requests.get_mut(id) {
                request.state = State::Moving;
            }
        }
        waiters
    }

    fn waiters(&self, at: &Checkpoint) -> Vec<(u64, Queued)> {
        let ids = self.by_rank(self.requests.keys().copied().collect());
        let queued = ids.into_iter().map(|id| (id, &self.requests[&id].state));
        let its = queued.filter_map(|(id, state)| match state {
            State::Queued(queued) if queued.checkpoint == at.id => Some((id, queued.clone())),
            _ => None,
        });
        its.collect()
    }

    /// Waiters of a pool that is gone get the pool of their priority.
    fn pools_changed(&mut self) {
        let gone = |pool: u32| self.config.pools.iter().all(|other| other.id != pool);
        let orphans: Vec<(u64, i8)> = {
            let all = self.requests.iter().filter(|(_, request)| gone(request.pool));
            all.filter(|(_, r)| r.state != State::Running)
                .map(|(id, r)| (*id, r.priority))
                .collect()
        };
        for (id, priority) in orphans {
            let pool = self.pool_for(priority).id;
            if let Some(request) = self.requests.get_mut(&id) {
                request.pool = pool;
            }
        }
    }

    /// Waiters whose resource is gone are refused, or stand aside if they wait for it.
    fn resources_changed(&mut self) {
        for id in self.line() {
            if !matches!(self.state(id), Some(State::InPool(place)) if place.in_line) {
                continue;
            }
            if let Some(name) = self.unknown_refused(id) {
                self.refuse(id, Reason::UnknownResource(name));
            } else if self.bind(id).is_some()
                && let Some(request) = self.requests.get_mut(&id)
                && let State::InPool(place) = &mut request.state
            {
                place.in_line = false;
            }
        }
    }
}

/// The first whole nanosecond at or after these ticks, in ticks.
fn whole_up(ticks: i128) -> i128 {
    ticks + (-ticks).rem_euclid(TICKS)
}
