//! The totals of requests since the engine was created.
//!
//! Every request that was submitted or restored is refused, cancelled or settled once, or still waits or runs
//! ([`Totals::balances`]).

/// Totals since the engine was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests that ran or run.
    pub started: u64,
    /// Requests refused.
    pub refused: u64,
    /// Waiters whose clients left.
    pub cancelled: u64,
    /// Requests that ran and ended.
    pub settled: u64,
    /// Expressions of checkpoints and frontends that failed.
    pub expression_errors: u64,
}

/// Counts what happens.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    stats: Stats,
    /// Requests of an earlier run, which submitted them.
    restored: u64,
    /// Requests that run now.
    running: usize,
}

impl Totals {
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether the requests that arrived are those that ended and those that are `open`.
    pub const fn balances(&self, open: usize) -> bool {
        let ended = self.stats.refused + self.stats.cancelled + self.stats.settled;
        self.stats.submitted + self.restored == ended + open as u64
    }

    /// How many requests run now.
    pub const fn running(&self) -> usize {
        self.running
    }

    pub const fn submit(&mut self) {
        self.stats.submitted += 1;
    }

    pub const fn restore(&mut self) {
        self.restored += 1;
    }

    pub const fn start(&mut self) {
        self.stats.started += 1;
        self.running += 1;
    }

    /// Called when a request that ran waits again: it will start once more.
    pub const fn go_back(&mut self) {
        self.stats.started -= 1;
        self.running -= 1;
    }

    pub const fn refuse(&mut self) {
        self.stats.refused += 1;
    }

    pub const fn cancel(&mut self) {
        self.stats.cancelled += 1;
    }

    pub const fn settle(&mut self) {
        self.stats.settled += 1;
        self.running -= 1;
    }

    /// Called when a request that runs ends and was of no use.
    pub const fn cancel_running(&mut self) {
        self.stats.cancelled += 1;
        self.running -= 1;
    }

    pub fn fail_expressions(&mut self, count: u32) {
        self.stats.expression_errors += u64::from(count);
    }
}
