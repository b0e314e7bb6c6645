//! All checkpoints: requests arrive, wait, pass and give back their counts here.
//!
//! Owns every counter and every queue. Each call takes the time; a time earlier than the last one counts as
//! the last one. Nothing moves by itself: [`Checkpoints::next`] lets out one waiter at a time, in the order
//! of [`Due`], and [`Checkpoints::poll_timeout`] says when the next call is due.
//!
//! Promises: never more than a limit passes (S1, P1), every waiter stays within all bounds of its queue (S2),
//! the number of counters is bounded (S3). Never evaluates an expression, never sees the
//! text of a key.

use crate::checkpoint::{Checkpoint, Waiting};
use crate::configure::Backlog;
use crate::hash::{KeyHash, KeyHasher};
use crate::set::CheckpointSet;
use crate::table::Table;
use crate::ticket::{Arrival, HeldCount, How, Moved, Ticket, Which};
use crate::timers::{Due, DueKind};
use paceline_types::{CheckpointId, Priority, Rank, RequestId, Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// All checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    pub(crate) set: Arc<CheckpointSet>,
    /// The id of each checkpoint in `list`, in the same order.
    pub(crate) ids: Vec<CheckpointId>,
    /// Boxed, so that adding a checkpoint does not move all others.
    #[allow(clippy::vec_box)]
    pub(crate) list: Vec<Box<Checkpoint>>,
    pub(crate) waiting: Waiting,
    /// Waiters that were handed a count that another request gave back, in that order.
    handed: VecDeque<(Rank, Moved)>,
    pub(crate) backlog: VecDeque<Backlog>,
    /// Deleted checkpoints by name, kept while a request that passed one of them may still run.
    pub(crate) buried: Vec<(Box<str>, CheckpointId)>,
    /// How many ids were given to checkpoints of earlier runs.
    formers: u32,
    /// Dropped counters whose memory is not freed yet.
    pub(crate) dropped: Vec<Table>,
    /// The last generation of counters.
    pub(crate) generation: u32,
    now: Time,
    slip: Span,
    hasher: KeyHasher,
}

impl Checkpoints {
    /// No checkpoints. `seed` is the seed for the hashes of keys; `slip` is how late a waiter may be let out
    /// without a loss to the waiters behind it.
    #[must_use]
    pub fn new(seed: u128, slip: Span) -> Self {
        Self {
            set: Arc::default(),
            ids: vec![],
            list: vec![],
            waiting: Waiting::default(),
            handed: VecDeque::new(),
            backlog: VecDeque::new(),
            buried: vec![],
            formers: 0,
            dropped: vec![],
            generation: 0,
            now: Time(0),
            slip,
            hasher: KeyHasher::new(seed),
        }
    }

    /// Changes how late a waiter may be let out without a loss to the waiters behind it.
    pub const fn set_slip(&mut self, slip: Span) {
        self.slip = slip;
    }

    /// Handles the arrival of a request at a checkpoint. A request that passes must give back what it holds,
    /// with [`settle`](Self::settle) or [`refund`](Self::refund).
    pub fn arrive(&mut self, now: Time, id: CheckpointId, ticket: &Ticket) -> Arrival {
        let now = self.turn(now);
        match self.open(id) {
            Some(index) => self.list[index].arrive(now, ticket, &mut self.waiting),
            None => Arrival::Passed(nothing(now, id)),
        }
    }

    /// Counts a request at a checkpoint and lets it pass, whatever the limit. Used for the `count`
    /// checkpoints of a frontend, before the rules.
    pub fn count(&mut self, now: Time, id: CheckpointId, key: KeyHash) -> HeldCount {
        let now = self.turn(now);
        match self.open(id) {
            Some(index) => self.list[index].count(now, key),
            None => nothing(now, id),
        }
    }

    /// Counts a request that passed in an earlier run, whatever the limit.
    pub fn restore(&mut self, now: Time, id: CheckpointId, key: KeyHash) -> HeldCount {
        let now = self.turn(now);
        match self.open(id) {
            Some(index) => self.list[index].restore(now, key),
            None => nothing(now, id),
        }
    }

    /// Counts a request that passed, in an earlier run, a checkpoint that no longer exists. It counts if a
    /// checkpoint of that name is created again.
    pub fn restore_former(&mut self, now: Time, name: &str) -> HeldCount {
        let now = self.turn(now);
        let known = self.buried.iter().find(|(other, id)| **other == *name && is_former(*id));
        let id = known.map_or(CheckpointId(FORMER | self.formers), |(_, id)| *id);
        if known.is_none() {
            self.formers += 1;
            self.buried.push((name.into(), id));
        }
        HeldCount { limited: true, ..nothing(now, id) }
    }

    /// The name of the checkpoint that a request passed; deleted checkpoints have one too.
    #[must_use]
    pub fn name_of(&self, held: &HeldCount) -> Option<&str> {
        let deleted = || self.buried.iter().find(|(_, id)| *id == held.checkpoint);
        match self.set.checkpoint(held.checkpoint) {
            Some(checked) => Some(&checked.spec.name),
            None => deleted().map(|(name, _)| &**name),
        }
    }

