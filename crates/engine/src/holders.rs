//! Which requests hold a count of a checkpoint that an edit gives new counters, or a slot of a pool that is
//! created again.
//!
//! Promises that a running request counts against the checkpoint that it passed until it ends (P1): by its key
//! as the checkpoint has it now, even if the key, the kind or the condition was edited, and in a checkpoint
//! that was deleted and is created again under its name. The same applies to the slots of pools.

use crate::engine::Engine;
use crate::gate::is_gate;
use crate::input::{Still, Unserved};
use crate::prepare::{List, fill_keys, is_early_count};
use crate::work::Work;
use paceline_checkpoints::{HeldCount, KeyHash, Renewed};
use paceline_pools::{PoolSet, PoolSpec};
use paceline_routing::Unrouted;
use paceline_types::{CheckpointId, PoolId, Priority, RequestId};
use std::collections::BTreeSet;

/// When more deleted checkpoints than this are remembered, those that no request holds are forgotten.
const BURIED_MAX: usize = 64;

impl Engine {
    /// Counts the requests again that passed these checkpoints, by number. This visits every request, and
    /// evaluates a key for each that holds a count: edits of keys are rare, and a limit that is exceeded is
    /// worse.
    pub(crate) fn count_holders_again(&mut self, renewed: &[Renewed]) {
        if self.checkpoints.buried() > BURIED_MAX {
            let held =
                self.requests.iter().flat_map(|(_, work)| &work.held).map(HeldCount::checkpoint);
            let held: BTreeSet<CheckpointId> = held.collect();
            self.checkpoints.forget_buried(|id| held.contains(&id));
        }
        let to = |held: &HeldCount| {
            let found = renewed.iter().find(|renewed| renewed.from == held.checkpoint());
            found.map(|renewed| renewed.to).filter(|to| !is_gate(*to))
        };
        if renewed.iter().all(|renewed| is_gate(renewed.to)) {
            return;
        }
        let holds = |work: &Work| work.held.iter().any(|held| to(held).is_some());
        let holders = self.requests.iter().filter(|(_, work)| holds(work)).map(|(id, _)| id);
        let holders: Vec<RequestId> = holders.collect();
        for id in holders {
            let Some(mut work) = self.requests.take(id) else { continue };
            for held in std::mem::take(&mut work.held) {
                match to(&held) {
                    Some(to) => self.count_holder_again(&mut work, to, held),
                    None => work.held.push(held),
                }
            }
            self.requests.put(work);
        }
    }

    /// Moves requests that run in a deleted pool to slots of the new pool that has its name.
    pub(crate) fn move_slots(&mut self, heirs: &[(PoolId, PoolId)]) {
        if !heirs.is_empty() {
            self.requests.move_slots(heirs, |pool| !self.pools.is_unlimited(pool));
        }
    }

    /// Lists the requests that use the slots of pools that had no maximum in `old` and have one now, for `why`.
    pub(crate) fn name_slot_users(&mut self, old: &PoolSet) {
        let was_open = |id| old.by_id(id).is_some_and(|pool: &PoolSpec| pool.threads_max.is_none());
        let limited = self.snapshot.pools.list().iter().filter(|pool| pool.threads_max.is_some());
        let limited: BTreeSet<PoolId> =
            limited.map(|pool| pool.id).filter(|id| was_open(*id)).collect();
        if !limited.is_empty() {
            self.requests.list_slots(|pool| limited.contains(&pool));
        }
    }

    /// Replaces the count that a request holds by one of this checkpoint as it is now.
    pub(crate) fn count_holder_again(
        &mut self,
        work: &mut Work,
        to: CheckpointId,
        held: HeldCount,
    ) {
        self.requests.drop_count(work.rank.id, &held);
        let key = self.key_at(work, to);
        let held = self.checkpoints.count_again(self.now, to, key, held);
        self.requests.hold(work, held);
    }

    /// The key that a request has at a checkpoint, with the attributes that it had when it reached it.
    pub(crate) fn key_at(&self, work: &Work, id: CheckpointId) -> KeyHash {
        let Some(checkpoint) = self.snapshot.checkpoints.checkpoint(id) else {
            return KeyHash::default();
        };
        let list = List::of(&checkpoint.spec.at);
        let is_early = list == List::Frontend && is_early_count(checkpoint);
        let priority = if is_early { Priority::START } else { work.priority };
        let still = Still { attributes: &work.draft.request.attributes, priority };
        let snapshot = &self.snapshot;
        match work.draft.destination {
            Some(_) if is_early => fill_keys(checkpoint, snapshot, &Unrouted(&still)).key,
            Some(_) if list <= List::Backend => {
                fill_keys(checkpoint, snapshot, &Unserved(&still)).key
            }
            _ => fill_keys(checkpoint, snapshot, &still).key,
        }
    }
}
