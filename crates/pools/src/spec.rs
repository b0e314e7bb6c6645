//! The settings of one pool.

use paceline_types::{PoolId, Priority, Span};
use std::fmt;

/// The name of the pool that always exists.
pub const DEFAULT_NAME: &str = "default";

/// Whether a pool starts work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Requests wait in the queue; running requests continue.
    Stopped,
    /// Requests run.
    Started,
    /// New requests are refused; queued requests run.
    Draining,
}

impl fmt::Display for PoolState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Started => "started",
            Self::Draining => "draining",
        })
    }
}

/// The priorities that a pool runs, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: Priority,
    high: Priority,
}

impl Range {
    /// The range from `low` to `high`, or `None` if `low` is above `high`.
    #[must_use]
    pub fn new(low: Priority, high: Priority) -> Option<Self> {
        (low <= high).then_some(Self { low, high })
    }

    /// The least urgent priority in it.
    #[must_use]
    pub const fn low(self) -> Priority {
        self.low
    }

    /// The most urgent priority in it.
    #[must_use]
    pub const fn high(self) -> Priority {
        self.high
    }

    /// Whether `priority` is in it.
    #[must_use]
    pub fn holds(self, priority: Priority) -> bool {
        self.low <= priority && priority <= self.high
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.low, self.high)
    }
}

/// How many requests may wait for a slot, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// The most requests that may wait.
    pub len_max: u64,
    /// The longest time that a request may wait.
    pub delay_max: Option<Span>,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self { len_max: 100_000, delay_max: None }
    }
}

/// The configuration of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its id, for as long as it exists.
    pub id: PoolId,
    /// Its name.
    pub name: Box<str>,
    /// The priorities it runs; without a range it cannot be started.
    pub range: Option<Range>,
    /// Threads that are kept while there is no work.
    pub threads_min: u32,
    /// The most requests that run at once; `None` for no maximum.
    pub threads_max: Option<u32>,
    /// Bounds of its queue.
    pub queue: QueueBounds,
    /// Whether it starts work.
    pub state: PoolState,
    /// Whether it is kept across restarts.
    pub persistent: bool,
    /// The group whose limit applies to its threads.
    pub group: Option<Box<str>>,
    /// The stack size of each thread.
    pub stack_bytes: Option<u64>,
    /// The most heap its work may use.
    pub heap_bytes_max: Option<u64>,
}

impl PoolSpec {
    /// A new pool: stopped, without a range and without a maximum, transient.
    #[must_use]
    pub fn new(id: PoolId, name: &str) -> Self {
        Self {
            id,
            name: name.into(),
            range: None,
            threads_min: 0,
            threads_max: None,
            queue: QueueBounds::default(),
            state: PoolState::Stopped,
            persistent: false,
            group: None,
            stack_bytes: None,
            heap_bytes_max: None,
        }
    }

    /// The default pool: started, persistent, without a maximum.
    #[must_use]
    pub fn default_pool() -> Self {
        Self {
            state: PoolState::Started,
            persistent: true,
            ..Self::new(PoolId::DEFAULT, DEFAULT_NAME)
        }
    }
}
