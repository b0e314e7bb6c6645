//! One database in service: its head, its queue to the disk, and its monitors.
//!
//! A transaction runs against the head under the head's lock and is left in the queue. The committer writes and
//! publishes it (`commit.rs`). Reads are answered at once if the queue is empty. The locks are taken in this order,
//! never the other way: writer, head, then watchers, locks, outboxes. Only the writer's lock is held while waiting for
//! the disk, and no thread waits for the writer's lock.

mod allowed;
mod asker;
mod attempt;
mod commit;
mod compact;
mod convert;
mod copy;
mod edit;
mod figures;
mod gate;
mod kept;
pub(crate) mod lane;
mod load;
mod maintain;
mod missed;
mod open;
mod pins;
mod queue;
mod readers;
mod restore;
pub(crate) mod shares;
mod tellers;
mod troubles;
mod waits;
mod watch;
mod watchers;

pub use compact::replace;
pub use convert::Converted;
pub use edit::Author;
pub(crate) use kept::{Claims, follow_all, followed, renamed_places};
pub(crate) use load::load_with;
pub use load::{Loaded, SoundPart, load_file, load_sound_part};
pub(crate) use maintain::OwnRow;
pub(crate) use open::Storage;
pub use open::{OpenDatabaseError, create_file};
pub(crate) use pins::SELECTED_ROWS_MIN;
pub use restore::{Restored, restore};
pub(crate) use watch::MonitorShare;
pub use watch::WatchRequest;

use crate::Policy;
use crate::access::Access;
use crate::clock::Clock;
use crate::control::Planner;
use crate::kept::Keeper;
use crate::locking::Locking;
use crate::outbox::{Outgoing, Reply, Ticket};
use crate::session::Session;
use crate::tasks::Tasks;
use asker::Asker;
use paceline_journal::Log;
use paceline_locks::SessionId;
use paceline_tables::json::Json;
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Database, Error, Estimate, Interest, OpResult, Transaction, tag};
use paceline_types::limits::READ_AT_ONCE_STEPS_MAX;
use paceline_types::{Role, Span};
use queue::{Answer, Entry};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use waits::{Request, Waits};
use watchers::Watchers;

