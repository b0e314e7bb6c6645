//! The locks of a session that outlives its connection: those it has requested, and the requests that wait for
//! them.
//!
//! Such a session has no task of its own. The host passes it every notice while the locks are locked. It stores the
//! notice in order, and the waker that it returns delivers it after the locks are unlocked. Neither calls the host, so
//! both may run anywhere.

use super::HoldError;
use super::shares::{Amount, Share, Taker};
use crate::kept::PlaceHash;
use crate::locking::{LockChange, LockListener, LockNotice};
use crate::{Host, LockAnswer, LockOperation, Session};
use paceline_locks::LockError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Wake, Waker};
use tokio::sync::{Semaphore, broadcast, oneshot};

/// A change of a session's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The lock.
    pub lock: Arc<str>,
    /// The change.
    pub change: LockChange,
    /// The name of the session.
    pub session: String,
}

/// A lock operation under way.
pub(super) struct Asked {
    /// The number of the operation.
    pub(super) number: u64,
    /// Whether the session owns the lock now.
    pub(super) owns: bool,
    /// If not, this receives its turn; closed if the session ends.
    pub(super) turn: oneshot::Receiver<Turn>,
}

/// The outcome of a place in line.
pub(super) enum Turn {
    /// The session owns the lock.
    Came,
    /// The session gave its place up.
    GivenUp,
}

/// The locks of one session.
pub(super) struct Standings {
    host: Weak<Host>,
    session: Arc<Session>,
    /// The share that its locks count in.
    taker: Taker,
    /// Held during an operation: those of one session happen one after the other.
    turn: Mutex<()>,
    state: Mutex<Lines>,
    notices: broadcast::Sender<Notice>,
    /// Closed when the session has ended.
    over: Semaphore,
}

#[derive(Default)]
struct Lines {
    /// The number of the last operation.
    last: u64,
    /// Requests that wait until the session owns a lock.
    waiting: BTreeMap<String, oneshot::Sender<Turn>>,
    /// The locks that the session owns or waits for.
    asked: BTreeMap<String, Standing>,
    /// Notices that are not delivered yet, each with the request that waits for it.
    heard: Vec<(LockNotice, Option<oneshot::Sender<Turn>>)>,
}

/// A lock that a session owns or waits for.
struct Standing {
    /// The number of the operation that requested it; 0 in an earlier run.
    number: u64,
    /// Its part of its user's share.
    _share: Option<Share>,
}

impl Standings {
    pub(super) fn new(
        host: &Arc<Host>,
        session: &Arc<Session>,
        notices: broadcast::Sender<Notice>,
        taker: Taker,
    ) -> Arc<Self> {
        let (host, session) = (Arc::downgrade(host), Arc::clone(session));
        let (turn, state, over) = (Mutex::default(), Mutex::default(), Semaphore::new(0));
        let standings = Arc::new(Self { host, session, taker, turn, state, notices, over });
        let listener: Arc<dyn LockListener> = standings.clone();
        standings.session.listen(Arc::downgrade(&listener));
        standings
    }

    /// Does a lock operation. A refused one changes nothing.
    pub(super) fn operate(
        self: &Arc<Self>,
        operation: LockOperation,
        name: &str,
    ) -> Result<Asked, HoldError> {
        let _turn = crate::sync::lock(&self.turn);
        self.operate_in_turn(operation, name, None)
    }

    /// Waits in line for a lock, with a place.
    pub(super) fn lock(
        self: &Arc<Self>,
        name: &str,
        place: Option<PlaceHash>,
    ) -> Result<Asked, HoldError> {
        let _turn = crate::sync::lock(&self.turn);
        self.operate_in_turn(LockOperation::Lock, name, place)
    }

    /// Releases what an earlier operation of this number requested, unless the session has released that itself
    /// meanwhile and may have requested it again.
    pub(super) fn give_back(self: &Arc<Self>, name: &str, number: u64) {
        let _turn = crate::sync::lock(&self.turn);
        if self.state().asked.get(name).is_some_and(|standing| standing.number == number) {
            // This fails only if the session has ended, and then there is nothing to release.
            let _ = self.operate_in_turn(LockOperation::Unlock, name, None);
        }
    }

    /// Restores a lock that the session owned in an earlier run.
    pub(super) fn restore(&self, name: String) {
        let share = Some(self.taker.restore(Amount::of_lock(&name)));
        self.state().asked.insert(name, Standing { number: 0, _share: share });
    }

