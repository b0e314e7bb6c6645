//! Actions of clients that take time: each is a task that may be dropped at any `await`.

use paceline_host::registry::{
    AskError, Asking, Chosen, HeldSession, HoldError, PermitView, Registry, SessionView, Terms,
};
use paceline_host::{Granted, Hosted, Interest, Outgoing, Reply, Session, Ticket};
use paceline_tables::json::Json;
use paceline_tables::{Error, OpResult};
use paceline_types::Request;
use std::sync::Arc;
use std::task::Poll;

/// The outcome of a client's action.
pub enum Done {
    /// A session was begun, or not.
    Session(Result<(Arc<HeldSession>, SessionView), HoldError>),
    /// A permit was granted, or not; with whether this call granted it.
    Permit(Result<(PermitView, bool), AskError>),
    /// A permit that ends at once was granted, or not.
    Once(bool),
    /// A lock is owned, with its fencing number and whether that is on disk, or not.
    Lock(Result<(u64, bool), HoldError>),
    /// A permit or a session was released; with whether that is on disk; `None` if it did not exist.
    Released(Option<bool>),
    /// A lock was released.
    Unlocked(Result<bool, HoldError>),
    /// The configuration was edited, or not.
    Edited(Result<(), String>),
}

/// How a permit is asked for.
pub struct Ask {
    /// The request.
    pub request: Request,
    /// The terms.
    pub terms: Terms,
    /// The name, if the client chose one.
    pub chosen: Option<Chosen>,
    /// Whether it ends at once.
    pub once: bool,
    /// The grant of the client's role.
    pub granted: Option<Arc<Granted>>,
}

/// Asks for a permit.
pub async fn ask(registry: Arc<Registry>, ask: Ask) -> Done {
    let Ask { request, terms, chosen, once, granted } = ask;
    let granted = granted.as_deref();
    match chosen {
        _ if once => Done::Once(registry.ask_once(request, &terms, granted).await.is_ok()),
        None => Done::Permit(registry.ask(request, &terms, granted).await.map(|view| (view, true))),
        Some(chosen) => Done::Permit(registry.ask_by_name(request, &terms, &chosen, granted).await),
    }
}

/// Asks for a lock.
pub async fn lock(
    registry: Arc<Registry>,
    session: Arc<HeldSession>,
    name: String,
    asking: Asking,
    granted: Option<Arc<Granted>>,
) -> Done {
    let never = std::future::pending();
    let locked = registry.lock(&session, &name, asking, granted.as_deref(), never).await;
    Done::Lock(locked)
}

/// Runs a transaction and waits for its answer.
pub async fn edit(own: Arc<Hosted>, session: Arc<Session>, operations: Vec<Json>) -> Done {
    let ticket: Ticket = Arc::from(&b"edit"[..]);
    own.transact(&session, [(ticket, operations)]);
    own.flush();
    let reply = std::future::poll_fn(|cx| {
        loop {
            match session.outbox.take() {
                Some(Outgoing::Reply(_, reply)) => return Poll::Ready(Some(reply)),
                Some(_) => {}
                None if session.outbox.closed().is_some() => return Poll::Ready(None),
                None => match session.outbox.register(cx.waker(), Interest::Items) {
                    true => {}
                    false => return Poll::Pending,
                },
            }
        }
    });
    Done::Edited(match reply.await {
        Some(Reply::Results(results)) => failed(results).map_or(Ok(()), |e| Err(e.to_string())),
        Some(Reply::Failed(error)) => Err(error.to_string()),
        _ => Err("no answer".to_owned()),
    })
}

fn failed(results: Vec<OpResult>) -> Option<Error> {
    results.into_iter().find_map(|result| match result {
        OpResult::Error(error) => Some(error),
        _ => None,
    })
}
