//! Conversion of a database in service to another schema.
//!
//! While it runs, requests on this database are deferred; other databases are not affected. When everything
//! before it is published, the content is converted and the journal replaced on a thread that may block. Then
//! the head is swapped, parked transactions and monitors are cancelled, and the deferred requests run.

use super::asker::Asker;
use super::compact::{Turn, replace};
use super::queue::{Answer, Entry, Step, Work};
use super::waits::Request;
use super::watch::{MonitorShare, WatchRequest, changed_monitor};
use super::{Head, Hosted, lock};
use crate::budget::Part;
use crate::outbox::{Outgoing, Reply, Ticket};
use crate::session::Session;
use paceline_journal::{Log, RewriteError};
use paceline_tables::json::Json;
use paceline_tables::schema::Schema;
use paceline_tables::{Database, Error, convert, tag};
use paceline_types::Role;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// A request that arrived during a conversion. A client's request counts as a waiting one until this is
/// dropped.
pub(super) struct Deferred {
    asked: DeferredCall,
    charge: Option<Charge>,
}

/// What a client asked for.
pub(super) enum DeferredCall {
    Transact(Request),
    /// With its share of the monitors.
    Watch(WatchRequest, MonitorShare),
    Rewatch(Ticket, (Ticket, Ticket), Json),
    Unwatch(Ticket, Ticket),
    Convert(Conversion),
}

/// What a deferred request counts for: towards its connection, which is read no further above a bound, and
/// towards the budget of its peer.
struct Charge {
    session: Arc<Session>,
    bytes: usize,
    _part: Part,
}

/// A conversion that a client asked for.
pub(super) struct Conversion {
    schema: Schema,
    /// The size of the schema as it was received.
    bytes: usize,
    answer: Answer,
    converted: Converted,
}

/// What else is done when a conversion succeeded.
pub struct Converted {
    /// Called before the client that asked for it is answered.
    pub announce: Box<dyn FnOnce() + Send>,
    /// The clients that do not follow such changes, picked before that answer and disconnected after it. A client that
    /// connects after the answer is not among them.
    pub unaware: Box<dyn FnOnce() -> Vec<Arc<Session>> + Send>,
}

impl Deferred {
    pub(super) fn new(session: &Arc<Session>, asked: DeferredCall) -> Self {
        let bytes = asked.bytes();
        session.charge(bytes);
        let mut part = session.outbox.budget().part();
        part.set(bytes);
        let charge = Charge { session: session.clone(), bytes, _part: part };
        Self { asked, charge: Some(charge) }
    }

    pub(super) fn transaction(request: Request) -> Self {
        match request.asker.session().cloned() {
            Some(session) => Self::new(&session, DeferredCall::Transact(request)),
            None => Self { asked: DeferredCall::Transact(request), charge: None },
        }
    }

    fn is_of(&self, session: &Session) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.session.id == session.id)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.session.discharge(self.bytes);
    }
}

impl DeferredCall {
    /// Bytes of memory that this holds.
    fn bytes(&self) -> usize {
        const ASKED: usize = 256;
        match self {
            Self::Transact(request) => request.bytes(),
            Self::Watch(WatchRequest { ticket, id, requests, .. }, _) => {
                ASKED + ticket.len() + id.len() + requests.memory()
            }
            Self::Rewatch(ticket, (old_id, new_id), conditions) => {
                ASKED + ticket.len() + old_id.len() + new_id.len() + conditions.memory()
            }
            Self::Unwatch(ticket, id) => ASKED + ticket.len() + id.len(),
            Self::Convert(conversion) => ASKED + conversion.answer.to.bytes() + conversion.bytes,
        }
    }
}

impl Head {
    /// Removes a transaction that is deferred during a conversion.
    pub(super) fn take_held(&mut self, session: &Session, ticket: &Ticket) -> Option<Request> {
        let held = self.converting.as_mut()?;
        let at = held.iter().position(|held| match &held.asked {
            DeferredCall::Transact(request) => request.asker.is(session, ticket),
            _ => false,
        })?;
        match held.remove(at)?.asked {
            DeferredCall::Transact(request) => Some(request),
            _ => None,
        }
    }
}

impl Hosted {
    /// Begins a conversion to the schema in `json`; the reply is left in the client's outbox. The caller
    /// reports an error to the client.
    pub fn convert(
        self: &Arc<Self>,
        session: &Arc<Session>,
        ticket: Ticket,
        json: &Json,
        converted: Converted,
    ) -> Result<(), Error> {
        let refused = |reason: String| Err(Error::new(tag::NOT_ALLOWED, reason));
        let name = &self.name;
        self.access.check(session, Role::Admin, || format!("convert {name}"))?;
        if self.policy.read_only || session.read_only {
            return refused(format!("conversion is not allowed for read-only database {name}"));
        }
        if !self.maintained.is_empty() || name.starts_with('_') {
            return refused(format!("the schema of database {name} is the server's own"));
        }
        let schema = Schema::parse(json)?;
        if *schema.name != **name {
            let new = &schema.name;
            let details = format!("new schema name ({new}) does not match database name ({name})");
            return Err(Error::new("invalid parameters", details));
        }
        let to = Asker::Client { session: session.clone(), ticket };
        let answer = Answer { to, reply: Reply::Text(b"{}".to_vec()) };
        let conversion = Conversion { schema, bytes: json.memory(), answer, converted };
        let mut head = self.head();
        match &mut head.converting {
            Some(held) => held.push_back(Deferred::new(session, DeferredCall::Convert(conversion))),
            None => self.begin_conversion(&mut head, conversion),
        }
        Ok(())
    }

