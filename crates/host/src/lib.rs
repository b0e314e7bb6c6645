//! The host: the one owner of databases, locks and sessions, between the pure rooms and the doors.
//!
//! Doors call typed functions: [`Hosted::transact_as`] runs a transaction as a caller and returns a future of its
//! results; [`Locking::operate`] takes, steals or releases a lock for a session; [`Control::admit`] admits a request;
//! the [`registry`] holds sessions, permits and locks with leases. The OVSDB door, whose protocol orders replies and
//! notifications, uses a [`Session`] with an outbox instead and takes from it what is to be sent. The host reads the
//! clocks, owns the mutexes, writes the journals and wakes tasks. The decisions are made in `tables`, `locks` and the
//! engine. It knows nothing of wires and formats.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod audit;
mod beside;
mod brief;
mod budget;
mod clock;
mod contained;
mod control;
mod database;
mod holdings;
mod http;
mod jobs;
mod kept;
mod locking;
mod made;
mod outbox;
pub mod own;
mod places;
pub mod registry;
mod ring;
mod session;
mod socket;
mod sync;
mod system;
mod tasks;
mod update;

pub use access::{Access, Granted, REFUSED, SqlUser, system_users};
pub use beside::Beside;
pub use budget::{Budget, Part};
pub use clock::{Clock, rfc3339, uuid_source, wall_ms};
pub use contained::{Panicked, broken, contained, end_with_panics};
pub use control::{
    Admission, Configured, Control, Edited, Event, Hop, Listed, NotWaiting, Permit, Reroute, Terms,
    Waiting,
};
pub use database::{
    Author, Hosted, Loaded, OpenDatabaseError, Restored, SoundPart, WatchRequest, aside,
    create_file, load_file, load_sound_part, replace, restore,
};
pub use http::{DoorProblem, DoorState, HttpPart, Tally};
pub use kept::{
    Ended, Keeper, KeptLock, KeptPermit, KeptSession, Machine, PlaceHash, Process, Processes,
    RealProcesses, TakenOver, UNSYNCED_LEASE_MAX,
};
pub use locking::{LockAnswer, LockChange, LockNotice, LockOperation, LockShown, Locking};
pub use made::MadeClock;
pub use outbox::{
    Content, Interest, Outbox, Outgoing, Reply, SharedText, Ticket, Update, UpdateText,
};
pub use paceline_engine::{
    About, Explanation, Foreseen, Grant, Quota, RequestError, Snapshot, WaitsFor, Why,
};
use paceline_journal::Recovery;
pub use paceline_journal::disk::{Disk, RealDisk};
pub use paceline_journal::{Mode, OpenError};
pub use paceline_locks::{LockError, SessionId};
pub use paceline_model::{FIRST_TOKEN, SqlVerifier};
pub use places::{Capacity, Full, Peer, Place, Places};
pub use ring::Ring;
pub use session::{MonitorRecord, Session};
pub use socket::{SOCKET_MODE, bind_unix, closed, has_left, left, watch_peer};
#[cfg(feature = "simulated")]
pub use sync::simulated::{Yield, yield_at_locks};
pub use system::System;
pub use tasks::{Executor, Job, Task, Tasks};

/// The types of rules and checkpoints, for doors that show or parse them.
pub mod words {
    pub use paceline_checkpoints::Outlook;
    pub use paceline_rules::{
        Action, Criterion, Outcome, PatternMode, Step, Verdict, parse_action, parse_criteria,
        show_criteria,
    };
}

use audit::Audit;
use database::{OwnRow, Storage};
use kept::{Cause, Ledger};
use paceline_journal::disk::Access as DiskAccess;
use paceline_tables::schema::Schema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Database, Error, convert};
use paceline_types::{Role, Uuid};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use tokio::runtime::Handle;

/// Settings for all databases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Nothing may be changed or locked.
    pub read_only: bool,
    /// Every transaction is synced before it is answered, as if it were durable.
    pub durable: bool,
    /// The daemon's own database is listed although other databases are served.
    pub list_own: bool,
}