/// A database that clients can use.
pub struct Hosted {
    /// Its name.
    pub name: String,
    head: Mutex<Head>,
    /// Where clients wait that find the head taken.
    gate: gate::Gate,
    /// The schema of the head, readable without its lock.
    schema: Mutex<Arc<Schema>>,
    /// The text of a schema, made when a client first asks for it.
    schema_text: Mutex<Option<SchemaText>>,
    writer: Mutex<Option<Box<dyn Log>>>,
    watchers: Mutex<Watchers>,
    /// Clients that have left. The next thread that locks the watchers removes them there.
    departed: Mutex<Vec<SessionId>>,
    /// How many monitors each client has, including monitors that are not in `watchers` yet.
    monitors: Mutex<shares::Shares>,
    /// How many steps the conditions of these take beyond the usual, for every row that changes.
    condition_steps: Mutex<shares::Shares>,
    locking: Arc<Locking>,
    access: Arc<Access>,
    clock: Clock,
    tasks: Tasks,
    /// Woken when an earlier deadline was set.
    rearm: Notify,
    is_journaled: bool,
    /// Whether the journal is being rewritten.
    compacting: AtomicBool,
    /// How often the journal's file failed so that it could not be trusted any more.
    failures: AtomicU64,
    /// When failures are logged.
    troubles: troubles::Troubles,
    /// Whether the replacement of a broken file is due.
    repairing: AtomicBool,
    /// A rewrite that failed is not retried automatically before this time.
    retry_at: AtomicU64,
    /// Small writes are left to a thread that may block until this time, because one was slow; 0 for never.
    slow_until: AtomicU64,
    policy: Policy,
    /// Tables that only the server changes.
    maintained: Vec<TableId>,
    /// Tables whose rows live in memory only.
    unjournaled: Vec<TableId>,
    /// The table that shows the locks, if this database has it.
    lock_table: Option<TableId>,
    /// The tables that not every viewer may read, with the least role that may.
    hidden: Vec<(&'static str, Role)>,
    /// Plans the effects of changes on the engine, if this is the database that configures it.
    planner: OnceLock<Planner>,
    /// Provides the rows of what clients hold, if this is the database that keeps them.
    keeper: OnceLock<Weak<Keeper>>,
    /// Reads that take long.
    readers: lane::Lane<readers::Read>,
    /// Updates that take long to make.
    tellers: tellers::Tellers,
    /// When figures were last updated; 0 for never.
    figures_shown: AtomicU64,
    /// Whether a task updates them every second; changed with the watchers locked.
    figures_followed: AtomicBool,
}

/// A schema and its JSON.
type SchemaText = (Arc<Schema>, Arc<[u8]>);

/// What a transaction sees and changes.
struct Head {
    database: Database,
    /// The approximate number of steps that all transactions took.
    steps: u64,
    queue: VecDeque<Entry>,
    /// Whether a thread has the committer's role.
    committing: bool,
    waits: Waits,
    /// Snapshots that wait for clients.
    pins: pins::Pins,
    /// Why the journal's file can no longer be written.
    broken: Option<Error>,
    /// Requests that wait for a conversion to end.
    converting: Option<VecDeque<convert::Deferred>>,
    /// A conversion that waits for a compaction to end.
    next_conversion: Option<convert::Conversion>,
}

/// The least role that may change anything; many changes need more.
const CHANGES_NEED: Role = Role::Operator;

/// How long one client's transactions keep the head before others get their turn.
const TURN_MAX: Span = Span::from_ms(5);

/// Long enough for a thread that waits for a lock to wake up and take it.
pub(crate) const LET_IN: Duration = Duration::from_micros(100);

/// Does long work where it keeps no task of the runtime waiting.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    crate::sync::lock(mutex)
}

