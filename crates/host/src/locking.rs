//! The locks of all clients, server-wide, behind one mutex.
//!
//! Notices and replies go to the clients' outboxes, or to the listeners of sessions without a connection, while the
//! mutex is held. So their order is the order of events: a `stolen` before the stealer's reply (L4), a `locked` after
//! the reply that announced it. The reply to a steal whose loss must be written first takes its place at once and is
//! filled in later, so that a `stolen` by the next thief stays behind it. When a session that outlives the daemon is
//! granted a lock or loses one, that is noted in the ledger under the same mutex (L5). Fencing numbers come from a
//! range that is reserved on disk in advance ([`numbers`], L2). The table of locks follows them ([`shown`]).
//!
//! The mutex is held for a bounded time (D4): a connection that had many locks releases them in pieces, and lists are
//! made in pieces.

mod numbers;
mod shown;
#[cfg(test)]
mod tests;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::control::Control;
use crate::database::shares::{Bound, Full, Holder, Shares};
use crate::database::{Hosted, LET_IN, aside};
use crate::kept::{Cause, Key, Ledger};
use crate::outbox::{Later, Outgoing, Reply, Ticket};
use crate::session::Session;
use crate::tasks::Tasks;
use numbers::Reservations;
use paceline_locks::{Effect, LockError, Locks, SessionId, cost};
use paceline_types::limits::{LOCKS_BYTES_MAX, SESSION_BYTES_MAX};
pub use shown::LockShown;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;

/// What the locks of connections may take together, of which one user or address has a quarter and the last tenth is
/// kept (D1). What a connection may take `Locks` knows.
const BOUND: Bound = Bound {
    connection: u64::MAX,
    peer: LOCKS_BYTES_MAX as u64 / 4,
    all: LOCKS_BYTES_MAX as u64,
    kept: LOCKS_BYTES_MAX as u64 / 10,
};

/// What a client asks of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// Get in line.
    Lock,
    /// Take it from its owner.
    Steal,
    /// Give it back, or leave the line.
    Unlock,
}

/// What a lock operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAnswer {
    /// The session owns the lock.
    Locked,
    /// The session stands in line; a [`LockNotice`] follows when it owns the lock.
    Waiting,
    /// The session neither owns the lock nor stands in line.
    Released,
}

/// What happened to a session's lock without an operation of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockNotice {
    /// The lock.
    pub lock: Arc<str>,
    /// What happened.
    pub change: LockChange,
}

/// What can happen to a lock of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// The session stood in line and owns it now.
    Locked,
    /// Another session stole it.
    Stolen,
}

impl LockChange {
    /// The word for it that clients know.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Stolen => "stolen",
        }
    }
}

/// Hears of the locks of a session that has no connection to send notices to.
pub(crate) trait LockListener: Send + Sync {
    /// Takes a notice. It is called while the locks are locked, so it must not call them. Returns the task to wake.
    fn hear(self: Arc<Self>, notice: LockNotice) -> Option<Waker>;

    /// The session has ended.
    fn end(&self);
}

/// How many locks a connection that ends gives back at a time.
const RELEASED_MAX: usize = 1_000;

/// All locks.
pub struct Locking {
    state: Mutex<LockState>,
    /// The database that shows the locks and keeps the reserved numbers.
    own: OnceLock<Arc<Hosted>>,
    /// Each monitor of the table of locks, and each transaction that waits for it, has a copy.
    watched: Arc<()>,
    /// Who must know when a session loses a lock.
    control: OnceLock<Weak<Control>>,
    /// Where steals are recorded.
    audit: OnceLock<Arc<Audit>>,
    /// Where changes of locks of sessions that outlive the daemon are noted.
    ledger: Arc<Ledger>,
    clock: Clock,
    tasks: Tasks,
}

struct LockState {
    locks: Locks,
    reservations: Reservations,
    sessions: BTreeMap<SessionId, Arc<Session>>,
    /// What the locks of connections take. Sessions of the API count elsewhere, by user.
    shares: Shares,
    /// Whether the table of locks is being brought up to date.
    is_showing: bool,
    /// Sessions that lost a lock to a thief, which the engine does not know yet.
    lost: Vec<(SessionId, Arc<str>)>,
    /// Locks that have a row, or had one, because a session that outlives the daemon owns them.
    kept: BTreeSet<Arc<str>>,
}

