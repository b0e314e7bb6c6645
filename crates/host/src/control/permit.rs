//! What a caller holds: a permit while its work runs, or a place in the queues.
//!
//! Dropping either releases everything, so nothing is lost whichever way a caller ends.

use super::servers::Moved;
use super::{Control, Decided, EngineState, Event};
use crate::kept::Cause;
use paceline_engine::Grant;
use paceline_routing::Site;
use paceline_types::{Refusal, RequestId, Span};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The first outcome of a request.
#[derive(Debug)]
pub enum Admission {
    /// It runs.
    Started(Permit),
    /// It waits.
    Waiting(Waiting),
    /// It was refused.
    Refused(RequestId, Refusal),
}

/// Proof that a request runs. Dropping it settles the request.
#[derive(Debug)]
pub struct Permit {
    id: RequestId,
    grant: Grant,
    /// `None` if the request was settled as soon as it could run.
    held: Option<Admitted>,
    /// Whether its frontend logged values when the request arrived.
    logs: bool,
}

/// The outcome for a request that could not reach its server.
#[derive(Debug)]
pub enum Reroute {
    /// It is sent to the server that its permit names now.
    Server,
    /// It waits for a server.
    Waiting(Waiting),
    /// There is no other server: it keeps the one it has.
    Nowhere,
}

/// A waiting request: a future of its permit. Dropping it leaves the queue. If the request was granted by then
/// without the caller's knowledge, nothing is spent either.
#[derive(Debug)]
pub struct Waiting {
    held: Option<Admitted>,
    id: RequestId,
    logs: bool,
    receiver: oneshot::Receiver<Decided>,
}

/// A request that is released when this is dropped.
struct Admitted {
    control: Arc<Control>,
    id: RequestId,
    /// Whether a caller has received its permit. Until then no work can have been done with it.
    has_permit: bool,
    /// Why it ends. Unless its client asked for the end, its row stays if the daemon shuts down.
    cause: Cause,
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Admitted").field(&self.id).finish()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        match self.has_permit {
            true => self.control.end(self.id, self.cause),
            false => self.control.leave(self.id),
        }
    }
}

/// How requests end for which no work was done.
impl Control {
    fn withdraw(&self, id: RequestId) {
        let mut state = self.state();
        if state.engine.withdraw(self.clock.now(), id) {
            self.tell(|| Event::Left { id });
        }
        self.forget(state, id);
    }

    /// Ends a request whose client left before it received a permit. The request leaves its queue, or is
    /// withdrawn if it was granted in that moment. Nothing is spent either way.
    fn leave(&self, id: RequestId) {
        let mut state = self.state();
        let now = self.clock.now();
        let was_there = state.engine.cancel(now, id) || state.engine.withdraw(now, id);
        drop(state.waiters.remove(&id));
        if was_there {
            self.tell(|| Event::Left { id });
        }
        self.forget(state, id);
    }

    /// Forgets a request for which no work was done.
    fn forget(&self, mut state: MutexGuard<'_, EngineState>, id: RequestId) {
        let is_noted = self.note_ended(&mut state, id, Cause::Asked);
        self.finish(state);
        if is_noted {
            self.ledger.write();
        }
    }
}

impl Permit {
    pub(super) fn new(control: &Arc<Control>, id: RequestId, logs: bool, grant: Grant) -> Self {
        let held =
            Admitted { control: Arc::clone(control), id, has_permit: true, cause: Cause::Ended };
        Self { id, grant, held: Some(held), logs }
    }

    /// A permit whose request has ended already.
    pub(super) const fn over(id: RequestId, grant: Grant) -> Self {
        Self { id, grant, held: None, logs: false }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// The grant of the request.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The server that the request is sent to and its address, if its frontend is configured. The request is
    /// counted there, so it may connect to no other address.
    #[must_use]
    pub fn site(&self) -> Option<&Arc<Site>> {
        self.grant.site.as_ref()
    }

    /// Called when its server could not be reached: chooses a server that was not tried before. If none of
    /// these has room, the request waits for one, with its rank. Then this permit has ended, and a new one may
    /// follow.
    pub fn reroute(&mut self) -> Reroute {
        let Some(held) = &mut self.held else { return Reroute::Nowhere };
        let control = Arc::clone(&held.control);
        match control.reroute(self.id) {
            Moved::Granted(grant) => {
                self.grant = grant;
                Reroute::Server
            }
            Moved::Back(receiver) => {
                held.has_permit = false;
                let held = self.held.take();
                Reroute::Waiting(Waiting { held, id: self.id, logs: self.logs, receiver })
            }
            Moved::Nowhere => Reroute::Nowhere,
        }
    }

    /// Settles the request because its holder asked for that. The row is deleted even while the daemon shuts
    /// down; a permit that is only dropped then is kept for the next run.
    pub fn settle(mut self) {
        if let Some(held) = &mut self.held {
            held.cause = Cause::Asked;
        }
    }

    /// Withdraws a request whose client left before any work was done: what it spent is refunded.
    pub fn withdraw(self) {
        if let Some(held) = &self.held {
            held.control.withdraw(self.id);
        }
    }

    /// Whether it counts towards a concurrency limit of a checkpoint, a server or a pool.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.control.is_limited(self.id))
    }

    /// The values that its frontend logs, by name, with counters as they are now. A value that fails is `None`.
    #[must_use]
    pub fn values(&self) -> Vec<(Box<str>, Option<String>)> {
        match &self.held {
            // If nothing is logged, the engine is not called.
            Some(held) if self.logs => held.control.values_of(self.id),
            _ => vec![],
        }
    }

    /// The names of the checkpoints where it waited, and of its pool (as `pool NAME`) if it waited there, each
    /// with the time.
    #[must_use]
    pub fn slept(&self) -> Vec<(Box<str>, Span)> {
        match &self.held {
            // A request that began at once waited nowhere, so the engine is not called.
            Some(held) if self.grant.since > self.grant.arrival => held.control.slept(self.id),
            _ => vec![],
        }
    }
}

impl Waiting {
    pub(super) fn new(
        control: &Arc<Control>,
        id: RequestId,
        logs: bool,
        receiver: oneshot::Receiver<Decided>,
    ) -> Self {
        let control = Arc::clone(control);
        let held = Some(Admitted { control, id, has_permit: false, cause: Cause::Ended });
        Self { held, id, logs, receiver }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }
}

impl Future for Waiting {
    /// The permit, or why the request was refused; `None` if its session ended.
    type Output = Option<Result<Permit, Refusal>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let decided = std::task::ready!(Pin::new(&mut self.receiver).poll(cx));
        let mut held = self.held.take();
        Poll::Ready(match decided {
            Ok(Ok(grant)) => {
                let (id, logs) = (self.id, self.logs);
                if let Some(held) = &mut held {
                    held.has_permit = true;
                }
                Some(Ok(Permit { id, grant, held, logs }))
            }
            Ok(Err(refusal)) => Some(Err(refusal)),
            Err(_) => None,
        })
    }
}
