//! A clock that a simulator moves, with random numbers that repeat.
//!
//! Owns the time, the sleepers and a seed. Time stands still until [`MadeClock::advance_to`], which wakes the sleepers
//! that are due, in the order of their times. The same seed gives the same numbers in the same order of calls.

use paceline_types::{Time, UuidSource};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Microseconds from 1970 to the start of a made clock.
const START_US: i64 = 1_800_000_000_000_000;

/// A clock that a simulator moves.
#[derive(Debug)]
pub struct MadeClock(Mutex<MadeTime>);

#[derive(Debug)]
struct MadeTime {
    now: Time,
    /// The sleepers, by the time when they wake.
    sleepers: BTreeMap<(Time, u64), Waker>,
    next: u64,
    random: UuidSource,
}

impl MadeClock {
    /// A clock at this time. It is never freed: the parts of a host keep references to it.
    #[must_use]
    pub fn begin(now: Time, seed: u64) -> &'static Self {
        let random = UuidSource::from_number(seed);
        let state = MadeTime { now, sleepers: BTreeMap::new(), next: 0, random };
        Box::leak(Box::new(Self(Mutex::new(state))))
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.state().now
    }

    /// When the next sleeper wakes.
    pub fn next_wake(&self) -> Option<Time> {
        self.state().sleepers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves to `time`, unless it is later already, and wakes the sleepers that are due.
    pub fn advance_to(&self, time: Time) {
        let mut state = self.state();
        state.now = state.now.max(time);
        let mut due = Vec::new();
        while let Some(first) = state.sleepers.first_entry().filter(|first| first.key().0 <= time) {
            due.push(first.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn wall_us(&self) -> i64 {
        START_US.saturating_add(i64::try_from(self.now().0 / 1_000).unwrap_or(i64::MAX))
    }

    pub(crate) fn uuid_source(&self) -> UuidSource {
        let mut state = self.state();
        UuidSource::new(std::array::from_fn(|_| state.random.next_u64()))
    }

    pub(crate) fn sleep_until(&'static self, time: Time) -> Sleep {
        Sleep { clock: self, until: time, number: None }
    }

    fn state(&self) -> MutexGuard<'_, MadeTime> {
        self.0.lock().unwrap_or_else(crate::broken)
    }
}

/// Waits until a made clock shows a time.
pub(crate) struct Sleep {
    clock: &'static MadeClock,
    until: Time,
    /// Its number among the sleepers.
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let number = self.number.unwrap_or(state.next);
        state.next = state.next.max(number + 1);
        state.sleepers.insert((self.until, number), cx.waker().clone());
        drop(state);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.clock.state().sleepers.remove(&(self.until, number));
        }
    }
}