    fn operate_in_turn(
        self: &Arc<Self>,
        operation: LockOperation,
        name: &str,
        place: Option<PlaceHash>,
    ) -> Result<Asked, HoldError> {
        // A lock that the session has requested already counts, and is refused below.
        let is_new = operation != LockOperation::Unlock && !self.state().asked.contains_key(name);
        let share = is_new.then(|| self.taker.take(Amount::of_lock(name))).transpose()?;
        let (sender, turn) = oneshot::channel();
        // The grant may arrive before the answer. A second wait by the same session is refused below and must
        // not replace the first.
        let mut is_first = false;
        let number = {
            let mut state = self.state();
            state.last += 1;
            if operation == LockOperation::Lock && !state.waiting.contains_key(name) {
                is_first = true;
                state.waiting.insert(name.to_owned(), sender);
            }
            state.last
        };
        let done = match self.host.upgrade() {
            // A request that steals waits by itself until the loss is written.
            Some(host) => host.locking().operate_in_place(&self.session, operation, name, place),
            None => Err(LockError::Ended),
        };
        let mut state = self.state();
        let owns = done == Ok(LockAnswer::Locked);
        match &done {
            Err(_) if is_first => drop(state.waiting.remove(name)),
            Err(_) => {}
            Ok(LockAnswer::Released) => {
                state.asked.remove(name);
                // A request that waited for it is no longer in line.
                let waiter = state.waiting.remove(name);
                waiter.into_iter().for_each(|waiter| drop(waiter.send(Turn::GivenUp)));
            }
            Ok(LockAnswer::Locked | LockAnswer::Waiting) => {
                state.asked.insert(name.to_owned(), Standing { number, _share: share });
                if owns {
                    state.waiting.remove(name);
                }
            }
        }
        drop(state);
        done.map_err(HoldError::Lock)?;
        Ok(Asked { number, owns, turn })
    }

    /// Waits until the session has ended.
    pub(super) async fn closed(&self) {
        // No permit is ever added: this waits until the semaphore is closed.
        let _ = self.over.acquire().await;
    }

    fn state(&self) -> MutexGuard<'_, Lines> {
        crate::sync::lock(&self.state)
    }
}

impl LockListener for Standings {
    fn hear(self: Arc<Self>, notice: LockNotice) -> Option<Waker> {
        let mut state = self.state();
        if self.over.is_closed() {
            // Its locks are about to be released, and no client knows of it any more.
            return None;
        }
        let waiter = match notice.change {
            LockChange::Locked => state.waiting.remove(&*notice.lock),
            LockChange::Stolen => None,
        };
        state.heard.push((notice, waiter));
        drop(state);
        Some(Waker::from(self))
    }

    fn end(&self) {
        let mut state = self.state();
        // Dropping the senders ends every wait.
        state.waiting.clear();
        state.asked.clear();
        self.over.close();
    }
}

impl Wake for Standings {
    /// Delivers the notices, in order.
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        for (LockNotice { lock, change }, waiter) in std::mem::take(&mut state.heard) {
            // A waiter that has left releases the lock by itself.
            let _ = waiter.map(|waiter| waiter.send(Turn::Came));
            let session = self.session.name.clone();
            // There may be no listener.
            let _ = self.notices.send(Notice { lock, change, session });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Standings;
    use crate::LockOperation::{Lock, Steal, Unlock};
    use crate::locking::{LockChange, LockListener as _, LockNotice};
    use crate::registry::tests::World;
    use crate::registry::{Asking, HoldError};
    use paceline_types::Span;
    use std::sync::Arc;

    /// How many entries are kept about a session's locks.
    fn remembered(standings: &Standings) -> usize {
        let state = standings.state();
        state.heard.len() + state.waiting.len() + state.asked.len()
    }

    fn name(number: usize) -> String {
        format!("{}{number}", "x".repeat(240))
    }

    /// D1: a client that requests locks and is refused leaves nothing in memory, however often it asks.
    #[test]
    fn a_refused_ask_is_not_remembered_d1() {
        let world = World::new("refused");
        let (owner, asker) = (world.session(), world.session());
        owner.standings.operate(Lock, "taken").unwrap();
        for _ in 0..10 {
            let asked = world.registry.lock(
                &asker,
                "taken",
                Asking::Wait(Span::ZERO, None),
                None,
                std::future::pending(),
            );
            let refused = world.block_on(asked);
            assert!(matches!(refused, Err(HoldError::Taken { .. })), "{refused:?}");
        }
        assert_eq!(remembered(&asker.standings), 0, "it does not stand in line");
        // Nothing can be granted any more, so every request is refused at once.
        world.host().locking().stop();
        for number in 0..1_000 {
            assert!(asker.standings.operate(Lock, &name(number)).is_err());
            assert!(asker.standings.operate(Unlock, &name(number)).is_err());
        }
        assert_eq!(remembered(&asker.standings), 0);
    }

    /// After its end a session receives no notice about its locks, and neither does a client that follows
    /// events.
    #[test]
    fn an_ended_session_hears_nothing() {
        let world = World::new("deaf");
        let session = world.session();
        let mut notices = world.registry.listen();
        session.standings.end();
        let notice = LockNotice { lock: "leader".into(), change: LockChange::Locked };
        assert!(Arc::clone(&session.standings).hear(notice).is_none());
        assert!(notices.try_recv().is_err());
    }

    /// D1: notices of steals are delivered, and not remembered.
    #[test]
    fn what_was_delivered_is_not_remembered_d1() {
        let world = World::new("steals");
        let sessions = [world.session(), world.session()];
        let _entered = world.runtime().enter();
        sessions[0].standings.operate(Lock, "leader").unwrap();
        world.written();
        for turn in 1..100 {
            let (thief, robbed) = (&sessions[turn % 2], &sessions[(turn + 1) % 2]);
            thief.standings.operate(Steal, "leader").unwrap();
            robbed.standings.operate(Unlock, "leader").unwrap();
            world.written();
            world.settle();
        }
        let counts = sessions.each_ref().map(|session| remembered(&session.standings));
        assert_eq!(counts.iter().sum::<usize>(), 1, "the lock that one of them owns: {counts:?}");
    }
}
