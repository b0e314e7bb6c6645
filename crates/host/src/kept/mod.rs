//! What outlives the daemon: sessions of clients and their permits, kept as rows until they are given
//! back (P3, L5, C4).
//!
//! A row is written before whoever asked is answered. What a crash of the machine must not lose (claims,
//! and leases longer than [`UNSYNCED_LEASE_MAX`]) is synced; the rest is in the system's hands when it is
//! written, so the death of the daemon alone loses nothing. After the death of the machine no door is
//! opened before the leases that may be missing are over ([`Keeper::closed_for`]). A row that could
//! not be deleted is tried again with the next one: to give back never waits for a full disk (J5).

mod machine;
mod process;
mod rows;

pub use process::Process;
pub use rows::{KeptLock, KeptPermit, KeptSession};

use crate::database::{Hosted, OnlyIf, OwnRow};
use crate::own;
use machine::Machine;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Error, tag};
use paceline_types::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Leases up to this long are written and not synced.
pub const UNSYNCED_LEASE_MAX: Span = Span::from_secs(60);

/// Keeps sessions and permits.
pub struct Keeper {
    own: Arc<Hosted>,
    machine: Machine,
    /// Whether the database says on which machine things are kept that are not synced.
    is_marked: AtomicBool,
    /// Whether the daemon serves. Before, because a start may fail, and after, what is dropped is kept
    /// for the next run.
    is_open: AtomicBool,
    /// Rows that could not be deleted.
    left: Mutex<Vec<(Table, String)>>,
    /// Whether the last row could be written, so that others may be tried again.
    is_writable: AtomicBool,
}

/// A row that is kept. Dropping it deletes the row, unless the daemon is about to end.
#[must_use = "what is dropped is not kept"]
pub struct Kept {
    keeper: Arc<Keeper>,
    table: Table,
    key: String,
    /// Whether the row goes when this is dropped.
    deletes: bool,
}

/// What an earlier run left, with the rows it is kept in.
pub struct TakenOver {
    /// The sessions.
    pub sessions: Vec<(KeptSession, Kept)>,
    /// The locks they own.
    pub locks: Vec<KeptLock>,
    /// The permits.
    pub permits: Vec<(KeptPermit, Kept)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Session,
    Lock,
    Permit,
}

impl Table {
    const fn name(self) -> &'static str {
        match self {
            Self::Session => own::SESSION_TABLE,
            Self::Lock => own::LEASED_LOCK_TABLE,
            Self::Permit => own::PERMIT_TABLE,
        }
    }
}

impl Keeper {
    pub(crate) fn new(own: Arc<Hosted>) -> Arc<Self> {
        Arc::new(Self {
            own,
            machine: Machine::this(),
            is_marked: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            left: Mutex::default(),
            is_writable: AtomicBool::new(true),
        })
    }

    /// How long doors stay closed: until all leases are over that a crash of the machine may have
    /// lost. Nothing is closed after the death of the daemon alone.
    #[must_use]
    pub fn closed_for(&self) -> Duration {
        let longest = Duration::from_nanos(UNSYNCED_LEASE_MAX.0);
        match self.own.own_text(own::DAEMON_TABLE, "machine").as_deref() {
            None | Some("") => Duration::ZERO,
            Some(last) => self.machine.closed_for(last, longest),
        }
    }

