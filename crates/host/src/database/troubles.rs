//! What is logged about a journal that cannot be written.
//!
//! The first failure is logged. While failures continue, there is one line per second with their count, and one
//! more when writing works again. So a full or broken disk cannot fill the log.

use paceline_types::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// How long further failures are only counted.
const QUIET_MS: u64 = 1_000;

/// The failures of one journal.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Whether the last write failed. A working journal looks at nothing else.
    failing: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// When the last line was written.
    said: Time,
    /// Failures since that line, without those that it reported.
    unsaid: u64,
    /// Failures since writing last worked.
    all: u64,
}

impl Troubles {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(crate::broken)
    }

    /// Counts a failure. Returns the number of failures to report if a line is due.
    pub(super) fn failed(&self, now: Time) -> Option<u64> {
        let mut counts = self.counts();
        counts.all += 1;
        counts.unsaid += 1;
        let is_first = !self.failing.swap(true, Ordering::AcqRel);
        if !is_first && now < counts.said.plus_ms(QUIET_MS) {
            return None;
        }
        counts.said = now;
        Some(std::mem::take(&mut counts.unsaid))
    }

    /// Notes that writing works. Returns how many failures that ends, if there were any.
    pub(super) fn worked(&self) -> Option<u64> {
        if !self.failing.load(Ordering::Acquire) {
            return None;
        }
        let mut counts = self.counts();
        self.failing.store(false, Ordering::Release);
        counts.unsaid = 0;
        Some(std::mem::take(&mut counts.all))
    }
}

#[cfg(test)]
mod tests {
    use super::Troubles;
    use paceline_types::Time;

    /// J4: however often writing fails, the log gets one line a second, and every failure is counted.
    #[test]
    fn failures_are_told_once_a_second_with_their_count_j4() {
        let troubles = Troubles::default();
        let at = |ms: u64| Time(0).plus_ms(ms);
        assert_eq!(troubles.worked(), None);
        assert_eq!(troubles.failed(at(5)), Some(1));
        assert!((0..1_000).all(|_| troubles.failed(at(900)).is_none()));
        assert_eq!(troubles.failed(at(1_005)), Some(1_001));
        assert_eq!(troubles.failed(at(1_006)), None);
        assert_eq!(troubles.worked(), Some(1_003));
        assert_eq!(troubles.worked(), None);
        assert_eq!(troubles.failed(at(1_007)), Some(1), "a new spell begins with a line");
    }
}
