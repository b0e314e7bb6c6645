//! Monitors that clients ask for.

use super::asker::Who;
use super::convert::{Deferred, DeferredCall};
use super::queue::{Entry, Rewatch, Watch};
use super::shares::{Bound, Full, Holder, Shares};
use super::{Head, Hosted, lock};
use crate::holdings::Holding;
use crate::outbox::Ticket;
use crate::session::{MonitorRecord, Session};
use paceline_tables::json::Json;
use paceline_tables::monitor::{Monitor, Requests, Version};
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Error, tag};
use paceline_types::Uuid;
use paceline_types::limits::{
    CONDITION_STEPS_DATABASE_MAX, CONDITION_STEPS_FREE, CONDITION_STEPS_KEPT, CONDITION_STEPS_MAX,
    CONDITION_STEPS_PEER_MAX, MONITORS_DATABASE_MAX, MONITORS_KEPT, MONITORS_MAX,
    MONITORS_PEER_MAX,
};
use std::sync::{Arc, Mutex};

/// What a client asks to watch.
pub struct WatchRequest {
    /// The id of the request.
    pub ticket: Ticket,
    /// The id that the client gives to the monitor.
    pub id: Ticket,
    /// The tables and columns.
    pub requests: Json,
    /// The format.
    pub version: Version,
    /// The last transaction the client knows.
    pub since: Option<Uuid>,
}

impl WatchRequest {
    /// The monitor that it asks for.
    pub(super) fn parse(&self, schema: &Schema) -> Result<Monitor, Error> {
        Requests::new(&self.requests)?.parse(schema, self.version)
    }
}

/// How many monitors there may be.
pub(super) const MONITORS: Bound = Bound {
    connection: MONITORS_MAX as u64,
    peer: MONITORS_PEER_MAX as u64,
    all: MONITORS_DATABASE_MAX as u64,
    kept: MONITORS_KEPT as u64,
};

/// How many steps their conditions may take for every row that changes.
pub(super) const CONDITION_STEPS: Bound = Bound {
    connection: CONDITION_STEPS_MAX,
    peer: CONDITION_STEPS_PEER_MAX,
    all: CONDITION_STEPS_DATABASE_MAX,
    kept: CONDITION_STEPS_KEPT,
};

/// A monitor's share of one of these; dropping it releases the share.
pub(crate) struct MonitorShare {
    database: Arc<Hosted>,
    of: fn(&Hosted) -> &Mutex<Shares>,
    holder: Holder,
    amount: u64,
}

impl Drop for MonitorShare {
    fn drop(&mut self) {
        lock((self.of)(&self.database)).give_back(self.holder, self.amount);
    }
}

impl Hosted {
    fn share(
        self: &Arc<Self>,
        session: &Session,
        (of, amount): (fn(&Self) -> &Mutex<Shares>, u64),
        what: &str,
    ) -> Result<MonitorShare, Error> {
        let holder = Holder::of(session);
        lock(of(self)).take(holder, amount).map_err(|full| {
            let who = match full {
                Full::Connection => "this connection has",
                Full::Peer => "the connections of this client have",
                Full::All => "this database has",
            };
            Error::new(tag::RESOURCES, format!("{who} {what}"))
        })?;
        Ok(MonitorShare { database: self.clone(), of, holder, amount })
    }

    fn place_for_monitor(self: &Arc<Self>, session: &Session) -> Result<MonitorShare, Error> {
        self.share(session, (|this| &this.monitors, 1), "too many monitors")
    }

    /// Takes the steps of the monitor's conditions, which are tested on every row that changes while others
    /// wait.
    fn steps_for_monitor(
        self: &Arc<Self>,
        session: &Session,
        monitor: &Monitor,
    ) -> Result<MonitorShare, Error> {
        let steps = u64::try_from(monitor.weight()).unwrap_or(u64::MAX);
        let steps = steps.saturating_sub(CONDITION_STEPS_FREE);
        let what = "monitors with too many or too long clauses";
        self.share(session, (|this| &this.condition_steps, steps), what)
    }

    /// Begins a monitor; its initial content is left in the client's outbox. The caller reports an error to the
    /// client.
    pub fn watch(
        self: &Arc<Self>,
        session: &Arc<Session>,
        mut request: WatchRequest,
    ) -> Result<(), Error> {
        let named = request.requests.as_object().into_iter().flat_map(|object| object.iter());
        self.check_read(Who::of(session), "monitor", named.map(|(name, _)| name))?;
        let tables = watched_tables(&request.requests, &self.schema());
        if tables.iter().any(|table| Some(*table) == self.lock_table) {
            self.show_locks();
        }
        self.show_figures_of(tables);
        // Conditions may be long, so they are parsed before the head is locked.
        let schema = self.schema();
        let monitor = request.parse(&schema);
        // For the same reason they are freed after the head is unlocked.
        let mut freed = Json::Null;
        let mut head = self.head();
        let is_same = Arc::ptr_eq(&schema, head.database.schema());
        let place = self.place_for_monitor(session);
        if let Some(held) = &mut head.converting {
            held.push_back(Deferred::new(session, DeferredCall::Watch(request, place?)));
            return Ok(());
        }
        let monitor = if is_same { monitor } else { request.parse(head.database.schema()) };
        std::mem::swap(&mut freed, &mut request.requests);
        self.begin_watch(&mut head, session, request, (monitor?, place?))
    }

