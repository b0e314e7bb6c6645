//! Keys: which of them have a counter of their own, and which share one.
//!
//! A counter is kept while it differs from a new one. Nothing is ever swept here: a counter that equals a new
//! one counts as dropped.

use super::checkpoints::TICKS;
use super::config::Checkpoint;
use super::{Model, Passed, Queued, SHARED, Seat, Stage};

/// The counter of requests that wait where an edit removed all counters.
pub(super) const GONE: &str = "(gone)";

impl Model {
    /// The counter that an arrival with this key uses. A new one starts with the debt of the shared one.
    pub(super) fn take_seat(&mut self, at: &Checkpoint, key: Option<&'static str>) -> Seat {
        let counter = self.counter_of(at, key);
        let shared = self.known_counter(at.id, Some(SHARED)).map(|shared| shared.tat);
        if let (Some(owed), true) = (shared, counter == key)
            && !self.is_kept(at, key)
        {
            self.counter(at.id, key).tat = owed;
        }
        Seat { key, counter }
    }

    /// The same, without creating it: the key's own counter if it has one or there is room for one.
    pub(super) fn counter_of<'a>(&self, at: &Checkpoint, key: Option<&'a str>) -> Option<&'a str> {
        let (Some(own), Some(_)) = (key, at.key) else { return None };
        if self.is_kept(at, key) {
            return key;
        }
        let has_room = self.keys_kept(at) < at.keys_max;
        if has_room && !self.shares(at.id, own) { key } else { Some(SHARED) }
    }

    fn keys_kept(&self, at: &Checkpoint) -> u64 {
        let values = at.key.map_or(&[][..], |attribute| attribute.values());
        values.iter().filter(|value| self.is_kept(at, Some(value))).count() as u64
    }

    /// Whether a counter differs from a new one: a request waits or is held there, it has a debt, or a request
    /// arrived in this period or the one before.
    fn is_kept(&self, at: &Checkpoint, counter: Option<&str>) -> bool {
        let period = at.period();
        let came = |met: &(u32, Option<&str>, u64)| {
            met.0 == at.id && met.1 == counter && self.now / period <= met.2 / period + 1
        };
        let tat = self.known_counter(at.id, counter).map_or(0, |counter| counter.tat);
        let leaving = at.watch && self.again.iter().any(|q| is_at(q, at.id, counter));
        self.held(at.id, counter) > 0
            || !self.order(at.id, counter).is_empty()
            || leaving
            || tat > i128::from(self.now) * TICKS
            || self.met.iter().any(came)
    }

    /// Whether a request of this key waits or is held at the shared counter.
    fn shares(&self, checkpoint: u32, key: &str) -> bool {
        let shared = |seat: Seat| seat.counter == Some(SHARED) && seat.key == Some(key);
        let waits = |queued: &Queued| queued.checkpoint == checkpoint && shared(queued.seat);
        let holds = |passed: &Passed| passed.checkpoint == checkpoint && shared(passed.seat);
        self.again.iter().any(waits)
            || self.requests.values().any(|request| {
                request.walk.iter().any(holds)
                    || matches!(&request.stage, Stage::Queued(queued) if waits(queued))
            })
    }
}

fn is_at(queued: &Queued, checkpoint: u32, counter: Option<&str>) -> bool {
    queued.checkpoint == checkpoint && queued.seat.counter == counter
}
