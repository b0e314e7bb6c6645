//! When the next waiter moves: one ordered set with one entry per queue, never one per request.

use paceline_types::{CheckpointId, Rank, Time};
use std::collections::BTreeMap;

/// When a waiter moves by itself. Ordered as events are handled: by time, passes before expiries, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// The time. A waiter that an edit dismisses is due at the start of time.
    pub at: Time,
    /// Whether the waiter passes or expires.
    pub kind: DueKind,
    /// The waiter's rank.
    pub rank: Rank,
}

/// What happens at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DueKind {
    /// The head of a queue leaves it.
    Pass,
    /// A waiter reaches its deadline.
    Expire,
}

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueAt {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) queue: u32,
}

/// The next event of every queue. A rank waits in one queue at a time, so no two events are equal.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeMap<Due, QueueAt>,
}

impl Timers {
    /// Replaces `old` with `new` for one queue.
    pub(crate) fn replace(&mut self, old: Option<Due>, new: Option<Due>, at: QueueAt) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.set.remove(&old);
        }
        if let Some(new) = new {
            let other = self.set.insert(new, at);
            debug_assert!(other.is_none(), "a request waits in one queue");
        }
    }

    /// The earliest event and its queue.
    pub(crate) fn first(&self) -> Option<(Due, QueueAt)> {
        self.set.first_key_value().map(|(due, at)| (*due, *at))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}
