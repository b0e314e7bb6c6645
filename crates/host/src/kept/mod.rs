//! What outlives the daemon: sessions, the locks they own, and permits. Each is a row until it is released
//! (P3, L5, C4).
//!
//! The engine decides who holds a permit, `locks` who owns a lock, and this module which sessions exist.
//! Rows are written from that state, never from a request: after every record of the journal, the tables
//! Session, Leased_Lock and Permit show what was held at one moment. The [`book`] lists the rows that are out
//! of date. [`Keeper::written`] waits until they are on disk; only then is the client answered.
//!
//! Claims, and leases longer than [`UNSYNCED_LEASE_MAX`], are synced, because a crash of the machine must
//! not lose them. Other rows are only written, so they survive a crash of the daemon but perhaps not of the
//! machine. After a crash of the machine no door opens before the leases that may be missing have expired
//! ([`Keeper::closed_for`]). A release never waits for a full disk (J5): the keeper retries until it is
//! written.

mod book;
mod crowd;
mod machine;
mod process;
mod rows;
mod waiters;
mod watching;

pub(crate) use book::{Book, Cause, Key};
pub use machine::Machine;
pub use process::{Ended, Process, Processes, RealProcesses};
pub use rows::{KeptLock, KeptPermit, KeptSession};
pub(crate) use rows::{PermitRow, claims_row, daemon_row, read_claims};
pub(crate) use waiters::LeftWaiter;
pub use waiters::PlaceHash;

use crate::clock::Clock;
use crate::control::{Control, Permit};
use crate::database::{Hosted, OwnRow};
use crate::locking::Locking;
use crate::own;
use crate::system::System;
use crate::tasks::Tasks;
use book::{Told, Wait};
use crowd::Crowd;
use paceline_tables::value::Atom;
use paceline_tables::{Error, tag};
use paceline_types::{SessionId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use waiters::Awaited;

/// Leases up to this long are written and not synced.
pub const UNSYNCED_LEASE_MAX: Span = Span::from_secs(60);

/// The pause between two attempts to write.
const RETRY_PAUSE: Span = Span::from_secs(1);

/// The book, shared by all parts that decide what is held.
#[derive(Default)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
    /// The keeper that writes the rows; none if nothing is kept.
    keeper: OnceLock<Weak<Keeper>>,
    /// How many callers are gathering several changes for one record.
    gathering: AtomicUsize,
    /// The waiters of the last run. Its mutex calls nothing, as that of the book.
    awaited: Mutex<Awaited>,
}

/// Keeps sessions, and writes the rows of everything that is held.
pub struct Keeper {
    ledger: Arc<Ledger>,
    own: Arc<Hosted>,
    control: Arc<Control>,
    locking: Arc<Locking>,
    clock: Clock,
    tasks: Tasks,
    processes: Arc<dyn Processes>,
    machine: Machine,
    sessions: Mutex<BTreeMap<Arc<str>, KeptSession>>,
    /// Whether the database names the machine on which rows were written and not synced.
    is_marked: AtomicBool,
    /// Whether a task is retrying a failed write.
    is_retrying: AtomicBool,
    /// Whether a task that will write has been spawned.
    is_scheduled: AtomicBool,
    crowd: Crowd,
}

/// What an earlier run left behind.
#[derive(Debug)]
pub struct TakenOver {
    /// The sessions.
    pub sessions: Vec<KeptSession>,
    /// The locks they own.
    pub locks: Vec<KeptLock>,
    /// The permits.
    pub permits: Vec<KeptPermit>,
}

/// Rows to be written together.
pub(crate) struct Rows {
    pub(crate) rows: Vec<(&'static str, OwnRow)>,
    /// Whether they must be synced.
    pub(crate) durable: bool,
    /// These rows reserve all request numbers below this one.
    pub(crate) reserved: Option<u64>,
}

/// All that is held: sessions and locks by name, permits by the numbers of their requests.
#[cfg(debug_assertions)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) sessions: BTreeSet<String>,
    pub(crate) locks: BTreeMap<String, (String, u64)>,
    pub(crate) permits: BTreeSet<u64>,
}

impl Ledger {
    /// Notes that the row of this key is out of date. Call it under the lock of the part that decided.
    pub(crate) fn note(&self, key: Key, cause: Cause) {
        if self.keeper.get().is_some() {
            self.book().note(key, cause);
        }
    }

