//! Sessions that hold claims and ask for more.
//!
//! Owns the index from sessions to their holders, and to the waiters that belong to them or run within them.
//! Promises to know at any time, without a search, whether a session has both: otherwise nothing can wait in a
//! circle. A request without a session costs nothing here.

use super::{Claims, Request};
use paceline_types::{RequestId, SessionId};
use std::collections::BTreeSet;

/// Holders that are checked to find out whether a waiter is nested in one.
pub(super) const HOLDERS_MAX: usize = 64;

/// The requests that hold claims and those that wait, by session.
#[derive(Debug)]
pub(super) struct Sessions {
    holders: BTreeSet<(SessionId, RequestId)>,
    /// The waiters, under their own session and each that they run within.
    waiters: BTreeSet<(SessionId, RequestId)>,
    /// How many sessions have holders and waiters.
    both: usize,
    /// The last request that was submitted.
    last: RequestId,
}

impl Sessions {
    pub const fn new() -> Self {
        Self { holders: BTreeSet::new(), waiters: BTreeSet::new(), both: 0, last: RequestId(0) }
    }

    /// Whether a waiter may be nested in a holder.
    #[inline]
    pub const fn may_nest(&self) -> bool {
        self.both > 0
    }

    /// The last request that was submitted so far.
    pub const fn last(&self) -> RequestId {
        self.last
    }

    pub fn hold(&mut self, session: SessionId, id: RequestId) {
        if !self.waiters.is_empty() && self.has_waiter(session) && !self.has_holder(session) {
            self.both += 1;
        }
        self.holders.insert((session, id));
    }

    pub fn release(&mut self, session: SessionId, id: RequestId) {
        let was_there = self.holders.remove(&(session, id));
        if was_there && !self.waiters.is_empty() {
            let is_last = self.has_waiter(session) && !self.has_holder(session);
            self.both -= usize::from(is_last);
        }
    }

    fn wait(&mut self, session: SessionId, id: RequestId) {
        if self.has_holder(session) && !self.has_waiter(session) {
            self.both += 1;
        }
        self.waiters.insert((session, id));
    }

    pub fn leave(&mut self, session: SessionId, id: RequestId) {
        let was_there = self.waiters.remove(&(session, id));
        if was_there && self.has_holder(session) && !self.has_waiter(session) {
            self.both -= 1;
        }
    }

    /// The requests of a session that hold claims.
    pub fn holders(&self, session: SessionId) -> impl Iterator<Item = RequestId> {
        self.holders.range(all(session)).map(|(_, id)| *id)
    }

    /// The waiters of a session, or within it, that were submitted after this request.
    pub fn waiters_after(
        &self,
        session: SessionId,
        last: RequestId,
    ) -> impl Iterator<Item = RequestId> {
        let from = RequestId(last.0.saturating_add(1));
        let range = (session, from)..=(session, RequestId(u64::MAX));
        self.waiters.range(range).map(|(_, id)| *id)
    }

    /// The next waiter of all after this one, by session. Sessions without holders are skipped.
    pub fn next_waiter(
        &self,
        behind: (SessionId, RequestId),
    ) -> Option<((SessionId, RequestId), bool)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let next = *self.waiters.range((Excluded(behind), Unbounded)).next()?;
        let holds = self.has_holder(next.0);
        Some((if holds { next } else { (next.0, RequestId(u64::MAX)) }, holds))
    }

    fn has_holder(&self, session: SessionId) -> bool {
        self.holders.range(all(session)).next().is_some()
    }

    fn has_waiter(&self, session: SessionId) -> bool {
        self.waiters.range(all(session)).next().is_some()
    }
}

impl Claims {
    /// Notes that a request of this number was submitted: it is not nested in requests that start from now on.
    #[inline]
    pub fn note_submitted(&mut self, id: RequestId) {
        self.sessions.last = self.sessions.last.max(id);
    }

    /// Sets the sessions that a waiter runs within, which end only after it, and the holders of its sessions that it is
    /// not nested in, although their numbers are lower.
    pub fn set_within(&mut self, id: RequestId, within: &[SessionId], beside: &[RequestId]) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        (request.within, request.beside) = (within.into(), beside.into());
        if request.stage.is_waiting() {
            within.iter().for_each(|session| self.sessions.wait(*session, id));
            self.looks.add(id, &self.sessions);
        }
    }

    /// Called when a request begins to wait in line.
    #[inline]
    pub(super) fn begin_wait(&mut self, id: RequestId, request: &Request) {
        if request.session.is_none() && request.within.is_empty() {
            return;
        }
        request.sessions().for_each(|session| self.sessions.wait(session, id));
        self.looks.add(id, &self.sessions);
    }

    /// Called when a request no longer waits in line.
    #[inline]
    pub(super) fn end_wait(&mut self, request: &Request) {
        request.sessions().for_each(|session| self.sessions.leave(session, request.rank.id));
    }

    /// The holders of a waiter's sessions that the waiter is not nested in, at most `HOLDERS_MAX`.
    #[must_use]
    pub fn beside(&self, id: RequestId) -> Box<[RequestId]> {
        let Some(request) = self.requests.get(&id) else { return Box::default() };
        let is_beside = |id: &RequestId| {
            self.requests.get(id).is_some_and(|holder| !request.is_nested_in(holder))
        };
        let holders = |session| self.sessions.holders(session).take(HOLDERS_MAX);
        request.sessions().flat_map(holders).filter(is_beside).take(HOLDERS_MAX).collect()
    }

    /// Whether a waiter is nested in any holder.
    pub(super) fn is_nested(&self, request: &Request) -> bool {
        let nested_in = |id: RequestId| {
            self.requests.get(&id).is_some_and(|holder| request.is_nested_in(holder))
        };
        let holders = |session| self.sessions.holders(session).take(HOLDERS_MAX);
        request.sessions().any(|session| holders(session).any(nested_in))
    }
}

impl Request {
    /// Its session, and those that it runs within.
    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.session.into_iter().chain(self.within.iter().copied())
    }

    /// Whether a holder may not end before this waiter has run.
    pub(super) fn is_nested_in(&self, holder: &Self) -> bool {
        let mut sessions = self.sessions();
        holder.last_at_start < self.rank.id
            && sessions.any(|own| holder.session == Some(own))
            && !self.beside.contains(&holder.rank.id)
    }
}

const fn all(session: SessionId) -> std::ops::RangeInclusive<(SessionId, RequestId)> {
    (session, RequestId(0))..=(session, RequestId(u64::MAX))
}
