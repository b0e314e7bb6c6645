//! The locks of all clients, server-wide, behind one mutex.
//!
//! Effects and replies go to the clients' outboxes while the mutex is held, so their order is the
//! order of what happened: a `stolen` before the stealer's reply (L4), a `locked` after the reply
//! that said it would come. Fencing numbers come from a range that is reserved on disk ahead (L2);
//! the next range is reserved when half of this one is used.

use crate::audit::Audit;
use crate::control::Control;
use crate::database::{Hosted, OnlyIf, OwnRow};
use crate::kept::Keeper;
use crate::outbox::{Outgoing, Reply, Ticket};
use crate::own;
use crate::session::Session;
use paceline_locks::{Changed, Effect, LockError, LockView, Locks, SessionId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Error, tag};
use paceline_types::limits::SESSION_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

/// How many fencing numbers are reserved first, and at most at a time. Each reservation doubles the last
/// one of a run, so that few grants skip few numbers at a restart.
const RESERVE_MIN: u64 = 1 << 12;
const RESERVE_MAX: u64 = 1 << 20;

/// What a client asks of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// Get in line.
    Lock,
    /// Take it from whoever has it.
    Steal,
    /// Give it back, or leave the line.
    Unlock,
}

/// One lock as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockShown {
    /// Its name.
    pub name: Arc<str>,
    /// The session that owns it, by number and name, and the fencing number of that grant.
    pub owner: Option<(SessionId, String, u64)>,
    /// The names of the sessions that wait for it, next one first.
    pub waiters: Vec<String>,
}

/// All locks.
pub struct Locking {
    state: Mutex<State>,
    /// The database that shows the locks and keeps the reserved numbers.
    own: OnceLock<Arc<Hosted>>,
    /// Whether someone watches the table of locks, so that changes must be shown at once.
    watched: AtomicBool,
    reserving: AtomicBool,
    /// How many numbers were reserved last.
    step: AtomicU64,
    /// Who must know when a session loses a lock.
    control: OnceLock<Weak<Control>>,
    /// Where steals are recorded.
    audit: OnceLock<Arc<Audit>>,
    /// Where locks of sessions that outlive the daemon are kept.
    keeper: OnceLock<Arc<Keeper>>,
}

struct State {
    locks: Locks,
    sessions: BTreeMap<SessionId, Arc<Session>>,
    /// The generation that the table of locks shows.
    shown: u64,
    /// Whether the table must be compared with every lock, because its last changes were undone.
    show_all: bool,
    /// Who lost which lock to a thief and was not told to the engine yet.
    lost: Vec<(SessionId, Arc<str>)>,
    /// What happened to locks of sessions that are kept and is not in line to be written yet.
    to_keep: Vec<KeptChange>,
}

/// A kept session was granted a lock, or lost it; with the number of the grant, or one that all grants up to
/// the loss are below.
struct KeptChange {
    session: Arc<Session>,
    is_long: bool,
    lock: Arc<str>,
    fencing: u64,
    is_lost: bool,
}

impl Locking {
    pub(crate) fn new() -> Self {
        // Without a reserved range nothing is granted; `reserve` brings the first one.
        let locks = Locks::new(0, 0, SESSION_BYTES_MAX);
        Self {
            state: Mutex::new(State {
                locks,
                sessions: BTreeMap::new(),
                shown: 0,
                show_all: false,
                lost: Vec::new(),
                to_keep: Vec::new(),
            }),
            own: OnceLock::new(),
            watched: AtomicBool::new(false),
            reserving: AtomicBool::new(false),
            step: AtomicU64::new(RESERVE_MIN),
            control: OnceLock::new(),
            audit: OnceLock::new(),
            keeper: OnceLock::new(),
        }
    }