/// A lock that is kept: the name of the session that owns it, the number of the grant, and whether its
/// lease is too long to be waited for after a crash of the machine.
pub(crate) type KeptOwner = (String, u64, bool);

impl Locking {
    pub(crate) fn new(ledger: Arc<Ledger>, clock: Clock, tasks: Tasks) -> Self {
        // Without a reserved range nothing is granted; `begin` brings the first one.
        let locks = Locks::new(0, 0, SESSION_BYTES_MAX);
        Self {
            state: Mutex::new(LockState {
                locks,
                reservations: Reservations::default(),
                sessions: BTreeMap::new(),
                shares: Shares::new(BOUND),
                is_showing: false,
                lost: Vec::new(),
                kept: BTreeSet::new(),
            }),
            own: OnceLock::new(),
            watched: Arc::new(()),
            control: OnceLock::new(),
            audit: OnceLock::new(),
            ledger,
            clock,
            tasks,
        }
    }

    /// From now on the engine is called when a session loses a lock.
    pub(crate) fn tell_losses_to(&self, control: &Arc<Control>) {
        let _ = self.control.set(Arc::downgrade(control));
    }

    fn state(&self) -> MutexGuard<'_, LockState> {
        crate::sync::lock(&self.state)
    }

    /// From now on steals are recorded.
    pub(crate) fn record_in(&self, audit: &Arc<Audit>) {
        let _ = self.audit.set(Arc::clone(audit));
    }

    /// Fills in a client's reply to a steal after the loss is written: after a restart the robbed session must not own
    /// the lock again. Until then the reply counts against the client's memory.
    fn reply_when_written(&self, to: Arc<Session>, later: Arc<Later>, reply: Reply) {
        const HELD_BACK: usize = 256;
        to.charge(HELD_BACK);
        let written = self.ledger.written();
        self.tasks.spawn(async move {
            // What cannot be written is held until its lease ends, at worst.
            let _ = written.await;
            let waker = to.outbox.fill(&later, reply);
            to.discharge(HELD_BACK);
            waker.into_iter().for_each(Waker::wake);
        });
    }

    /// Who owns each of these locks, if that is a session that outlives the daemon.
    pub(crate) fn kept_owners(&self, names: Vec<Arc<str>>) -> Vec<(Arc<str>, Option<KeptOwner>)> {
        let state = self.state();
        let owner = |name: Arc<str>| {
            let owner = state.kept_owner(&name);
            (name, owner)
        };
        names.into_iter().map(owner).collect()
    }

    /// All locks that sessions own that outlive the daemon, if it is quiet while nothing can change.
    #[cfg(debug_assertions)]
    pub(crate) fn all_kept(
        &self,
        is_quiet: impl Fn() -> bool,
    ) -> Option<BTreeMap<String, (String, u64)>> {
        let state = self.state();
        let owner = |lock: paceline_locks::LockView<'_>| {
            let (session, fencing, _) = state.kept_owner(lock.name())?;
            Some((lock.name().to_string(), (session, fencing)))
        };
        is_quiet().then(|| state.locks.iter().filter_map(owner).collect())
    }

    /// Service ends: nothing is granted any more.
    pub(crate) fn stop(&self) {
        self.state().locks.stop();
    }

    pub(crate) fn add_session(&self, session: &Arc<Session>) {
        self.state().sessions.insert(session.id, session.clone());
    }

    /// Releases everything a client held, because it left, or because it said so.
    pub(crate) fn end_session(self: &Arc<Self>, session: SessionId, cause: Cause) {
        while self.end_some(session, cause) {
            in_turns();
        }
    }

    /// Releases a part of what a client held, and forgets the client with the last part; whether there is more.
    fn end_some(self: &Arc<Self>, session: SessionId, cause: Cause) -> bool {
        let mut state = self.state();
        let ended = state.sessions.get(&session).cloned();
        // The rows of a session that outlives the daemon say at any time what it owns, so its locks go together.
        let is_kept = ended.as_ref().is_some_and(|ended| ended.kept().is_some());
        let count = if is_kept { usize::MAX } else { RELEASED_MAX };
        let before = state.locks.session_bytes(session);
        let owned = state.locks.release_some(session, count);
        let left = state.locks.session_bytes(session);
        if let Some(ended) = ended {
            state.give_back(&ended, before - left);
        }
        if left == 0 {
            state.sessions.remove(&session);
        }
        let wakers = state.drain_effects(&self.ledger);
        let noted = owned.iter().map(|name| state.note(&self.ledger, name, cause));
        let is_noted = noted.fold(false, |any, one| any | one);
        let range = state.next_range();
        let shows = self.begins_to_show(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if is_noted {
            self.ledger.write();
        }
        self.reserve(range);
        self.show(shows);
        left > 0
    }

    /// Takes, steals or releases a lock for a session. Other sessions are notified of what they lose or gain before this
    /// returns.
    /// That a session which outlives the daemon has lost a lock may not be written yet.
    ///
    /// # Errors
    ///
    /// When the operation is refused, which changes nothing.
    pub fn operate(
        self: &Arc<Self>,
        session: &Session,
        operation: LockOperation,
        name: &str,
    ) -> Result<LockAnswer, LockError> {
        self.operate_and(session, operation, name, |_, _| None)
    }

    /// The same for a connected client: the answer goes to its outbox, in order with its notices. The answer to a steal
    /// from a session that outlives the daemon leaves when the loss is written, and what else is on its way to the
    /// client stays behind it.
    ///
    /// # Errors
    ///
    /// When the operation is refused, which the caller answers.
    pub fn operate_for_client(
        self: &Arc<Self>,
        session: &Session,
        ticket: Ticket,
        operation: LockOperation,
        name: &str,
    ) -> Result<(), LockError> {
        let mut held_back = None;
        let answer = self.operate_and(session, operation, name, |stealer, answer| {
            held_back = stealer.map(|stealer| (stealer, Arc::new(Later::default())));
            let reply = match &held_back {
                Some((_, later)) => Reply::Later(Arc::clone(later)),
                None => Reply::Lock(answer),
            };
            session.outbox.leave(Outgoing::Reply(ticket, reply))
        })?;
        if let Some((stealer, later)) = held_back {
            self.reply_when_written(stealer, later, Reply::Lock(answer));
        }
        Ok(())
    }

    /// Does a lock operation. `leave` is called with the answer while the locks are locked, after other sessions were
    /// notified, and with the session itself if it robs one that outlives the daemon.
    fn operate_and(
        self: &Arc<Self>,
        session: &Session,
        operation: LockOperation,
        name: &str,
        leave: impl FnOnce(Option<Arc<Session>>, LockAnswer) -> Option<Waker>,
    ) -> Result<LockAnswer, LockError> {
        let mut state = self.state();
        if operation != LockOperation::Unlock && state.is_short_of_numbers() {
            // A disk that was full may have room again.
            drop(state);
            self.reserve_now();
            state = self.state();
        }
        if !state.sessions.contains_key(&session.id) {
            // Nothing would ever release what a session gets after its end.
            return Err(LockError::Ended);
        }
        let answer = state.operate(session, operation, name)?;
        tracing::debug!(client = %session.name, lock = name, ?answer, "{operation:?}");
        let mut wakers = state.drain_effects(&self.ledger);
        let mut lost = std::mem::take(&mut state.lost);
        let robs_kept = operation == LockOperation::Steal && state.kept.contains(name);
        let is_noted = state.note(&self.ledger, name, Cause::Asked);
        if operation == LockOperation::Unlock {
            lost.push((session.id, name.into()));
        }
        let stealer = state.sessions.get(&session.id).filter(|_| robs_kept).cloned();
        wakers.extend(leave(stealer, answer));
        let range = state.next_range();
        let shows = self.begins_to_show(&mut state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if is_noted {
            self.ledger.write();
        }
        if let Some(audit) = self.audit.get().filter(|_| operation == LockOperation::Steal) {
            audit.record(&session.name, "steal", name);
        }
        if let Some(control) = self.control.get().and_then(Weak::upgrade) {
            lost.iter().for_each(|(loser, lock)| control.lock_lost(*loser, lock));
        }
        self.reserve(range);
        self.show(shows);
        Ok(answer)
    }

    /// The locks that a session owns, with the fencing numbers.
    #[must_use]
    pub fn owned(&self, session: SessionId) -> BTreeMap<String, u64> {
        let state = self.state();
        let owned = state.locks.owned(session);
        owned.map(|(name, fencing)| (name.to_string(), fencing)).collect()
    }

    /// A session that owned a lock in an earlier run owns it again; false if another session does.
    pub fn restore(&self, session: SessionId, name: &str, fencing: u64) -> bool {
        let mut state = self.state();
        state.kept.insert(name.into());
        state.locks.restore(session, name, fencing)
    }

    /// The fencing number by which a session owns a lock, if it does.
    #[must_use]
    pub fn fencing(&self, session: SessionId, name: &str) -> Option<u64> {
        let owner = self.state().locks.owner(name);
        owner.filter(|(owner, _)| *owner == session).map(|(_, fencing)| fencing)
    }

    /// How many sessions end with the daemon: those of clients that are not kept for the next run.
    #[must_use]
    pub fn passing_sessions(&self) -> usize {
        let state = self.state();
        state.sessions.values().filter(|session| session.kept().is_none()).count()
    }

    /// Whether `session` owns the lock of this name.
    pub(crate) fn owns(&self, session: SessionId, name: &str) -> bool {
        self.state().locks.is_owner(session, name)
    }
}

impl LockState {
    /// Does a lock operation, and counts what it changes; the answer.
    fn operate(
        &mut self,
        session: &Session,
        operation: LockOperation,
        name: &str,
    ) -> Result<LockAnswer, LockError> {
        let bytes = cost(name);
        if operation == LockOperation::Unlock {
            self.locks.unlock(session.id, name)?;
            self.give_back(session, bytes);
            return Ok(LockAnswer::Released);
        }
        // What it has asked for already is counted, and is refused below.
        let is_new = self.locks.standing(session.id, name).is_none();
        if is_new {
            self.take(session, bytes)?;
        }
        let done = match operation {
            LockOperation::Steal => self.locks.steal(session.id, name).map(|()| true),
            _ => self.locks.lock(session.id, name),
        };
        if is_new && done.is_err() {
            self.give_back(session, bytes);
        }
        Ok(if done? { LockAnswer::Locked } else { LockAnswer::Waiting })
    }

    /// Counts what a lock of a connection takes.
    fn take(&mut self, session: &Session, bytes: usize) -> Result<(), LockError> {
        if session.peer().is_none() {
            return Ok(());
        }
        let taken = self.shares.take(Holder::of(session), bytes as u64);
        taken.map_err(|full| {
            LockError::TooManyTogether(match full {
                Full::Connection | Full::Peer => "the locks of all connections of one client",
                Full::All => "the locks of all connections",
            })
        })
    }

    /// Gives back what [`LockState::take`] took.
    fn give_back(&mut self, session: &Session, bytes: usize) {
        if session.peer().is_some() && bytes > 0 {
            self.shares.give_back(Holder::of(session), bytes as u64);
        }
    }

    /// Tells what happened to those it happened to.
    fn drain_effects(&mut self, ledger: &Ledger) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(effect) = self.locks.poll_effect() {
            let (session, lock, change) = match effect {
                Effect::Locked { session, name, .. } => {
                    self.note(ledger, &name, Cause::Asked);
                    (session, name, LockChange::Locked)
                }
                Effect::Stolen { session, name } => {
                    self.lost.push((session, Arc::clone(&name)));
                    (session, name, LockChange::Stolen)
                }
            };
            if let Some(session) = self.sessions.get(&session) {
                wakers.extend(session.notify(LockNotice { lock, change }));
            }
        }
        wakers
    }

    /// Notes that the owner of a lock may be another, if its row may be another then; whether it was.
    fn note(&mut self, ledger: &Ledger, name: &str, cause: Cause) -> bool {
        let has_row = self.kept_owner(name).is_some();
        let had_row = self.kept.contains(name);
        if !has_row && !had_row {
            return false;
        }
        // The row of a lock that has another owner by now is written, whatever ended for the last one.
        let cause = if has_row { Cause::Asked } else { cause };
        if has_row {
            self.kept.insert(name.into());
        } else {
            self.kept.remove(name);
        }
        ledger.note(Key::Lock(name.into()), cause);
        true
    }

    fn kept_owner(&self, name: &str) -> Option<KeptOwner> {
        let (session, fencing) = self.locks.owner(name)?;
        let session = self.sessions.get(&session)?;
        let is_long = session.kept()?;
        Some((session.name.clone(), fencing, is_long))
    }
}

/// Lets others have their turn between two pieces of long work. A mutex that is given up and taken again at once would
/// not let them in.
fn in_turns() {
    aside(|| std::thread::sleep(LET_IN));
}