    /// What was kept in an earlier run. Sessions bound to a process
    /// are among them if it lives; rows of others are gone afterwards.
    pub fn take_over(self: &Arc<Self>) -> TakenOver {
        let same_boot = self.own.own_text(own::DAEMON_TABLE, "machine");
        let same_boot = same_boot.is_none_or(|last| last.is_empty() || self.machine.is(&last));
        let rows = self.own.own_rows(own::SESSION_TABLE, KeptSession::read);
        // Of one whose process could not be seen nobody knows that it is dead.
        let lives = |session: &KeptSession| {
            let processes = &session.processes;
            let may_live = processes.is_empty() || processes.iter().any(|p| !p.is_dead());
            session.lease.is_some() || (same_boot && may_live)
        };
        let sessions = rows.into_iter().map(|session| {
            let row = self.kept(Table::Session, &session.name);
            (session, row)
        });
        let (sessions, dead): (Vec<_>, Vec<_>) = sessions.partition(|(session, _)| lives(session));
        dead.into_iter().for_each(|(_, row)| drop(row.forget()));
        let taken: BTreeSet<&str> = sessions.iter().map(|(session, _)| &*session.name).collect();
        let is_taken = |name: &str| taken.contains(name);
        let locks = self.own.own_rows(own::LEASED_LOCK_TABLE, KeptLock::read);
        let (locks, orphans): (Vec<_>, Vec<_>) =
            locks.into_iter().partition(|lock| is_taken(&lock.session));
        orphans
            .iter()
            .for_each(|lock| drop(self.forget_lock(&lock.session, &lock.name, lock.fencing)));
        let permits = self.own.own_rows(own::PERMIT_TABLE, KeptPermit::read).into_iter();
        let permits = permits.map(|permit| {
            let row = self.kept(Table::Permit, &permit.name);
            (permit, row)
        });
        let has_session =
            |permit: &KeptPermit| permit.session.is_empty() || is_taken(&permit.session);
        let has_end = |permit: &KeptPermit| !permit.session.is_empty() || permit.lease.is_some();
        let (permits, gone): (Vec<_>, Vec<_>) =
            permits.partition(|(permit, _)| has_session(permit) && has_end(permit));
        gone.into_iter().for_each(|(_, row)| drop(row.forget()));
        TakenOver { sessions, locks, permits }
    }

    /// Has `ended` called with the name of each bound session when all its processes are dead (C4).
    ///
    /// # Errors
    ///
    /// When there is no thread to watch them.
    pub fn watch(
        sessions: &[KeptSession],
        ended: impl Fn(String) + Send + 'static,
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
        process::watch(of.into_iter().collect(), move |names: Vec<String>| {
            for name in names {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(count) = left.get_mut(&name) else { continue };
                *count -= 1;
                if *count == 0 {
                    left.remove(&name);
                    drop(left);
                    ended(name);
                }
            }
        })
    }

    /// Keeps a session.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then nothing of it is kept.
    pub async fn keep_session(self: &Arc<Self>, session: &KeptSession) -> Result<Kept, Error> {
        self.mark_once().await?;
        // Whoever stops waiting for the answer leaves no row behind.
        let kept = self.kept(Table::Session, &session.name);
        self.change_session(session).await?;
        Ok(kept)
    }

    /// Writes what changed of a session that is kept. It is in line to be written when this returns, so
    /// that of two changes the later one stays.
    pub fn change_session(
        self: &Arc<Self>,
        session: &KeptSession,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let row =
            OwnRow { key: session.name.clone(), values: Some(session.row()), only_if: OnlyIf::Any };
        self.put(Table::Session, row, session.is_long())
    }

