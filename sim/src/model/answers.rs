//! The model's answers about a request: where it is, and until when it waits.

use super::config::{Limit, PoolState};
use super::{Model, Place, Stage};
use crate::seen::Granted;

/// Where a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In the queue of a checkpoint, in the counter of this key.
    Checkpoint(&'static str, Option<&'static str>),
    /// Waiting for an unknown resource.
    Unknown,
    /// Waiting for a pool that starts no work.
    Stopped(&'static str),
    /// Waiting for resources that others hold or wait for.
    Claims,
    /// Waiting for a slot.
    Slot(&'static str),
    /// Running.
    Running,
}

impl Model {
    /// Where a request is, if it is alive.
    #[must_use]
    pub fn spot(&self, id: u64) -> Option<Spot> {
        Some(match self.stage(id)? {
            Stage::Moving => return None,
            Stage::Running => Spot::Running,
            Stage::Queued(queued) => {
                Spot::Checkpoint(self.checkpoint(queued.checkpoint)?.name, queued.seat.key)
            }
            Stage::InPool(place) if !place.in_line => Spot::Unknown,
            Stage::InPool(_) => {
                let pool = self.pool_of(id)?;
                if pool.state == PoolState::Stopped {
                    Spot::Stopped(pool.name)
                } else if self.in_the_way(id).is_empty() {
                    Spot::Slot(pool.name)
                } else {
                    Spot::Claims
                }
            }
        })
    }

    /// When a waiter of a rate checkpoint will pass if nothing else changes.
    #[must_use]
    pub fn predicted(&self, id: u64) -> Option<u64> {
        let Stage::Queued(queued) = self.stage(id)? else { return None };
        let at = self.checkpoint(queued.checkpoint)?;
        let rate = matches!(at.limit, Limit::Rate { .. });
        rate.then(|| self.predicted_pass(id, at, queued.seat.counter))
    }

    /// When a waiter expires.
    #[must_use]
    pub fn deadline(&self, id: u64) -> Option<u64> {
        match self.stage(id)? {
            Stage::Queued(queued) => queued.deadline,
            Stage::InPool(place) => place.deadline,
            Stage::Moving | Stage::Running => None,
        }
    }

    /// Since when a waiter is in its present place.
    #[must_use]
    pub fn since(&self, id: u64) -> Option<u64> {
        match self.stage(id)? {
            Stage::Queued(queued) => Some(queued.since),
            Stage::InPool(place) => Some(place.since),
            Stage::Moving | Stage::Running => None,
        }
    }

    /// What was granted to a running request.
    #[must_use]
    pub fn granted(&self, id: u64) -> Option<Granted> {
        let request = self.requests.get(&id).filter(|r| r.stage == Stage::Running)?;
        Some(Granted {
            priority: request.priority,
            pool: request.pool,
            server: request.seat,
            arrival: request.at,
            before: request.arrival.waited,
            since: request.started,
            waited: request.started - request.at - request.ran,
        })
    }

    /// Where a request is sent, by name.
    #[must_use]
    pub fn names(&self, id: u64) -> [&'static str; 2] {
        let arrival = self.requests.get(&id).map(|request| &request.arrival);
        arrival.map_or([""; 2], |arrival| [arrival.backend, arrival.server])
    }

    /// The requests that must pass, leave or end before a waiter can continue, as far as they are known.
    #[must_use]
    pub fn ahead(&self, id: u64) -> Vec<u64> {
        let all = self.requests.iter();
        match self.stage(id) {
            Some(Stage::Queued(queued)) => {
                let order = self.order(queued.checkpoint, queued.seat.counter);
                let before = order.into_iter().take_while(|other| *other != id);
                let held = all.filter(|(_, request)| {
                    request.walk.iter().any(|passed| {
                        passed.checkpoint == queued.checkpoint
                            && passed.seat.counter == queued.seat.counter
                    })
                });
                before.chain(held.map(|(other, _)| *other)).collect()
            }
            Some(Stage::InPool(_)) => {
                let pool = self.requests[&id].pool;
                let runs = all.filter(|(_, r)| {
                    r.pool == pool && r.stage == Stage::Running && !r.arrival.connection
                });
                let ahead = self.in_the_way(id);
                if ahead.is_empty() { runs.map(|(other, _)| *other).collect() } else { ahead }
            }
            _ => vec![],
        }
    }

    pub(super) fn queue_place(&self, id: u64) -> Place {
        match self.spot(id) {
            Some(Spot::Checkpoint(name, key)) => Place::Checkpoint(name, key),
            _ => Place::Pool(self.pool_of(id).map_or("", |pool| pool.name)),
        }
    }
}
