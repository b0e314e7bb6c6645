//! Outstanding work: what is left to do, and how much of it one call may do.
//!
//! One call moves at most as many requests as its budget allows, so that no call takes long. The rest stays
//! here for the next call. While any work is here, the engine asks to be called again at once. Each entry is
//! done once, in the order of `Engine::run`:
//!
//! - *chores* are done first. They concern the requests of an ended session, a lost lock or a lost server, or
//!   requests that wait in a circle, and none of these requests may get what another one of them releases;
//! - requests that *lost* a resource are handled before any grant, by rank;
//! - *undecided* requests arrived while grants were left to be made. They are handled when no grant is
//!   possible;
//! - *returns* are the counts of requests that ended. They are handled last, in the order in which the requests
//!   ended.

use paceline_checkpoints::HeldCount;
use paceline_routing::Seat;
use paceline_types::{Rank, RequestId};
use std::collections::{BTreeSet, VecDeque};

/// A count to be returned.
#[derive(Debug)]
pub(crate) struct Return {
    pub id: RequestId,
    pub held: HeldCount,
    /// Whether the request ran; if not, what it spent is refunded.
    pub ran: bool,
    /// The server that belongs to the count of a gate.
    pub seat: Option<Seat>,
}

/// What is to be done with a request.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Its session has ended.
    End(RequestId),
    /// Its session has lost this lock.
    Lost(RequestId, Box<str>),
    /// Its server is down or deleted.
    Astray(RequestId),
    /// It waits in a circle.
    Tangled(RequestId),
}

/// What is left to do.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    /// How many more requests this call may move.
    budget: usize,
    chores: VecDeque<Chore>,
    lost: BTreeSet<Rank>,
    undecided: VecDeque<RequestId>,
    returns: VecDeque<Return>,
}

impl Outstanding {
    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chores.is_empty()
            && self.lost.is_empty()
            && self.undecided.is_empty()
            && self.returns.is_empty()
    }

    /// Sets how many requests this call may move.
    pub const fn allow(&mut self, requests: usize) {
        self.budget = requests;
    }

    /// Whether this call may move one more request.
    pub const fn may_go_on(&self) -> bool {
        self.budget > 0
    }

    /// Counts one moved request.
    pub const fn count_one(&mut self) {
        self.budget -= 1;
    }

    /// Counts work that is as much as moving this many requests; [`Outstanding::count_one`] counts one of them.
    pub fn spend(&mut self, requests: usize) {
        let least = self.budget.min(1);
        self.budget = self.budget.saturating_sub(requests.saturating_sub(1)).max(least);
    }

    pub fn add_chores(&mut self, chores: impl IntoIterator<Item = Chore>) {
        self.chores.extend(chores);
    }

    #[inline]
    pub fn next_chore(&mut self) -> Option<Chore> {
        self.chores.pop_front()
    }

    /// Notes that a resource that a waiter claims was deleted, or that its claims have become too wide.
    pub fn lose(&mut self, rank: Rank) {
        self.lost.insert(rank);
    }

    /// Notes that a waiter has its resources again, or no longer waits for them.
    pub fn unlose(&mut self, rank: Rank) {
        self.lost.remove(&rank);
    }

    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    #[inline]
    pub fn next_lost(&mut self) -> Option<Rank> {
        self.lost.pop_first()
    }

    /// Notes that a request joined the line while grants were left to be made. Whether it may wait is decided
    /// later.
    pub fn put_off(&mut self, id: RequestId) {
        self.undecided.push_back(id);
    }

    /// Forgets a request that left the line before that was decided.
    pub fn drop_undecided(&mut self, id: RequestId) {
        self.undecided.retain(|other| *other != id);
    }

    #[inline]
    pub fn next_undecided(&mut self) -> Option<RequestId> {
        self.undecided.pop_front()
    }

    /// The undecided requests, in order of arrival.
    pub fn undecided(&self) -> impl Iterator<Item = RequestId> {
        self.undecided.iter().copied()
    }

    #[inline]
    pub fn give_back(&mut self, count: Return) {
        self.returns.push_back(count);
    }

    /// Returns the counts of a request that did not run, or has to pass these checkpoints again.
    pub fn refund(&mut self, id: RequestId, held: Vec<HeldCount>) {
        let returns = held.into_iter().map(|held| Return { id, held, ran: false, seat: None });
        self.returns.extend(returns);
    }

    #[inline]
    pub fn next_return(&mut self) -> Option<Return> {
        self.returns.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::{Chore, Outstanding};
    use paceline_types::RequestId;

    /// A call may always complete its present step, and work that counts for many requests leaves less for
    /// others.
    #[test]
    fn spending_leaves_the_step_that_spends() {
        let mut outstanding = Outstanding::default();
        outstanding.allow(10);
        outstanding.spend(4);
        outstanding.count_one();
        assert_eq!(outstanding.budget, 6);
        outstanding.spend(100);
        assert!(outstanding.may_go_on());
        outstanding.count_one();
        assert!(!outstanding.may_go_on());
        outstanding.spend(100);
        assert_eq!(outstanding.budget, 0);
    }

    #[test]
    fn each_entry_is_done_once() {
        let mut outstanding = Outstanding::default();
        assert!(outstanding.is_empty());
        let id = RequestId(1);
        outstanding.add_chores([Chore::End(id)]);
        outstanding.put_off(id);
        outstanding.put_off(RequestId(2));
        outstanding.drop_undecided(id);
        assert!(!outstanding.is_empty());
        assert!(outstanding.next_chore().is_some() && outstanding.next_chore().is_none());
        assert_eq!(outstanding.next_undecided(), Some(RequestId(2)));
        assert!(outstanding.is_empty());
    }
}
