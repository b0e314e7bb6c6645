//! Conversion of a database in service to another schema.
//!
//! While it runs, requests on this database are held; others go on. When everything before it is
//! published, the content is converted and the journal replaced on a thread that may block; then
//! the head is swapped, parked transactions and monitors are cancelled, and held requests run.

use super::compact::replace;
use super::queue::{Answer, Entry, Step, Work};
use super::waits::Request;
use super::watch::WatchRequest;
use super::Hosted;
use crate::clock::uuid_source;
use crate::outbox::{Outgoing, Reply, Ticket};
use crate::session::Session;
use paceline_journal::Log;
use paceline_tables::json::Json;
use paceline_tables::schema::Schema;
use paceline_tables::{Database, Error, convert, tag};
use std::sync::Arc;

/// A request that came during a conversion.
pub(super) enum Held {
    Transact(Request),
    Watch(Arc<Session>, WatchRequest),
}

/// Called when a conversion succeeded, before held requests run.
pub type Converted = Box<dyn FnOnce(&Arc<Hosted>) + Send>;

impl Hosted {
    /// Begins a conversion to the schema in `json`; the reply is left in the client's outbox. An
    /// error is to be answered by the caller.
    pub fn convert(
        self: &Arc<Self>,
        session: &Arc<Session>,
        ticket: Ticket,
        json: &Json,
        converted: Converted,
    ) -> Result<(), Error> {
        let refused = |reason: String| Err(Error::new(tag::NOT_ALLOWED, reason));
        if self.read_only || session.read_only {
            return refused(format!("conversion is not allowed for read-only database {}", self.name));
        }
        if !self.maintained.is_empty() || self.name.starts_with('_') {
            return refused(format!("the schema of database {} is the server's own", self.name));
        }
        let schema = Schema::parse(json)?;
        if *schema.name != *self.name {
            let details = format!(
                "new schema name ({}) does not match database name ({})",
                schema.name, self.name
            );
            return Err(Error::new("invalid parameters", details));
        }
        let mut head = self.head();
        if head.converting.is_some() {
            return refused(format!("database {} is being converted already", self.name));
        }
        let rows = head.database.snapshot();
        let answer = Answer { session: session.clone(), ticket, reply: Reply::Text(b"{}".to_vec()) };
        let this = self.clone();
        let work = move |log: Result<Option<&mut dyn Log>, &Error>| {
            let outcome = log.map_err(Clone::clone).and_then(|log| {
                let database = convert(&rows, Arc::new(schema), uuid_source())?;
                if let Some(log) = log {
                    replace(&database.snapshot(), log)
                        .map_err(|error| Error::new(tag::IO, error.to_string()))?;
                }
                Ok(database)
            });
            this.end_conversion(outcome, answer, converted);
        };
        head.converting = Some(Vec::new());
        if self.is_journaled {
            let work: Work = Box::new(move |log| work(log.map(Some)));
            head.queue.push_back(Entry::Step(Step { blocks: true, work }));
        } else {
            drop(head);
            self.runtime.spawn_blocking(move || work(Ok(None)));
        }
        Ok(())
    }

    fn end_conversion(
        self: &Arc<Self>,
        outcome: Result<Database, Error>,
        answer: Answer,
        converted: Converted,
    ) {
        let mut wakers = Vec::new();
        let failed = match outcome {
            Ok(database) => {
                let mut head = self.head();
                head.database = database;
                for number in head.waits.all() {
                    if let Some(request) = head.waits.take(number) {
                        let reply = Outgoing::Reply(request.ticket, Reply::Word("canceled"));
                        wakers.extend(request.session.outbox.leave(reply));
                    }
                }
                drop(head);
                self.watchers().cancel_all(uuid_source().next_u64(), &mut wakers);
                None
            }
            Err(error) => Some(error),
        };
        let reply = failed.clone().map_or(answer.reply, Reply::Failed);
        wakers.extend(answer.session.outbox.leave(Outgoing::Reply(answer.ticket, reply)));
        wakers.into_iter().for_each(std::task::Waker::wake);
        if failed.is_none() {
            converted(self);
        }
        let held = self.head().converting.take().unwrap_or_default();
        for request in held {
            match request {
                Held::Transact(request) => {
                    self.transact(&request.session, request.ticket, request.operations);
                }
                Held::Watch(session, request) => {
                    let ticket = request.ticket.clone();
                    if let Err(error) = self.watch(&session, request) {
                        session.outbox.push(Outgoing::Reply(ticket, Reply::Failed(error)));
                    }
                }
            }
        }
        // What was held leaves even if nobody calls again; if this thread is the committer, it
        // finds the entries by itself.
        self.flush();
    }
}
