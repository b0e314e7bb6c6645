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
use crate::kept::{Cause, Key, Ledger, LeftWaiter, PlaceHash};
use crate::outbox::{Later, Outgoing, Reply, Ticket};
use crate::session::Session;
use crate::tasks::Tasks;
use numbers::Reservations;
use paceline_locks::{Effect, LockError, Locks, SessionId, cost};
use paceline_types::limits::{LOCKS_BYTES_MAX, SESSION_BYTES_MAX};
use paceline_types::{Span, Time};
pub use shown::LockShown;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;

/// The bytes that the locks of all connections may take. One user or address may have a quarter, and the last
/// tenth is reserved (D1). `Locks` bounds what one connection may take.
const BOUND: Bound = Bound {
    connection: u64::MAX,
    peer: LOCKS_BYTES_MAX as u64 / 4,
    all: LOCKS_BYTES_MAX as u64,
    kept: LOCKS_BYTES_MAX as u64 / 10,
};

/// A lock operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// Wait in line.
    Lock,
    /// Take the lock from its owner.
    Steal,
    /// Release it, or leave the line.
    Unlock,
}

/// The outcome of a lock operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAnswer {
    /// The session owns the lock.
    Locked,
    /// The session waits in line; a [`LockNotice`] follows when it owns the lock.
    Waiting,
    /// The session neither owns the lock nor waits for it.
    Released,
}

/// A change of a session's lock without an operation of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockNotice {
    /// The lock.
    pub lock: Arc<str>,
    /// The change.
    pub change: LockChange,
}

/// The changes that a session is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// The session waited in line and owns the lock now.
    Locked,
    /// Another session stole it.
    Stolen,
}

impl LockChange {
    /// The word that clients use for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Stolen => "stolen",
        }
    }
}

/// Receives the lock notices of a session that has no connection.
pub(crate) trait LockListener: Send + Sync {
    /// Receives a notice. It is called while the locks are locked, so it must not call them. Returns the task
    /// to wake.
    fn hear(self: Arc<Self>, notice: LockNotice) -> Option<Waker>;

    /// Called when the session has ended.
    fn end(&self);
}

/// How many locks a connection that ends releases at a time.
const RELEASED_MAX: usize = 1_000;

/// All locks.
pub struct Locking {
    state: Mutex<LockState>,
    /// Notified when a reservation of numbers has ended, or none will be made any more.
    ranged: Condvar,
    /// The database that shows the locks and keeps the reserved numbers.
    own: OnceLock<Arc<Hosted>>,
    /// Each monitor of the table of locks, and each transaction that waits for it, has a copy.
    watched: Arc<()>,
    /// The engine, which is called when a session loses a lock.
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
    /// The bytes that the locks of connections take. Sessions of the API count elsewhere, by user.
    shares: Shares,
    /// Whether the table of locks is being updated.
    is_showing: bool,
    /// Sessions that lost a lock to a thief, not reported to the engine yet.
    lost: Vec<(SessionId, Arc<str>)>,
    /// Locks that have a row, or had one, because a session that outlives the daemon owns them.
    kept: BTreeSet<Arc<str>>,
    /// The places of the sessions in line that have one.
    places: BTreeMap<(SessionId, Arc<str>), InLine>,
}

/// A session in line that is recognised if it asks again after an orderly shutdown of the daemon.
struct InLine {
    place: PlaceHash,
    since: Time,
    /// How long it had waited before that.
    waited: Span,
}

/// A lock that is kept: the name of the session that owns it, the number of the grant, and whether its
/// lease is too long to be waited for after a crash of the machine.
pub(crate) type KeptOwner = (String, u64, bool);

