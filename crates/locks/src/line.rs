//! One lock: its owner and its waiters, in order.
//!
//! Owns the order: robbed lockers, the last one first, so that they regain the lock before those still
//! queued; then waiters that had waited in the server's last run, the longest first; then new ones, as
//! they came. Each waiter has a place that never changes while it waits, so that leaving from the
//! middle costs no more than joining. It never decides who may be granted the lock or which number a
//! grant carries; `locks` does.

use std::collections::BTreeMap;

use crate::SessionId;
use paceline_types::Span;

/// A waiter's position: the least is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// When it came, as far as that is known: new waiters have 0, those of the last run less.
    at: i64,
    /// The order among equals; no two places of a line have the same.
    number: i64,
}

impl Place {
    /// When robbed lockers came: before all others.
    const ROBBED: i64 = i64::MIN;
}

/// How an owner asked for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Lock,
    Steal,
}

/// The owner of a lock, and its grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) session: SessionId,
    pub(crate) fencing: u64,
    pub(crate) asked: Asked,
}

/// A session whose lock was stolen, with its new place if it waits to regain the lock.
pub(crate) struct Victim {
    pub(crate) session: SessionId,
    pub(crate) place: Option<Place>,
}

/// One lock. It has waiters but no owner only while fencing numbers are exhausted.
#[derive(Debug, Default)]
pub(crate) struct Line {
    owner: Option<Owner>,
    waiters: BTreeMap<Place, SessionId>,
    /// How many have joined.
    joined: i64,
}

impl Line {
    /// Joins behind those that had waited as long in the last run, or longer: at the back, if it had not.
    pub(crate) fn join(&mut self, session: SessionId, waited: Span) -> Place {
        let waited = i64::try_from(waited.0).unwrap_or(i64::MAX);
        let number = self.number();
        self.stand(Place { at: -waited, number }, session)
    }

    /// Removes a waiter from any place in the line.
    pub(crate) fn leave(&mut self, place: Place) {
        let waiter = self.waiters.remove(&place);
        debug_assert!(waiter.is_some(), "a waiter stands at its place");
    }

    /// Makes `owner` the owner. The previous owner moves to the front of the line if it had locked
    /// the lock, and is removed if it had stolen it.
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
        let number = -self.number();
        self.stand(Place { at: Place::ROBBED, number }, session)
    }

    /// A number that cannot run out: 2^63 joins take longer than any machine lives.
    const fn number(&mut self) -> i64 {
        self.joined += 1;
        self.joined
    }

    fn stand(&mut self, place: Place, session: SessionId) -> Place {
        let other = self.waiters.insert(place, session);
        debug_assert!(other.is_none(), "each has a place of its own");
        place
    }
}
