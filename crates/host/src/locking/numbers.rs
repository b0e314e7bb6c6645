//! The fencing numbers of locks: reserved on disk in advance, so that none is reused after a restart (L2).
//!
//! The next range is requested when half of the last one is used. At most one reservation is under way. A
//! reservation that fails is repeated after [`RETRY_PAUSE`] until it is written, and at once for a client that
//! needs a number when there is none. So while few numbers are left a reservation is under way, and locks are
//! granted again when a full disk has room (J5), also to sessions that wait because there was no number. A
//! client that needs a number when there is none waits for the reservation that is under way, and is refused
//! only if that fails.

use super::{LockState, Locking};
use crate::database::{Hosted, OwnRow, aside};
use crate::own;
use paceline_locks::Locks;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Error, tag};
use paceline_types::Span;
use paceline_types::limits::SESSION_BYTES_MAX;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;

/// How many fencing numbers are reserved first, and at most at a time. Each reservation doubles the last
/// one of a run, so that few grants skip few numbers at a restart.
const RESERVE_MIN: u64 = 1 << 12;
const RESERVE_MAX: u64 = 1 << 20;

/// The time between a reservation that failed and the next one.
const RETRY_PAUSE: Span = Span::from_secs(1);

/// Which numbers are reserved; changed under the mutex of the locks.
pub(super) struct Reservations {
    /// How many numbers were reserved last.
    step: u64,
    /// Whether a reservation is being written, or waits to be retried.
    is_under_way: bool,
    /// Whether it waits to be retried.
    is_paused: bool,
    /// Whether a task sleeps until the retry.
    has_sleeper: bool,
    /// Why the last one failed, if it did.
    failed: Option<Error>,
    /// How many clients wait for it.
    #[cfg(test)]
    awaited: usize,
}

/// The numbers to be reserved next.
#[derive(Clone, Copy)]
pub(super) struct Range {
    until: u64,
    step: u64,
}

impl Default for Reservations {
    fn default() -> Self {
        Self {
            step: RESERVE_MIN,
            is_under_way: false,
            is_paused: false,
            has_sleeper: false,
            failed: None,
            #[cfg(test)]
            awaited: 0,
        }
    }
}

impl LockState {
    /// The range to reserve now, if few numbers are left and no reservation is under way. The caller passes it to
    /// [`Locking::reserve`] once it has dropped the mutex.
    pub(super) fn next_range(&mut self) -> Option<Range> {
        let Reservations { step, is_under_way, .. } = &mut self.reservations;
        let is_low = self.locks.fencing_left() < *step / 2;
        if !is_low || *is_under_way || self.locks.is_stopped() {
            return None;
        }
        *is_under_way = true;
        let step = (2 * *step).min(RESERVE_MAX);
        Some(Range { until: self.locks.next_fencing() + step, step })
    }
}

impl LockState {
    /// Whether there is no number, and a reservation is under way.
    pub(super) fn is_short_of_numbers(&self) -> bool {
        self.reservations.is_under_way && self.locks.fencing_left() == 0 && !self.locks.is_stopped()
    }

    /// Ends the pause of a reservation that failed. Returns the range to reserve now.
    fn end_pause(&mut self) -> Option<Range> {
        if !std::mem::take(&mut self.reservations.is_paused) {
            return None;
        }
        self.reservations.is_under_way = false;
        self.next_range()
    }
}

impl Locking {
    /// Continues after the numbers that an earlier run reserved, and reserves the first range of this run
    /// before it returns. On a full disk there are none at first: sessions wait for their locks until a range
    /// could be written, and everything else is served (J5).
    ///
    /// # Errors
    ///
    /// When the range cannot be written for another reason.
    pub(crate) fn begin(self: &Arc<Self>, own: &Arc<Hosted>) -> Result<(), Error> {
        let used = own.own_integer(own::DAEMON_TABLE, "fencing_reserved")?.unwrap_or(0).max(1);
        let mut state = self.state();
        state.locks = Locks::new(used, used, SESSION_BYTES_MAX);
        state.reservations = Reservations { is_under_way: true, ..Reservations::default() };
        drop(state);
        let _ = self.own.set(own.clone());
        self.write_range(own, Range { until: used + RESERVE_MIN, step: RESERVE_MIN });
        own.flush_blocking();
        let state = self.state();
        match (state.locks.fencing_left(), &state.reservations.failed) {
            (0, Some(error)) if error.tag != tag::RESOURCES => {
                let details = "cannot write the range of fencing numbers to disk";
                Err(Error::new(tag::IO, format!("{details}: {}", error.details)))
            }
            _ => Ok(()),
        }
    }

