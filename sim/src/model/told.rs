//! What the model tells: what became of requests, why, and how often.

/// Where a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this checkpoint, in the counter of this key.
    Checkpoint(&'static str, Option<&'static str>),
    /// In this pool.
    Pool(&'static str),
}

/// What turned a request away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The rule of this number.
    Rejected(u32),
    /// So many wait there already.
    QueueFull(Place, u64),
    /// It would wait so long.
    TooLong(Place, u64),
    /// It waited too long.
    Expired(Place),
    /// More than the burst.
    CostTooHigh(Place),
    /// The pool takes nothing new.
    Draining(&'static str),
    /// There is no such resource.
    UnknownResource(&'static str),
    /// Too much hangs together with what it claims: never here, no history has so many resources.
    TooWide,
    /// Its own session is in its way.
    BlocksItself,
    /// Its session does not own this lock.
    NotOwner(&'static str),
    /// No line of this frontend takes it.
    NoBackend(&'static str),
    /// No server of this backend is up.
    NoServer(&'static str),
    /// As many are alive as may be.
    Exhausted,
}

/// What a call tells the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A waiter runs.
    Start(u64),
    /// A waiter was turned away.
    Refuse(u64, Reason),
    /// A request ended with its session; whether it ran.
    End(u64, bool),
    /// A rule with the log flag matched.
    Log(u64, u32),
}

/// What became of a submitted request by the end of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs.
    Started,
    /// It waits.
    Waiting,
    /// It was turned away.
    Refused(Reason),
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Somebody came.
    pub submitted: u64,
    /// Somebody was let go.
    pub started: u64,
    /// Somebody was turned away.
    pub refused: u64,
    /// Somebody left, or was let go in vain.
    pub cancelled: u64,
    /// Somebody who ran was done.
    pub settled: u64,
}

impl Tally {
    /// Counts one that is over, and whether it ran.
    pub(super) const fn ended(&mut self, ran: bool) {
        let count = if ran { &mut self.settled } else { &mut self.cancelled };
        *count += 1;
    }
}