    /// Counts a request here that passed this checkpoint before it got new counters, or that passed a
    /// checkpoint which this one replaces. No waiter is let out: the request held a count before and holds
    /// one now.
    pub fn count_again(
        &mut self,
        now: Time,
        id: CheckpointId,
        key: KeyHash,
        held: HeldCount,
    ) -> HeldCount {
        let now = self.turn(now);
        match self.open(id) {
            Some(index) => self.list[index].count_again(now, key, held.since),
            None => held,
        }
    }

    /// Gives back the count of a request that ran. If a request waits for it, [`handed`](Self::handed)
    /// returns the request that got it.
    pub fn settle(&mut self, now: Time, held: HeldCount) {
        let now = self.turn(now);
        if let Some(index) = self.open(held.checkpoint) {
            let got = self.list[index].settle(now, &held, &mut self.waiting);
            self.handed.extend(got);
        }
    }

    /// Refunds what a request spent that ended before it ran, and gives back its count.
    pub fn refund(&mut self, now: Time, held: HeldCount) {
        let now = self.turn(now);
        if let Some(index) = self.open(held.checkpoint) {
            let got = self.list[index].refund(now, &held, &mut self.waiting);
            self.handed.extend(got);
        }
    }

    /// Whether this count is still valid: its counters have not been replaced since.
    #[must_use]
    pub fn counts(&self, held: &HeldCount) -> bool {
        let index = self.open(held.checkpoint);
        index.is_some_and(|index| self.list[index].generation == held.generation)
    }

    /// Takes a waiter out of its queue at once; it spends nothing. Returns whether it waited.
    pub fn leave(&mut self, now: Time, request: RequestId) -> bool {
        let now = self.turn(now);
        if let Some(waiter) = self.waiting.waiters.remove(&request) {
            if let Ok(index) = self.ids.binary_search(&waiter.checkpoint) {
                self.list[index].leave(&waiter, &mut self.waiting);
                self.remove_if_done(index);
            }
            return true;
        }
        // It may just have been handed a count, which then passes to the next waiter.
        let Some(index) = self.handed.iter().position(|(rank, _)| rank.id == request) else {
            return false;
        };
        if let Some((_, Moved { how: How::Passed(held), .. })) = self.handed.remove(index) {
            self.refund(now, held);
        }
        true
    }

    /// The next waiter that was handed a count, in the order of the handovers.
    pub fn handed(&mut self) -> Option<Moved> {
        self.handed.pop_front().map(|(_, moved)| moved)
    }

    /// Lets out one waiter: one that was handed a count, otherwise the earliest that is due by `now`.
    ///
    /// `None` may also mean that a large edit is still in progress. Then [`poll_timeout`](Self::poll_timeout)
    /// stays at now, and the next call continues it.
    pub fn next(&mut self, now: Time) -> Option<Moved> {
        let now = self.turn(now);
        if let Some(moved) = self.handed() {
            return Some(moved);
        }
        if !self.backlog.is_empty() {
            self.catch_up();
            if !self.backlog.is_empty() {
                return None;
            }
        }
        let (due, at) = self.waiting.timers.first().filter(|(due, _)| due.at <= now)?;
        let index = self.ids.binary_search(&at.checkpoint).ok()?;
        let checkpoint = &mut self.list[index];
        let moved = match due.kind {
            DueKind::Pass => checkpoint.pass_head(now, self.slip, at.queue, &mut self.waiting),
            DueKind::Expire => checkpoint.expire(now, due.rank, &mut self.waiting),
        };
        self.remove_if_done(index);
        moved
    }

    /// What [`next`](Self::next) would do next, and when.
    #[must_use]
    pub fn next_due(&self) -> Option<Due> {
        let first = Due {
            at: Time(0),
            kind: DueKind::Pass,
            rank: Rank::new(Time(0), Priority::MAX, Span(u64::MAX), RequestId(0)),
        };
        if let Some((rank, _)) = self.handed.front() {
            return Some(Due { rank: *rank, ..first });
        }
        if !self.backlog.is_empty() {
            return Some(first);
        }
        self.waiting.timers.first().map(|(due, _)| due)
    }

    /// When [`next`](Self::next) should be called, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_due().map(|due| due.at.max(self.now))
    }

    /// The hasher that turns keys and flows into numbers, to be used outside the lock.
    #[must_use]
    pub const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The configuration in use.
    #[must_use]
    pub const fn set(&self) -> &Arc<CheckpointSet> {
        &self.set
    }

    /// Returns the time of this call, and does some of the pending background work.
    pub(crate) fn turn(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        if !self.dropped.is_empty() {
            self.drop_some();
        }
        self.now
    }

    /// The later of this time and the last one seen.
    pub(crate) fn at(&self, now: Time) -> Time {
        self.now.max(now)
    }

    /// The index of a checkpoint that is not deleted.
    pub(crate) fn open(&self, id: CheckpointId) -> Option<usize> {
        let index = self.ids.binary_search(&id).ok()?;
        (!self.list[index].closing).then_some(index)
    }
}

/// Ids with this bit belong to checkpoints that existed in an earlier run and do not exist in this one.
const FORMER: u32 = 1 << 30;

const fn is_former(id: CheckpointId) -> bool {
    id.0 & FORMER != 0
}

/// What a request holds from a checkpoint that does not exist: it may pass, and gives nothing back.
const fn nothing(now: Time, checkpoint: CheckpointId) -> HeldCount {
    let counter = Which::Only;
    HeldCount { checkpoint, generation: 0, counter, cost: 0, edit: 0, since: now, limited: false }
}

#[cfg(test)]
mod tests;