impl Locking {
    pub(crate) fn new(ledger: Arc<Ledger>, clock: Clock, tasks: Tasks) -> Self {
        // Without a reserved range nothing is granted; `begin` reserves the first one.
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
                places: BTreeMap::new(),
            }),
            ranged: Condvar::new(),
            own: OnceLock::new(),
            watched: Arc::new(()),
            control: OnceLock::new(),
            audit: OnceLock::new(),
            ledger,
            clock,
            tasks,
        }
    }

    /// Sets the engine to call when a session loses a lock.
    pub(crate) fn tell_losses_to(&self, control: &Arc<Control>) {
        let _ = self.control.set(Arc::downgrade(control));
    }

    fn state(&self) -> MutexGuard<'_, LockState> {
        crate::sync::lock(&self.state)
    }

    /// Sets the audit log that steals are recorded in.
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
            // If the loss cannot be written, the lock is held until its lease expires, at worst.
            let _ = written.await;
            let waker = to.outbox.fill(&later, reply);
            to.discharge(HELD_BACK);
            waker.into_iter().for_each(Waker::wake);
        });
    }

    /// The owner of each of these locks, if it is a session that outlives the daemon.
    pub(crate) fn kept_owners(&self, names: Vec<Arc<str>>) -> Vec<(Arc<str>, Option<KeptOwner>)> {
        let state = self.state();
        let owner = |name: Arc<str>| {
            let owner = state.kept_owner(&name);
            (name, owner)
        };
        names.into_iter().map(owner).collect()
    }

    /// All locks owned by sessions that outlive the daemon, if `is_quiet` holds while nothing can change.
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

    /// Called at shutdown: nothing is granted any more.
    pub(crate) fn stop(&self) {
        self.state().locks.stop();
        self.ranged.notify_all();
    }

    /// The sessions in line that have a place, after the shutdown began.
    pub(crate) fn take_left(&self) -> Vec<LeftWaiter> {
        let (places, now) = (std::mem::take(&mut self.state().places), self.clock.now());
        let left = places.into_values().map(|InLine { place, since, waited }| {
            let waited = Span(waited.0.saturating_add(now.since(since).0));
            LeftWaiter { place, waited, beside: Box::default() }
        });
        left.collect()
    }

    pub(crate) fn add_session(&self, session: &Arc<Session>) {
        self.state().sessions.insert(session.id, session.clone());
    }

    /// Releases everything a client held, because it left or asked for that.
    pub(crate) fn end_session(self: &Arc<Self>, session: SessionId, cause: Cause) {
        while self.end_some(session, cause) {
            in_turns();
        }
    }

    /// Releases a part of what a client held, and forgets the client with the last part. Returns whether there
    /// is more.
    fn end_some(self: &Arc<Self>, session: SessionId, cause: Cause) -> bool {
        let mut state = self.state();
        let ended = state.sessions.get(&session).cloned();
        // The rows of a session that outlives the daemon must show what it owns at any time, so its locks are
        // released together.
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
            state.forget_places(session);
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

    /// Takes, steals or releases a lock for a session. Other sessions are notified of what they lose or gain
    /// before this returns. The loss of a lock by a session that outlives the daemon may not be written yet.
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
        self.operate_in_place(session, operation, name, None)
    }

    /// The same with a place, by which a waiting session is recognised if it asks again after an orderly
    /// shutdown of the daemon: it is then ahead of sessions that have waited less.
    ///
    /// # Errors
    ///
    /// As above.
    pub(crate) fn operate_in_place(
        self: &Arc<Self>,
        session: &Session,
        operation: LockOperation,
        name: &str,
        place: Option<PlaceHash>,
    ) -> Result<LockAnswer, LockError> {
        self.operate_and(session, operation, (name, place), |_, _| None)
    }

    /// The same for a connected client: the answer is left in its outbox, in order with its notices. The answer
    /// to a steal from a session that outlives the daemon is sent when the loss is written, and later items for
    /// the client stay behind it.
    ///
    /// # Errors
    ///
    /// When the operation is refused, which the caller reports to the client.
    pub fn operate_for_client(
        self: &Arc<Self>,
        session: &Session,
        ticket: Ticket,
        operation: LockOperation,
        name: &str,
    ) -> Result<(), LockError> {
        let mut held_back = None;
        let answer = self.operate_and(session, operation, (name, None), |stealer, answer| {
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

    /// Does a lock operation. `leave` is called with the answer while the locks are locked, after other
    /// sessions were notified, and with the session itself if it robs one that outlives the daemon.
    fn operate_and(
        self: &Arc<Self>,
        session: &Session,
        operation: LockOperation,
        (name, place): (&str, Option<PlaceHash>),
        leave: impl FnOnce(Option<Arc<Session>>, LockAnswer) -> Option<Waker>,
    ) -> Result<LockAnswer, LockError> {
        let mut state = self.state();
        let needs_number = match operation {
            LockOperation::Lock => state.locks.owner(name).is_none(),
            LockOperation::Steal => true,
            LockOperation::Unlock => false,
        };
        if needs_number && state.is_short_of_numbers() {
            drop(state);
            // A disk that was full may have room again.
            self.reserve_now();
            state = self.numbered();
        }
        if !state.sessions.contains_key(&session.id) {
            // Nothing would release a lock that a session gets after its end.
            return Err(LockError::Ended);
        }
        let now = place.map_or(Time(0), |_| self.clock.now());
        let returned = place.and_then(|place| self.ledger.returned(now, place));
        let before = returned.as_ref().map_or(Span::ZERO, |returned| returned.before);
        let answer = state.operate(session, operation, name, before)?;
        if let (LockAnswer::Waiting, Some(place)) = (answer, place) {
            let waited = returned.map_or(Span::ZERO, |returned| returned.waited(now));
            let in_line = InLine { place, since: now, waited };
            state.places.insert((session.id, name.into()), in_line);
        }
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

    /// Restores a lock that a session owned in an earlier run; false if another session owns it.
    pub fn restore(&self, session: SessionId, name: &str, fencing: u64) -> bool {
        let mut state = self.state();
        state.kept.insert(name.into());
        state.locks.restore(session, name, fencing)
    }

    /// The fencing number under which a session owns a lock, if it does.
    #[must_use]
    pub fn fencing(&self, session: SessionId, name: &str) -> Option<u64> {
        let owner = self.state().locks.owner(name);
        owner.filter(|(owner, _)| *owner == session).map(|(_, fencing)| fencing)
    }

    /// How many sessions end with the daemon, because they are not kept for the next run.
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
    /// Does a lock operation for a session that had waited this long in the last run, and counts what it
    /// changes. Returns the answer.
    fn operate(
        &mut self,
        session: &Session,
        operation: LockOperation,
        name: &str,
        waited: Span,
    ) -> Result<LockAnswer, LockError> {
        let bytes = cost(name);
        if operation == LockOperation::Unlock {
            self.locks.unlock(session.id, name)?;
            self.places.remove(&(session.id, name.into()));
            self.give_back(session, bytes);
            return Ok(LockAnswer::Released);
        }
        // A lock that the session has asked for already is counted, and is refused below.
        let is_new = self.locks.standing(session.id, name).is_none();
        if is_new {
            self.take(session, bytes)?;
        }
        let done = match operation {
            LockOperation::Steal => self.locks.steal(session.id, name).map(|()| true),
            _ => self.locks.lock_after(session.id, name, waited),
        };
        if is_new && done.is_err() {
            self.give_back(session, bytes);
        }
        Ok(if done? { LockAnswer::Locked } else { LockAnswer::Waiting })
    }

    /// Counts the bytes of a lock of a connection.
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

    /// Releases what [`LockState::take`] took.
    fn give_back(&mut self, session: &Session, bytes: usize) {
        if session.peer().is_some() && bytes > 0 {
            self.shares.give_back(Holder::of(session), bytes as u64);
        }
    }

    /// Notifies the sessions concerned. Returns the tasks to wake.
    fn drain_effects(&mut self, ledger: &Ledger) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(effect) = self.locks.poll_effect() {
            let (session, lock, change) = match effect {
                Effect::Locked { session, name, .. } => {
                    self.note(ledger, &name, Cause::Asked);
                    self.places.remove(&(session, Arc::clone(&name)));
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

    /// Notes that the owner of a lock may have changed, if its row may change. Returns whether it did.
    fn note(&mut self, ledger: &Ledger, name: &str, cause: Cause) -> bool {
        let has_row = self.kept_owner(name).is_some();
        let had_row = self.kept.contains(name);
        if !has_row && !had_row {
            return false;
        }
        // If the lock has a new owner by now, its row is written, whatever ended for the last owner.
        let cause = if has_row { Cause::Asked } else { cause };
        if has_row {
            self.kept.insert(name.into());
        } else {
            self.kept.remove(name);
        }
        ledger.note(Key::Lock(name.into()), cause);
        true
    }

    /// Forgets the places of a session that has ended.
    fn forget_places(&mut self, session: SessionId) {
        while let Some(first) = self.places.range((session, Arc::from(""))..).next()
            && first.0.0 == session
        {
            let key = first.0.clone();
            self.places.remove(&key);
        }
    }

    fn kept_owner(&self, name: &str) -> Option<KeptOwner> {
        let (session, fencing) = self.locks.owner(name)?;
        let session = self.sessions.get(&session)?;
        let is_long = session.kept()?;
        Some((session.name.clone(), fencing, is_long))
    }
}

/// Lets other threads have their turn between two pieces of long work. A mutex that is released and taken again
/// at once would not let them in.
fn in_turns() {
    aside(|| std::thread::sleep(LET_IN));
}