    /// Whether a deferred request gives a monitor of this client the id `id`.
    pub fn holds_monitor(&self, session: &Session, id: &Ticket) -> bool {
        let head = self.head();
        head.converting.iter().flatten().any(|held| match &held.asked {
            DeferredCall::Watch(request, _) => held.is_of(session) && request.id == *id,
            DeferredCall::Rewatch(_, (_, new_id), _) => held.is_of(session) && new_id == id,
            _ => false,
        })
    }

    pub(super) fn begin_conversion(self: &Arc<Self>, head: &mut Head, conversion: Conversion) {
        head.converting.get_or_insert_default();
        // A compaction and a conversion both replace the file, so one waits for the other.
        let Some(turn) = Turn::take(self) else {
            head.next_conversion = Some(conversion);
            return;
        };
        let Conversion { schema, answer, converted, .. } = conversion;
        let rows = head.database.snapshot();
        let this = self.clone();
        let work = move |log: Result<Option<&mut dyn Log>, &Error>| {
            let outcome = log.map_err(Clone::clone).and_then(|log| {
                let database = convert(&rows, Arc::new(schema), this.clock.uuid_source())?;
                if let Some(log) = log {
                    let rows = database.snapshot();
                    let replaced = replace(&rows, &[], "converted by paceline", log);
                    replaced.map_err(|error| {
                        let tag = match error {
                            RewriteError::Full(_) => tag::RESOURCES,
                            _ => tag::IO,
                        };
                        let error = Error::new(tag, error.to_string());
                        if log.broken().is_some() {
                            // The converted file may have the name already. The old content, which stays in
                            // service, must replace it before anything else is written.
                            this.note_broken(&error);
                            this.repair_later();
                        }
                        error
                    })?;
                }
                Ok(database)
            });
            this.end_conversion(outcome, answer, converted);
            drop(turn);
        };
        if self.is_journaled {
            let work: Work = Box::new(move |log| work(log.map(Some)));
            head.push(Entry::Step(Step { blocks: true, work }));
        } else {
            self.tasks.spawn_blocking(move || work(Ok(None)));
        }
    }

    fn end_conversion(
        self: &Arc<Self>,
        outcome: Result<Database, Error>,
        answer: Answer,
        converted: Converted,
    ) {
        let mut wakers = Vec::new();
        let mut unaware = Vec::new();
        let reply = match outcome {
            Ok(database) => {
                let mut head = self.head();
                *lock(&self.schema) = database.schema().clone();
                head.database = database;
                head.broken = None;
                for number in head.waits.all() {
                    // Clients that do not follow such changes are disconnected instead.
                    let request = head.waits.take(number);
                    let is_aware = |one: &Request| {
                        one.asker.session().is_some_and(|session| session.is_change_aware())
                    };
                    if let Some(request) = request.filter(is_aware) {
                        wakers.extend(request.asker.leave(Reply::Word("canceled")));
                    }
                }
                drop(head);
                let epoch = self.clock.uuid_source().next_u64();
                self.with_watchers(|watchers| watchers.cancel_all(epoch, &mut wakers));
                (converted.announce)();
                unaware = (converted.unaware)();
                answer.reply
            }
            Err(error) => Reply::Failed(error),
        };
        wakers.extend(answer.to.leave(reply));
        wakers.into_iter().for_each(Waker::wake);
        for session in unaware {
            session.outbox.finish("a database was converted and it does not follow such changes");
        }
        self.run_held();
        // Deferred entries are published even if no further call follows. If this thread is the committer, it
        // finds the entries by itself.
        self.flush();
    }

    /// Runs the requests that were deferred during a conversion, in order, up to the next conversion among
    /// them. Requests of clients that have left are dropped.
    fn run_held(self: &Arc<Self>) {
        let mut head = self.head();
        while let Some(held) = head.converting.as_mut().and_then(VecDeque::pop_front) {
            // The charge is kept until what the request leads to is charged.
            let Deferred { asked, charge } = held;
            let asked = match asked {
                DeferredCall::Convert(conversion) => {
                    return self.begin_conversion(&mut head, conversion);
                }
                DeferredCall::Transact(request) if request.asker.is_gone() => continue,
                DeferredCall::Transact(request) => {
                    self.begin(&mut head, request);
                    continue;
                }
                other => other,
            };
            let Some(Charge { session, .. }) = &charge else { continue };
            if session.outbox.closed().is_some() {
                continue;
            }
            let (ticket, begun) = match asked {
                DeferredCall::Convert(_) | DeferredCall::Transact(_) => continue,
                DeferredCall::Unwatch(ticket, id) => {
                    if session.monitor(&id).is_some() {
                        head.begin_unwatch(session.clone(), ticket, id);
                    } else {
                        let unknown = Outgoing::Reply(ticket, Reply::Word("unknown monitor"));
                        session.outbox.push(unknown);
                    }
                    continue;
                }
                DeferredCall::Watch(request, place) => {
                    let ticket = request.ticket.clone();
                    let monitor = request.parse(head.database.schema());
                    let begun = monitor
                        .and_then(|m| self.begin_watch(&mut head, session, request, (m, place)));
                    (ticket, begun)
                }
                DeferredCall::Rewatch(ticket, ids, conditions) => {
                    let changed =
                        changed_monitor(session, &ids.0, &conditions, head.database.schema());
                    let begun = changed.and_then(|monitors| {
                        self.begin_rewatch(&mut head, session, ticket.clone(), ids, monitors)
                    });
                    (ticket, begun)
                }
            };
            if let Err(error) = begun {
                session.outbox.push(Outgoing::Reply(ticket, Reply::Failed(error)));
            }
        }
        head.converting = None;
    }
}
