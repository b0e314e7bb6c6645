//! One request on its way: what it asked for, its progress, and what it must release.

use crate::prepare::{Draft, Position};
use crate::snapshot::Snapshot;
use paceline_checkpoints::HeldCount;
use paceline_routing::{Seat, SiteId};
use paceline_types::{CheckpointId, PoolId, Priority, Rank, RequestId, Span, Time};

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Between two queues, within one call.
    Moving,
    /// Asleep in a checkpoint's queue.
    Checkpoint {
        id: CheckpointId,
        since: Time,
    },
    /// In line for claims and a slot, until the deadline.
    Line {
        since: Time,
        deadline: Option<Time>,
    },
    /// Aside, waiting for a resource that does not exist.
    Aside {
        since: Time,
        deadline: Option<Time>,
    },
    Running {
        since: Time,
    },
}

/// One request. It is created when the request is prepared, so that nothing large is allocated or moved under
/// the engine's lock, and begins when it is submitted.
#[derive(Debug)]
pub(crate) struct Work {
    pub draft: Draft,
    pub arrival: Time,
    pub priority: Priority,
    pub rank: Rank,
    pub pool: PoolId,
    /// The deadline of its own longest wait, over all queues.
    pub deadline: Option<Time>,
    /// The last checkpoint it reached.
    pub position: Option<Position>,
    /// The generation of the configuration under which all checkpoints before that were passed or did not
    /// apply.
    pub looked_at: u64,
    pub stage: Stage,
    /// The counts to return to each checkpoint on its way, in the order of the walk.
    pub held: Vec<HeldCount>,
    /// The server it has.
    pub seat: Option<Seat>,
    /// The sites that could not be reached, in order.
    pub tried: Vec<SiteId>,
    /// Checkpoints where it slept, and how long.
    pub slept: Vec<(CheckpointId, Span)>,
    /// How long it waited in its pool's line.
    pub lined: Span,
}

impl Clone for Work {
    /// A copy for dry runs: it holds nothing.
    fn clone(&self) -> Self {
        let draft = self.draft.clone();
        Self { held: vec![], seat: None, tried: vec![], slept: vec![], draft, ..*self }
    }
}

impl Work {
    /// A request that was not submitted yet.
    pub fn new(draft: Draft) -> Self {
        Self {
            draft,
            arrival: Time(0),
            priority: Priority::START,
            rank: Rank::new(Time(0), Priority::START, Span::ZERO, RequestId(0)),
            pool: PoolId::DEFAULT,
            deadline: None,
            position: None,
            looked_at: 0,
            stage: Stage::Moving,
            held: vec![],
            seat: None,
            tried: vec![],
            slept: vec![],
            lined: Span::ZERO,
        }
    }

    /// Begins its way at `now`, with the priority that the rules gave it.
    pub fn begin(&mut self, now: Time, id: RequestId, priority: Priority, snapshot: &Snapshot) {
        self.arrival = now;
        self.looked_at = snapshot.generation;
        self.priority = priority;
        let rank = Rank::new(now, priority, snapshot.age_step, id);
        self.rank = rank.after(self.draft.request.waited);
        self.pool = snapshot.pools.pool_for(priority).id;
        self.deadline = self.draft.request.wait_max.map(|wait| now.plus(wait));
        if self.draft.steps_pool != Some(self.pool) {
            self.draft.plan_steps(snapshot, priority, self.pool);
        }
    }

    /// Marks it as running from `now` on, and drops what is no longer needed.
    pub fn start(&mut self, now: Time) {
        self.stage = Stage::Running { since: now };
        self.draft.on_start();
    }

    pub fn runs(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Whether it has a slot of its pool.
    pub fn has_slot(&self) -> bool {
        self.runs() && !self.draft.is_connection()
    }

    /// Marks it as sleeping at a checkpoint from `now` on, without anything large.
    pub fn sleep(&mut self, now: Time, at: CheckpointId) {
        self.stage = Stage::Checkpoint { id: at, since: now };
        self.draft.rest();
    }

    /// Ends its sleep at a checkpoint, and adds the time.
    pub fn wake(&mut self, now: Time) {
        let Stage::Checkpoint { id, since } = self.stage else { return };
        self.stage = Stage::Moving;
        let slept = now.since(since);
        match self.slept.iter_mut().find(|(other, _)| *other == id) {
            Some((_, before)) => *before = Span(before.0.saturating_add(slept.0)),
            None if slept > Span::ZERO => self.slept.push((id, slept)),
            None => {}
        }
    }

    /// How long it slept at a checkpoint so far, before its last arrival there.
    pub fn slept_at(&self, id: CheckpointId) -> Span {
        self.slept.iter().find(|(other, _)| *other == id).map_or(Span::ZERO, |(_, slept)| *slept)
    }

    /// Adds time that it waited in its pool's line.
    pub const fn stand(&mut self, span: Span) {
        self.lined = Span(self.lined.0.saturating_add(span.0));
    }

    pub fn claims(&self) -> bool {
        !self.draft.request.claims.is_empty()
    }
}
