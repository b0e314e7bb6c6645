//! What the connections of the daemon keep in memory because their clients do not read, or do not finish what they send.
//!
//! Each may keep a quarter of what is left of the whole, so one alone has all that a connection may have, and many
//! share: the more they keep, the less each may (the dynamic threshold of a switch's buffer). A little is always
//! allowed, so that no client is shut out. Bytes stop counting when they are dropped, whichever part drops them.
//! Promises that all together keep no more than the budget, and a little for each connection (promise D1).
//! Counts only; what happens to a connection that has more than its share is for others to say. Takes no lock.

use paceline_types::limits::{SHARE_BYTES_MIN, UNREAD_BYTES_TOGETHER_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all connections may keep together.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(UNREAD_BYTES_TOGETHER_MAX)
    }
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn of(bytes_max: usize) -> Self {
        Self { bytes_max, used: AtomicUsize::new(0) }
    }

    /// What one connection may keep now, if it may keep `most` when it is alone.
    #[must_use]
    pub fn share(&self, most: usize) -> usize {
        let left = self.bytes_max.saturating_sub(self.used());
        (left / 4).max(SHARE_BYTES_MIN).min(most)
    }

    /// What all keep.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether all keep more than they may.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.used() > self.bytes_max
    }

    /// A part of it, of no bytes yet.
    #[must_use]
    pub fn part(self: &Arc<Self>) -> Part {
        Part { budget: Arc::clone(self), bytes: 0 }
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub struct Part {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Part {
    /// From now on it is of so many bytes.
    pub fn set(&mut self, bytes: usize) {
        let used = &self.budget.used;
        match bytes.checked_sub(self.bytes) {
            Some(0) => return,
            Some(more) => used.fetch_add(more, Ordering::Relaxed),
            None => used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// How many bytes it is of.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it is a part of.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: usize = 16 << 20;

    #[test]
    fn one_alone_has_all_and_many_share() {
        let budget = Arc::new(Budget::of(1 << 30));
        let mut greedy = Vec::new();
        assert_eq!(budget.share(ALONE), ALONE);
        for _ in 0..10_000 {
            let mut part = budget.part();
            part.set(budget.share(ALONE));
            greedy.push(part);
        }
        assert!(budget.share(ALONE) <= 128 << 10, "{} are left to each", budget.share(ALONE));
        assert!(budget.used() <= (1 << 30) + 10_000 * SHARE_BYTES_MIN);
        greedy.truncate(10);
        assert_eq!(budget.share(ALONE), ALONE);
        greedy.clear();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_little_is_always_allowed() {
        let budget = Arc::new(Budget::of(1 << 20));
        let mut part = budget.part();
        part.set(5 << 20);
        assert!(budget.is_spent());
        assert_eq!(budget.share(ALONE), SHARE_BYTES_MIN);
        assert_eq!(budget.share(100), 100);
        part.set(1 << 10);
        assert!(!budget.is_spent());
    }
}