/// Everything the daemon serves.
pub struct Host {
    databases: RwLock<BTreeMap<String, Arc<Hosted>>>,
    sessions: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    locking: Arc<Locking>,
    access: Arc<Access>,
    control: Arc<Control>,
    audit: OnceLock<Arc<Audit>>,
    ledger: Arc<Ledger>,
    keeper: OnceLock<Arc<Keeper>>,
    system: System,
    next_session: AtomicU64,
    memory: session::Memory,
    beside: Arc<Beside>,
    policy: Policy,
    /// Distinguishes this run of the server from others.
    pub server_id: Uuid,
}

impl Host {
    /// A host that serves only the database `_Server`, which lists the others. Journals are files of `disk`.
    pub fn new(
        runtime: Handle,
        disk: Arc<dyn Disk>,
        policy: Policy,
    ) -> Result<Arc<Self>, OpenDatabaseError> {
        Self::on(System::real(runtime, disk), policy)
    }

    /// The same on a machine that the caller provides.
    pub fn on(system: System, policy: Policy) -> Result<Arc<Self>, OpenDatabaseError> {
        let (clock, ledger) = (system.clock, Arc::new(Ledger::default()));
        let locking = Arc::new(Locking::new(Arc::clone(&ledger), clock, system.tasks.clone()));
        let seed = random_seed(clock.uuid_source());
        let control = Control::new(clock, Arc::clone(&locking), Arc::clone(&ledger), seed);
        control.run_timer(&system.tasks);
        locking.tell_losses_to(&control);
        let host = Arc::new(Self {
            databases: RwLock::default(),
            sessions: Mutex::default(),
            locking,
            access: Arc::new(Access::new(clock)),
            control,
            audit: OnceLock::new(),
            ledger,
            keeper: OnceLock::new(),
            next_session: AtomicU64::new(1),
            memory: session::Memory::default(),
            beside: Arc::new(Beside::new(system.tasks.clone())),
            policy,
            server_id: clock.uuid_source().next_uuid(),
            system,
        });
        let schema = own::server_schema().map_err(OpenDatabaseError::Schema)?;
        let database = Database::new(Arc::new(schema), clock.uuid_source());
        host.add(database, Storage::Memory)?;
        Ok(host)
    }

    /// Serves the database in file `path`, reading it first.
    pub fn open(&self, path: &Path) -> Result<Arc<Hosted>, OpenDatabaseError> {
        let mode = if self.policy.read_only { Mode::ReadOnly } else { Mode::ReadWrite };
        let loaded = self.load(path, mode)?;
        report_recovery(path, &loaded.recovery);
        let hosted = self.add(loaded.database, Storage::Log(Box::new(loaded.log)))?;
        Ok(hosted)
    }