    pub(super) fn begin_watch(
        self: &Arc<Self>,
        head: &mut Head,
        session: &Arc<Session>,
        request: WatchRequest,
        (monitor, place): (Monitor, MonitorShare),
    ) -> Result<(), Error> {
        let WatchRequest { ticket, id, since, .. } = request;
        if session.monitor(&id).is_some() {
            // Two such requests were deferred during a conversion.
            return Err(Error::new(tag::SYNTAX, "duplicate monitor ID"));
        }
        let steps = Arc::new(self.steps_for_monitor(session, &monitor)?);
        let holding = Arc::new(hold_monitor(session, &monitor, &id)?);
        let monitor = Arc::new(monitor);
        let sees_locks = self.lock_table.is_some_and(|table| monitor.table(table).is_some());
        let record = MonitorRecord {
            database: self.clone(),
            monitor: monitor.clone(),
            _holding: holding,
            _place: Arc::new(place),
            _steps: steps,
            _locks: sees_locks.then(|| self.locking.watch()),
        };
        session.remember_monitor(id.clone(), record);
        let rows = head.pin(session);
        let session = session.clone();
        head.push(Entry::Watch(Watch { session, ticket, id, monitor, rows, since }));
        Ok(())
    }

    /// Changes the conditions of a monitor, and its id from `old_id` to `new_id`.
    pub fn rewatch(
        self: &Arc<Self>,
        session: &Arc<Session>,
        ticket: Ticket,
        (old_id, new_id): (Ticket, Ticket),
        conditions: Json,
    ) -> Result<(), Error> {
        // Conditions may be long, so they are parsed before the head is locked.
        let schema = self.schema();
        let changed = changed_monitor(session, &old_id, &conditions, &schema);
        let mut head = self.head();
        if let Some(held) = &mut head.converting {
            let asked = DeferredCall::Rewatch(ticket, (old_id, new_id), conditions);
            held.push_back(Deferred::new(session, asked));
            return Ok(());
        }
        if !Arc::ptr_eq(&schema, head.database.schema()) {
            // The database was converted meanwhile, which ends monitors.
            return Err(unknown_monitor());
        }
        self.begin_rewatch(&mut head, session, ticket, (old_id, new_id), changed?)
    }

    pub(super) fn begin_rewatch(
        self: &Arc<Self>,
        head: &mut Head,
        session: &Arc<Session>,
        ticket: Ticket,
        (old_id, new_id): (Ticket, Ticket),
        (from, to): (Arc<Monitor>, Arc<Monitor>),
    ) -> Result<(), Error> {
        if old_id != new_id && session.monitor(&new_id).is_some() {
            return Err(Error::new(tag::SYNTAX, "duplicate monitor ID"));
        }
        let steps = self.steps_for_monitor(session, &to)?;
        let holding = hold_monitor(session, &to, &new_id)?;
        if !session.rename_monitor(&old_id, &new_id, (&to, steps, holding)) {
            return Err(unknown_monitor());
        }
        let rows = head.pin(session);
        let session = session.clone();
        head.push(Entry::Rewatch(Rewatch { session, ticket, old_id, new_id, from, to, rows }));
        Ok(())
    }

    /// Ends a monitor: no update of it follows the answer.
    pub fn unwatch(&self, session: &Arc<Session>, ticket: Ticket, id: Ticket) {
        let mut head = self.head();
        match &mut head.converting {
            // The request for the monitor may be deferred itself.
            Some(held) => held.push_back(Deferred::new(session, DeferredCall::Unwatch(ticket, id))),
            None => head.begin_unwatch(session.clone(), ticket, id),
        }
    }
}

impl Head {
    pub(super) fn begin_unwatch(&mut self, session: Arc<Session>, ticket: Ticket, id: Ticket) {
        session.forget_monitor(&id);
        self.push(Entry::Unwatch { session, ticket, id });
    }
}

/// Takes the memory that a monitor needs.
fn hold_monitor(session: &Session, monitor: &Monitor, id: &Ticket) -> Result<Holding, Error> {
    // The watchers find it by each of its tables.
    let found = 256 + 64 * monitor.tables.len();
    session.hold(monitor.memory() + id.len() + found).map_err(|full| {
        let details = match full {
            Full::Connection => "this connection holds too many monitors",
            Full::Peer => "the connections of this client hold too many monitors",
            Full::All => "waiting transactions and monitors of all clients take too much memory",
        };
        Error::new(tag::RESOURCES, details)
    })
}

/// The monitor that a client has under an id, with other conditions.
pub(super) fn changed_monitor(
    session: &Session,
    id: &Ticket,
    conditions: &Json,
    schema: &Schema,
) -> Result<(Arc<Monitor>, Arc<Monitor>), Error> {
    let from = session.monitor(id).ok_or_else(unknown_monitor)?.monitor;
    let to = from.with_conditions(conditions, schema)?;
    // A monitor of the first format has no conditions to change.
    let to = if from.version == Version::V1 { from.clone() } else { Arc::new(to) };
    Ok((from, to))
}

fn unknown_monitor() -> Error {
    Error::new(tag::SYNTAX, "unknown monitor session")
}

/// The tables that a monitor names, as far as they exist.
fn watched_tables(requests: &Json, schema: &Schema) -> Vec<TableId> {
    let named = requests.as_object().into_iter().flat_map(|object| object.iter());
    named.filter_map(|(name, _)| schema.table_id(name)).collect()
}
