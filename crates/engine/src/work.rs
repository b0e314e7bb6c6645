//! One request on its way: what it asked for, how far it came, and what it must give back.

use crate::prepare::{Position, Prepared};
use paceline_checkpoints::Held;
use paceline_types::{CheckpointId, PoolId, Priority, Rank, Time};

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On its way from one queue to the next, within one call.
    Moving,
    /// Asleep in a checkpoint's queue.
    Checkpoint(CheckpointId),
    /// In line for claims and a slot, until the deadline.
    Line {
        since: Time,
        deadline: Option<Time>,
    },
    /// Aside, for a resource that does not exist.
    Aside {
        since: Time,
        deadline: Option<Time>,
    },
    Running {
        since: Time,
    },
}

#[derive(Debug)]
pub(crate) struct Work {
    pub prepared: Prepared,
    pub arrival: Time,
    pub priority: Priority,
    pub rank: Rank,
    pub pool: PoolId,
    /// Its own longest wait, over all queues.
    pub deadline: Option<Time>,
    /// The last checkpoint it reached.
    pub position: Option<Position>,
    pub stage: Stage,
    /// What each checkpoint on its way must get back, in the order of the walk.
    pub held: Vec<Held>,
}

impl Work {
    pub fn runs(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    pub fn claims(&self) -> bool {
        !self.prepared.request.claims.is_empty()
    }
}