    /// Called at shutdown: the next run continues with the next number.
    pub(crate) fn number_no_more(&self) {
        let next = self.state().locks.next_fencing();
        if let Some(own) = self.own.get() {
            own.maintain(own::DAEMON_TABLE, "name", vec![fencing_row(next)], true, None);
        }
    }

    /// Reserves the range that [`LockState::next_range`] found due. The numbers are used once that is on disk.
    pub(super) fn reserve(self: &Arc<Self>, range: Option<Range>) {
        if let (Some(own), Some(range)) = (self.own.get(), range) {
            self.write_range(own, range);
            own.flush();
        }
    }

    /// Repeats a reservation that failed, without the rest of its pause, and waits for the disk, because a
    /// client needs a number and there is none. If the disk is still full, this fails quickly.
    pub(super) fn reserve_now(self: &Arc<Self>) {
        let range = self.state().end_pause();
        if let (Some(own), Some(range)) = (self.own.get(), range) {
            self.write_range(own, range);
            aside(|| own.flush_blocking());
        }
    }

    /// Locks the locks once there is a number, or the reservation under way has failed.
    pub(super) fn numbered(&self) -> MutexGuard<'_, LockState> {
        aside(|| {
            let mut state = self.state();
            while state.is_short_of_numbers() && !state.reservations.is_paused {
                #[cfg(test)]
                {
                    state.reservations.awaited += 1;
                }
                state = crate::sync::wait(&self.state, &self.ranged, state);
            }
            state
        })
    }

    /// How many clients wait for numbers that are being reserved.
    #[cfg(test)]
    pub(crate) fn awaiting(&self) -> usize {
        self.state().reservations.awaited
    }

    fn write_range(self: &Arc<Self>, own: &Arc<Hosted>, range: Range) {
        let this = self.clone();
        let done = Box::new(move |outcome: Result<(), Error>| match outcome {
            Ok(()) => this.reserved(range),
            Err(error) => this.retry_later(&error),
        });
        let row = vec![fencing_row(range.until)];
        own.maintain(own::DAEMON_TABLE, "name", row, true, Some(done));
    }

    /// Called when a range is on disk: sessions that wait because there was no number are granted their locks.
    /// The head may be locked here, so a task does the work that needs it.
    fn reserved(self: &Arc<Self>, Range { until, step }: Range) {
        let mut state = self.state();
        let before = state.locks.generation();
        state.locks.extend(until);
        let wakers = state.drain_effects(&self.ledger);
        let had_failed = state.reservations.failed.is_some();
        let Reservations { has_sleeper, .. } = state.reservations;
        state.reservations = Reservations { step, has_sleeper, ..Reservations::default() };
        let has_granted = state.locks.generation() != before;
        let range = state.next_range();
        let shows = self.begins_to_show(&mut state);
        drop(state);
        self.ranged.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        if had_failed {
            tracing::info!("fencing numbers can be reserved again");
        }
        self.show(shows);
        if has_granted || range.is_some() {
            let this = self.clone();
            self.tasks.spawn(async move {
                this.ledger.write();
                this.reserve(range);
            });
        }
    }

    /// Requests the range again after a pause, unless it is no longer needed by then.
    fn retry_later(self: &Arc<Self>, error: &Error) {
        let mut state = self.state();
        let before = state.reservations.failed.replace(error.clone());
        state.reservations.is_paused = true;
        let has_sleeper = std::mem::replace(&mut state.reservations.has_sleeper, true);
        drop(state);
        self.ranged.notify_all();
        if before.is_none() {
            tracing::error!(%error, "cannot reserve fencing numbers; retrying");
        }
        if has_sleeper {
            return;
        }
        let (this, clock) = (Arc::downgrade(self), self.clock);
        self.tasks.spawn(async move {
            clock.sleep(RETRY_PAUSE).await;
            let Some(this) = this.upgrade() else { return };
            let mut state = this.state();
            state.reservations.has_sleeper = false;
            // A client may have ended the pause.
            let range = state.end_pause();
            drop(state);
            this.reserve(range);
        });
    }
}

/// The row that says which fencing numbers are reserved.
fn fencing_row(until: u64) -> OwnRow {
    let until = Datum::One(Atom::Integer(i64::try_from(until).unwrap_or(i64::MAX)));
    let values = vec![("name", Datum::One(Atom::string("paceline"))), ("fencing_reserved", until)];
    OwnRow::of_text("paceline", Some(values))
}
