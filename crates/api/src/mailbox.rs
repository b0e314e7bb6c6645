//! What the host tells a session about its locks.
//!
//! A session of the API has no task of its own. What comes to its outbox is taken out by whoever left
//! it there: the outbox wakes a waker, and this one takes the mail. It locks nothing but itself and
//! never calls the host from there, so it may be woken from anywhere.

use paceline_host::{Host, Interest, LockError, LockOperation, Outgoing, Reply, Session, Ticket};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use tokio::sync::{broadcast, oneshot};

/// What happened to a lock of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The lock.
    pub(crate) lock: Arc<str>,
    /// `locked` or `stolen`.
    pub(crate) what: &'static str,
    /// The name of the session.
    pub(crate) session: String,
}

/// The mail of one session.
pub(crate) struct Mailbox {
    host: Weak<Host>,
    session: Arc<Session>,
    state: Mutex<State>,
    notices: broadcast::Sender<Notice>,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    replies: BTreeMap<u64, Vec<u8>>,
    /// Who waits to hear that the session owns a lock.
    waiting: BTreeMap<String, oneshot::Sender<()>>,
}

impl Mailbox {
    pub(crate) fn new(
        host: &Arc<Host>,
        session: &Arc<Session>,
        notices: broadcast::Sender<Notice>,
    ) -> Arc<Self> {
        let (host, session) = (Arc::downgrade(host), Arc::clone(session));
        let mailbox = Arc::new(Self { host, session, state: Mutex::default(), notices });
        mailbox.take_mail();
        mailbox
    }

    /// Does a lock operation; answers whether the session owns the lock now. If not, it stands in
    /// line, and the receiver hears when its turn comes.
    pub(crate) fn operate(
        self: &Arc<Self>,
        operation: LockOperation,
        name: &str,
    ) -> Result<(bool, oneshot::Receiver<()>), LockError> {
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next_ticket += 1;
            if operation == LockOperation::Lock {
                // A second one by the same session is refused below and must not replace the first.
                state.waiting.entry(name.to_owned()).or_insert(sender);
            } else {
                state.waiting.remove(name);
            }
            state.next_ticket
        };
        let ticket: Ticket = number.to_be_bytes().into();
        let done = match self.host.upgrade() {
            Some(host) => host.locking().operate(&self.session, ticket, operation, name),
            None => Err(LockError::Exhausted),
        };
        self.take_mail();
        let reply = self.state().replies.remove(&number);
        done?;
        Ok((reply.as_deref() == Some(b"{\"locked\":true}"), receiver))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is there, and asks to be woken when more comes.
    fn take_mail(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.state();
        while self.session.outbox.closed().is_none() {
            while let Some(item) = self.session.outbox.take() {
                self.handle(&mut state, item);
            }
            if !self.session.outbox.register(&waker, Interest::Items) {
                return;
            }
            if self.session.outbox.finishing().is_some() {
                return;
            }
        }
        // Whoever waits hears that nothing comes any more.
        state.waiting.clear();
        self.session.outbox.awake();
    }

    fn handle(&self, state: &mut State, item: Outgoing) {
        let (lock, what) = match item {
            Outgoing::Reply(ticket, Reply::Text(text)) => {
                let number = <[u8; 8]>::try_from(&*ticket).map(u64::from_be_bytes);
                state.replies.extend(number.map(|number| (number, text)));
                return;
            }
            Outgoing::Locked(lock) => (lock, "locked"),
            Outgoing::Stolen(lock) => (lock, "stolen"),
            _ => return,
        };
        if what == "locked"
            && let Some(sender) = state.waiting.remove(&*lock)
        {
            // One that is gone gives the lock back by itself.
            let _ = sender.send(());
        }
        let session = self.session.name.clone();
        // Nobody may be listening.
        let _ = self.notices.send(Notice { lock, what, session });
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.take_mail();
    }
}
