//! One database in service: its head, its queue to the disk, and who watches it.
//!
//! A transaction is run against the head under its lock and left in the queue; the committer writes
//! and publishes it (`commit.rs`). Reads that find nothing in the queue are answered at once. The
//! locks are taken in this order, never the other way: writer, head, then watchers, locks, outboxes.
//! No lock but the writer's is held while the disk is waited for, and nobody waits for the writer's.

mod commit;
mod compact;
mod convert;
mod copy;
mod edit;
mod figures;
mod follow;
mod load;
mod maintain;
mod open;
mod queue;
mod waits;
mod watch;
mod watchers;

pub use compact::replace;
pub use convert::Converted;
pub use edit::Author;
pub use load::{Loaded, load_file};
pub(crate) use maintain::{OnlyIf, OwnRow};
pub(crate) use open::Storage;
pub use open::{OpenDatabaseError, create_file};
pub use watch::WatchRequest;

use crate::Policy;
use crate::access::Access;
use crate::clock::Clock;
use crate::control::{Consequence, Planner};
use crate::locking::Locking;
use crate::outbox::{Outgoing, Reply, Ticket};
use crate::session::Session;
use paceline_journal::Log;
use paceline_tables::json::Json;
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Changes, Context, Database, Error, OpResult, Outcome, tag};
use paceline_types::Role;
use queue::{Answer, Commit, Entry};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use waits::{Request, Waits};
use watchers::Watchers;

/// A database that clients can use.
pub struct Hosted {
    /// Its name.
    pub name: String,
    head: Mutex<Head>,
    /// The schema of the head, for those who want nothing else of it.
    schema: Mutex<Arc<Schema>>,
    writer: Mutex<Option<Box<dyn Log>>>,
    watchers: Mutex<Watchers>,
    locking: Arc<Locking>,
    access: Arc<Access>,
    clock: Clock,
    runtime: Handle,
    /// Woken when an earlier deadline came.
    rearm: Notify,
    is_journaled: bool,
    /// Whether the journal is being rewritten.
    compacting: AtomicBool,
    /// How often the journal's file failed so that it could not be trusted any more.
    failures: AtomicU64,
    /// Whether the replacement of a broken file is due.
    repairing: AtomicBool,
    /// Before this time a rewrite that failed is not tried again by itself.
    retry_at: AtomicU64,
    policy: Policy,
    /// Tables that only the server changes.
    maintained: Vec<TableId>,
    /// Tables whose rows live in memory only.
    unjournaled: Vec<TableId>,
    /// The table that shows the locks, if this database has it.
    lock_table: Option<TableId>,
    /// The table that only an admin may read, if this database has it.
    hidden: Option<&'static str>,
    /// Plans what changes mean to the engine, if this is the database that configures it.
    planner: OnceLock<Planner>,
    /// When figures were last brought up to date; 0 for never.
    figures_shown: AtomicU64,
    /// Whether a task brings them up to date every second.
    figures_watched: AtomicBool,
}

/// What a transaction sees and changes.
struct Head {
    database: Database,
    queue: VecDeque<Entry>,
    /// Whether somebody has the committer's role.
    committing: bool,
    waits: Waits,
    /// Why the journal's file can no longer be written.
    broken: Option<Error>,
    /// Requests that wait for a conversion to end.
    converting: Option<VecDeque<convert::Held>>,
    /// A conversion that waits for a compaction to end.
    next_conversion: Option<convert::Conversion>,
}

