//! Circles that a search from one end alone does not find within its bounds.

use crate::{Bench, rank, resource};
use paceline_types::{Mode, RequestId, SessionId};

/// Requests of sessions, numbered as they come.
struct Sessions {
    bench: Bench,
    last: u64,
}

impl Sessions {
    fn new() -> Self {
        let names = ["r1", "r2", "other"].iter().zip(0..);
        let bench = Bench::new(names.map(|(name, id)| resource(id, name, &[])).collect());
        Self { bench, last: 0 }
    }

    /// A request of a session, which takes its claims or waits; its number.
    fn ask(&mut self, session: u64, name: &str, mode: Mode) -> u64 {
        self.last += 1;
        let (id, session) = (RequestId(self.last), Some(SessionId(session)));
        let rank = rank(self.last, self.last);
        self.bench.claims.note_submitted(id);
        let mut wanted = self.bench.wanted(name, mode);
        let claims = &mut self.bench.claims;
        if claims.check(&mut wanted, rank).is_ok() {
            claims.take_at_once(id, rank, session, wanted);
        } else {
            claims.add(id, rank, session, wanted);
            claims.set_eligible(id, true);
            assert!(claims.take(id).is_err());
        }
        self.last
    }

    fn exclusive(&mut self, session: u64, name: &str) -> u64 {
        self.ask(session, name, Mode::Exclusive)
    }

    /// Which request is in the way of a newcomer that would wait in a circle.
    fn deadlock(&self, session: u64, name: &str) -> Option<u64> {
        let wanted = self.bench.wanted(name, Mode::Exclusive);
        let rank = rank(self.last + 1, self.last + 1);
        let claims = &self.bench.claims;
        let found = claims.would_deadlock(&wanted, rank, Some(SessionId(session)), &[], &[]);
        found.map(|(resource, id)| {
            assert_eq!(&*resource, name);
            id.0
        })
    }

    /// The waiters that are refused because they wait in circles.
    fn tangled(&mut self) -> Vec<u64> {
        while self.bench.claims.look().is_some() {}
        let tangles = self.bench.claims.tangles();
        let last = tangles.into_iter().map(|id| self.bench.claims.last_of_tangle(id).unwrap());
        last.map(|id| id.0).collect()
    }
}

/// Session 1 holds r1 and asks for r2, behind many others for something else; session 2 holds r2.
fn busy(others: u64) -> (Sessions, u64) {
    let mut sessions = Sessions::new();
    let held = sessions.exclusive(1, "r1");
    sessions.exclusive(2, "r2");
    sessions.exclusive(3, "other");
    for _ in 0..others {
        sessions.exclusive(1, "other");
    }
    assert_eq!(sessions.deadlock(2, "r1"), None, "nothing of session 2 is waited for");
    sessions.exclusive(1, "r2");
    (sessions, held)
}

#[test]
fn a_circle_is_found_behind_many_waiters_of_a_session() {
    for others in [0, 63, 64, 70, 1_000] {
        let (sessions, held) = busy(others);
        assert_eq!(sessions.deadlock(2, "r1"), Some(held), "{others} others");
        // Session 3 holds what the others wait for, if there are any.
        let found = sessions.deadlock(3, "r1");
        assert_eq!(found, Some(held).filter(|_| others > 0), "{others} others");
    }
}

/// A waiter that is not eligible blocks no other request, but its session keeps what it holds.
#[test]
fn a_circle_is_found_through_a_waiter_that_is_not_eligible() {
    for others in [0, 70] {
        let (mut sessions, held) = busy(others);
        sessions.bench.claims.set_eligible(RequestId(sessions.last), false);
        assert_eq!(sessions.deadlock(2, "r1"), Some(held), "{others} others");
    }
}

/// Many sessions hold r1 together, and the last of them asks for r2.
fn shared(holders: u64) -> (Sessions, u64) {
    let mut sessions = Sessions::new();
    for session in 1..=holders {
        sessions.ask(session, "r1", Mode::Shared);
    }
    let held = sessions.last;
    sessions.exclusive(holders + 1, "r2");
    assert_eq!(sessions.deadlock(holders + 1, "r1"), None);
    sessions.exclusive(holders, "r2");
    (sessions, held)
}

#[test]
fn a_circle_is_found_behind_many_holders() {
    for holders in [1, 200, 301, 2_000] {
        let (sessions, held) = shared(holders);
        assert_eq!(sessions.deadlock(holders + 1, "r1"), Some(held), "{holders} holders");
    }
}

/// The same if the last request is in line already: the newest that its session waits for is refused, and no other.
#[test]
fn a_circle_that_was_closed_later_is_found_as_well() {
    for many in [1, 70, 400] {
        let (mut sessions, _) = busy(many);
        let last = sessions.exclusive(2, "r1");
        assert_eq!(sessions.tangled(), [last], "{many} others");
        sessions.bench.remove(last);
        assert_eq!(sessions.tangled(), [0; 0], "{many} others");

        let (mut sessions, _) = shared(many);
        let last = sessions.exclusive(many + 1, "r1");
        assert_eq!(sessions.tangled(), [last], "{many} holders");
        sessions.bench.remove(last);
        assert_eq!(sessions.tangled(), [0; 0], "{many} holders");
    }
}
