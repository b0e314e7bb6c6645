//! Why a request waits, behind which requests, and for how long.
//!
//! Answers from the values that the queues decide on, never from a copy. Every waiter has an answer that names
//! an object. The requests ahead are given by number, nearest first, at most [`limits::AHEAD_MAX`] of them.

use crate::engine::Engine;
use crate::work::{Stage, Work};
use paceline_checkpoints::KeyHash;
use paceline_types::{CheckpointId, Place, Priority, RequestId, Span, Time, limits};
use std::fmt;

/// Holders examined, oldest first, to name the holders of the counter as it is now.
const HOLDERS_LOOKED_AT_MAX: usize = 256;

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing: it runs.
    Nothing,
    /// Its turn at a checkpoint.
    Checkpoint {
        /// The checkpoint and the key.
        place: Place,
    },
    /// A resource that another request holds, or claims before it.
    Resource {
        /// The resource.
        resource: Box<str>,
    },
    /// A free slot.
    Slot {
        /// The pool.
        pool: Box<str>,
    },
    /// The pool to be started.
    Start {
        /// The pool.
        pool: Box<str>,
    },
    /// A resource that does not exist yet.
    Creation {
        /// The resource.
        resource: Box<str>,
    },
    /// The engine's next turn: it can continue, and will at once.
    Turn,
}

/// Why a request waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The request.
    pub id: RequestId,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// When it was submitted.
    pub arrival: Time,
    /// How long it had waited before that.
    pub waited_before: Span,
    /// Since when it waits here, or runs.
    pub since: Time,
    /// Its priority.
    pub priority: Priority,
    /// Its pool; a connection has none.
    pub pool: Box<str>,
    /// The requests before it in line, nearest first, then the holders of what it waits for. If it waits for a
    /// resource, the holders are first.
    pub ahead: Vec<RequestId>,
    /// How many these are altogether; requests that claim a resource before it are counted up to 256.
    pub ahead_total: usize,
    /// How many of these hold what it waits for, and do not wait themselves.
    pub holding: usize,
    /// When it will continue, if nothing else changes and that is known.
    pub until: Option<Time>,
    /// When it will be refused if it still waits.
    pub deadline: Option<Time>,
}

impl Why {
    /// How many requests wait before it.
    #[must_use]
    pub const fn in_line(&self) -> usize {
        self.ahead_total.saturating_sub(self.holding)
    }

    /// Adds the holders of what it waits for, which are ahead of all requests that wait for the same.
    fn add_holders(&mut self, holders: impl Iterator<Item = RequestId>, total: usize) {
        let room = limits::AHEAD_MAX.saturating_sub(self.ahead.len());
        self.ahead.extend(holders.take(room));
        self.ahead_total += total;
        self.holding += total;
    }
}

impl Engine {
    /// Why a request waits, or since when it runs. `None` if it does neither.
    #[must_use]
    pub fn why(&self, id: RequestId) -> Option<Why> {
        let work = self.requests.get(id)?;
        let mut why = Why {
            id,
            waits_for: WaitsFor::Turn,
            arrival: work.arrival,
            waited_before: work.draft.request.waited,
            since: work.arrival,
            priority: work.priority,
            pool: match work.draft.is_connection() {
                true => Box::default(),
                false => self.snapshot.pool_name(work.pool),
            },
            ahead: vec![],
            ahead_total: 0,
            holding: 0,
            until: None,
            deadline: work.deadline,
        };
        match work.stage {
            Stage::Running { since } => {
                why.waits_for = WaitsFor::Nothing;
                (why.since, why.deadline) = (since, None);
            }
            Stage::Moving => {}
            Stage::Checkpoint { id, .. } => self.why_checkpoint(&mut why, work, id),
            Stage::Aside { since, deadline } => {
                (why.since, why.deadline) = (since, deadline);
                let resource = self.claims.missing(id).unwrap_or_default().into();
                why.waits_for = WaitsFor::Creation { resource };
            }
            Stage::Line { since, deadline } => {
                (why.since, why.deadline) = (since, deadline);
                self.why_line(&mut why, work);
            }
        }
        Some(why)
    }

    fn why_checkpoint(&self, why: &mut Why, work: &Work, checkpoint: CheckpointId) {
        why.waits_for = WaitsFor::Checkpoint { place: self.checkpoint_place(work, checkpoint) };
        let Some(place) = self.checkpoints.place(self.now, work.rank.id) else { return };
        (why.since, why.until, why.deadline) = (place.entered, place.pass_at, Some(place.deadline));
        (why.ahead, why.ahead_total) = (place.nearest, place.ahead);
        if why.until.is_none() {
            let holders = self.count_holders(work.rank.id, checkpoint, place.counter);
            why.add_holders(holders, place.held as usize);
        }
    }

    fn why_line(&self, why: &mut Why, work: &Work) {
        if !self.pools.is_open(work.pool) {
            why.waits_for = WaitsFor::Start { pool: why.pool.clone() };
            self.name_line(why, work);
            return;
        }
        if work.claims() {
            let blockers = self.claims.blockers(work.rank.id, limits::AHEAD_MAX);
            if let Some(first) = blockers.nearest.first() {
                why.waits_for = WaitsFor::Resource { resource: first.resource.clone() };
                why.ahead_total = blockers.total;
                why.ahead = blockers.nearest.iter().map(|blocker| blocker.id).collect();
                let runs = |id: &&RequestId| self.requests.running(**id).is_some();
                why.holding = why.ahead.iter().filter(runs).count();
                return;
            }
        }
        if self.pools.has_slot(work.pool) {
            return;
        }
        why.waits_for = WaitsFor::Slot { pool: why.pool.clone() };
        self.name_line(why, work);
        why.add_holders(self.requests.of_pool(work.pool), self.pools.running(work.pool) as usize);
    }

    fn name_line(&self, why: &mut Why, work: &Work) {
        let place = self.pools.place(work.pool, work.rank);
        (why.ahead, why.ahead_total) = (place.ahead, place.ahead_total);
    }

    /// The holders of the counts that a waiter at the front waits for, the oldest first.
    fn count_holders(
        &self,
        waiter: RequestId,
        checkpoint: CheckpointId,
        counter: KeyHash,
    ) -> impl Iterator<Item = RequestId> {
        let listed = self.requests.of_counter(checkpoint, counter);
        // Counts from before an edit that brought new counters hold no request back.
        listed.take(HOLDERS_LOOKED_AT_MAX).filter(move |id| {
            let held = self.requests.get(*id).map_or(&[][..], |holder| &holder.held);
            held.iter().any(|held| self.checkpoints.waits_for(waiter, held))
        })
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("runs"),
            Self::Checkpoint { place } => write!(f, "waits at {place}"),
            Self::Resource { resource } => write!(f, "waits for resource \"{resource}\""),
            Self::Slot { pool } => write!(f, "waits for a slot of pool \"{pool}\""),
            Self::Start { pool } => write!(f, "waits for pool \"{pool}\" to be started"),
            Self::Creation { resource } => {
                write!(f, "waits for resource \"{resource}\" to be created")
            }
            Self::Turn => f.write_str("goes on at once"),
        }
    }
}
