//! Who asks for a transaction, and where the answer is sent.
//!
//! A client of the OVSDB door receives the answer in its outbox, under the id of its request. A caller in the
//! process receives it from a future. Promises that a caller, like a client, sees no row before the row is
//! written: an answer that is still being read takes its place in the queue at once, and leaves when it has
//! passed the queue and is complete, whichever is last.

use super::lane::Whose;
use super::{Author, Hosted, aside};
use crate::outbox::{Later, Outgoing, Reply, Ticket};
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::{Error, OpResult, Transaction, tag};
use paceline_types::Role;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use tokio::sync::oneshot;

/// The results of a caller's transaction.
type Results = Result<Vec<OpResult>, Error>;

/// Who asks for a transaction.
#[derive(Clone)]
pub(super) enum Asker {
    /// A connected client, and the id of its request.
    Client { session: Arc<Session>, ticket: Ticket },
    /// A caller in the process.
    Caller(Arc<Caller>),
}

/// A caller in the process that waits for the answer to one transaction.
pub(super) struct Caller {
    name: String,
    role: Role,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    /// `None` when the answer was sent.
    sender: Option<oneshot::Sender<Results>>,
    /// The place of an answer that has passed the queue and is still being read.
    read: Option<Arc<Later>>,
}

/// The name of a client or caller, and what it may do.
#[derive(Clone, Copy)]
pub(super) struct Who<'a> {
    pub(super) name: &'a str,
    pub(super) role: Option<Role>,
    pub(super) read_only: bool,
}

impl<'a> Who<'a> {
    pub(super) fn of(session: &'a Session) -> Self {
        Self { name: &session.name, role: session.role(), read_only: session.read_only }
    }

    pub(super) const fn author(author: Author<'a>) -> Self {
        Self { name: author.name, role: Some(author.role), read_only: false }
    }
}

impl Hosted {
    /// Runs a transaction as `author`, before this returns. The future is ready when the answer may be known:
    /// when what the transaction has changed and read is written, and on disk if it is durable. A transaction
    /// that fails changes nothing, and a `wait` in it that does not hold fails it. Its changes stay even if the
    /// future is dropped.
    ///
    /// Long work is done where it keeps no task of the runtime waiting.
    pub fn transact_as(
        self: &Arc<Self>,
        author: Author<'_>,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Vec<OpResult>, Error>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let pending = Mutex::new(Pending { sender: Some(sender), read: None });
        let caller = Caller { name: author.name.to_owned(), role: author.role, pending };
        aside(|| {
            self.run_all(std::iter::once((Asker::Caller(Arc::new(caller)), transaction)));
            self.flush();
        });
        async move {
            let lost = || Err(Error::new(tag::IO, "the transaction was not answered"));
            let mut results = receiver.await.unwrap_or_else(|_| lost())?;
            let is_error = |result: &OpResult| matches!(result, OpResult::Error(_));
            match results.iter().position(is_error).map(|at| results.swap_remove(at)) {
                Some(OpResult::Error(error)) => Err(error),
                _ => Ok(results),
            }
        }
    }
}

impl Asker {
    pub(super) fn who(&self) -> Who<'_> {
        match self {
            Self::Client { session, .. } => Who::of(session),
            Self::Caller(caller) => {
                Who { name: &caller.name, role: Some(caller.role), read_only: false }
            }
        }
    }

    /// The session of a client.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Client { session, .. } => Some(session),
            Self::Caller(_) => None,
        }
    }

    /// Whether this is a client that sent a request under this ticket.
    pub(super) fn is(&self, client: &Session, own: &Ticket) -> bool {
        matches!(self, Self::Client { session, ticket } if session.id == client.id && ticket == own)
    }

    /// Whether the client or caller has left.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Client { session, .. } => session.outbox.closed().is_some(),
            Self::Caller(caller) => {
                let pending = crate::sync::lock(&caller.pending);
                pending.sender.as_ref().is_none_or(oneshot::Sender::is_closed)
            }
        }
    }

    /// The client that is cut off if it keeps a snapshot for too long.
    pub(super) fn pinned_by(&self) -> Weak<Session> {
        self.session().map_or_else(Weak::new, Arc::downgrade)
    }

    /// The lane turn that a long read takes. All callers in the process share one.
    pub(super) fn whose(&self) -> Whose {
        match self {
            Self::Client { session, .. } => Whose::of(session),
            // The number of a session is never 0.
            Self::Caller(_) => Whose::nobody(SessionId(0)),
        }
    }

    /// Bytes of memory of the id of the request.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Client { ticket, .. } => ticket.len(),
            Self::Caller(_) => 0,
        }
    }

    /// Counts `bytes` that wait on behalf of a client.
    pub(super) fn charge(&self, bytes: usize) {
        if let Self::Client { session, .. } = self {
            session.charge(bytes);
        }
    }

    /// Stops counting `bytes`.
    pub(super) fn discharge(&self, bytes: usize) {
        if let Self::Client { session, .. } = self {
            session.discharge(bytes);
        }
    }

    /// Sends the answer. Returns the task to wake, which the caller does once it holds no lock of its own.
    pub(super) fn leave(self, reply: Reply) -> Option<Waker> {
        match self {
            Self::Client { session, ticket } => {
                session.outbox.leave(Outgoing::Reply(ticket, reply))
            }
            Self::Caller(caller) => {
                caller.leave(reply);
                None
            }
        }
    }

    /// Sends the answer and wakes the task that waits for it.
    pub(super) fn answer(self, reply: Reply) {
        if let Some(waker) = self.leave(reply) {
            waker.wake();
        }
    }

    /// Puts an answer in the place that was kept for it. Returns the task to wake.
    pub(super) fn fill(&self, later: &Arc<Later>, reply: Reply) -> Option<Waker> {
        match self {
            Self::Client { session, .. } => session.outbox.fill(later, reply),
            Self::Caller(caller) => {
                caller.fill(later, reply);
                None
            }
        }
    }
}

impl Caller {
    fn leave(&self, reply: Reply) {
        let mut pending = crate::sync::lock(&self.pending);
        match reply {
            Reply::Later(later) => {
                let read = later.take();
                match read {
                    Some(reply) => pending.send(reply),
                    None => pending.read = Some(later),
                }
            }
            reply => pending.send(reply),
        }
    }

    fn fill(&self, later: &Arc<Later>, reply: Reply) {
        let mut pending = crate::sync::lock(&self.pending);
        match &pending.read {
            Some(read) if Arc::ptr_eq(read, later) => pending.send(reply),
            // The answer has not passed the queue yet, or was read again because what it showed was undone.
            _ => later.set(reply),
        }
    }
}

impl Pending {
    fn send(&mut self, reply: Reply) {
        let results = match reply {
            Reply::Results(results) => Ok(results),
            Reply::Failed(error) => Err(error),
            _ => return,
        };
        // A caller that dropped the future needs no answer.
        let _ = self.sender.take().map(|sender| sender.send(results));
    }
}
