//! Transactions that wait: parked until a table they look at changes, or their time is up.
//!
//! One timer serves a database: it sleeps until the earliest deadline here.

use crate::outbox::Ticket;
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::Changes;
use paceline_tables::json::Json;
use paceline_tables::schema::TableId;
use paceline_types::Time;
use paceline_types::limits::WAITS_MAX;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction a client asked for.
pub(super) struct Request {
    pub(super) session: Arc<Session>,
    pub(super) ticket: Ticket,
    pub(super) operations: Vec<Json>,
    /// When it was first tried.
    pub(super) created: Time,
}

impl Request {
    /// Bytes of memory this holds.
    pub(super) fn bytes(&self) -> usize {
        256 + self.operations.iter().map(Json::memory).sum::<usize>()
    }
}

/// A parked transaction.
struct Parked {
    request: Request,
    deadline: Option<Time>,
    tables: Vec<TableId>,
    bytes: usize,
}

/// The parked transactions of one database, in order of arrival.
#[derive(Default)]
pub(super) struct Waits {
    next: u64,
    parked: BTreeMap<u64, Parked>,
    by_request: BTreeMap<(SessionId, Ticket), u64>,
    per_session: BTreeMap<SessionId, usize>,
    by_table: BTreeSet<(TableId, u64)>,
    deadlines: BTreeSet<(Time, u64)>,
}

impl Waits {
    /// Parks `request` under the number it had before, or a new one. Gives it back if its client
    /// holds too much already.
    pub(super) fn park(
        &mut self,
        number: Option<u64>,
        request: Request,
        timeout_ms: Option<u64>,
        mut tables: Vec<TableId>,
    ) -> Result<(), Request> {
        let bytes = request.bytes();
        let many = self.per_session.get(&request.session.id).is_some_and(|n| *n >= WAITS_MAX);
        if many || !request.session.hold(bytes) {
            return Err(request);
        }
        let number = number.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        tables.sort_unstable();
        tables.dedup();
        let deadline = timeout_ms.map(|ms| request.created.plus_ms(ms));
        self.by_request.insert((request.session.id, request.ticket.clone()), number);
        *self.per_session.entry(request.session.id).or_insert(0) += 1;
        self.by_table.extend(tables.iter().map(|table| (*table, number)));
        self.deadlines.extend(deadline.map(|deadline| (deadline, number)));
        self.parked.insert(number, Parked { request, deadline, tables, bytes });
        Ok(())
    }

    /// Takes a parked transaction out, to be tried again or forgotten.
    pub(super) fn take(&mut self, number: u64) -> Option<Request> {
        let Parked { request, deadline, tables, bytes } = self.parked.remove(&number)?;
        request.session.let_go(bytes);
        self.by_request.remove(&(request.session.id, request.ticket.clone()));
        if let Entry::Occupied(mut count) = self.per_session.entry(request.session.id) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        for table in tables {
            self.by_table.remove(&(table, number));
        }
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, number));
        }
        Some(request)
    }

    /// The number of the transaction that a client sent under this ticket.
    pub(super) fn find(&self, session: SessionId, ticket: &Ticket) -> Option<u64> {
        self.by_request.get(&(session, ticket.clone())).copied()
    }

    /// Those of one client.
    pub(super) fn of_session(&self, session: SessionId) -> Vec<u64> {
        let first: Ticket = Arc::from(&[][..]);
        self.by_request
            .range((session, first)..)
            .take_while(|((id, _), _)| *id == session)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Those that look at a table that `changes` touch, in order of arrival.
    pub(super) fn touched_by(&self, changes: &Changes) -> Vec<u64> {
        if self.parked.is_empty() {
            return Vec::new();
        }
        let mut numbers: Vec<u64> = changes
            .by_table()
            .filter_map(|rows| rows.first())
            .flat_map(|change| self.by_table.range((change.table, 0)..=(change.table, u64::MAX)))
            .map(|(_, number)| *number)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// All of them, in order of arrival.
    pub(super) fn all(&self) -> Vec<u64> {
        self.parked.keys().copied().collect()
    }

    /// When the next one's time is up.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Those whose time is up.
    pub(super) fn due(&self, now: Time) -> Vec<u64> {
        self.deadlines.range(..=(now, u64::MAX)).map(|(_, number)| *number).collect()
    }
}