    /// Keeps a permit.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn keep_permit(self: &Arc<Self>, permit: &KeptPermit) -> Result<Kept, Error> {
        self.mark_once().await?;
        let durable = permit.is_long || !permit.request.claims.is_empty();
        let kept = self.kept(Table::Permit, &permit.name);
        let row =
            OwnRow { key: permit.name.clone(), values: Some(permit.row()), only_if: OnlyIf::Any };
        self.put(Table::Permit, row, durable).await?;
        Ok(kept)
    }

    /// Keeps a lock that a session owns. One that was granted later stays in its place.
    pub fn keep_lock(
        self: &Arc<Self>,
        session: &str,
        is_long: bool,
        lock: &str,
        fencing: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let fencing = i64::try_from(fencing).unwrap_or(i64::MAX);
        let values = Some(KeptLock::row(lock, session, fencing));
        let only_if = OnlyIf::Lower("fencing", fencing);
        let row = OwnRow { key: lock.to_owned(), values, only_if };
        self.put(Table::Lock, row, is_long)
    }

    /// A session owns a lock no longer by grants up to this number; whoever owns it by a later one is kept.
    pub fn forget_lock(
        self: &Arc<Self>,
        session: &str,
        lock: &str,
        fencing: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let fencing = i64::try_from(fencing).unwrap_or(i64::MAX);
        let only_if = OnlyIf::UpToOf("fencing", fencing, "session", session.to_owned());
        self.put(Table::Lock, OwnRow { key: lock.to_owned(), values: None, only_if }, false)
    }

    fn kept(self: &Arc<Self>, table: Table, key: &str) -> Kept {
        Kept { keeper: Arc::clone(self), table, key: key.to_owned(), deletes: true }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The doors are open: from now on what is dropped is given back.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// From now on what is dropped stays for the next run, which finds everything on disk. False if it
    /// was so already.
    pub(crate) fn close(&self) -> bool {
        self.is_open.swap(false, Ordering::AcqRel)
    }

    /// Says on disk that the next run need not wait for anything: all is synced before this run ends.
    pub(crate) fn unmark(&self) {
        self.own.maintain(own::DAEMON_TABLE, "name", vec![mark("")], true, None);
    }

    /// Says on disk that from now on things are kept that are not synced, and where.
    async fn mark_once(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_marked.load(Ordering::Acquire) {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |outcome| drop(sender.send(outcome)));
        let row = mark(&self.machine.text());
        self.own.maintain(own::DAEMON_TABLE, "name", vec![row], true, Some(done));
        self.own.flush();
        receiver.await.unwrap_or_else(|_| Err(lost()))?;
        self.is_marked.store(true, Ordering::Release);
        Ok(())
    }

    fn put(
        self: &Arc<Self>,
        table: Table,
        row: OwnRow,
        durable: bool,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let (this, key, deletes) = (Arc::clone(self), row.key.clone(), row.values.is_none());
        let done = Box::new(move |outcome: Result<(), Error>| {
            this.is_writable.store(outcome.is_ok(), Ordering::Relaxed);
            // A lock that could not be deleted is only held until its lease ends.
            if deletes && table != Table::Lock && outcome.is_err() {
                this.left().push((table, key));
            }
            // Nobody may be waiting.
            let _ = sender.send(outcome);
        });
        if !deletes {
            self.left().retain(|(other, key)| *other != table || *key != row.key);
        }
        self.own.maintain(table.name(), "name", vec![row], durable, Some(done));
        if self.is_writable.load(Ordering::Relaxed) {
            self.delete_left();
        }
        self.own.flush();
        async move { receiver.await.unwrap_or_else(|_| Err(lost())) }
    }

    /// Tries again to delete what could not be deleted, all of one table at once.
    fn delete_left(self: &Arc<Self>) {
        let left = std::mem::take(&mut *self.left());
        for table in [Table::Session, Table::Permit] {
            let keys = left.iter().filter(|(other, _)| *other == table).map(|(_, key)| key);
            let keys: Vec<String> = keys.cloned().collect();
            if keys.is_empty() {
                continue;
            }
            let row =
                |key: &String| OwnRow { key: key.clone(), values: None, only_if: OnlyIf::Any };
            let (rows, this) = (keys.iter().map(row).collect(), Arc::clone(self));
            let done = Box::new(move |outcome: Result<(), Error>| {
                if outcome.is_err() {
                    this.is_writable.store(false, Ordering::Relaxed);
                    this.left().extend(keys.into_iter().map(|key| (table, key)));
                }
            });
            self.own.maintain(table.name(), "name", rows, false, Some(done));
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<(Table, String)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mark(machine: &str) -> OwnRow {
    let values = vec![
        ("name", Datum::One(Atom::string("paceline"))),
        ("machine", Datum::One(Atom::string(machine))),
    ];
    OwnRow { key: "paceline".to_owned(), values: Some(values), only_if: OnlyIf::Any }
}

fn lost() -> Error {
    Error::new(tag::IO, "it was not written")
}

impl Kept {
    /// Deletes the row. It is in line to be deleted when this returns; the future waits until that is
    /// written, if it can be.
    pub fn forget(mut self) -> impl Future<Output = ()> + use<> {
        self.deletes = false;
        let row = OwnRow { key: std::mem::take(&mut self.key), values: None, only_if: OnlyIf::Any };
        let deleted = self.keeper.put(self.table, row, false);
        async move {
            // What cannot be deleted now is tried again with the next row.
            let _ = deleted.await;
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.deletes && self.keeper.is_open() {
            let row =
                OwnRow { key: std::mem::take(&mut self.key), values: None, only_if: OnlyIf::Any };
            drop(self.keeper.put(self.table, row, false));
        }
    }
}

#[cfg(test)]
mod tests;
