//! What the host tells a session about its locks.
//!
//! A session that is kept has no task of its own. What comes to its outbox is taken out by whoever left
//! it there: the outbox wakes a waker, and this one takes the mail. It locks nothing but itself and
//! never calls the host from there, so it may be woken from anywhere.

use super::HoldError;
use super::shares::{Amount, Share, Taker};
use crate::{Host, Interest, LockOperation, Outgoing, Reply, Session, StealReply, Ticket};
use paceline_locks::LockError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Wake, Waker};
use tokio::sync::{Semaphore, broadcast, oneshot};

/// What happened to a lock of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The lock.
    pub lock: Arc<str>,
    /// `locked` or `stolen`.
    pub what: &'static str,
    /// The name of the session.
    pub session: String,
}

/// What a session asked for.
pub(super) struct Asked {
    /// The number of the operation.
    pub(super) number: u64,
    /// Whether the session owns the lock now.
    pub(super) owns: bool,
    /// If not, this is told of its turn; closed if the session ends.
    pub(super) turn: oneshot::Receiver<Turn>,
}

/// What became of a place in line.
pub(super) enum Turn {
    /// The session owns the lock.
    Came,
    /// The session gave its place up.
    GivenUp,
}

/// The mail of one session.
pub(super) struct Mailbox {
    host: Weak<Host>,
    session: Arc<Session>,
    /// Whose share its locks count in.
    taker: Taker,
    /// Held for one operation: those of one session happen one after the other.
    turn: Mutex<()>,
    state: Mutex<State>,
    notices: broadcast::Sender<Notice>,
    /// Closed when the session is over.
    over: Semaphore,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// Replies that are waited for; none for those that have not come.
    replies: BTreeMap<u64, Option<Vec<u8>>>,
    /// Who waits to hear that the session owns a lock.
    waiting: BTreeMap<String, oneshot::Sender<Turn>>,
    /// The locks that the session owns or stands in line for.
    asked: BTreeMap<String, Standing>,
}

/// A lock that a session owns or stands in line for.
struct Standing {
    /// The number of the operation that asked for it; 0 in an earlier run.
    number: u64,
    /// What it takes of its user's share.
    _share: Option<Share>,
}

impl Mailbox {
    pub(super) fn new(
        host: &Arc<Host>,
        session: &Arc<Session>,
        notices: broadcast::Sender<Notice>,
        taker: Taker,
    ) -> Arc<Self> {
        let (host, session) = (Arc::downgrade(host), Arc::clone(session));
        let (turn, state, over) = (Mutex::default(), Mutex::default(), Semaphore::new(0));
        let mailbox = Arc::new(Self { host, session, taker, turn, state, notices, over });
        mailbox.take_mail();
        mailbox
    }

    /// Does a lock operation. One that was refused changes nothing.
    pub(super) fn operate(
        self: &Arc<Self>,
        operation: LockOperation,
        name: &str,
    ) -> Result<Asked, HoldError> {
        let _turn = crate::sync::lock(&self.turn);
        self.operate_in_turn(operation, name)
    }

    /// Gives back what an earlier operation of this number asked for, unless the session has given that
    /// back itself meanwhile and may have asked anew.
    pub(super) fn give_back(self: &Arc<Self>, name: &str, number: u64) {
        let _turn = crate::sync::lock(&self.turn);
        if self.state().asked.get(name).is_some_and(|standing| standing.number == number) {
            // It fails only if the session is over, and then there is nothing to give back.
            let _ = self.operate_in_turn(LockOperation::Unlock, name);
        }
    }

    /// The session owns a lock that it owned in an earlier run.
    pub(super) fn restore(&self, name: String) {
        let share = Some(self.taker.restore(Amount::of_lock(&name)));
        self.state().asked.insert(name, Standing { number: 0, _share: share });
    }