    /// Serves Paceline's own database in file `path`, creating it if necessary, and continues the fencing
    /// numbers of the locks. Must not be called from a task of the runtime.
    pub fn open_own(&self, path: &Path) -> Result<(), OpenDatabaseError> {
        let schema = own::schema().map_err(OpenDatabaseError::Schema)?;
        if self.policy.read_only {
            // Nothing can be locked on a read-only server, so nothing is kept either, and no number is waited for.
            self.locking.stop();
            let database = Database::new(Arc::new(schema), self.system.clock.uuid_source());
            self.add(database, Storage::Memory)?;
            return Ok(());
        }
        let disk = &self.system.disk;
        if disk.open(path, DiskAccess::Read).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            drop(create_file(disk.clone(), path, &schema)?);
        }
        let mut loaded = self.load(path, Mode::ReadWrite)?;
        report_recovery(path, &loaded.recovery);
        migrate(&mut loaded, Arc::new(schema), path, self.system.clock)?;
        let hosted = self.add(loaded.database, Storage::Log(Box::new(loaded.log)))?;
        let wrong = |error: Error| {
            OpenDatabaseError::Schema(format!("{}: {}", path.display(), error.details))
        };
        let audit = match self.system.clock.is_made() {
            true => Ok(Audit::nowhere()),
            false => Audit::open(&path.with_file_name("audit.log")),
        };
        let audit = audit.map_err(|error| {
            OpenDatabaseError::Schema(format!("cannot open the audit log: {error}"))
        })?;
        let audit = Arc::clone(self.audit.get_or_init(|| Arc::new(audit)));
        self.locking.record_in(&audit);
        self.access.record_in(&audit);
        hosted.begin_control(&self.control, audit).map_err(wrong)?;
        self.control.number_on(&hosted).map_err(wrong)?;
        self.keeper.get_or_init(|| {
            let deciders = (&self.control, &self.locking);
            Keeper::new(&self.ledger, Arc::clone(&hosted), deciders, &self.system)
        });
        self.locking.begin(&hosted).map_err(|error| OpenDatabaseError::Schema(error.to_string()))
    }

    fn load(&self, path: &Path, mode: Mode) -> Result<Loaded, OpenDatabaseError> {
        database::load_with(self.system.disk.clone(), path, mode, self.system.clock)
    }

    fn add(&self, database: Database, storage: Storage) -> Result<Arc<Hosted>, OpenDatabaseError> {
        let doors = (self.locking.clone(), self.access.clone());
        let hosted = Arc::new(Hosted::new(database, storage, doors, &self.system, self.policy));
        let mut databases = self.databases.write().unwrap_or_else(crate::broken);
        if databases.contains_key(&hosted.name) {
            return Err(OpenDatabaseError::Duplicate(hosted.name.clone()));
        }
        databases.insert(hosted.name.clone(), hosted.clone());
        drop(databases);
        self.system.tasks.spawn(hosted.clone().run_timer());
        self.announce();
        Ok(hosted)
    }

    /// Updates in `_Server` which databases are served, and with which schemas.
    fn announce(&self) {
        let Some(server) = self.database(own::SERVER_DATABASE) else { return };
        let one = |atom: Atom| Datum::One(atom);
        let row = |hosted: &Arc<Hosted>| {
            let values = vec![
                ("name", one(Atom::string(&hosted.name))),
                ("model", one(Atom::string("standalone"))),
                ("connected", one(Atom::Boolean(true))),
                ("leader", one(Atom::Boolean(true))),
                ("schema", one(Atom::string(&hosted.schema().to_json().to_text()))),
            ];
            (hosted.name.clone(), values)
        };
        let mut listed: BTreeMap<_, _> = self.listed().iter().map(row).collect();
        let rows = self.databases().into_iter();
        let rows = rows.map(|hosted| OwnRow::of_text(&hosted.name, listed.remove(&hosted.name)));
        let rows = rows.collect();
        server.maintain("Database", "name", rows, false, None);
        server.flush();
    }

    /// How many threads the configuration gives the HTTP door, if it says so.
    #[must_use]
    pub fn http_threads(&self) -> Option<usize> {
        let threads = self.database(own::DATABASE)?.http_threads()?;
        usize::try_from(threads).ok()
    }

    /// Whether the configuration lets viewers see the whole text of requests.
    #[must_use]
    pub fn shows_text(&self) -> bool {
        self.database(own::DATABASE).is_some_and(|own| own.shows_text())
    }

    /// The database of this name.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<Arc<Hosted>> {
        self.databases.read().unwrap_or_else(crate::broken).get(name).cloned()
    }

    /// All databases, by name.
    #[must_use]
    pub fn databases(&self) -> Vec<Arc<Hosted>> {
        let databases = self.databases.read().unwrap_or_else(crate::broken);
        databases.values().cloned().collect()
    }

    /// The databases that clients are shown, by name. A client that looks for the only database besides
    /// `_Server` must find the right one, so the daemon's own is left out if others are served.
    #[must_use]
    pub fn listed(&self) -> Vec<Arc<Hosted>> {
        let mut databases = self.databases();
        let is_given =
            |db: &Arc<Hosted>| ![own::DATABASE, own::SERVER_DATABASE].contains(&&*db.name);
        if !self.policy.list_own && databases.iter().any(is_given) {
            databases.retain(|db| db.name != own::DATABASE);
        }
        databases
    }

    /// The settings for all databases.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Where long work of connections is done.
    #[must_use]
    pub fn beside(&self) -> &Arc<Beside> {
        &self.beside
    }

    /// The locks.
    #[must_use]
    pub fn locking(&self) -> &Arc<Locking> {
        &self.locking
    }

    /// The engine.
    #[must_use]
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Keeps sessions and permits for the next run; `None` if nothing is kept.
    #[must_use]
    pub fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.get()
    }

    /// Prepares the shutdown: what clients hold now stays theirs in the next run.
    pub fn retire(&self) {
        // From here on nothing may be granted that a client would hold in the next run.
        self.control.stop();
        self.locking.stop();
        if let Some(keeper) = self.keeper.get().filter(|keeper| keeper.close()) {
            self.control.number_no_more();
            self.locking.number_no_more();
            let mut waiters = self.control.take_left();
            waiters.extend(self.locking.take_left());
            keeper.leave_waiters(waiters);
            keeper.unmark();
        }
    }

    /// Whether the shutdown has been prepared.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.keeper.get().is_some_and(|keeper| !keeper.is_open())
    }

    /// Called when the doors are open: from now on what clients release or lose is deleted on disk. Before
    /// that, a failed start leaves everything as it was.
    pub fn open_for_service(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.open();
        }
    }

    /// The roles, and the check.
    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Records something that happened to `object` in the audit log, if there is one.
    pub fn record(&self, who: &str, what: &str, object: &str) {
        if let Some(audit) = self.audit.get() {
            audit.record(who, what, object);
        }
    }

    /// Reopens the audit log, whose file may have been moved away.
    pub fn reopen_audit(&self) {
        if let Some(audit) = self.audit.get() {
            audit.reopen();
        }
    }

    /// The clock that times requests, leases and sessions.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.system.clock
    }

    /// Begins the session of a client that has connected; `name` names the client, `role` is its role, if any.
    pub fn begin_session(
        &self,
        role: Option<Role>,
        name: impl FnOnce(SessionId) -> String,
    ) -> Arc<Session> {
        self.begin(None, role, name)
    }

    /// The same for a connection of `peer`: what it uses counts with all that `peer` uses.
    pub fn begin_session_of(
        &self,
        peer: Peer,
        role: Option<Role>,
        name: impl FnOnce(SessionId) -> String,
    ) -> Arc<Session> {
        self.begin(Some(peer), role, name)
    }

    fn begin(
        &self,
        peer: Option<Peer>,
        role: Option<Role>,
        name: impl FnOnce(SessionId) -> String,
    ) -> Arc<Session> {
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let may = (role, self.policy.read_only);
        self.add_session(Session::new(id, name(id), may, (peer, &self.memory)))
    }

    /// A number that no session has, by which logs distinguish the calls of one caller.
    pub fn number_call(&self) -> SessionId {
        SessionId(self.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Restores a session of an earlier run, with its number and name.
    pub fn restore_session(&self, id: SessionId, role: Role, name: String) -> Arc<Session> {
        self.next_session.fetch_max(id.0 + 1, Ordering::Relaxed);
        let may = (Some(role), self.policy.read_only);
        self.add_session(Session::new(id, name, may, (None, &self.memory)))
    }

    fn add_session(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        let mut sessions = crate::sync::lock(&self.sessions);
        sessions.insert(session.id, session.clone());
        drop(sessions);
        self.locking.add_session(&session);
        session
    }

    /// Ends the session of a client that has left: everything it held is released, unless the daemon shuts down
    /// too and leaves it to the next run.
    pub fn end_session(&self, session: &Session) {
        self.part(session, Cause::Ended);
    }

    /// Ends a session because its client asked for that: everything it holds is released.
    pub fn give_up_session(&self, session: &Session) {
        self.part(session, Cause::Asked);
    }

    fn part(&self, session: &Session, cause: Cause) {
        session.close();
        crate::sync::lock(&self.sessions).remove(&session.id);
        self.locking.end_session(session.id, cause);
        self.control.end_session(session.id);
        session.forget_monitors();
        for database in self.databases() {
            database.end_session(session);
        }
    }

    /// What is done when a database was converted: clients are notified, and clients that do not follow
    /// conversions are disconnected so that they reconnect.
    #[must_use]
    pub fn on_converted(self: &Arc<Self>) -> database::Converted {
        let (announcer, host) = (self.clone(), self.clone());
        database::Converted {
            announce: Box::new(move || announcer.announce()),
            unaware: Box::new(move || host.unaware_sessions()),
        }
    }

    fn unaware_sessions(&self) -> Vec<Arc<Session>> {
        let sessions = crate::sync::lock(&self.sessions);
        sessions.values().filter(|session| !session.is_change_aware()).cloned().collect()
    }

    /// Writes and syncs everything that waits. Call it from a thread that may block.
    pub fn shut_down(&self) {
        self.retire();
        if let Some(keeper) = self.keeper.get() {
            keeper.write_all();
        }
        for database in self.databases() {
            database.close();
        }
        self.access.close();
        if let Some(audit) = self.audit.get() {
            audit.close();
        }
    }
}

/// Logs what was lost of a journal, if anything was.
pub fn report_recovery(path: &Path, recovery: &Recovery) {
    let file = path.display();
    if let Some(torn) = &recovery.torn {
        let (offset, bytes, reason) = (torn.offset.0, torn.bytes, &torn.reason);
        match &torn.kept {
            Some(kept) => tracing::warn!(
                %file, offset, bytes, kept = %kept.display(),
                "the damaged end of the journal was cut off and kept aside: {reason}"
            ),
            None => tracing::warn!(
                %file, offset, bytes,
                "the end of the journal is damaged and ignored; it is not kept aside, because the disk is full or \
                 the journal is read-only: {reason}"
            ),
        }
    }
    if recovery.lost_synced() {
        tracing::error!(
            %file,
            offset = recovery.position.0,
            synced = recovery.synced.map_or(0, |synced| synced.0),
            "the journal ends before its last synced position: transactions acknowledged as durable are \
             missing, because the disk or another program changed the file; restore a backup if they \
             matter"
        );
    }
}

/// Migrates the file of Paceline's own database to the schema of this version.
fn migrate(
    loaded: &mut Loaded,
    schema: Arc<Schema>,
    path: &Path,
    clock: Clock,
) -> Result<(), OpenDatabaseError> {
    let found = loaded.database.schema().clone();
    if *found == *schema {
        return Ok(());
    }
    if *found.name != *own::DATABASE || is_newer(&found.version, &schema.version) {
        let reason = format!(
            "{}: holds the database {} {}, but this version of paceline needs {} {}",
            path.display(),
            found.name,
            found.version,
            own::DATABASE,
            schema.version
        );
        return Err(OpenDatabaseError::Schema(reason));
    }
    let failed = |error: String| {
        let to = &schema.version;
        let reason = format!("{}: cannot be brought to schema {to}: {error}", path.display());
        OpenDatabaseError::Schema(reason)
    };
    let database = convert(&loaded.database.snapshot(), schema.clone(), clock.uuid_source());
    let database = database.map_err(|error| failed(error.to_string()))?;
    let comment = "brought to a newer schema by paceline";
    replace(&database.snapshot(), &[], comment, &mut loaded.log)
        .map_err(|error| failed(error.to_string()))?;
    tracing::info!(from = %found.version, to = %schema.version, "migrated the database to a newer schema");
    loaded.database = database;
    Ok(())
}

/// Whether a schema version is later than another.
fn is_newer(version: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(version) > numbers(than)
}

fn random_seed(mut source: paceline_types::UuidSource) -> u128 {
    u128::from(source.next_u64()) << 64 | u128::from(source.next_u64())
}
