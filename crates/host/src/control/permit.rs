//! What a caller holds: a permit while its work runs, or a place in the queues.
//!
//! Both give back everything when they are dropped, so nothing is lost whichever way a caller ends.

use super::{Control, Decided};
use paceline_engine::Grant;
use paceline_types::{Refusal, RequestId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// What became of a request at once.
#[derive(Debug)]
pub enum Admission {
    /// It runs.
    Started(Permit),
    /// It waits.
    Waiting(Waiting),
    /// It was turned away.
    Refused(RequestId, Refusal),
}

/// That a request runs. Dropping it settles the request.
#[derive(Debug)]
pub struct Permit {
    id: RequestId,
    grant: Grant,
    /// None if it was settled as soon as it could run.
    _held: Option<Held>,
}

/// That a request waits: a future of its permit. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Waiting {
    held: Option<Held>,
    id: RequestId,
    receiver: oneshot::Receiver<Decided>,
}

/// A request that is given back when this is dropped.
struct Held {
    control: Arc<Control>,
    id: RequestId,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Held").field(&self.id).finish()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.control.end(self.id);
    }
}

impl Permit {
    pub(super) fn new(control: &Arc<Control>, id: RequestId, grant: Grant) -> Self {
        let held = Held { control: Arc::clone(control), id };
        Self { id, grant, _held: Some(held) }
    }

    /// One whose request is over already.
    pub(super) const fn over(id: RequestId, grant: Grant) -> Self {
        Self { id, grant, _held: None }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// What it was given.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }
}

impl Waiting {
    pub(super) fn new(
        control: &Arc<Control>,
        id: RequestId,
        receiver: oneshot::Receiver<Decided>,
    ) -> Self {
        let held = Some(Held { control: Arc::clone(control), id });
        Self { held, id, receiver }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }
}

impl Future for Waiting {
    /// The permit, or why it was turned away; none if its session ended.
    type Output = Option<Result<Permit, Refusal>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let decided = std::task::ready!(Pin::new(&mut self.receiver).poll(cx));
        let held = self.held.take();
        Poll::Ready(match decided {
            Ok(Ok(grant)) => {
                let id = self.id;
                Some(Ok(Permit { id, grant, _held: held }))
            }
            Ok(Err(refusal)) => Some(Err(refusal)),
            Err(_) => None,
        })
    }
}
