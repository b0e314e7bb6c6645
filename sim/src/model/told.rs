//! What the model reports: the outcomes of requests, the reasons, and the totals.

/// Where a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this checkpoint, in the counter of this key.
    Checkpoint(&'static str, Option<&'static str>),
    /// In this pool.
    Pool(&'static str),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The rule of this number.
    Rejected(u32),
    /// This many wait there already.
    QueueFull(Place, u64),
    /// It would wait this long.
    TooLong(Place, u64),
    /// It waited too long.
    Expired(Place),
    /// It costs more than the burst.
    CostTooHigh(Place),
    /// The pool accepts nothing new.
    Draining(&'static str),
    /// There is no such resource.
    UnknownResource(&'static str),
    /// Its claims have too many marks: never happens here, because no history has so many resources.
    TooWide,
    /// Its own session blocks it.
    BlocksItself,
    /// It waits for others that wait for it.
    Deadlock,
    /// Its session does not own this lock.
    NotOwner(&'static str),
    /// No line of this frontend takes it.
    NoBackend(&'static str),
    /// No server of this backend is up.
    NoServer(&'static str),
    /// As many requests are alive as allowed.
    Exhausted,
}

/// An effect of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A waiter runs.
    Start(u64),
    /// A waiter was refused.
    Refuse(u64, Reason),
    /// A request ended with its session; whether it ran.
    End(u64, bool),
    /// A rule with the log flag matched.
    Log(u64, u32),
}

/// The outcome of a submitted request by the end of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs.
    Started,
    /// It waits.
    Waiting,
    /// It was refused.
    Refused(Reason),
}

/// Totals of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests started.
    pub started: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that left, or were withdrawn.
    pub cancelled: u64,
    /// Requests that ran and ended.
    pub settled: u64,
}

impl Tally {
    /// Counts an ended request, and whether it ran.
    pub(super) const fn ended(&mut self, ran: bool) {
        let count = if ran { &mut self.settled } else { &mut self.cancelled };
        *count += 1;
    }
}
