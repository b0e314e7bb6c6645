//! One client connection: its name, what it holds, and the items on their way to it.

use crate::access::Granted;
use crate::budget::Whole;
use crate::database::shares::{Full, Holder};
use crate::database::{Hosted, MonitorShare};
use crate::holdings::{Holding, Holdings};
use crate::locking::{LockListener, LockNotice};
use crate::outbox::{Outbox, Outgoing, Ticket};
use crate::places::Peer;
use paceline_locks::SessionId;
use paceline_tables::monitor::Monitor;
use paceline_types::Role;
use paceline_types::limits::{REPLY_BYTES_MAX, SHARE_BYTES_MIN};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;

/// A client connection.
pub struct Session {
    /// Its number, never reused.
    pub id: SessionId,
    /// Its name, as logs and the table Lock show it.
    pub name: String,
    /// The items on their way to the client.
    pub outbox: Outbox,
    /// Its role; `None` if it may do nothing.
    role: Option<Role>,
    /// The grant of its role, if a row gives it, which may change.
    granted: OnceLock<Arc<Granted>>,
    /// The peer of its connection, if it is a client's own.
    peer: Option<Peer>,
    /// Whether it may only read.
    pub read_only: bool,
    change_aware: AtomicBool,
    /// Whether its locks are kept for the next run, and if so whether its lease is long.
    kept: OnceLock<bool>,
    /// Receives the notices of its locks instead of its outbox, if it has no connection.
    listener: OnceLock<Weak<dyn LockListener>>,
    holdings: Holdings,
    /// Bytes of its requests that wait to be written.
    queued_bytes: AtomicUsize,
    /// Its monitors by the ids it gave them, as of its last request about each.
    monitors: Mutex<BTreeMap<Ticket, MonitorRecord>>,
}

/// The memory that sessions take shares of.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What clients leave unread, over all connections.
    pub(crate) unread: Arc<Whole>,
    /// What clients hold.
    pub(crate) holdings: Holdings,
}

/// A monitor that a client has.
#[derive(Clone)]
pub struct MonitorRecord {
    /// The database it watches.
    pub database: Arc<Hosted>,
    /// What it sends.
    pub monitor: Arc<Monitor>,
    /// Its share of the memory that clients may hold.
    pub(crate) _holding: Arc<Holding>,
    /// Its share of the monitors of the database; the last copy of this record releases it.
    pub(crate) _place: Arc<MonitorShare>,
    /// Its share of the steps that all conditions of the database may take.
    pub(crate) _steps: Arc<MonitorShare>,
    /// Keeps the table of locks up to date, if it watches that table.
    pub(crate) _locks: Option<Arc<()>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("name", &self.name).finish()
    }
}

impl std::fmt::Debug for MonitorRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorRecord").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        name: String,
        (role, read_only): (Option<Role>, bool),
        (peer, memory): (Option<Peer>, &Memory),
    ) -> Self {
        Self {
            id,
            name,
            outbox: Outbox::new(&memory.unread.budget(peer)),
            role,
            granted: OnceLock::new(),
            peer,
            read_only,
            change_aware: AtomicBool::new(false),
            kept: OnceLock::new(),
            listener: OnceLock::new(),
            holdings: memory.holdings.clone(),
            queued_bytes: AtomicUsize::new(0),
            monitors: Mutex::default(),
        }
    }

    /// Its role now; `None` if it may do nothing.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.granted.get().map_or(self.role, |granted| Some(granted.role()))
    }

    /// From now on its role is that of a row.
    pub fn follow_role(&self, granted: Arc<Granted>) {
        let _ = self.granted.set(granted);
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Whether the client follows conversions of databases, and so need not be disconnected then.
    #[must_use]
    pub fn is_change_aware(&self) -> bool {
        self.change_aware.load(Ordering::Relaxed)
    }

    /// From now on its locks are kept for the next run. `is_long` says whether its lease is too long to be
    /// waited for after a crash of the machine.
    pub fn keep_locks(&self, is_long: bool) {
        let _ = self.kept.set(is_long);
    }

    pub(crate) fn kept(&self) -> Option<bool> {
        self.kept.get().copied()
    }

    /// From now on notices of its locks are passed to `listener` instead of its outbox.
    pub(crate) fn listen(&self, listener: Weak<dyn LockListener>) {
        let _ = self.listener.set(listener);
    }

    /// Sends a notice about one of its locks. Returns the task to wake, which the caller does once it holds no
    /// lock of its own.
    pub(crate) fn notify(&self, notice: LockNotice) -> Option<Waker> {
        match self.listener.get() {
            Some(listener) => listener.upgrade()?.hear(notice),
            None => self.outbox.leave(Outgoing::Lock(notice)),
        }
    }

    /// Ends the session: nothing more is sent, and its listener is called.
    pub(crate) fn close(&self) {
        self.outbox.close("it is gone");
        if let Some(listener) = self.listener.get().and_then(Weak::upgrade) {
            listener.end();
        }
    }

    /// Sets whether the client follows conversions of databases.
    pub fn set_change_aware(&self, aware: bool) {
        self.change_aware.store(aware, Ordering::Relaxed);
    }

    /// Bytes of this client's requests and answers that wait, to be written or to be sent.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.outbox.reply_bytes() + self.queued_bytes.load(Ordering::Acquire)
    }

    /// Whether so many of these bytes wait that no further request of it is served.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting_bytes() > self.outbox.budget().share(REPLY_BYTES_MAX)
    }

    /// Whether none of its requests waits to be written.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.queued_bytes.load(Ordering::Acquire) == 0
    }

    pub(crate) fn charge(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn discharge(&self, bytes: usize) {
        let before = self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        // Its connection may have sent the answers already and wait only for this.
        if before == bytes || before > SHARE_BYTES_MIN {
            self.outbox.look_again();
        }
    }

    /// Takes `bytes` of the memory that clients may hold in monitors and waiting transactions.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Holding, Full> {
        self.holdings.take(Holder::of(self), bytes)
    }

    fn monitors(&self) -> MutexGuard<'_, BTreeMap<Ticket, MonitorRecord>> {
        crate::sync::lock(&self.monitors)
    }

    /// The monitor that the client calls `id`.
    #[must_use]
    pub fn monitor(&self, id: &Ticket) -> Option<MonitorRecord> {
        self.monitors().get(id).cloned()
    }

    pub(crate) fn remember_monitor(&self, id: Ticket, record: MonitorRecord) {
        self.monitors().insert(id, record);
    }

    /// Gives a monitor another id and other conditions; false if there is none.
    pub(crate) fn rename_monitor(
        &self,
        old: &Ticket,
        new: &Ticket,
        (monitor, steps, holding): (&Arc<Monitor>, MonitorShare, Holding),
    ) -> bool {
        let mut monitors = self.monitors();
        let Some(mut record) = monitors.remove(old) else { return false };
        record.monitor = monitor.clone();
        (record._steps, record._holding) = (Arc::new(steps), Arc::new(holding));
        monitors.insert(new.clone(), record);
        true
    }

    pub(crate) fn forget_monitor(&self, id: &Ticket) {
        self.monitors().remove(id);
    }

    /// Forgets all monitors, because the client left.
    pub(crate) fn forget_monitors(&self) {
        self.monitors().clear();
    }
}
