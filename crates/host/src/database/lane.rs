//! Work for clients that a few threads do beside everything else, in turns: the threads of a database, or those
//! for the doors.
//!
//! Promises that each user or address gets one turn for every turn of another, however many connections it has and
//! however much it has asked for. The connections of one user or address take turns likewise.

use crate::places::Peer;
use crate::ring::Ring;
use crate::session::Session;
use paceline_locks::SessionId;
use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The most threads of one lane.
const THREADS_MAX: usize = 4;

/// That many, or half the processors if that is less. Cached, because querying the processors is slow.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cpus / 2).clamp(1, THREADS_MAX)
});

/// The connection that work is done for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    peer: Option<Peer>,
    session: SessionId,
}

impl Whose {
    pub(crate) fn of(session: &Session) -> Self {
        Self { peer: session.peer(), session: session.id }
    }

    /// Work for no client.
    pub(super) const fn nobody(session: SessionId) -> Self {
        Self { peer: None, session }
    }
}

/// The work that waits, and how many threads work on it.
pub(crate) struct Lane<T> {
    state: Mutex<LaneState<T>>,
}

struct LaneState<T> {
    running: usize,
    waiting: Turns<T>,
}

/// The work that waits, by turns.
struct Turns<T>(Ring<Option<Peer>, Ring<SessionId, VecDeque<T>>>);

impl<T> Default for Lane<T> {
    fn default() -> Self {
        let state = LaneState { running: 0, waiting: Turns(Ring::default()) };
        Self { state: Mutex::new(state) }
    }
}

impl<T> Turns<T> {
    fn queue(&mut self, whose: Whose) -> &mut VecDeque<T> {
        self.0.all.entry(whose.peer).or_default().all.entry(whose.session).or_default()
    }

    /// How many connections of the same user or address wait.
    fn waiting_with(&self, whose: Whose) -> usize {
        self.0.all.get(&whose.peer).map_or(0, |sessions| sessions.all.len())
    }

    fn next(&mut self) -> Option<(Whose, T)> {
        let peer = self.0.turn()?;
        let session = self.0.all.get_mut(&peer)?.turn()?;
        let whose = Whose { peer, session };
        Some((whose, self.take_first(whose)?))
    }

    fn take_first(&mut self, whose: Whose) -> Option<T> {
        let sessions = self.0.all.get_mut(&whose.peer)?;
        let queue = sessions.all.get_mut(&whose.session)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            sessions.all.remove(&whose.session);
        }
        if sessions.all.is_empty() {
            self.0.all.remove(&whose.peer);
        }
        first
    }

    /// The connection whose next work has the smallest `key`; work without a key does not count.
    fn least<K: Ord>(&self, key: impl Fn(&T) -> Option<K>) -> Option<Whose> {
        let sessions = self.0.all.iter().flat_map(|(peer, sessions)| {
            sessions.all.iter().map(|(session, queue)| (*peer, *session, queue))
        });
        let firsts = sessions.filter_map(|(peer, session, queue)| {
            Some((key(queue.front()?)?, Whose { peer, session }))
        });
        firsts.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, whose)| whose)
    }
}

impl<T> Lane<T> {
    fn state(&self) -> MutexGuard<'_, LaneState<T>> {
        crate::sync::lock(&self.state)
    }

    /// Adds work for all of `clients`, in the turn of the client whose user or address has the fewest waiting
    /// connections. Returns whether the caller must start one more thread.
    #[must_use]
    pub(crate) fn add(&self, clients: impl IntoIterator<Item = Whose>, work: T) -> bool {
        let mut state = self.state();
        let waiting = &mut state.waiting;
        let Some(whose) = clients.into_iter().min_by_key(|whose| waiting.waiting_with(*whose))
        else {
            return false;
        };
        waiting.queue(whose).push_back(work);
        let more = state.running < *THREADS;
        state.running += usize::from(more);
        more
    }

    /// The next work. If there is none, the calling thread counts as ended.
    pub(crate) fn next(&self) -> Option<(Whose, T)> {
        let mut state = self.state();
        let next = state.waiting.next();
        if next.is_none() {
            state.running -= 1;
        }
        next
    }

    /// Puts unfinished work back, before what the same client asked for later.
    pub(super) fn put_back(&self, (whose, work): (Whose, T)) {
        self.state().waiting.queue(whose).push_front(work);
    }

    /// Removes all work of the connection whose next work has the smallest `key`; work without a key does not
    /// count.
    pub(super) fn take_least<K: Ord>(
        &self,
        key: impl Fn(&T) -> Option<K>,
    ) -> Option<(Whose, VecDeque<T>)> {
        let mut state = self.state();
        let whose = state.waiting.least(key)?;
        let mut queue = VecDeque::new();
        while let Some(work) = state.waiting.take_first(whose) {
            queue.push_back(work);
        }
        Some((whose, queue))
    }

    /// From now on only callers of [`Lane::next`] do work.
    #[cfg(test)]
    pub(crate) fn pause(&self) {
        self.state().running = THREADS_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(uid: u32, session: u64) -> Whose {
        Whose { peer: Some(Peer::User(uid)), session: SessionId(session) }
    }

    /// D4: a user with many connections and much work on each delays another user by one turn of its own.
    #[test]
    fn each_user_has_a_turn_for_one_of_every_other_d4() {
        let lane = Lane::default();
        lane.pause();
        for session in 0..40 {
            for _ in 0..3 {
                assert!(!lane.add([whose(1, session)], "greedy"));
            }
        }
        let next = || lane.next().map(|(_, work)| work);
        assert_eq!(next(), Some("greedy"));
        for session in [100, 101] {
            assert!(!lane.add([whose(2, session)], "modest"));
        }
        assert_eq!([next(), next(), next()], [Some("modest"), Some("greedy"), Some("modest")]);
        assert_eq!((2..120).filter(|_| next() == Some("greedy")).count(), 118);
        assert_eq!(next(), None);
    }

    /// The connections of one user take turns, and work that is put back precedes later work.
    #[test]
    fn each_connection_of_a_user_has_its_turn() {
        let lane = Lane::default();
        lane.pause();
        for (session, work) in [(1, "a1"), (1, "a2"), (2, "b1"), (2, "b2")] {
            assert!(!lane.add([whose(1, session)], work));
        }
        let first = lane.next().unwrap();
        assert_eq!(first, (whose(1, 1), "a1"));
        lane.put_back(first);
        let rest: Vec<_> = std::iter::from_fn(|| lane.next()).map(|(_, work)| work).collect();
        assert_eq!(rest, ["b1", "a1", "b2", "a2"]);
    }

    /// Work for several clients takes the turn of the client that waits for the least.
    #[test]
    fn work_for_several_has_the_best_turn_of_them() {
        let lane = Lane::default();
        lane.pause();
        assert!(!lane.add([whose(1, 1)], "x"));
        assert!(!lane.add([whose(1, 2)], "x"));
        assert!(!lane.add([whose(1, 3), whose(2, 4)], "shared"));
        let order: Vec<_> = std::iter::from_fn(|| lane.next()).map(|(whose, _)| whose).collect();
        assert_eq!(order, [whose(1, 1), whose(2, 4), whose(1, 2)]);
    }
}
