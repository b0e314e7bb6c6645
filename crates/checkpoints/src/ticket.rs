//! What goes into a checkpoint and what comes out of it.

use crate::at::At;
use crate::hash::KeyHash;
use paceline_types::{CheckpointId, Rank, RequestId, Span, Time};

/// A request that arrives at a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Its place in every queue; the rank's `id` is the request.
    pub rank: Rank,
    /// Its key; ignored where the checkpoint has no `key`.
    pub key: KeyHash,
    /// Its flow; ignored where the checkpoint has no `fair`.
    pub flow: KeyHash,
    /// The weight of its flow.
    pub weight: u32,
    /// What it spends.
    pub cost: u32,
    /// The end of its own longest wait, if it has one.
    pub deadline: Option<Time>,
    /// What it brought out of a queue as [`How::Again`]: then no bound holds it back.
    pub kept: Option<Kept>,
}

/// What a waiter keeps when it must arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// When it began to wait.
    pub entered: Time,
    /// When it will have waited long enough.
    pub deadline: Time,
    /// Whether the meters have counted it already.
    pub metered: bool,
}

/// What becomes of a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It walks on, and gives this back at its end.
    Passed(HeldCount),
    /// It waits.
    Queued {
        /// When it would pass if nobody else came, where that is known at a small price.
        pass_at: Option<Time>,
        /// The waiter whose place in a full queue it took, which is turned away.
        displaced: Option<Moved>,
    },
    /// It is turned away.
    Refused(Turned),
}

/// What would become of a request if it arrived now and the checkpoint enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It would walk on.
    Pass,
    /// It would wait.
    Queue {
        /// Until then, where that is known at a small price.
        pass_at: Option<Time>,
    },
    /// It would be turned away.
    Refuse(Turned),
}

/// That a request passed a checkpoint: a count, and what it spent. Given back once.
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
    /// Whether it holds one of so many that may be held at once.
    pub(crate) limited: bool,
}

impl HeldCount {
    /// The checkpoint that was passed.
    #[must_use]
    pub const fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// The counter, where others may have to wait until this is given back.
    #[must_use]
    pub fn counter(&self) -> Option<KeyHash> {
        self.limited.then(|| self.counter.number())
    }

    /// What was spent there.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// When it was passed.
    #[must_use]
    pub const fn since(&self) -> Time {
        self.since
    }
}

/// Which counter of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The only one, where there is no key.
    Only,
    /// The one that keys past the maximum share, for this key.
    Overflow(KeyHash),
    /// That of a key.
    Key(KeyHash),
}

impl Which {
    /// A number that tells it from other counters of its checkpoint.
    pub(crate) const fn number(self) -> KeyHash {
        match self {
            Self::Only => KeyHash([0; 2]),
            Self::Overflow(_) => KeyHash([u64::MAX; 2]),
            Self::Key(key) => key,
        }
    }

    /// Whether both are the same counter, whatever key uses the shared one.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Overflow(_), Self::Overflow(_)))
    }
}

/// Why a request is turned away, and when another try has a chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Why.
    pub cause: Cause,
    /// When to come back, where that is known.
    pub retry_at: Option<Time>,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// As many wait as may.
    Full {
        /// How many that is.
        max: u64,
    },
    /// It would wait too long.
    TooLong {
        /// How long it would wait.
        wait: Span,
        /// How long it may wait.
        max: Span,
    },
    /// It waited as long as it may.
    Expired {
        /// How long it waited.
        waited: Span,
    },
    /// It costs more than can ever be spent at once.
    CostTooHigh {
        /// The most that can be.
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
    /// It walks on, and gives this back at its end.
    Passed(HeldCount),
    /// It waited too long, a request of a shorter flow took its place, or an edit made its cost too high.
    Refused(Turned),
    /// The checkpoint has new counters: it must arrive there again.
    Again(Kept),
    /// The checkpoint is gone: it walks on and holds nothing from here.
    Gone {
        /// The list that the checkpoint stood in last.
        at: At,
        /// Its place in that list.
        number: u32,
    },
}

/// What a checkpoint did so far and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that arrived, or were counted.
    pub arrivals: u64,
    /// Of those, how many passed, at once or after waiting.
    pub passed: u64,
    /// How many ever waited.
    pub queued: u64,
    /// How many wait now.
    pub queued_now: u64,
    /// How many passed and are not settled.
    pub inflight: u64,
    /// Turned away because too many waited.
    pub refused_full: u64,
    /// Turned away because the wait would have been too long.
    pub refused_too_long: u64,
    /// Turned away because the cost is more than the burst.
    pub refused_cost: u64,
    /// Turned away after they waited as long as they may.
    pub expired: u64,
    /// Left the queue by themselves.
    pub left: u64,
    /// In watch mode: passed, but would have waited.
    pub would_wait: u64,
    /// In watch mode: passed, but would have been turned away.
    pub would_refuse: u64,
    /// Keys that have a counter of their own now.
    pub keys: u64,
    /// Arrivals that shared the overflow counter.
    pub overflowed: u64,
}