impl Hosted {
    /// Locks the head. A transaction may hold it for long, so a task of the runtime waits for it aside, unless
    /// it becomes free in a moment.
    fn head(&self) -> MutexGuard<'_, Head> {
        crate::sync::try_briefly(&self.head).unwrap_or_else(|| aside(|| lock(&self.head)))
    }

    /// The same for a client: if the head is taken, users and addresses take turns.
    fn head_for(&self, asker: Option<&Asker>) -> MutexGuard<'_, Head> {
        let wait = || match asker.and_then(Asker::session).and_then(|session| session.peer()) {
            Some(peer) => self.gate.pass(peer, || lock(&self.head)),
            None => lock(&self.head),
        };
        crate::sync::try_briefly(&self.head).unwrap_or_else(|| aside(wait))
    }

    fn writer(&self) -> MutexGuard<'_, Option<Box<dyn Log>>> {
        lock(&self.writer)
    }

    #[cfg(test)]
    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        lock(&self.watchers)
    }

    fn with_watchers<T>(&self, work: impl FnOnce(&mut Watchers) -> T) -> T {
        let done = work(&mut lock(&self.watchers));
        self.forget_departed();
        done
    }

    /// Removes clients that have left from the watchers. If another thread has the watchers locked, that thread
    /// removes them.
    fn forget_departed(&self) {
        while !lock(&self.departed).is_empty() {
            let Some(mut watchers) = crate::sync::try_lock(&self.watchers) else { return };
            let departed = std::mem::take(&mut *lock(&self.departed));
            departed.into_iter().for_each(|session| watchers.remove_session(session));
        }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        lock(&self.schema).clone()
    }

    /// The schema as JSON. The text is made once and sent to all clients.
    #[must_use]
    pub fn schema_text(&self) -> Arc<[u8]> {
        let schema = self.schema();
        let mut made = lock(&self.schema_text);
        if let Some((of, text)) = &*made
            && Arc::ptr_eq(of, &schema)
        {
            return Arc::clone(text);
        }
        let mut text = Vec::new();
        schema.to_json().write(&mut text);
        let (_, text) = made.insert((schema, text.into()));
        Arc::clone(text)
    }

    /// Runs transactions of a client, one after the other under one lock of the head. Their replies are left in
    /// the client's outbox, at once or when they are written. Call [`Hosted::flush`] after this.
    pub fn transact<T: Into<Transaction>>(
        self: &Arc<Self>,
        session: &Arc<Session>,
        transactions: impl IntoIterator<Item = (Ticket, T)>,
    ) {
        self.run_all(transactions.into_iter().map(|(ticket, transaction)| {
            (Asker::Client { session: session.clone(), ticket }, transaction.into())
        }));
    }

    /// Runs transactions of one client or caller, one after the other under one lock of the head.
    fn run_all(self: &Arc<Self>, transactions: impl Iterator<Item = (Asker, Transaction)>) {
        // Scanning all operations of a long message takes a while, and so does freeing them. They are scanned
        // before the head is locked, and freed after it is unlocked.
        let glanced = transactions.map(|(asker, operations)| {
            let glance = self.glance(asker.who(), &operations);
            (asker, Arc::new(operations), glance)
        });
        let transactions: Vec<_> = glanced.collect();
        if let Some((_, operations, _)) = transactions.first() {
            self.show_figures_to(operations);
        }
        let mut head = self.head_for(transactions.first().map(|(asker, ..)| asker));
        let created = self.clock.now();
        let mut turn_ends = (head.steps + READ_AT_ONCE_STEPS_MAX, created.plus(TURN_MAX));
        for (at, (asker, operations, glance)) in transactions.iter().enumerate() {
            if asker.is_gone() {
                // The client would not read the answers.
                return;
            }
            // A long transaction runs after those that wait already.
            let is_long = || {
                let Estimate { work, only_reads, .. } =
                    Estimate::of(&**operations, head.database.store());
                work > READ_AT_ONCE_STEPS_MAX && !only_reads
            };
            if (at > 0 && is_long()) || head.steps > turn_ends.0 || self.clock.now() > turn_ends.1 {
                // Other threads that wait for the head get their turn between two long transactions. A lock
                // that is released and taken again at once would not let them in.
                drop(head);
                aside(|| std::thread::sleep(LET_IN));
                head = self.head_for(Some(asker));
                let until = self.clock.now().plus(TURN_MAX);
                turn_ends = (head.steps + READ_AT_ONCE_STEPS_MAX, until);
            }
            if glance.looks_at_locks {
                drop(head);
                self.show_locks();
                head = self.head_for(Some(asker));
            }
            let (asker, operations) = (asker.clone(), Arc::clone(operations));
            if let Err(results) = self.check_transact(asker.who(), glance) {
                head.answer(Answer { to: asker, reply: Reply::Results(results) }, false, None);
                continue;
            }
            self.accept(&mut head, Request { asker, operations, created });
        }
    }

    fn accept(self: &Arc<Self>, head: &mut Head, request: Request) {
        if let Some(held) = &mut head.converting {
            held.push_back(convert::Deferred::transaction(request));
            return;
        }
        self.begin(head, request);
    }

    /// Runs a new request, unless another request of its client waits under the same id.
    fn begin(self: &Arc<Self>, head: &mut Head, request: Request) {
        if let Asker::Client { session, ticket } = &request.asker
            && head.waits.find(session.id, ticket).is_some()
        {
            let name = Json::string(self.name.clone());
            let operations = request.operations.written().unwrap_or_default();
            let params = std::iter::once(&name).chain(operations);
            let details = "transact: duplicate request ID";
            let error = Error::quoting_array(tag::SYNTAX, params, details);
            request.asker.answer(Reply::Failed(error));
            return;
        }
        self.run(head, request, None);
    }

    /// Runs `request` and the parked transactions that its changes let through.
    fn run(self: &Arc<Self>, head: &mut Head, request: Request, number: Option<u64>) {
        let mut again: VecDeque<u64> = self.attempt(head, request, number).into();
        while let Some(number) = again.pop_front() {
            if let Some(request) = head.waits.take(number) {
                let woken = self.attempt(head, request, Some(number));
                again.extend(woken);
            }
        }
    }

    fn park(
        &self,
        head: &mut Head,
        request: Request,
        number: Option<u64>,
        timeout_ms: Option<u64>,
        looks: (Interest, u64),
    ) {
        // A client that has left gets no answer, and nothing would remove its transaction.
        if request.asker.is_gone() {
            return;
        }
        let watched = (self.lock_table == Some(looks.0.table)).then(|| self.locking.watch());
        let earliest = head.waits.next_deadline();
        let parked = head.waits.park(number, request, timeout_ms, looks, watched);
        if let Err((request, error)) = parked {
            request.asker.answer(Reply::Results(vec![OpResult::Error(error)]));
        }
        if head.waits.next_deadline() != earliest {
            self.rearm.notify_one();
        }
    }

    /// Sends an answer that does not depend on this database, after the answers that wait here.
    pub fn answer(&self, session: &Arc<Session>, ticket: Ticket, reply: Reply) {
        let to = Asker::Client { session: session.clone(), ticket };
        self.head().answer(Answer { to, reply }, false, None);
    }

    /// Cancels a transaction that is parked, or deferred during a conversion; false if there is none under this
    /// ticket.
    pub fn cancel(&self, session: &Session, ticket: &Ticket) -> bool {
        let mut head = self.head();
        let parked = head.waits.find(session.id, ticket);
        let taken = match parked {
            Some(number) => head.waits.take(number),
            None => head.take_held(session, ticket),
        };
        if taken.is_none() {
            return false;
        }
        session.outbox.push(Outgoing::Reply(ticket.clone(), Reply::Word("canceled")));
        true
    }

    /// Writes the queue and syncs the journal, at shutdown.
    pub(crate) fn close(self: &Arc<Self>) {
        self.flush_blocking();
        self.wait_for_committer();
        if let Some(log) = self.writer().as_mut().filter(|_| !self.policy.read_only) {
            self.repair_now(&mut **log);
            if let Err(error) = log.sync() {
                tracing::error!(database = %self.name, %error, "cannot sync the journal");
            }
        }
    }

    /// Drops the waits and monitors of a client that left.
    pub(crate) fn end_session(&self, session: &Session) {
        let mut head = self.head();
        for number in head.waits.of_session(session.id) {
            head.waits.take(number);
        }
        drop(head);
        // This must not wait while another thread sends updates.
        lock(&self.departed).push(session.id);
        self.forget_departed();
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

    /// Ends parked transactions that time out, for as long as the host lives.
    pub(crate) async fn run_timer(self: Arc<Self>) {
        loop {
            let deadline = self.head().waits.next_deadline();
            let rearmed = self.rearm.notified();
            match deadline {
                None => rearmed.await,
                Some(deadline) => {
                    let up = self.clock.timeout_at(deadline, rearmed).await.is_none();
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
    /// Leaves an entry for the committer, and charges it to its client.
    fn push(&mut self, entry: Entry) {
        if let Some((session, bytes)) = entry.charge() {
            session.charge(bytes);
        }
        self.queue.push_back(entry);
    }

    /// Sends an answer: at once if no entry is ahead of it. `again` is run once more if an entry ahead of it is
    /// undone.
    fn answer(&mut self, answer: Answer, sync: bool, again: Option<Request>) {
        if self.queue.is_empty() && !self.committing && !sync {
            answer.to.answer(answer.reply);
        } else {
            self.push(Entry::Answer { answer, sync, again });
        }
    }
}

#[cfg(test)]
mod tests;
