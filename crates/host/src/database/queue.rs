//! Entries that wait for their position to be on disk before they are published.
//!
//! Entries leave in the order of arrival. A commit is published when it is written, or synced if it is durable.
//! An answer that was read from the head leaves after the commits it has seen.

use crate::control::Consequence;
use crate::outbox::{Reply, Ticket};
use crate::session::Session;
use paceline_journal::Log;
use paceline_tables::monitor::Monitor;
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, Error, OpResult, Snapshot};
use paceline_types::Uuid;
use paceline_types::limits::SNAPSHOT_REPLY_BYTES;
use std::sync::Arc;
use std::task::Waker;

use super::asker::Asker;
use super::waits::Request;
use super::{Head, Hosted};

/// One entry of the queue.
pub(super) enum Entry {
    /// A transaction that changed the head.
    Commit(Commit),
    /// An answer without changes; `sync` if everything before it must be on disk first. If what it read is
    /// undone, `again` is run once more.
    Answer { answer: Answer, sync: bool, again: Option<Request> },
    /// A client begins to watch.
    Watch(Watch),
    /// A client changes the conditions of its monitor.
    Rewatch(Rewatch),
    /// A client stops watching.
    Unwatch { session: Arc<Session>, ticket: Ticket, id: Ticket },
    /// Work on the journal that must happen between two transactions.
    Step(Step),
}

/// A transaction that changed the head.
pub(super) struct Commit {
    pub(super) changes: Arc<Changes>,
    /// Bytes of memory that the changes keep, charged to the client; 0 if they are the server's own.
    pub(super) bytes: usize,
    pub(super) schema: Arc<Schema>,
    pub(super) comment: String,
    pub(super) durable: bool,
    pub(super) answer: Option<Answer>,
    /// Its effect on the engine, run when it is published, before updates and replies leave.
    pub(super) consequence: Option<Consequence>,
    /// Called when it is published, or with the reason why it was undone.
    pub(super) done: Option<Done>,
}

/// Receives the outcome of a transaction of the server's own.
pub(super) type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A reply and its recipient.
pub(super) struct Answer {
    pub(super) to: Asker,
    pub(super) reply: Reply,
}

/// A client begins to watch, from the content of `rows` on.
pub(super) struct Watch {
    pub(super) session: Arc<Session>,
    pub(super) ticket: Ticket,
    pub(super) id: Ticket,
    pub(super) monitor: Arc<Monitor>,
    pub(super) rows: Snapshot,
    /// The last transaction the client knows, if it asks for what changed since.
    pub(super) since: Option<Uuid>,
}

/// A client changes the conditions of its monitor, and perhaps its id.
pub(super) struct Rewatch {
    pub(super) session: Arc<Session>,
    pub(super) ticket: Ticket,
    pub(super) old_id: Ticket,
    pub(super) new_id: Ticket,
    pub(super) from: Arc<Monitor>,
    pub(super) to: Arc<Monitor>,
    pub(super) rows: Snapshot,
}

/// Work on the journal, which receives an error if the transactions before it failed.
pub(super) struct Step {
    /// Whether it waits for the disk.
    pub(super) blocks: bool,
    pub(super) work: Work,
}

pub(super) type Work = Box<dyn FnOnce(Result<&mut dyn Log, &Error>) + Send>;

impl Hosted {
    /// Queues changes that the head has already to be written. This is the only way for changes into the queue.
    /// Returns the parked transactions that they may let through.
    pub(super) fn submit(&self, head: &mut Head, commit: Commit) -> Vec<u64> {
        let woken = head.waits.touched_by(&commit.changes);
        head.pins.note(&commit.changes);
        head.push(Entry::Commit(commit));
        woken
    }
}

impl Entry {
    /// The transaction, if this is one.
    pub(super) fn commit(&self) -> Option<&Commit> {
        if let Self::Commit(commit) = self { Some(commit) } else { None }
    }

    /// The answer that leaves with this entry.
    pub(super) fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Commit(commit) => commit.answer.as_ref(),
            Self::Answer { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// Whether this entry waits for a sync.
    pub(super) fn wants_sync(&self) -> bool {
        match self {
            Self::Commit(commit) => commit.durable,
            Self::Answer { sync, .. } => *sync,
            _ => false,
        }
    }

    /// The client this entry is charged to, and the bytes it counts for while it waits.
    pub(super) fn charge(&self) -> Option<(&Arc<Session>, usize)> {
        const ENTRY: usize = 256;
        match self {
            Self::Commit(commit) => {
                let answer = commit.answer.as_ref()?;
                Some((answer.to.session()?, ENTRY + commit.bytes + answer.bytes()))
            }
            Self::Answer { answer, again, .. } => {
                let again = again.as_ref().map_or(0, Request::bytes);
                Some((answer.to.session()?, ENTRY + again + answer.bytes()))
            }
            Self::Watch(Watch { session, ticket, id, .. }) => {
                Some((session, ENTRY + ticket.len() + id.len() + SNAPSHOT_REPLY_BYTES))
            }
            Self::Rewatch(Rewatch { session, ticket, old_id, new_id, .. }) => {
                let ids = ticket.len() + old_id.len() + new_id.len();
                Some((session, ENTRY + ids + SNAPSHOT_REPLY_BYTES))
            }
            Self::Unwatch { session, ticket, id } => {
                Some((session, ENTRY + ticket.len() + id.len()))
            }
            Self::Step(_) => None,
        }
    }
}

impl Commit {
    /// Changes that the server itself makes, without an answer.
    pub(super) fn own(changes: Arc<Changes>, schema: Arc<Schema>) -> Self {
        Self {
            changes,
            bytes: 0,
            schema,
            comment: String::new(),
            durable: false,
            answer: None,
            consequence: None,
            done: None,
        }
    }

    /// Reports to the caller of this transaction that `error` undid it.
    pub(super) fn fail(self, error: &Error) {
        if let Some(answer) = self.answer {
            answer.fail(error);
        }
        if let Some(done) = self.done {
            done(Err(error.clone()));
        }
    }
}

impl Answer {
    /// Bytes of memory this holds.
    fn bytes(&self) -> usize {
        self.to.bytes() + self.reply.cost()
    }

    /// Sends the answer. Returns the task to wake.
    pub(super) fn leave(self) -> Option<Waker> {
        self.to.leave(self.reply)
    }

    /// Adds an error after the results.
    pub(super) fn add_error(&mut self, error: Error) {
        if let Reply::Results(results) = &mut self.reply {
            results.push(OpResult::Error(error));
        }
    }

    /// Sends the answer that the transaction failed: the results of all operations are void, and the error says
    /// why.
    fn fail(mut self, error: &Error) {
        if let Reply::Results(results) = &mut self.reply {
            let operations = results.iter().map(OpResult::operations).sum();
            let nothing = (operations > 0).then_some(OpResult::Nulls(operations));
            *results = nothing.into_iter().chain([OpResult::Error(error.clone())]).collect();
        }
        if let Some(waker) = self.leave() {
            waker.wake();
        }
    }
}
