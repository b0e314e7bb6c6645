//! Transactions that wait: parked until a row that they look at changes, or until they time out.
//!
//! Both each client and all clients together have few of them, and they look at few rows, so a change that affects all
//! of them takes little more time than another. One timer serves a database: it sleeps until the earliest deadline.

use super::asker::Asker;
use super::shares::{Bound, Full, Holder, Shares};
use crate::holdings::Holding;
use crate::outbox::Ticket;
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::schema::TableId;
use paceline_tables::{Changes, Error, Interest, Transaction, tag};
use paceline_types::Time;
use paceline_types::limits::{
    WAITS_DATABASE_MAX, WAITS_KEPT, WAITS_KEPT_STEPS, WAITS_MAX, WAITS_PEER_MAX,
    WAITS_PEER_STEPS_MAX, WAITS_STEPS_MAX,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction that a client or caller asked for.
pub(super) struct Request {
    pub(super) asker: Asker,
    pub(super) operations: Arc<Transaction>,
    /// When it was first tried.
    pub(super) created: Time,
}

impl Request {
    /// Bytes of memory this holds.
    pub(super) fn bytes(&self) -> usize {
        256 + self.asker.bytes() + self.operations.memory()
    }
}

/// A parked transaction of a client.
struct Parked {
    session: Arc<Session>,
    ticket: Ticket,
    operations: Arc<Transaction>,
    created: Time,
    deadline: Option<Time>,
    interest: Interest,
    /// The steps of trying it.
    work: u64,
    /// Its share of the memory that clients may hold.
    _holding: Holding,
    /// Keeps the table of locks up to date while it waits, if it reads that table.
    _watched: Option<Arc<()>>,
}

/// The parked transactions of one database, in order of arrival.
pub(super) struct Waits {
    next: u64,
    parked: BTreeMap<u64, Parked>,
    by_request: BTreeMap<(SessionId, Ticket), u64>,
    counts: Shares,
    /// The steps of trying them.
    steps: Shares,
    by_table: BTreeSet<(TableId, u64)>,
    deadlines: BTreeSet<(Time, u64)>,
}

/// How many transactions may wait.
const COUNTS: Bound = Bound {
    connection: WAITS_MAX as u64,
    peer: WAITS_PEER_MAX as u64,
    all: WAITS_DATABASE_MAX as u64,
    kept: WAITS_KEPT as u64,
};

/// The steps that trying all of them again may take.
const STEPS: Bound = Bound {
    connection: WAITS_PEER_STEPS_MAX,
    peer: WAITS_PEER_STEPS_MAX,
    all: WAITS_STEPS_MAX,
    kept: WAITS_KEPT_STEPS,
};

impl Default for Waits {
    fn default() -> Self {
        Self {
            next: 0,
            parked: BTreeMap::new(),
            by_request: BTreeMap::new(),
            counts: Shares::new(COUNTS),
            steps: Shares::new(STEPS),
            by_table: BTreeSet::new(),
            deadlines: BTreeSet::new(),
        }
    }
}

impl Waits {
    /// Parks `request` under the number it had before, or a new one, with what it looks at and the steps of
    /// trying it. It keeps `watched` as long as it waits. Returns it, with the reason, if too many wait
    /// already, or if a caller in the process asked for it, which does not wait.
    pub(super) fn park(
        &mut self,
        number: Option<u64>,
        request: Request,
        timeout_ms: Option<u64>,
        (interest, work): (Interest, u64),
        watched: Option<Arc<()>>,
    ) -> Result<(), (Request, Error)> {
        let Asker::Client { session, .. } = &request.asker else {
            let error = Error::new(tag::TIMED_OUT, "the database changed meanwhile");
            return Err((request, error));
        };
        let holding = match self.take_share(session, request.bytes(), work) {
            Ok(holding) => holding,
            Err(details) => return Err((request, Error::new(tag::RESOURCES, details))),
        };
        let Request { asker: Asker::Client { session, ticket }, operations, created } = request
        else {
            return Ok(());
        };
        let number = number.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let deadline = timeout_ms.map(|ms| created.plus_ms(ms));
        self.by_request.insert((session.id, ticket.clone()), number);
        self.by_table.insert((interest.table, number));
        self.deadlines.extend(deadline.map(|deadline| (deadline, number)));
        let parked = Parked {
            session,
            ticket,
            operations,
            created,
            deadline,
            interest,
            work,
            _holding: holding,
            _watched: watched,
        };
        self.parked.insert(number, parked);
        Ok(())
    }

    /// Counts one more transaction that takes `work` steps to try; the reason, if it is one too many.
    fn take_share(
        &mut self,
        session: &Session,
        bytes: usize,
        work: u64,
    ) -> Result<Holding, &'static str> {
        let too_many = |full| match full {
            Full::Connection => "this connection holds too many waiting transactions",
            Full::Peer => "the connections of this client hold too many waiting transactions",
            Full::All => "too many transactions wait on this database",
        };
        let holder = Holder::of(session);
        self.counts.take(holder, 1).map_err(too_many)?;
        if let Err(full) = self.steps.take(holder, work) {
            self.counts.give_back(holder, 1);
            return Err(match full {
                Full::All => "the transactions that wait on this database look at too many rows",
                _ => "the waiting transactions of this client look at too many rows",
            });
        }
        session.hold(bytes).map_err(|full| {
            self.give_back_share(session, work);
            match full {
                Full::All => {
                    "waiting transactions and monitors of all clients take too much memory"
                }
                other => too_many(other),
            }
        })
    }

    fn give_back_share(&mut self, session: &Session, work: u64) {
        let holder = Holder::of(session);
        self.counts.give_back(holder, 1);
        self.steps.give_back(holder, work);
    }

    /// Removes a parked transaction, to be tried again or dropped.
    pub(super) fn take(&mut self, number: u64) -> Option<Request> {
        let Parked { session, ticket, operations, created, deadline, interest, work, .. } =
            self.parked.remove(&number)?;
        self.give_back_share(&session, work);
        self.by_request.remove(&(session.id, ticket.clone()));
        self.by_table.remove(&(interest.table, number));
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, number));
        }
        Some(Request { asker: Asker::Client { session, ticket }, operations, created })
    }

    /// The number of the transaction that a client sent under this ticket.
    pub(super) fn find(&self, session: SessionId, ticket: &Ticket) -> Option<u64> {
        self.by_request.get(&(session, ticket.clone())).copied()
    }

    /// The parked transactions of one client.
    pub(super) fn of_session(&self, session: SessionId) -> Vec<u64> {
        let first: Ticket = Arc::from(&[][..]);
        self.by_request
            .range((session, first)..)
            .take_while(|((id, _), _)| *id == session)
            .map(|(_, number)| *number)
            .collect()
    }

    /// The parked transactions that `changes` can affect, in order of arrival.
    pub(super) fn touched_by(&self, changes: &Changes) -> Vec<u64> {
        if self.parked.is_empty() {
            return Vec::new();
        }
        let mut numbers: Vec<u64> = Vec::new();
        for rows in changes.by_table() {
            let Some(table) = rows.first().map(|change| change.table) else { continue };
            let looking = self.by_table.range((table, 0)..=(table, u64::MAX));
            let touched = looking.map(|(_, number)| *number).filter(|number| {
                let parked = self.parked.get(number);
                parked.is_some_and(|parked| parked.interest.touched_by(rows, parked.work))
            });
            numbers.extend(touched);
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// All parked transactions, in order of arrival.
    pub(super) fn all(&self) -> Vec<u64> {
        self.parked.keys().copied().collect()
    }

    /// The earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The parked transactions that have timed out.
    pub(super) fn due(&self, now: Time) -> Vec<u64> {
        self.deadlines.range(..=(now, u64::MAX)).map(|(_, number)| *number).collect()
    }
}
