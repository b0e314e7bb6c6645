//! One lock: its owner and its waiters, in order.
//!
//! Owns the order. New waiters join at the back; a robbed locker joins at the front, so it regains
//! the lock before those still queued. Each waiter has a place, a number that never changes while
//! it waits, so that leaving from the middle costs no more than joining. It never decides who may
//! be granted the lock or which number a grant carries; `locks` does.

use std::collections::BTreeMap;

use crate::SessionId;

/// A waiter's position: smaller is served earlier.
pub(crate) type Place = i64;

/// How an owner came to ask for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Lock,
    Steal,
}

/// The owner of a lock, and by which grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) session: SessionId,
    pub(crate) fencing: u64,
    pub(crate) asked: Asked,
}

/// A session that was robbed, with its new place if it waits to regain the lock.
pub(crate) struct Victim {
    pub(crate) session: SessionId,
    pub(crate) place: Option<Place>,
}

/// One lock. It has waiters but no owner only while fencing numbers are exhausted.
#[derive(Debug, Default)]
pub(crate) struct Line {
    owner: Option<Owner>,
    waiters: BTreeMap<Place, SessionId>,
}

impl Line {
    /// Joins at the back.
    pub(crate) fn join(&mut self, session: SessionId) -> Place {
        // Places cannot run out: 2^63 joins take longer than any machine lives.
        let place = self.waiters.last_key_value().map_or(0, |(last, _)| last + 1);
        self.waiters.insert(place, session);
        place
    }

    /// Leaves the line from wherever the waiter stands.
    pub(crate) fn leave(&mut self, place: Place) {
        let waiter = self.waiters.remove(&place);
        debug_assert!(waiter.is_some(), "a waiter stands at its place");
    }

    /// Makes `owner` the owner. A robbed locker goes to the front of the line; a robbed stealer
    /// goes away.
    pub(crate) fn seize(&mut self, owner: Owner) -> Option<Victim> {
        let robbed = self.owner.replace(owner)?;
        let place = (robbed.asked == Asked::Lock).then(|| self.join_front(robbed.session));
        Some(Victim { session: robbed.session, place })
    }

    /// Gives the lock, which has no owner, to the first waiter.
    pub(crate) fn promote(&mut self, fencing: u64) -> Option<SessionId> {
        debug_assert!(self.owner.is_none(), "a lock is handed over after its owner left");
        let (_, session) = self.waiters.pop_first()?;
        self.owner = Some(Owner { session, fencing, asked: Asked::Lock });
        Some(session)
    }

    /// Ends ownership.
    pub(crate) fn vacate(&mut self) {
        self.owner = None;
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    pub(crate) fn waiters(&self) -> impl ExactSizeIterator<Item = SessionId> + '_ {
        self.waiters.values().copied()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    fn join_front(&mut self, session: SessionId) -> Place {
        let place = self.waiters.first_key_value().map_or(0, |(first, _)| first - 1);
        self.waiters.insert(place, session);
        place
    }
}
