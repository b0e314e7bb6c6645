//! All pools at work.
//!
//! A waiter is in a pool's line, ready or parked, or it stands aside. Ready means: try it when a
//! slot is free. The engine parks a waiter whose claims conflict with another request, and unparks
//! it when that changes. The deadlines of all pools are in one ordered set; there is no timer per
//! request.

use crate::pool::Pool;
use crate::set::PoolSet;
use paceline_types::{PoolId, Rank, RequestId, Span, Time, limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A waiter that became eligible, or stopped being eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The waiter.
    pub request: RequestId,
    /// Whether it could be among the next to run.
    pub eligible: bool,
}

/// Where a waiter stands in a pool's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPlace {
    /// How many waiters of this pool are ahead of it.
    pub ahead_total: usize,
    /// The nearest of them, nearest first.
    pub ahead: Vec<RequestId>,
}

/// Slots and lines of all pools.
#[derive(Debug, Default)]
pub struct Pools {
    pools: BTreeMap<PoolId, Pool>,
    /// Pools with a free slot and a ready waiter, under the rank that would be next.
    callable: BTreeSet<(Rank, PoolId)>,
    deadlines: BTreeSet<(Time, Rank, PoolId)>,
    flips: VecDeque<Flip>,
    /// Pools whose marked front may differ from its target.
    unsettled: BTreeSet<PoolId>,
    /// Deleted pools whose waiters still need another pool.
    orphaned: BTreeSet<PoolId>,
    /// How many ids were given to pools of earlier runs.
    formers: u32,
}

/// Ids with this bit belong to pools that existed in an earlier run and do not exist in this one.
const FORMER: u32 = 1 << 30;

impl Pools {
    /// The pools of `set`, all idle.
    #[must_use]
    pub fn new(set: &PoolSet) -> Self {
        let mut pools = Self::default();
        pools.configure(set);
        pools
    }

    /// Replaces the set of pools. [`Pools::orphan`] returns the waiters of deleted pools.
    ///
    /// Returns each deleted pool whose name a new pool has, with that new pool. Requests that run
    /// in the deleted pool take slots of the new one from now on. Otherwise a pool that is deleted
    /// and created again would run twice its maximum (P1).
    pub fn configure(&mut self, set: &PoolSet) -> Vec<(PoolId, PoolId)> {
        let ids: Vec<PoolId> = self.pools.keys().copied().collect();
        for id in ids {
            if set.by_id(id).is_none() {
                self.with(id, |pool| pool.deleted = true);
                self.orphaned.insert(id);
                self.touched(id);
            }
        }
        let mut heirs = vec![];
        for spec in set.list() {
            if !self.pools.contains_key(&spec.id) {
                let deleted = self.pools.iter_mut().filter(|(_, pool)| pool.deleted);
                let former = deleted.filter(|(_, pool)| *pool.name == *spec.name);
                let mut new = Pool::new(spec);
                for (id, pool) in former {
                    new.running += std::mem::take(&mut pool.running);
                    heirs.push((*id, spec.id));
                }
                self.pools.insert(spec.id, new);
            }
            self.with(spec.id, |pool| {
                pool.configure(spec);
                pool.deleted = false;
            });
            self.orphaned.remove(&spec.id);
            self.touched(spec.id);
        }
        for (old, _) in &heirs {
            self.touched(*old);
        }
        heirs
    }

    /// Takes a slot of a pool that existed in an earlier run and does not exist in this one. The
    /// slot counts if a pool of that name is created again.
    pub fn take_former(&mut self, name: &str) -> PoolId {
        let known = self.pools.iter().find(|(_, pool)| pool.deleted && *pool.name == *name);
        let id = known.map_or(PoolId(FORMER | self.formers), |(id, _)| *id);
        if known.is_none() {
            self.formers += 1;
            self.pools.insert(id, Pool::former(name));
        }
        self.take(id);
        id
    }

    /// The name of a pool; deleted pools in which a request still runs have one too.
    #[must_use]
    pub fn name(&self, id: PoolId) -> Option<&str> {
        self.pools.get(&id).map(|pool| &*pool.name)
    }

    /// Whether a slot is free in a pool that starts work.
    #[must_use]
    pub fn has_slot(&self, id: PoolId) -> bool {
        self.pools.get(&id).is_some_and(Pool::has_slot)
    }

    /// Whether a waiter in line must be tried before a newcomer may take a slot.
    #[must_use]
    pub fn has_ready(&self, id: PoolId) -> bool {
        self.pools.get(&id).is_some_and(|pool| !pool.ready.is_empty())
    }

    /// Whether the pool has no maximum.
    #[must_use]
    pub fn is_unlimited(&self, id: PoolId) -> bool {
        self.pools.get(&id).is_some_and(|pool| pool.max.is_none())
    }

    /// If the queue of this pool is full, how many may wait in it. `left_out` waiters are not
    /// counted.
    #[must_use]
    pub fn full(&self, id: PoolId, left_out: usize) -> Option<u64> {
        let pool = self.pools.get(&id)?;
        let waiting = pool.waiting().saturating_sub(left_out) as u64;
        (waiting >= pool.bounds.len_max).then_some(pool.bounds.len_max)
    }

    /// The deadline of a request that begins to wait now.
    #[must_use]
    pub fn deadline(&self, id: PoolId, now: Time) -> Option<Time> {
        self.pools.get(&id)?.bounds.delay_max.map(|delay| now.plus(delay))
    }

    /// When a slot may be free, estimated from how long requests ran so far.
    #[must_use]
    pub fn retry_at(&self, id: PoolId, now: Time) -> Option<Time> {
        let mean = self.pools.get(&id)?.mean_run().filter(|mean| *mean > Span::ZERO)?;
        Some(now.plus(mean))
    }

