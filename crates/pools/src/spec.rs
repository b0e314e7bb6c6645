//! What an administrator sets of one pool.

use paceline_types::{PoolId, Priority, Span};
use std::fmt;

/// The name of the pool that always exists.
pub const DEFAULT_NAME: &str = "default";

/// Whether a pool starts work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Work waits in the queue; what runs goes on.
    Stopped,
    /// Work runs.
    Started,
    /// New work is refused; what is queued runs.
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

/// The priorities a pool is responsible for, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: Priority,
    high: Priority,
}

impl Range {
    /// The range from `low` to `high`, if it is one.
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

/// How many may wait for a slot, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// The most that may wait.
    pub len_max: u64,
    /// The longest one may wait.
    pub delay_max: Option<Span>,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self { len_max: 100_000, delay_max: None }
    }
}

/// One pool, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its number, for as long as it exists.
    pub id: PoolId,
    /// Its name.
    pub name: Box<str>,
    /// The priorities it runs; without a range it cannot be started.
    pub range: Option<Range>,
    /// Threads kept when there is nothing to do.
    pub threads_min: u32,
    /// The most that run at once; none for as many as come.
    pub threads_max: Option<u32>,
    /// Bounds of its queue.
    pub queue: QueueBounds,
    /// Whether it starts work.
    pub state: PoolState,
    /// Whether it is there again after a restart.
    pub persistent: bool,
    /// The group whose limit its threads run under.
    pub group: Option<Box<str>>,
    /// Stack of each thread.
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
