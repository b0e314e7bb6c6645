//! One pool at work: its slots, its line, and which waiters are worth trying.
//!
//! The first `max` waiters in line are *eligible*: they could be the next to run, so their claims
//! hold back later requests. Eligible waiters are always the front of the line, so one number,
//! `marked`, says how many have been reported as eligible. It moves towards its target one waiter
//! at a time.

use crate::spec::{PoolSpec, PoolState, QueueBounds};
use paceline_types::{Line, Rank, Span, Toll};
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Pool {
    pub name: Box<str>,
    pub max: Option<u32>,
    /// Whether the pool starts work (it is started or draining).
    pub open: bool,
    pub bounds: QueueBounds,
    pub running: u32,
    /// The waiters in line for a slot.
    pub line: Line,
    /// How many waiters at the front of the line have been reported as eligible.
    pub marked: usize,
    /// The waiters in line that would run if a slot were free, as far as is known.
    pub ready: BTreeSet<Rank>,
    /// The waiters whose claim names an unknown resource.
    pub aside: BTreeSet<Rank>,
    /// The pool was deleted and stays only until no request runs or waits in it.
    pub deleted: bool,
    /// The rank under which this pool is in the set of callable pools.
    pub callable_as: Option<Rank>,
    mean_run: Option<Span>,
}

impl Pool {
    pub fn new(spec: &PoolSpec) -> Self {
        let mut pool = Self::former(&spec.name);
        pool.deleted = false;
        pool.configure(spec);
        pool
    }

    /// A pool of an earlier run that no longer exists.
    pub fn former(name: &str) -> Self {
        Self {
            name: name.into(),
            max: None,
            open: false,
            bounds: QueueBounds::default(),
            running: 0,
            line: Line::new(),
            marked: 0,
            ready: BTreeSet::new(),
            aside: BTreeSet::new(),
            deleted: true,
            callable_as: None,
            mean_run: None,
        }
    }

    pub fn configure(&mut self, spec: &PoolSpec) {
        self.name.clone_from(&spec.name);
        self.max = spec.threads_max;
        self.open = spec.state != PoolState::Stopped;
        self.bounds = spec.queue;
    }

    pub fn has_slot(&self) -> bool {
        self.open && !self.deleted && self.max.is_none_or(|max| self.running < max)
    }

    pub fn waiting(&self) -> usize {
        self.line.len() + self.aside.len()
    }

    /// The waiter to try next, if a slot is free.
    pub fn next_ready(&self) -> Option<Rank> {
        if self.has_slot() { self.ready.first().copied() } else { None }
    }

    /// Adds a waiter to the line. Returns true if it lands inside the marked front; it is then
    /// marked at once.
    pub fn join(&mut self, rank: Rank) -> bool {
        let (place, _) = self.line.before(rank);
        self.line.join(rank, Toll { cost: 1, share: 1 });
        self.ready.insert(rank);
        let in_front = place < self.marked;
        self.marked += usize::from(in_front);
        in_front
    }

    /// Removes a waiter from the line or from `aside`. Returns whether it was in either.
    pub fn leave(&mut self, rank: Rank) -> bool {
        if self.aside.remove(&rank) {
            return true;
        }
        let (place, _) = self.line.before(rank);
        if self.line.leave(rank).is_none() {
            return false;
        }
        self.ready.remove(&rank);
        self.marked -= usize::from(place < self.marked);
        true
    }

    /// How many waiters at the front of the line are eligible.
    pub fn eligible(&self) -> usize {
        if !self.open || self.deleted {
            return 0;
        }
        let max = self.max.map_or(usize::MAX, |max| max as usize);
        self.line.len().min(max)
    }

    /// Moves the end of the marked front by one waiter towards its target.
    pub fn next_flip(&mut self) -> Option<(Rank, bool)> {
        let target = self.eligible();
        if self.marked < target {
            let rank = self.line.nth(self.marked)?;
            self.marked += 1;
            return Some((rank, true));
        }
        if self.marked > target {
            self.marked -= 1;
            return Some((self.line.nth(self.marked)?, false));
        }
        None
    }

    /// Returns the slot of a request that ran for `ran`.
    pub fn release(&mut self, ran: Span) {
        debug_assert!(self.running > 0, "a slot is given back once");
        self.running = self.running.saturating_sub(1);
        let mean = self.mean_run.unwrap_or(ran).0;
        self.mean_run = Some(Span(mean - mean / 8 + ran.0 / 8));
    }

    /// How long a request runs here on average; `None` before the first has finished.
    pub fn mean_run(&self) -> Option<Span> {
        self.mean_run
    }

    pub fn is_over(&self) -> bool {
        self.deleted && self.running == 0 && self.waiting() == 0
    }
}