    /// Takes a slot for a request that did not wait.
    pub fn take(&mut self, id: PoolId) {
        self.with(id, |pool| pool.running += 1);
        self.touched(id);
    }

    /// Adds a waiter to the line, ready to be tried.
    pub fn join(&mut self, id: PoolId, rank: Rank, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, rank, id));
        }
        debug_assert!(self.pools.contains_key(&id), "a waiter joins a pool that exists");
        if self.with(id, |pool| pool.join(rank)) == Some(true) {
            self.flips.push_back(Flip { request: rank.id, eligible: true });
        }
        self.touched(id);
    }

    /// Adds a waiter aside: it waits for an unknown resource.
    pub fn stand_aside(&mut self, id: PoolId, rank: Rank, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, rank, id));
        }
        self.with(id, |pool| pool.aside.insert(rank));
    }

    /// Moves a waiter from aside into the line. It keeps its deadline.
    pub fn step_in(&mut self, id: PoolId, rank: Rank) {
        if self.with(id, |pool| pool.aside.remove(&rank)) == Some(true) {
            self.join(id, rank, None);
        }
    }

    /// Marks a waiter that was tried and whose claims conflict with another request.
    pub fn park(&mut self, id: PoolId, rank: Rank) {
        self.with(id, |pool| pool.ready.remove(&rank));
        self.touched(id);
    }

    /// Marks a waiter as worth another try.
    pub fn unpark(&mut self, id: PoolId, rank: Rank) {
        self.with(id, |pool| pool.ready.insert(rank));
        self.touched(id);
    }

    /// The waiter to try next: the lowest rank that is ready in a pool with a free slot.
    #[must_use]
    pub fn next_ready(&self) -> Option<(Rank, PoolId)> {
        self.callable.first().copied()
    }

    /// Takes a waiter out of the line and starts it.
    pub fn start(&mut self, id: PoolId, rank: Rank, deadline: Option<Time>) {
        self.leave(id, rank, deadline);
        self.take(id);
    }

    /// Removes a waiter from the line or from aside. `deadline` is the one it joined with.
    pub fn leave(&mut self, id: PoolId, rank: Rank, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, rank, id));
        }
        // If the request joins again, a flip that is still queued would describe its previous stay.
        self.flips.retain(|flip| flip.request != rank.id);
        self.with(id, |pool| pool.leave(rank));
        self.touched(id);
    }

    /// Returns the slot of a request that ran for `ran`.
    pub fn release(&mut self, id: PoolId, ran: Span) {
        self.with(id, |pool| pool.release(ran));
        self.touched(id);
    }

    /// The next change of eligibility to report.
    pub fn poll_flip(&mut self) -> Option<Flip> {
        if let Some(flip) = self.flips.pop_front() {
            return Some(flip);
        }
        while let Some(id) = self.unsettled.first().copied() {
            if let Some(Some((rank, eligible))) = self.with(id, Pool::next_flip) {
                return Some(Flip { request: rank.id, eligible });
            }
            self.unsettled.remove(&id);
        }
        None
    }

    /// A waiter of a deleted pool, still in its line; it needs another pool.
    #[must_use]
    pub fn orphan(&mut self) -> Option<(Rank, PoolId)> {
        while let Some(id) = self.orphaned.first().copied() {
            let pool = self.pools.get(&id)?;
            let found = pool.line.first().map(|(rank, _)| rank);
            if let Some(rank) = found.or_else(|| pool.aside.first().copied()) {
                return Some((rank, id));
            }
            self.orphaned.remove(&id);
        }
        None
    }

    /// The earliest deadline of a waiter.
    #[must_use]
    pub fn next_due(&self) -> Option<(Time, Rank, PoolId)> {
        self.deadlines.first().copied()
    }

    /// Whether something is left to be reported or moved.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !(self.flips.is_empty()
            && self.unsettled.is_empty()
            && self.orphaned.is_empty()
            && self.callable.is_empty())
    }

    /// How many requests run in this pool.
    #[must_use]
    pub fn running(&self, id: PoolId) -> u32 {
        self.pools.get(&id).map_or(0, |pool| pool.running)
    }

    /// How many requests wait in this pool.
    #[must_use]
    pub fn waiting(&self, id: PoolId) -> usize {
        self.pools.get(&id).map_or(0, Pool::waiting)
    }

    /// Whether the pool starts work.
    #[must_use]
    pub fn is_open(&self, id: PoolId) -> bool {
        self.pools.get(&id).is_some_and(|pool| pool.open && !pool.deleted)
    }

    /// Where `rank` stands in the pool's line.
    #[must_use]
    pub fn place(&self, id: PoolId, rank: Rank) -> PoolPlace {
        let Some(pool) = self.pools.get(&id) else {
            return PoolPlace { ahead_total: 0, ahead: vec![] };
        };
        let (ahead_total, _) = pool.line.before(rank);
        PoolPlace { ahead_total, ahead: pool.line.nearest_before(rank, limits::AHEAD_MAX) }
    }

    fn with<T>(&mut self, id: PoolId, change: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        self.pools.get_mut(&id).map(change)
    }

    /// Updates everything derived from a pool after the pool changed.
    fn touched(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(&id) else { return };
        let next = pool.next_ready();
        if pool.callable_as != next {
            if let Some(old) = pool.callable_as {
                self.callable.remove(&(old, id));
            }
            if let Some(rank) = next {
                self.callable.insert((rank, id));
            }
            pool.callable_as = next;
        }
        if pool.marked != pool.eligible() {
            self.unsettled.insert(id);
        }
        if pool.is_over() {
            self.pools.remove(&id);
            self.unsettled.remove(&id);
            self.orphaned.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