    fn operate_in_turn(
        self: &Arc<Self>,
        operation: LockOperation,
        name: &str,
    ) -> Result<Asked, HoldError> {
        // What the session has asked for already counts, and is refused below.
        let is_new = operation != LockOperation::Unlock && !self.state().asked.contains_key(name);
        let share = is_new.then(|| self.taker.take(Amount::of_lock(name))).transpose()?;
        let (sender, turn) = oneshot::channel();
        // The grant may come before the answer; a second wait by the same session is refused below and
        // must not replace the first.
        let mut is_first = false;
        let number = {
            let mut state = self.state();
            state.next_ticket += 1;
            if operation == LockOperation::Lock && !state.waiting.contains_key(name) {
                is_first = true;
                state.waiting.insert(name.to_owned(), sender);
            }
            let number = state.next_ticket;
            state.replies.insert(number, None);
            number
        };
        let ticket: Ticket = number.to_be_bytes().into();
        let done = match self.host.upgrade() {
            Some(host) => {
                // A request that steals waits by itself until the loss is written.
                let at_once = StealReply::AtOnce;
                host.locking().operate(&self.session, ticket, operation, name, at_once)
            }
            None => Err(LockError::Ended),
        };
        self.take_mail();
        let mut state = self.state();
        let reply = state.replies.remove(&number).flatten();
        let owns = reply.as_deref() == Some(b"{\"locked\":true}");
        match (&done, operation) {
            (Err(_), _) if is_first => drop(state.waiting.remove(name)),
            (Err(_), _) => {}
            (Ok(()), LockOperation::Unlock) => {
                state.asked.remove(name);
                // Whatever waited for it stands in line no longer.
                let waiter = state.waiting.remove(name);
                waiter.into_iter().for_each(|waiter| drop(waiter.send(Turn::GivenUp)));
            }
            (Ok(()), _) => {
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

    /// Waits until the session is over.
    pub(super) async fn closed(&self) {
        // A permit is never given: it waits for the end.
        let _ = self.over.acquire().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }

    /// Takes out what is there, and asks to be woken when more comes.
    fn take_mail(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.state();
        while self.session.outbox.closed().is_none() {
            while let Some(item) = self.session.outbox.take() {
                self.handle(&mut state, item);
            }
            if !self.session.outbox.register(&waker, Interest::Items) {
                return;
            }
            if self.session.outbox.finishing().is_some() {
                return;
            }
        }
        // Whoever waits hears that nothing comes any more.
        state.waiting.clear();
        state.asked.clear();
        self.over.close();
        self.session.outbox.awake();
    }

    fn handle(&self, state: &mut State, item: Outgoing) {
        let (lock, what) = match item {
            Outgoing::Reply(ticket, Reply::Text(text)) => {
                let number = <[u8; 8]>::try_from(&*ticket).map(u64::from_be_bytes);
                if let Some(reply) = number.ok().and_then(|number| state.replies.get_mut(&number)) {
                    *reply = Some(text);
                }
                return;
            }
            Outgoing::Locked(lock) => (lock, "locked"),
            Outgoing::Stolen(lock) => (lock, "stolen"),
            _ => return,
        };
        if what == "locked"
            && let Some(sender) = state.waiting.remove(&*lock)
        {
            // One that is gone gives the lock back by itself.
            let _ = sender.send(Turn::Came);
        }
        let session = self.session.name.clone();
        // Nobody may be listening.
        let _ = self.notices.send(Notice { lock, what, session });
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.take_mail();
    }
}

#[cfg(test)]
mod tests {
    use super::Mailbox;
    use crate::LockOperation::{Lock, Steal, Unlock};
    use crate::registry::tests::World;
    use crate::registry::{Asking, HoldError};
    use paceline_types::Span;

    /// How much a mailbox remembers.
    fn remembered(mailbox: &Mailbox) -> usize {
        let state = mailbox.state();
        state.replies.len() + state.waiting.len() + state.asked.len()
    }

    fn name(number: usize) -> String {
        format!("{}{number}", "x".repeat(240))
    }

    /// D1: a client that asks for locks and is refused leaves nothing in memory, however often it asks.
    #[test]
    fn a_refused_ask_is_not_remembered_d1() {
        let world = World::new("refused");
        let (owner, asker) = (world.session(), world.session());
        owner.mailbox.operate(Lock, "taken").unwrap();
        for _ in 0..10 {
            let asked = world.registry.lock(
                &asker,
                "taken",
                Asking::Wait(Span::ZERO),
                None,
                std::future::pending(),
            );
            let refused = world.block_on(asked);
            assert!(matches!(refused, Err(HoldError::Taken { .. })), "{refused:?}");
        }
        assert_eq!(remembered(&asker.mailbox), 0, "it does not stand in line");
        // Nothing can be granted any more, so that every ask is refused at once.
        world.host().locking().stop();
        for number in 0..1_000 {
            assert!(asker.mailbox.operate(Lock, &name(number)).is_err());
            assert!(asker.mailbox.operate(Unlock, &name(number)).is_err());
        }
        assert_eq!(remembered(&asker.mailbox), 0);
    }

    /// D1: the answer of a steal is held back until the loss is written. It comes when nobody waits for it, and
    /// is not remembered.
    #[test]
    fn an_answer_that_was_held_back_is_not_remembered_d1() {
        let world = World::new("steals");
        let sessions = [world.session(), world.session()];
        let _entered = world.runtime().enter();
        sessions[0].mailbox.operate(Lock, "leader").unwrap();
        world.written();
        for turn in 1..100 {
            let (thief, robbed) = (&sessions[turn % 2], &sessions[(turn + 1) % 2]);
            thief.mailbox.operate(Steal, "leader").unwrap();
            robbed.mailbox.operate(Unlock, "leader").unwrap();
            world.written();
            // The answer leaves in a task of its own.
            world.settle();
        }
        let counts = sessions.each_ref().map(|session| remembered(&session.mailbox));
        assert_eq!(counts.iter().sum::<usize>(), 1, "the lock that one of them owns: {counts:?}");
    }
}
