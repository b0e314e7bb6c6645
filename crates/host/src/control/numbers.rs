//! The numbers of requests: reserved on disk in advance, so that none is reused after a restart.
//!
//! If a reservation cannot be written, requests get numbers that are not reserved. A permit that outlives the
//! daemon is named by its number, so the record that holds its row reserves the number as well (`kept/mod.rs`).

use super::Control;
use crate::clock::Clock;
use crate::database::Hosted;
use crate::kept::daemon_row;
use crate::own;
use paceline_tables::Error;
use paceline_types::{RequestId, Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How many numbers are reserved first, and at most at a time. Each reservation doubles the last one of a
/// run, so that few requests skip few numbers at a restart.
const RESERVE_MIN: u64 = 1 << 12;
const RESERVE_MAX: u64 = 1 << 24;

/// The time between a reservation that failed and the next one.
const RETRY: Span = Span::from_secs(1);

/// Which numbers are reserved, and where that is kept.
#[derive(Default)]
pub(super) struct Numbers {
    own: OnceLock<Arc<Hosted>>,
    /// Numbers below this are reserved, or about to be.
    until: Arc<AtomicU64>,
    /// Numbers below this are reserved on disk.
    synced: Arc<AtomicU64>,
    /// How many the next reservation takes.
    step: AtomicU64,
    /// When a reservation that failed is tried again, in nanoseconds of the clock.
    retry_at: Arc<AtomicU64>,
}

impl Control {
    /// Continues numbering after what an earlier run reserved. Must not be called from a task of the runtime.
    pub(crate) fn number_on(&self, own: &Arc<Hosted>) -> Result<(), Error> {
        let used = own.own_integer(own::DAEMON_TABLE, "requests_reserved")?.unwrap_or(0).max(1);
        self.state().engine.number_from(RequestId(used));
        self.numbers.until.store(used, Ordering::Relaxed);
        self.numbers.synced.store(used, Ordering::Relaxed);
        let _ = self.numbers.own.set(Arc::clone(own));
        self.numbers.step.store(RESERVE_MIN, Ordering::Relaxed);
        self.numbers.reserve(own, used, used + RESERVE_MIN, self.clock);
        own.flush_blocking();
        Ok(())
    }

    /// Called at shutdown: the next run continues with the next number.
    pub(crate) fn number_no_more(&self) {
        let next = self.state().engine.next_number();
        if let Some(own) = self.numbers.own.get() {
            self.numbers.until.store(u64::MAX, Ordering::Relaxed);
            let row = daemon_row(None, Some(next.0));
            own.maintain(own::DAEMON_TABLE, "name", vec![row], true, None);
        }
    }

    /// The bound to reserve in the record of a permit with this number; `None` if the number is reserved on
    /// disk already.
    pub(crate) fn numbers_to_reserve(&self, last: RequestId) -> Option<u64> {
        let Numbers { until, synced, .. } = &self.numbers;
        if last.0 < synced.load(Ordering::Relaxed) {
            return None;
        }
        // The service has ended, and the next run continues after the last number.
        let is_over = until.load(Ordering::Relaxed) == u64::MAX;
        let more = if is_over { last.0 + 1 } else { last.0 + 1 + RESERVE_MIN };
        let until = until.fetch_max(more, Ordering::Relaxed);
        Some(if is_over { more } else { more.max(until) })
    }

    /// Notes that numbers below `until` are reserved on disk.
    pub(crate) fn numbers_reserved(&self, until: u64) {
        self.numbers.synced.fetch_max(until, Ordering::Relaxed);
    }
}

impl Numbers {
    /// Reserves more numbers before `next` gets near the last one reserved. A number that is used before its
    /// reservation is on disk could be used again after a crash, so half a range lies between.
    pub fn reserve_before(&self, next: RequestId, clock: Clock) {
        let until = self.until.load(Ordering::Relaxed);
        let step = self.step.load(Ordering::Relaxed);
        let Some(own) = self.own.get().filter(|_| next.0 + step / 2 >= until) else { return };
        if clock.now() < Time(self.retry_at.load(Ordering::Relaxed)) {
            return;
        }
        let more = (2 * step).min(RESERVE_MAX);
        if self.reserve(own, until, next.0 + more, clock) {
            self.step.store(more, Ordering::Relaxed);
            own.flush();
        }
    }

    /// Queues a reservation to be written. Returns whether this thread did it, and no other.
    fn reserve(&self, own: &Arc<Hosted>, until: u64, more: u64, clock: Clock) -> bool {
        let order = Ordering::Relaxed;
        if self.until.compare_exchange(until, more, order, order).is_err() {
            return false;
        }
        let (reserved, retry_at) = (Arc::clone(&self.until), Arc::clone(&self.retry_at));
        let synced = Arc::clone(&self.synced);
        let done = Box::new(move |outcome: Result<(), Error>| match outcome {
            Ok(()) => drop(synced.fetch_max(more, Ordering::Relaxed)),
            Err(error) => {
                tracing::error!(%error, "cannot reserve request numbers");
                // A request after that time retries.
                retry_at.store(clock.now().plus(RETRY).0, Ordering::Relaxed);
                reserved.fetch_min(until, Ordering::Relaxed);
            }
        });
        let row = daemon_row(None, Some(more));
        own.maintain(own::DAEMON_TABLE, "name", vec![row], true, Some(done));
        true
    }
}