    /// Schedules a write of the rows that are out of date. Rows that change until then are included.
    pub(crate) fn write(&self) {
        if self.gathering.load(Ordering::Acquire) > 0 {
            return;
        }
        if let Some(keeper) = self.keeper.get().and_then(Weak::upgrade) {
            keeper.write_soon();
        }
    }

    /// Waits until everything noted so far is written.
    pub(crate) fn written(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        let keeper = self.keeper.get().and_then(Weak::upgrade);
        let written = keeper.map(|keeper| keeper.written());
        async move {
            match written {
                Some(written) => written.await,
                None => Ok(()),
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        crate::sync::lock(&self.book)
    }
}

impl Keeper {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        own: Arc<Hosted>,
        (control, locking): (&Arc<Control>, &Arc<Locking>),
        system: &System,
    ) -> Arc<Self> {
        let keeper = Arc::new(Self {
            ledger: Arc::clone(ledger),
            own,
            control: Arc::clone(control),
            locking: Arc::clone(locking),
            clock: system.clock,
            tasks: system.tasks.clone(),
            processes: Arc::clone(&system.processes),
            machine: system.machine.clone(),
            sessions: Mutex::default(),
            is_marked: AtomicBool::new(false),
            is_retrying: AtomicBool::new(false),
            is_scheduled: AtomicBool::new(false),
            crowd: Crowd::default(),
        });
        let _ = ledger.keeper.set(Arc::downgrade(&keeper));
        keeper.own.keep_for(&keeper);
        keeper
    }

    /// How long doors stay closed: until all leases that a crash of the machine may have lost have expired.
    /// Zero if only the daemon crashed.
    #[must_use]
    pub fn closed_for(&self) -> Duration {
        let longest = Duration::from_nanos(UNSYNCED_LEASE_MAX.0);
        match self.own.own_text(own::DAEMON_TABLE, "machine").as_deref() {
            None | Some("") => Duration::ZERO,
            Some(last) => self.machine.closed_for(last, longest),
        }
    }

    /// What an earlier run left behind. A session that is bound to processes is included if one of them is alive;
    /// otherwise its row is deleted.
    ///
    /// # Errors
    ///
    /// When a row cannot be read: a client may hold what it describes (R2).
    pub fn take_over(self: &Arc<Self>) -> Result<TakenOver, String> {
        let same_boot = self.own.own_text(own::DAEMON_TABLE, "machine");
        let same_boot = same_boot.is_none_or(|last| last.is_empty() || self.machine.is(&last));
        let rows = self.own.all_own_rows(own::SESSION_TABLE, KeptSession::read)?;
        // A process that is not visible may be alive.
        let lives = |session: &KeptSession| {
            let processes = &session.processes;
            let may_live =
                processes.is_empty() || processes.iter().any(|p| !self.processes.is_dead(p));
            session.lease.is_some() || (same_boot && may_live)
        };
        let (sessions, dead): (Vec<_>, Vec<_>) = rows.into_iter().partition(lives);
        let dead = dead.iter().map(|session| Key::Session(session.name.as_str().into()));
        let mut gone: Vec<Key> = dead.collect();
        let taken: BTreeSet<&str> = sessions.iter().map(|session| &*session.name).collect();
        let is_taken = |name: &str| taken.contains(name);
        let locks = self.own.all_own_rows(own::LEASED_LOCK_TABLE, KeptLock::read)?;
        let (locks, orphans): (Vec<_>, Vec<_>) =
            locks.into_iter().partition(|lock| is_taken(&lock.session));
        gone.extend(orphans.iter().map(|lock| Key::Lock(lock.name.as_str().into())));
        let permits = self.own.all_own_rows(own::PERMIT_TABLE, KeptPermit::read)?;
        let has_session =
            |permit: &KeptPermit| permit.session.is_empty() || is_taken(&permit.session);
        let has_end = |permit: &KeptPermit| !permit.session.is_empty() || permit.lease.is_some();
        let (mut permits, orphans): (Vec<_>, Vec<_>) =
            permits.into_iter().partition(|permit| has_session(permit) && has_end(permit));
        gone.extend(orphans.iter().map(|permit| Key::Permit(permit.number)));
        gone.extend(rows::drop_renamed(&mut permits));
        let long: BTreeSet<&str> =
            sessions.iter().filter(|session| session.is_long()).map(|one| &*one.name).collect();
        for permit in &mut permits {
            let is_long = permit.lease.is_some_and(|lease| lease > UNSYNCED_LEASE_MAX);
            permit.is_long = is_long || long.contains(permit.session.as_str());
        }
        gone.into_iter().for_each(|key| self.ledger.note(key, Cause::Asked));
        let of = |session: &KeptSession| (Arc::from(session.name.as_str()), session.clone());
        self.sessions().extend(sessions.iter().map(of));
        self.write();
        Ok(TakenOver { sessions, locks, permits })
    }

    /// Restores a permit of an earlier run with everything it held, in the session of this number if it had
    /// a session. Call it before any request is admitted.
    pub fn restore_permit(&self, permit: &KeptPermit, session: Option<SessionId>) -> Permit {
        let restored = self.control.restore_kept(permit, session, self.own.claims_of(permit));
        // The row may claim a name that has become a resource in the meantime.
        self.ledger.note(Key::Permit(permit.number), Cause::Changed);
        restored
    }

    /// Calls `ended` with the name of each bound session when all its processes are dead (C4).
    ///
    /// # Errors
    ///
    /// When they are the first to be watched and the thread for that cannot be started.
    pub fn watch(
        &self,
        sessions: &[KeptSession],
        ended: impl Fn(String) + Send + Sync + 'static,
    ) -> std::io::Result<()> {
        // One descriptor for each process, however many sessions it has.
        let mut of: BTreeMap<Process, Vec<String>> = BTreeMap::new();
        let mut left: BTreeMap<String, usize> = BTreeMap::new();
        for session in sessions.iter().filter(|session| session.lease.is_none()) {
            for process in &session.processes {
                of.entry(*process).or_default().push(session.name.clone());
                *left.entry(session.name.clone()).or_default() += 1;
            }
        }
        let left = Mutex::new(left);
        let ended: Ended = Box::new(move |names: Vec<String>| {
            for name in names {
                let mut left = left.lock().unwrap_or_else(crate::broken);
                let Some(count) = left.get_mut(&name) else { continue };
                *count -= 1;
                if *count == 0 {
                    left.remove(&name);
                    drop(left);
                    ended(name);
                }
            }
        });
        self.processes.watch(of.into_iter().collect(), ended)
    }

    /// The processes of clients.
    pub(crate) fn processes(&self) -> &dyn Processes {
        &*self.processes
    }

    /// Keeps a new session; [`Keeper::written`] waits until it is on disk.
    pub fn keep_session(&self, session: KeptSession) {
        let name: Arc<str> = session.name.as_str().into();
        let mut sessions = self.sessions();
        sessions.insert(Arc::clone(&name), session);
        self.ledger.note(Key::Session(name), Cause::Granted);
    }

    /// Changes a session that is kept. Returns none if there is no such session.
    pub fn change_session<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut KeptSession) -> T,
    ) -> Option<T> {
        let mut sessions = self.sessions();
        let changed = sessions.get_mut(name).map(change)?;
        self.ledger.note(Key::Session(name.into()), Cause::Changed);
        Some(changed)
    }

    /// A session as it is kept.
    #[must_use]
    pub fn session(&self, name: &str) -> Option<KeptSession> {
        self.sessions().get(name).cloned()
    }

    /// Ends a session. Unless a client asked for that, its row stays if the daemon shuts down.
    pub fn end_session(&self, name: &str, is_asked: bool) {
        let cause = if is_asked { Cause::Asked } else { Cause::Ended };
        let mut sessions = self.sessions();
        if sessions.remove(name).is_some() {
            self.ledger.note(Key::Session(name.into()), cause);
        }
    }

    /// Waits until every grant and release so far is written. An error means that writing fails; the keeper
    /// retries on its own.
    ///
    /// If several clients are active, the tasks that are ready to run go first, so that one record holds the
    /// grants and releases of all of them. For a lone client the record is written at once.
    pub fn written(self: &Arc<Self>) -> impl Future<Output = Result<(), Error>> + use<> {
        let (known, place) = self.ledger.book().known(self.clock.now());
        let this = Arc::clone(self);
        async move {
            if let Some(known) = known {
                return known;
            }
            if this.crowd.is_there() {
                tokio::task::yield_now().await;
            }
            match this.write_before(place) {
                Wait::Known(known) => known,
                Wait::Told(receiver) => receiver.await.unwrap_or_else(|_| Err(lost())),
            }
        }
    }

    /// Writes the rows before a place in the book, unless they have been written in the meantime.
    fn write_before(self: &Arc<Self>, place: u64) -> Wait {
        let now = self.clock.now();
        if let Some(known) = self.ledger.book().outcome(now, place) {
            return Wait::Known(known);
        }
        // Usually the rows are written at once, and no waiter is needed.
        self.write();
        self.ledger.book().wait(now, place)
    }

    /// Runs `change`, and writes all its changes together afterwards.
    pub fn together<T>(self: &Arc<Self>, change: impl FnOnce() -> T) -> T {
        self.ledger.gathering.fetch_add(1, Ordering::AcqRel);
        let gathered = Gathered(self);
        let changed = change();
        drop(gathered);
        changed
    }

    /// Writes the rows that are out of date: at once for a lone client, otherwise after the tasks that are
    /// ready to run.
    fn write_soon(self: &Arc<Self>) {
        if !self.crowd.is_there() {
            return self.write();
        }
        if self.is_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::downgrade(self);
        self.tasks.spawn(async move {
            tokio::task::yield_now().await;
            let Some(this) = this.upgrade() else { return };
            // Cleared before it writes: whatever changes from here on schedules the next write.
            this.is_scheduled.store(false, Ordering::Release);
            this.write();
        });
    }

    /// Writes the rows that are out of date, unless a batch is being written. The caller must hold no lock that
    /// comes after the head's in the lock order.
    pub fn write(self: &Arc<Self>) {
        self.own.write_kept();
        self.own.flush();
    }

    /// The rows of the next batch, read from what is held now. [`Keeper::finish`] must follow.
    pub(crate) fn take_rows(&self) -> Option<Rows> {
        let keys = {
            let mut book = self.ledger.book();
            if book.is_under_way() && book.waiting() > 0 {
                self.crowd.meet();
            }
            // The committer calls this often, and usually there is nothing to write.
            let keys = if book.has_batch() { book.take(self.clock.now()) } else { None };
            match keys {
                Some(keys) => keys,
                None => {
                    let told = book.settle();
                    drop(book);
                    deliver(told);
                    return None;
                }
            }
        };
        self.crowd.take(keys.len());
        let mut rows = Rows { rows: vec![], durable: false, reserved: None };
        let (mut locks, mut permits) = (vec![], vec![]);
        for key in keys {
            match key {
                Key::Session(name) => {
                    let session = self.sessions().get(&name).cloned();
                    rows.durable |= session.as_ref().is_some_and(KeptSession::is_long);
                    let values = session.map(|session| session.row());
                    rows.rows.push((own::SESSION_TABLE, OwnRow::of_text(&name, values)));
                }
                Key::Lock(name) => locks.push(name),
                Key::Permit(id) => permits.push(id),
            }
        }
        for (name, owner) in self.locking.kept_owners(locks) {
            rows.durable |= owner.as_ref().is_some_and(|(_, _, is_long)| *is_long);
            let values = owner.map(|(session, fencing, _)| KeptLock::row(&name, &session, fencing));
            rows.rows.push((own::LEASED_LOCK_TABLE, OwnRow::of_text(&name, values)));
        }
        for (id, permit) in self.own.kept_permits(&self.control, &permits) {
            rows.durable |= permit.as_ref().is_some_and(|permit| permit.is_synced);
            let values = permit.map(|permit| permit.values);
            let key = Atom::Integer(i64::try_from(id.0).unwrap_or(i64::MAX));
            rows.rows.push((own::PERMIT_TABLE, OwnRow { key, values }));
        }
        // After a restart, a number that is not reserved on disk could be given to another permit (P3).
        let last = permits.iter().max();
        rows.reserved = last.and_then(|last| self.control.numbers_to_reserve(*last));
        let machine = (!self.is_marked.load(Ordering::Acquire)).then(|| self.machine.text());
        if machine.is_some() || rows.reserved.is_some() {
            rows.rows.push((own::DAEMON_TABLE, daemon_row(machine.as_deref(), rows.reserved)));
            rows.durable = true;
        }
        Some(rows)
    }

    /// Ends the batch that was taken last. If it succeeded, the request numbers below `reserved` are reserved.
    pub(crate) fn finish(self: &Arc<Self>, outcome: &Result<(), Error>, reserved: Option<u64>) {
        if let (Ok(()), Some(reserved)) = (outcome, reserved) {
            self.control.numbers_reserved(reserved);
        }
        // The time is needed only to schedule the next attempt after a failure.
        let now = if outcome.is_err() { self.clock.now() } else { Time::default() };
        let (told, is_news): (Told, bool) = self.ledger.book().finish(now, outcome);
        match outcome {
            Ok(()) => self.is_marked.store(true, Ordering::Release),
            Err(_) => self.retry_later(),
        }
        match outcome {
            Ok(()) if is_news => {
                tracing::info!("writing sessions, locks and permits to disk works again")
            }
            Err(error) if is_news => {
                tracing::error!(%error, "cannot write sessions, locks and permits to disk; retrying");
            }
            _ => {}
        }
        deliver(told);
    }

    /// Retries every second until everything is written.
    fn retry_later(self: &Arc<Self>) {
        if self.is_retrying.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::downgrade(self);
        let clock = self.clock;
        self.tasks.spawn(async move {
            loop {
                clock.sleep(RETRY_PAUSE).await;
                let Some(this) = this.upgrade() else { return };
                if !this.ledger.book().has_failed() {
                    this.is_retrying.store(false, Ordering::Release);
                    // Another write may have failed in between.
                    if !this.ledger.book().has_failed()
                        || this.is_retrying.swap(true, Ordering::AcqRel)
                    {
                        return;
                    }
                }
                this.write();
            }
        });
    }

    /// Writes the remaining rows when the daemon shuts down. Call it from a thread that may block.
    pub(crate) fn write_all(self: &Arc<Self>) {
        // A broken journal accepts no rows, and its replacement holds only what was accepted before.
        self.own.repair_blocking();
        loop {
            self.ledger.book().retry_now();
            self.own.write_kept();
            self.own.flush_blocking();
            let mut book = self.ledger.book();
            if book.is_written() {
                return;
            }
            if book.is_under_way() {
                // Another thread is the committer. Wait for its attempt, then make the next one here.
                let (_, place) = book.known(self.clock.now());
                let wait = book.wait(self.clock.now(), place);
                drop(book);
                if let Wait::Told(outcome) = wait {
                    let _ = outcome.blocking_recv();
                }
            } else if book.has_failed() {
                let rows = book.waiting();
                tracing::error!(
                    rows,
                    "cannot write the last releases; the next run holds them until their leases expire"
                );
                return;
            }
        }
    }

    /// Whether every grant and release so far is written.
    pub(crate) fn is_written(&self) -> bool {
        self.ledger.book().is_written()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.ledger.book().is_open()
    }

    /// The doors are open: from now on the row of anything that ends is deleted.
    pub(crate) fn open(&self) {
        self.await_waiters();
        self.ledger.book().set_open(true);
    }

    /// From now on the row of anything that ends stays for the next run. Returns false if that was already so.
    pub(crate) fn close(&self) -> bool {
        self.ledger.book().set_open(false)
    }

    /// Records on disk that the next run need not wait for leases to expire: everything is synced before this run
    /// ends.
    pub(crate) fn unmark(&self) {
        self.own.maintain(own::DAEMON_TABLE, "name", vec![daemon_row(Some(""), None)], true, None);
    }

    /// Asserts the invariant of this module: if no row is out of date, the rows match what is held. Debug builds
    /// call it whenever the committer is idle.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self, rows: &Held) {
        let is_quiet = || {
            let book = self.ledger.book();
            book.is_open() && book.is_written()
        };
        let (locks, sessions) = (self.locking.all_kept(is_quiet), self.sessions());
        let sessions: Option<BTreeSet<String>> =
            is_quiet().then(|| sessions.keys().map(ToString::to_string).collect());
        let permits = self.control.all_kept(is_quiet);
        let all = (sessions, locks, permits);
        if let (Some(sessions), Some(locks), Some(permits)) = all {
            let held = Held { sessions, locks, permits };
            assert_eq!(*rows, held, "the rows (left) match what is held (right)");
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, KeptSession>> {
        crate::sync::lock(&self.sessions)
    }
}

/// Gathers changes. Dropping it writes them.
struct Gathered<'a>(&'a Arc<Keeper>);

impl Drop for Gathered<'_> {
    fn drop(&mut self) {
        self.0.ledger.gathering.fetch_sub(1, Ordering::AcqRel);
        self.0.write();
    }
}

fn deliver(told: Told) {
    for (waiter, outcome) in told {
        // The waiter may have disconnected.
        let _ = waiter.send(outcome);
    }
}

fn lost() -> Error {
    Error::new(tag::IO, "the change was not written to disk")
}

#[cfg(test)]
pub(crate) mod tests;