/// The tables that operations name.
fn tables_of(operations: &[Json]) -> impl Iterator<Item = &str> {
    operations.iter().filter_map(|operation| operation.as_object()?.get("table")?.as_str())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hosted {
    fn head(&self) -> MutexGuard<'_, Head> {
        lock(&self.head)
    }

    fn writer(&self) -> MutexGuard<'_, Option<Box<dyn Log>>> {
        lock(&self.writer)
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        lock(&self.watchers)
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        lock(&self.schema).clone()
    }

    /// Runs transactions of a client, one after the other under one lock of the head. Their replies
    /// are left in the client's outbox, at once or when they are written; call [`Hosted::flush`]
    /// after this.
    pub fn transact(
        self: &Arc<Self>,
        session: &Arc<Session>,
        transactions: impl IntoIterator<Item = (Ticket, Vec<Json>)>,
    ) {
        self.show_locks();
        let mut transactions = transactions.into_iter().peekable();
        if let Some((_, operations)) = transactions.peek() {
            self.show_figures_to(operations);
        }
        let mut head = self.head();
        let created = self.clock.now();
        for (ticket, operations) in transactions {
            if let Err(error) = self.check_read(session, "transact", tables_of(&operations)) {
                let reply = Reply::Results(vec![OpResult::Error(error)]);
                head.answer(Answer { session: session.clone(), ticket, reply }, false, None);
                continue;
            }
            let request = Request { session: session.clone(), ticket, operations, created };
            self.accept(&mut head, request);
        }
    }

    fn accept(self: &Arc<Self>, head: &mut Head, request: Request) {
        if let Some(held) = &mut head.converting {
            request.session.charge(request.bytes());
            held.push_back(convert::Held::Transact(request));
            return;
        }
        if head.waits.find(request.session.id, &request.ticket).is_some() {
            let name = std::iter::once(Json::string(self.name.clone()));
            let params = Json::Array(name.chain(request.operations).collect());
            let error = Error::syntax(&params, "transact: duplicate request ID");
            request.session.outbox.push(Outgoing::Reply(request.ticket, Reply::Failed(error)));
            return;
        }
        self.run(head, request, None);
    }

    /// Runs `request` and whatever parked transactions its changes let through.
    fn run(self: &Arc<Self>, head: &mut Head, request: Request, number: Option<u64>) {
        let mut again: VecDeque<u64> = self.attempt(head, request, number).into();
        while let Some(number) = again.pop_front() {
            if let Some(request) = head.waits.take(number) {
                let woken = self.attempt(head, request, Some(number));
                again.extend(woken);
            }
        }
    }

    /// Tries `request` against the head. Answers the parked transactions to be tried again.
    fn attempt(
        self: &Arc<Self>,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
    ) -> Vec<u64> {
        let owner = request.session.id;
        let context = Context {
            elapsed_ms: self.clock.now().ms_since(request.created),
            owns_lock: &|name| self.locking.owns(owner, name),
            read_only: self.policy.read_only || request.session.read_only,
            maintained: &self.maintained,
        };
        let done = match head.database.execute(&request.operations, &context) {
            Outcome::Done(done) => done,
            Outcome::Waiting { timeout_ms, tables } => {
                self.park(head, request, number, timeout_ms, tables);
                return Vec::new();
            }
        };
        let mut answer = Answer {
            session: request.session.clone(),
            ticket: request.ticket.clone(),
            reply: Reply::Results(done.results),
        };
        let Some(changes) = done.changes else {
            head.answer(answer, done.durable, Some(request));
            return Vec::new();
        };
        if let Some(error) = head.broken.clone() {
            head.database.undo(&changes);
            if let Reply::Results(results) = &mut answer.reply {
                results.push(OpResult::Error(error));
            }
            head.answer(answer, false, None);
            // Every refused change is a reason to try again to replace the broken file.
            self.repair_later();
            return Vec::new();
        }
        let consequence = match self.judge(head, &request.session, &changes) {
            Ok(consequence) => consequence,
            Err(error) => {
                head.database.undo(&changes);
                if let Reply::Results(results) = &mut answer.reply {
                    results.push(OpResult::Error(error));
                }
                head.answer(answer, false, Some(request));
                return Vec::new();
            }
        };
        let woken = head.waits.touched_by(&changes);
        head.push(Entry::Commit(Commit {
            consequence,
            changes: Arc::clone(&changes),
            schema: head.database.schema().clone(),
            comment: done.comment,
            durable: done.durable || self.policy.durable,
            answer: Some(answer),
            done: None,
        }));
        self.follow_claims(head, &changes);
        woken
    }

    /// Whether a session may change the head like this, and what the changes lead to.
    fn judge(
        &self,
        head: &Head,
        session: &Session,
        changes: &Arc<Changes>,
    ) -> Result<Option<Consequence>, Error> {
        let Some(planner) = self.planner.get() else {
            let what = || format!("transact {}", self.name);
            return self.access.check(session, Role::Operator, what).map(|()| None);
        };
        let (need, what) = planner.least_role(changes);
        let checked = self.access.check(session, need, || what);
        checked.map_err(|error| planner.refusal(changes, error))?;
        planner.plan(&head.database, changes, &session.name)
    }

    /// That a session may look at these tables.
    fn check_read<'a>(
        &self,
        session: &Session,
        what: &str,
        mut tables: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        match self.hidden.filter(|hidden| tables.any(|table| table == *hidden)) {
            Some(hidden) => self.access.check(session, Role::Admin, || format!("{what} {hidden}")),
            None => self.access.check(session, Role::Viewer, || what.to_owned()),
        }
    }

    fn park(
        &self,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
        timeout_ms: Option<u64>,
        tables: Vec<TableId>,
    ) {
        // A client that has left is told nothing, and nobody would take its transaction away.
        if request.session.outbox.closed().is_some() {
            return;
        }
        if self.lock_table.is_some_and(|table| tables.contains(&table)) {
            self.locking.note_watched();
        }
        let earliest = head.waits.next_deadline();
        if let Err(request) = head.waits.park(number, request, timeout_ms, tables) {
            let error =
                Error::new(tag::RESOURCES, "this connection holds too many waiting transactions");
            let reply = Reply::Results(vec![OpResult::Error(error)]);
            request.session.outbox.push(Outgoing::Reply(request.ticket, reply));
        }
        if head.waits.next_deadline() != earliest {
            self.rearm.notify_one();
        }
    }

    /// Lets an answer that has nothing to do with this database leave behind those that wait here.
    pub fn answer(&self, session: &Arc<Session>, ticket: Ticket, reply: Reply) {
        let answer = Answer { session: session.clone(), ticket, reply };
        self.head().answer(answer, false, None);
    }

    /// Cancels a parked transaction; false if there is none under this ticket.
    pub fn cancel(&self, session: &Session, ticket: &Ticket) -> bool {
        let mut head = self.head();
        let Some(number) = head.waits.find(session.id, ticket) else { return false };
        head.waits.take(number);
        session.outbox.push(Outgoing::Reply(ticket.clone(), Reply::Word("canceled")));
        true
    }

    /// Writes what waits and syncs the journal, at the end of service.
    pub(crate) fn close(self: &Arc<Self>) {
        self.flush_blocking();
        if let Some(log) = self.writer().as_mut().filter(|_| !self.policy.read_only) {
            self.repair_now(&mut **log);
            if let Err(error) = log.sync() {
                tracing::error!(database = %self.name, %error, "cannot sync the journal");
            }
        }
    }

    /// Forgets what a client that left was waiting for and watching.
    pub(crate) fn end_session(&self, session: &Session) {
        let mut head = self.head();
        for number in head.waits.of_session(session.id) {
            head.waits.take(number);
        }
        drop(head);
        self.watchers().remove_session(session.id);
    }

    /// Tries every parked transaction again.
    fn retry_all(self: &Arc<Self>) {
        let mut head = self.head();
        let all = head.waits.all();
        self.retry(&mut head, all);
    }

    /// Tries these parked transactions again.
    fn retry(self: &Arc<Self>, head: &mut Head, numbers: Vec<u64>) {
        for number in numbers {
            if let Some(request) = head.waits.take(number) {
                self.run(head, request, Some(number));
            }
        }
    }

    /// Ends parked transactions whose time is up, for as long as the host lives.
    pub(crate) async fn run_timer(self: Arc<Self>) {
        loop {
            let deadline = self.head().waits.next_deadline();
            let rearmed = self.rearm.notified();
            match deadline {
                None => rearmed.await,
                Some(deadline) => {
                    let until = self.clock.instant(deadline);
                    let up = tokio::time::timeout_at(until.into(), rearmed).await.is_err();
                    if up {
                        self.expire();
                    }
                }
            }
        }
    }

    fn expire(self: &Arc<Self>) {
        {
            let mut head = self.head();
            let due = head.waits.due(self.clock.now());
            self.retry(&mut head, due);
        }
        self.flush();
    }
}

impl Head {
    /// Leaves an entry for the committer, at the expense of its client.
    fn push(&mut self, entry: Entry) {
        if let Some((session, bytes)) = entry.charge() {
            session.charge(bytes);
        }
        self.queue.push_back(entry);
    }

    /// Lets an answer leave: at once if nothing is in front of it. `again` is run once more if what
    /// is in front of it is undone.
    fn answer(&mut self, answer: Answer, sync: bool, again: Option<Request>) {
        if self.queue.is_empty() && !self.committing && !sync {
            answer.session.outbox.push(Outgoing::Reply(answer.ticket, answer.reply));
        } else {
            self.push(Entry::Answer { answer, sync, again });
        }
    }
}
