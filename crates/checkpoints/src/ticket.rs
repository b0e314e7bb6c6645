//! The input and the results of a checkpoint.

use crate::at::At;
use crate::hash::KeyHash;
use paceline_types::{CheckpointId, Rank, RequestId, Span, Time};

/// A request that arrives at a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Its place in every queue; the rank's `id` is the request.
    pub rank: Rank,
    /// Its key; ignored if the checkpoint has no `key`.
    pub key: KeyHash,
    /// Its flow; ignored if the checkpoint has no `fair`.
    pub flow: KeyHash,
    /// The weight of its flow.
    pub weight: u32,
    /// Its cost.
    pub cost: u32,
    /// The deadline of its own longest wait, if it has one.
    pub deadline: Option<Time>,
    /// Set if it left a queue as [`How::Again`]. No bound holds it back then.
    pub kept: Option<Kept>,
}

/// What a waiter keeps when it must arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// When it began to wait.
    pub entered: Time,
    /// Its deadline.
    pub deadline: Time,
    /// Whether the meters have counted it already.
    pub metered: bool,
}

/// The result of an arrival.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The request passed, and gives this back when it ends.
    Passed(HeldCount),
    /// The request waits.
    Queued {
        /// When it passes if no other request arrives, if that is cheap to compute.
        pass_at: Option<Time>,
        /// The waiter whose place in a full queue it took; that waiter is refused.
        displaced: Option<Moved>,
    },
    /// The request is refused.
    Refused(Turned),
}

/// What would happen to a request that arrives now if the checkpoint enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It would pass.
    Pass,
    /// It would wait.
    Queue {
        /// When it would pass, if that is cheap to compute.
        pass_at: Option<Time>,
    },
    /// It would be refused.
    Refuse(Turned),
}

/// A request's pass of a checkpoint: a count, and its cost. Given back once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a count that is not given back is held for ever"]
pub struct HeldCount {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) generation: u32,
    pub(crate) counter: Which,
    pub(crate) cost: u32,
    /// The last edit of the limit when it was spent.
    pub(crate) edit: u32,
    pub(crate) since: Time,
    /// Whether it counts towards a concurrency limit.
    pub(crate) limited: bool,
}

impl HeldCount {
    /// The checkpoint that the request passed.
    #[must_use]
    pub const fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// The counter, if other requests may have to wait until this is given back.
    #[must_use]
    pub fn counter(&self) -> Option<KeyHash> {
        self.limited.then(|| self.counter.number())
    }

    /// The cost that the request spent.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// When the request passed.
    #[must_use]
    pub const fn since(&self) -> Time {
        self.since
    }
}

/// Which counter of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The only counter, if the checkpoint has no key.
    Only,
    /// The counter that keys past the maximum share, for this key.
    Overflow(KeyHash),
    /// The counter of a key.
    Key(KeyHash),
}

impl Which {
    /// A number that distinguishes it from other counters of its checkpoint.
    pub(crate) const fn number(self) -> KeyHash {
        match self {
            Self::Only => KeyHash([0; 2]),
            Self::Overflow(_) => KeyHash([u64::MAX; 2]),
            Self::Key(key) => key,
        }
    }

    /// Whether both are the same counter; all keys at the overflow counter have the same one.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Overflow(_), Self::Overflow(_)))
    }
}

/// Why a request is refused, and when a retry has a chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// The cause.
    pub cause: Cause,
    /// When to retry, if known.
    pub retry_at: Option<Time>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The queue is full.
    Full {
        /// The most that may wait.
        max: u64,
    },
    /// It would wait too long.
    TooLong {
        /// How long it would wait.
        wait: Span,
        /// How long it may wait.
        max: Span,
    },
    /// It reached its deadline.
    Expired {
        /// How long it waited.
        waited: Span,
    },
    /// Its cost is more than the burst.
    CostTooHigh {
        /// The burst.
        burst: u32,
    },
}

/// A waiter that left its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The request.
    pub request: RequestId,
    /// The checkpoint where it waited.
    pub checkpoint: CheckpointId,
    /// How it left.
    pub how: How,
}

/// How a waiter left its queue.
#[derive(Debug, PartialEq, Eq)]
pub enum How {
    /// It passed, and gives this back when it ends.
    Passed(HeldCount),
    /// It reached its deadline, a request of a shorter flow took its place, or an edit made its cost too
    /// high.
    Refused(Turned),
    /// The checkpoint has new counters: the request must arrive there again.
    Again(Kept),
    /// The checkpoint was deleted: the request continues and holds nothing from it.
    Gone {
        /// The last place of the checkpoint.
        at: At,
        /// Its number in that list.
        number: u32,
    },
}

/// What a checkpoint has done so far, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that arrived, or were counted.
    pub arrivals: u64,
    /// Of those, how many passed, at once or after waiting.
    pub passed: u64,
    /// How many have waited.
    pub queued: u64,
    /// How many wait now.
    pub queued_now: u64,
    /// How many passed and are not settled.
    pub inflight: u64,
    /// Refused because the queue was full.
    pub refused_full: u64,
    /// Refused because the wait would have been too long.
    pub refused_too_long: u64,
    /// Refused because the cost is more than the burst.
    pub refused_cost: u64,
    /// Refused when they reached their deadline.
    pub expired: u64,
    /// Left the queue before they passed.
    pub left: u64,
    /// In watch mode: passed, but would have waited.
    pub would_wait: u64,
    /// In watch mode: passed, but would have been refused.
    pub would_refuse: u64,
    /// Keys that have a counter of their own now.
    pub keys: u64,
    /// Arrivals that shared the overflow counter.
    pub overflowed: u64,
}
