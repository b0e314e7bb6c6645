//! What waits for its position to be on disk before anyone hears of it.
//!
//! Entries leave in the order they came in. A commit is published when it is written (or synced, if
//! it is durable); an answer that was read from the head leaves behind the commits it has seen.

use crate::outbox::{Outgoing, Reply, Ticket};
use crate::session::Session;
use paceline_journal::Log;
use paceline_tables::monitor::Monitor;
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, Error, OpResult, Snapshot};
use paceline_types::Uuid;
use std::sync::Arc;

/// One step of the queue.
pub(super) enum Entry {
    /// A transaction that changed the head.
    Commit(Commit),
    /// An answer without changes; `sync` if everything before it must be on disk first.
    Answer { answer: Answer, sync: bool },
    /// A client begins to watch.
    Watch(Watch),
    /// A client changes the conditions of its monitor.
    Rewatch(Rewatch),
    /// Work on the journal that must happen between two transactions.
    Step(Step),
}

/// A transaction that changed the head.
pub(super) struct Commit {
    pub(super) changes: Arc<Changes>,
    pub(super) schema: Arc<Schema>,
    pub(super) comment: String,
    pub(super) durable: bool,
    pub(super) answer: Option<Answer>,
    /// Told when it is published, or why it was undone.
    pub(super) done: Option<Done>,
}

/// Hears how a transaction of the server itself ended.
pub(super) type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A reply and where it goes.
pub(super) struct Answer {
    pub(super) session: Arc<Session>,
    pub(super) ticket: Ticket,
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

/// Work on the journal, or what to do instead if the transactions before it failed.
pub(super) struct Step {
    /// Whether it waits for the disk.
    pub(super) blocks: bool,
    pub(super) work: Work,
}

pub(super) type Work = Box<dyn FnOnce(Result<&mut dyn Log, &Error>) + Send>;

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

    /// Tells whoever waits for this entry that `error` undid it.
    pub(super) fn fail(self, error: &Error) {
        match self {
            Self::Commit(commit) => {
                if let Some(answer) = commit.answer {
                    answer.fail(error);
                }
                if let Some(done) = commit.done {
                    done(Err(error.clone()));
                }
            }
            Self::Answer { answer, .. } => answer.fail(error),
            Self::Watch(watch) => {
                watch.session.forget_monitor(&watch.id);
                let reply = Reply::Failed(error.clone());
                watch.session.outbox.push(Outgoing::Reply(watch.ticket, reply));
            }
            Self::Rewatch(rewatch) => {
                rewatch.session.rename_monitor(&rewatch.new_id, &rewatch.old_id, &rewatch.from);
                let reply = Reply::Failed(error.clone());
                rewatch.session.outbox.push(Outgoing::Reply(rewatch.ticket, reply));
            }
            Self::Step(step) => (step.work)(Err(error)),
        }
    }
}

impl Answer {
    /// Sends the answer that the transaction failed: no operation counts, and the error says why.
    fn fail(self, error: &Error) {
        let reply = match self.reply {
            Reply::Results(results) => {
                let mut failed: Vec<OpResult> = results.iter().map(|_| OpResult::Null).collect();
                failed.push(OpResult::Error(error.clone()));
                Reply::Results(failed)
            }
            _ => Reply::Failed(error.clone()),
        };
        self.session.outbox.push(Outgoing::Reply(self.ticket, reply));
    }
}
