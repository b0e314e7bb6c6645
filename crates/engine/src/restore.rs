//! Restore: what ran when the daemon ended runs again, and holds what it held.
//!
//! It is done before the first request is submitted. Nothing refuses a request that is restored and
//! nothing makes it wait: it may take a counter, a pool or a resource past its limit, which then
//! drains (P3).

use crate::effect::Grant;
use crate::engine::Engine;
use crate::gate::is_gate;
use crate::prepare::{Prepared, fill_keys};
use paceline_types::{Priority, RequestId, Time};

impl Engine {
    /// A request that had this number and priority in an earlier run runs on. Rules are not asked, and
    /// nothing is spent; it holds a slot, its claims, and a count at every checkpoint on its way.
    pub fn restore(
        &mut self,
        now: Time,
        id: RequestId,
        Prepared(mut work): Prepared,
        priority: Priority,
    ) -> Grant {
        self.number_behind(id);
        self.now = self.now.max(now);
        let snapshot = self.snapshot();
        if work.draft.generation != snapshot.generation {
            work.draft.refresh(&snapshot, None);
        }
        // What goes to a server is over with its connection, so it is not restored there.
        if work.draft.route.take().is_some() {
            work.draft.steps_pool = None;
        }
        work.begin(self.now, id, priority, &snapshot);
        self.remember(&work);
        for step in work.draft.counts.iter().chain(&work.draft.steps) {
            let (_, _, checkpoint) = step.position;
            if is_gate(checkpoint) {
                continue;
            }
            // A condition that reads counters may have held when it passed, so it is taken to hold.
            let key = match (step.filled, snapshot.checkpoints.checkpoint(checkpoint)) {
                (Some(filled), _) if !filled.applies => continue,
                (Some(filled), _) => filled.key,
                (None, Some(checked)) => {
                    fill_keys(checked, &snapshot, &self.live(&work.draft, priority)).key
                }
                (None, None) => continue,
            };
            let held = self.checkpoints.restore(self.now, checkpoint, key);
            if let Some(counter) = held.counter() {
                self.count_users.insert((checkpoint, counter, id));
            }
            work.held.push(held);
        }
        if let Some(wanted) = work.draft.wanted.take() {
            self.claims.take_at_once(id, work.rank, work.draft.request.session, wanted);
        }
        let (pool, arrival) = (work.pool, work.arrival);
        if work.draft.is_connection() {
            self.start_connection(work);
        } else {
            self.start_at_once(work);
        }
        Grant { priority, pool, site: None, arrival, since: arrival }
    }
}
