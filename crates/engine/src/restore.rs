//! Restore: requests that ran when the daemon ended run again, and hold what they held.
//!
//! It is done before the first request is submitted. A restored request is never refused and never waits: it
//! may take a counter, a pool or a resource past its limit, which then drains (P3).

use crate::effect::Grant;
use crate::engine::Engine;
use crate::gate::is_gate;
use crate::prepare::{Prepared, Step, fill_keys};
use crate::work::Work;
use paceline_types::{PoolId, Priority, RequestId, Span, Time};

/// Where a running request is counted, by name: with this it is counted there again after a restart, even if
/// the pool or checkpoint was edited or deleted meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The pool whose slot it has; `None` for the default pool.
    pub pool: Option<Box<str>>,
    /// The checkpoints with a concurrency limit that count it.
    pub checkpoints: Vec<Box<str>>,
}

impl Engine {
    /// Where a running request is counted.
    #[must_use]
    pub fn places(&self, id: RequestId) -> Places {
        let checkpoints = self.counted_by(id).map(Box::from).collect();
        Places { pool: self.slot_of(id).map(Box::from), checkpoints }
    }

    /// The checkpoints of [`Places`].
    pub fn counted_by(&self, id: RequestId) -> impl Iterator<Item = &str> {
        let work = self.requests.running(id);
        let held = work.map_or(&[][..], |work| &work.held);
        let limited = held.iter().filter(|held| held.counter().is_some());
        let limited = limited.filter(|held| !is_gate(held.checkpoint()));
        limited.filter_map(|held| self.checkpoints.name_of(held))
    }

    /// The pool of [`Places`].
    #[must_use]
    pub fn slot_of(&self, id: RequestId) -> Option<&str> {
        let work = self.requests.running(id)?;
        let is_default = work.pool == PoolId::DEFAULT || work.draft.is_connection();
        if is_default { None } else { self.pools.name(work.pool) }
    }

    /// Restores a request that had this number and priority in an earlier run. Rules are not evaluated, and
    /// nothing is spent. It holds a slot, its claims, a count at every checkpoint on its way, and one at each
    /// of `places`.
    pub fn restore(
        &mut self,
        now: Time,
        id: RequestId,
        Prepared(mut work): Prepared,
        priority: Priority,
        places: &Places,
    ) -> Grant {
        self.requests.number_behind(id);
        self.claims.note_submitted(id);
        self.totals.restore();
        self.now = self.now.max(now);
        let snapshot = self.snapshot();
        if work.draft.generation != snapshot.generation {
            work.draft.refresh(&snapshot, None);
        }
        // A request that is sent to a server ends with its connection, so it is not restored there.
        if work.draft.destination.take().is_some() {
            work.draft.steps_pool = None;
        }
        work.begin(self.now, id, priority, &snapshot);
        self.requests.open(&work);
        let steps: Vec<Step> = work.draft.counts.iter().chain(&work.draft.steps).copied().collect();
        for step in steps {
            let (_, _, checkpoint) = step.position;
            if is_gate(checkpoint) {
                continue;
            }
            // A condition that reads counters may have held when it passed, so it is assumed to hold.
            let key = match (step.filled, snapshot.checkpoints.checkpoint(checkpoint)) {
                (Some(filled), _) if !filled.applies => continue,
                (Some(filled), _) => filled.key,
                (None, Some(checked)) => {
                    fill_keys(checked, &snapshot, &self.live(&work.draft, priority)).key
                }
                (None, None) => continue,
            };
            let held = self.checkpoints.restore(self.now, checkpoint, key);
            self.requests.hold(&mut work, held);
        }
        for name in &places.checkpoints {
            self.restore_count(&mut work, name);
        }
        if let Some(wanted) = work.draft.wanted.take() {
            self.claims.take_at_once(id, work.rank, work.draft.request.session, wanted);
        }
        let arrival = work.arrival;
        if work.draft.is_connection() {
            let pool = work.pool;
            self.start_connection(work);
            return restored(priority, pool, arrival);
        }
        // Whatever pool has its priority now, it keeps its slot in the pool that gave it.
        let pool = match places.pool.as_deref() {
            None => PoolId::DEFAULT,
            Some(name) => match snapshot.pools.pool(name) {
                Some(pool) => pool.id,
                None => return self.start_in_former(work, name),
            },
        };
        work.pool = pool;
        self.start_at_once(work);
        restored(priority, pool, arrival)
    }

    /// Starts it in a pool that no longer exists.
    fn start_in_former(&mut self, mut work: Box<Work>, name: &str) -> Grant {
        work.pool = self.pools.take_former(name);
        work.start(self.now);
        self.totals.start();
        let (priority, pool, arrival) = (work.priority, work.pool, work.arrival);
        self.requests.put(work);
        restored(priority, pool, arrival)
    }

    /// Adds a count at the checkpoint of this name, unless it has one already.
    fn restore_count(&mut self, work: &mut Work, name: &str) {
        let mut names = work.held.iter().filter_map(|held| self.checkpoints.name_of(held));
        if names.any(|other| other == name) {
            return;
        }
        let snapshot = self.snapshot();
        let found = snapshot.checkpoints.iter().find(|checked| *checked.spec.name == *name);
        let held = match found {
            None => self.checkpoints.restore_former(self.now, name),
            Some(checked) => {
                let key = self.key_at(work, checked.spec.id);
                self.checkpoints.restore(self.now, checked.spec.id, key)
            }
        };
        self.requests.hold(work, held);
    }
}

/// The grant of a restored request. How long it had waited is in its row.
const fn restored(priority: Priority, pool: PoolId, arrival: Time) -> Grant {
    Grant { priority, pool, site: None, arrival, waited_before: Span::ZERO, since: arrival }
}