    /// From now on the engine is told when a session loses a lock.
    pub(crate) fn tell_losses_to(&self, control: &Arc<Control>) {
        let _ = self.control.set(Arc::downgrade(control));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on steals are recorded.
    pub(crate) fn record_in(&self, audit: &Arc<Audit>) {
        let _ = self.audit.set(Arc::clone(audit));
    }

    /// From now on locks of sessions that are kept are kept there.
    pub(crate) fn keep_in(&self, keeper: &Arc<Keeper>) {
        let _ = self.keeper.set(Arc::clone(keeper));
    }

    /// Gets in line to be written what happened to locks that are kept. Whoever was granted one and waits
    /// for its answer waits for that; who regains one later is not asked. The future waits until losses
    /// are written, if they can be; whoever drops it has them written all the same.
    fn keep(&self, changes: Vec<KeptChange>) -> impl Future<Output = ()> + use<> {
        let mut losses = vec![];
        for KeptChange { session, is_long, lock, fencing, is_lost } in changes {
            let Some(keeper) = self.keeper.get() else { break };
            match is_lost {
                true => losses.push(keeper.forget_lock(&session.name, &lock, fencing)),
                false => drop(keeper.keep_lock(&session.name, is_long, &lock, fencing)),
            }
        }
        async move {
            for loss in losses {
                // What cannot be written is held until its lease ends, at worst.
                let _ = loss.await;
            }
        }
    }

    /// Leaves a reply when what others lost is written: after a restart nobody may own again what was
    /// taken from it.
    fn reply_when_kept(
        to: Arc<Session>,
        reply: Outgoing,
        kept: impl Future<Output = ()> + Send + 'static,
    ) {
        tokio::spawn(async move {
            kept.await;
            to.outbox.leave(reply).into_iter().for_each(Waker::wake);
        });
    }

    /// Takes up the numbers after those that an earlier run reserved, and reserves the first range
    /// of this run before it returns.
    pub(crate) fn begin(self: &Arc<Self>, own: &Arc<Hosted>) -> Result<(), Error> {
        let used = own.own_integer(own::DAEMON_TABLE, "fencing_reserved")?.unwrap_or(0).max(1);
        self.state().locks = Locks::new(used, used, SESSION_BYTES_MAX);
        let _ = self.own.set(own.clone());
        self.reserve(used + RESERVE_MIN);
        own.flush_blocking();
        match self.state().locks.fencing_left() {
            0 => Err(Error::new(tag::IO, "cannot write the range of fencing numbers to disk")),
            _ => Ok(()),
        }
    }

    /// Reserves numbers up to `until`; they are used once that is on disk.
    fn reserve(self: &Arc<Self>, until: u64) {
        let Some(own) = self.own.get() else { return };
        if self.reserving.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        let done = Box::new(move |outcome: Result<(), Error>| {
            this.reserving.store(false, Ordering::Release);
            match outcome {
                Ok(()) => {
                    let mut state = this.state();
                    state.locks.extend(until);
                    let wakers = state.drain_effects();
                    let to_keep = std::mem::take(&mut state.to_keep);
                    drop(state);
                    wakers.into_iter().for_each(Waker::wake);
                    drop(this.keep(to_keep));
                }
                Err(error) => tracing::error!(%error, "cannot reserve fencing numbers"),
            }
        });
        own.maintain(own::DAEMON_TABLE, "name", vec![fencing_row(until)], true, Some(done));
    }

    /// Service ends: the next run goes on with the next number.
    pub(crate) fn grant_no_more(&self) {
        let next = {
            let mut state = self.state();
            state.locks.stop();
            state.locks.next_fencing()
        };
        if let Some(own) = self.own.get() {
            own.maintain(own::DAEMON_TABLE, "name", vec![fencing_row(next)], true, None);
        }
    }

    pub(crate) fn add_session(&self, session: &Arc<Session>) {
        self.state().sessions.insert(session.id, session.clone());
    }

    /// Releases everything a client held, because it left.
    pub(crate) fn end_session(&self, session: SessionId) {
        let mut state = self.state();
        state.sessions.remove(&session);
        state.locks.release_all(session);
        let wakers = state.drain_effects();
        let to_keep = std::mem::take(&mut state.to_keep);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        drop(self.keep(to_keep));
        self.show();
    }

    /// Does a lock operation and leaves its reply in the client's outbox. An error is to be
    /// answered by the caller.
    pub fn operate(
        self: &Arc<Self>,
        session: &Session,
        ticket: Ticket,
        operation: LockOperation,
        name: &str,
    ) -> Result<(), LockError> {
        let mut state = self.state();
        let text = match operation {
            LockOperation::Lock if !state.locks.lock(session.id, name)? => "{\"locked\":false}",
            LockOperation::Lock => "{\"locked\":true}",
            LockOperation::Steal => {
                state.locks.steal(session.id, name)?;
                "{\"locked\":true}"
            }
            LockOperation::Unlock => {
                state.locks.unlock(session.id, name)?;
                "{}"
            }
        };
        tracing::debug!(client = %session.name, lock = name, answer = text, "{operation:?}");
        let mut wakers = state.drain_effects();
        let mut lost = std::mem::take(&mut state.lost);
        let to_keep = std::mem::take(&mut state.to_keep);
        if operation == LockOperation::Unlock {
            lost.push((session.id, name.into()));
        }
        let reply = Outgoing::Reply(ticket, Reply::Text(text.into()));
        let robs = operation == LockOperation::Steal && to_keep.iter().any(|kept| kept.is_lost);
        let stealer = state.sessions.get(&session.id).filter(|_| robs).cloned();
        let held_back = match stealer {
            Some(stealer) => Some((stealer, reply)),
            None => {
                wakers.extend(session.outbox.leave(reply));
                None
            }
        };
        let (left, next) = (state.locks.fencing_left(), state.locks.next_fencing());
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        let kept = self.keep(to_keep);
        if let Some((stealer, reply)) = held_back {
            Self::reply_when_kept(stealer, reply, kept);
        }
        if let Some(audit) = self.audit.get().filter(|_| operation == LockOperation::Steal) {
            audit.record(&session.name, "steal", name);
        }
        if let Some(control) = self.control.get().and_then(Weak::upgrade) {
            lost.iter().for_each(|(loser, lock)| control.lock_lost(*loser, lock));
        }
        let step = self.step.load(Ordering::Relaxed);
        if left < step / 2 {
            let more = (2 * step).min(RESERVE_MAX);
            self.step.store(more, Ordering::Relaxed);
            self.reserve(next + more);
            if let Some(own) = self.own.get() {
                own.flush();
            }
        }
        self.show();
        Ok(())
    }

    /// The locks that a session owns, with the fencing numbers.
    #[must_use]
    pub fn owned(&self, session: SessionId) -> BTreeMap<String, u64> {
        let state = self.state();
        let owned = state.locks.owned(session);
        owned.map(|(name, fencing)| (name.to_string(), fencing)).collect()
    }

    /// A session that owned a lock in an earlier run owns it again; false if somebody else does.
    pub fn restore(&self, session: SessionId, name: &str, fencing: u64) -> bool {
        self.state().locks.restore(session, name, fencing)
    }

    /// The fencing number by which a session owns a lock, if it does.
    #[must_use]
    pub fn fencing(&self, session: SessionId, name: &str) -> Option<u64> {
        let owner = self.state().locks.owner(name);
        owner.filter(|(owner, _)| *owner == session).map(|(_, fencing)| fencing)
    }

    /// Whether `session` owns the lock of this name.
    pub(crate) fn owns(&self, session: SessionId, name: &str) -> bool {
        self.state().locks.is_owner(session, name)
    }

    /// The lock of this name, if someone owns it or waits for it.
    #[must_use]
    pub fn shown(&self, name: &str) -> Option<LockShown> {
        let state = self.state();
        state.locks.view(name).map(|lock| state.show(&lock))
    }

    /// Every lock that someone owns or waits for, by name.
    #[must_use]
    pub fn all_shown(&self) -> Vec<LockShown> {
        let state = self.state();
        state.locks.iter().map(|lock| state.show(&lock)).collect()
    }

    /// From now on someone watches the table of locks.
    pub(crate) fn note_watched(&self) {
        self.watched.store(true, Ordering::Release);
    }

    /// Brings the table of locks up to date if someone watches it.
    fn show(&self) {
        if self.watched.load(Ordering::Acquire)
            && let Some(own) = self.own.get()
        {
            own.show_locks();
            own.flush();
        }
    }

    /// Says that rows of the table of locks were undone.
    pub(crate) fn show_all_again(&self) {
        self.state().show_all = true;
    }

    /// The rows of the table of locks that changed since this was last asked. `shown` lists the
    /// locks that have a row.
    pub(crate) fn take_changed_rows(&self, shown: impl Fn() -> Vec<Arc<str>>) -> Vec<OwnRow> {
        let mut state = self.state();
        let show_all = std::mem::take(&mut state.show_all);
        if state.shown == state.locks.generation() && !show_all {
            return Vec::new();
        }
        state.shown = state.locks.generation();
        let names: Vec<Arc<str>> = match state.locks.take_changed() {
            Changed::Names(names) if !show_all => names.into_iter().collect(),
            _ => {
                let names = state.locks.iter().map(|lock| lock.name().clone());
                names.chain(shown()).collect::<BTreeSet<_>>().into_iter().collect()
            }
        };
        let row = |name: &Arc<str>| {
            let values = state.locks.view(name).map(|view| state.row(&view));
            OwnRow { key: name.to_string(), values, only_if: OnlyIf::Any }
        };
        names.iter().map(row).collect()
    }
}

impl State {
    /// Leaves what happened in the outboxes of those it happened to.
    fn drain_effects(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(effect) = self.locks.poll_effect() {
            let (session, item) = match effect {
                Effect::Locked { session, name, fencing } => {
                    self.note_kept(session, &name, fencing, false);
                    (session, Outgoing::Locked(name))
                }
                Effect::Stolen { session, name } => {
                    self.note_kept(session, &name, self.locks.next_fencing(), true);
                    self.lost.push((session, Arc::clone(&name)));
                    (session, Outgoing::Stolen(name))
                }
            };
            if let Some(session) = self.sessions.get(&session) {
                wakers.extend(session.outbox.leave(item));
            }
        }
        wakers
    }

