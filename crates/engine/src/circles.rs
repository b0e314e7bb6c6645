//! Requests that wait for each other, because sessions hold claims and ask for more: one of them is refused (C2).
//!
//! A request that would close a circle is refused before it waits. Circles that are closed later are searched
//! for when no grant is possible, a few waiters per step. When all waiters were checked, one waiter of each
//! tangle is refused, before anything is granted.

use crate::engine::Engine;
use crate::outstanding::Chore;
use paceline_claims::WantedClaims;
use paceline_types::{Rank, Reason, Refusal, Request, RequestId, SessionId};

impl Engine {
    /// Why a newcomer may not wait for these claims: its own session, one that it runs within, or another
    /// request that waits for them blocks it. `None` if it may.
    pub(crate) fn would_wait_for_itself(
        &self,
        request: &Request,
        wanted: &WantedClaims,
        rank: Rank,
    ) -> Option<Refusal> {
        let (session, within, beside) = (request.session, &request.within[..], &request.beside[..]);
        let mut sessions = session.iter().chain(within);
        let own_way =
            sessions.find_map(|session| self.claims.own_way(wanted, rank, *session, beside));
        own_way.map(blocks_itself).or_else(|| {
            self.claims.would_deadlock(wanted, rank, session, within, beside).map(deadlock)
        })
    }

    /// The same for a request that is in line already.
    pub(crate) fn waits_for_itself(&self, id: RequestId) -> Option<Refusal> {
        self.blocks_itself(id).or_else(|| self.claims.deadlock_of(id).map(deadlock))
    }

    /// The same, but only for its own session and those that it runs within.
    pub(crate) fn blocks_itself(&self, id: RequestId) -> Option<Refusal> {
        self.claims.own_way_of(id, self.within(id)).map(blocks_itself)
    }

    /// The requests of its own sessions that a waiter for claims may wait for, because they began to hold after it was
    /// submitted.
    #[must_use]
    pub fn beside(&self, id: RequestId) -> Box<[RequestId]> {
        self.claims.beside(id)
    }

    /// The sessions that a request runs within.
    fn within(&self, id: RequestId) -> &[SessionId] {
        self.requests.get(id).map_or(&[], |work| &work.draft.request.within)
    }

    /// Checks for circles that one waiter closed. When all waiters were checked, one waiter of each circle is
    /// to be refused.
    pub(crate) fn look_for_circle(&mut self) -> bool {
        if !self.claims.has_looks() {
            return false;
        }
        match self.claims.look() {
            Some(cost) => self.outstanding.spend(cost),
            None => {
                let tangles = self.claims.tangles();
                self.outstanding.add_chores(tangles.into_iter().map(Chore::Tangled));
            }
        }
        true
    }

    /// Refuses the last nested waiter of the tangle that this request is in, if it still is.
    pub(crate) fn break_tangle(&mut self, id: RequestId) {
        let Some(last) = self.claims.last_of_tangle(id) else { return };
        let refusal = self.claims.deadlock_of(last).or_else(|| {
            // It is in the circle only because it is ahead of others in it.
            let blockers = self.claims.blockers(last, 1);
            blockers.nearest.into_iter().next().map(|blocker| (blocker.resource, blocker.id))
        });
        let refusal = deadlock(refusal.unwrap_or((Box::default(), id)));
        self.refuse_waiter(last, refusal);
    }
}

fn blocks_itself((resource, holder): (Box<str>, RequestId)) -> Refusal {
    Refusal::lasting(Reason::BlocksItself { resource, holder })
}

fn deadlock((resource, holder): (Box<str>, RequestId)) -> Refusal {
    Refusal::lasting(Reason::Deadlock { resource, holder })
}