    fn note_kept(&mut self, session: SessionId, lock: &Arc<str>, fencing: u64, is_lost: bool) {
        let session = self.sessions.get(&session);
        let Some((session, is_long)) = session.and_then(|s| Some((Arc::clone(s), s.kept()?)))
        else {
            return;
        };
        let lock = Arc::clone(lock);
        self.to_keep.push(KeptChange { session, is_long, lock, fencing, is_lost });
    }

    fn show(&self, lock: &LockView<'_>) -> LockShown {
        let name = |id: SessionId| match self.sessions.get(&id) {
            Some(session) => session.name.clone(),
            None => "unknown".to_owned(),
        };
        LockShown {
            name: Arc::clone(lock.name()),
            owner: lock.owner().map(|(id, fencing)| (id, name(id), fencing)),
            waiters: lock.waiters().map(name).collect(),
        }
    }

    fn row(&self, lock: &LockView<'_>) -> Vec<(&'static str, Datum)> {
        let name = |id: SessionId| match self.sessions.get(&id) {
            Some(session) => Atom::string(&session.name),
            None => Atom::string("unknown"),
        };
        let owner = lock.owner();
        let waiters = lock.waiters().zip(1i64..);
        let waiters = waiters.map(|(id, place)| (Atom::Integer(place), name(id))).collect();
        let fencing = owner.map_or(0, |(_, fencing)| i64::try_from(fencing).unwrap_or(i64::MAX));
        vec![
            ("name", Datum::One(Atom::string(lock.name()))),
            ("owner", owner.map_or(Datum::Empty, |(id, _)| Datum::One(name(id)))),
            ("waiters", Datum::from_sorted_pairs(waiters)),
            ("fencing", Datum::One(Atom::Integer(fencing))),
        ]
    }
}

/// The row that says which fencing numbers are reserved.
fn fencing_row(until: u64) -> OwnRow {
    let until = Datum::One(Atom::Integer(i64::try_from(until).unwrap_or(i64::MAX)));
    let values = vec![("name", Datum::One(Atom::string("paceline"))), ("fencing_reserved", until)];
    OwnRow { key: "paceline".to_owned(), values: Some(values), only_if: OnlyIf::Any }
}
