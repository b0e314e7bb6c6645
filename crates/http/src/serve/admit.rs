//! A request's way to its permit.

use crate::respond::Reply;
use crate::serve::attributes::Asking;
use crate::serve::stream::Socket;
use crate::serve::waiters::Waiter;
use crate::serve::worker::Worker;
use paceline_host::{Admission, Permit, Waiting};
use paceline_types::Refusal;

/// Why a request does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its client has left; nothing was spent, nothing is sent.
    Left,
    /// This is its answer.
    Reply(Reply),
}

/// Has a request walk the path. It ends at once when its client leaves.
pub(crate) async fn admit(
    worker: &Worker,
    asking: Asking,
    client: &Socket,
) -> Result<Permit, Stop> {
    let left = async {
        client.left().await;
        Stop::Left
    };
    let submitted = submit(worker, asking).map_err(|stop| *stop)?;
    admitted(worker, submitted, left, || client.has_left()).await
}

/// What has become of a request at once.
#[derive(Debug)]
pub(crate) enum Submitted {
    Runs(Permit),
    /// It waits, and is counted for its client.
    Waits(Waiting, Option<Waiter>),
}

/// Begins the walk of a request.
pub(crate) fn submit(worker: &Worker, asking: Asking) -> Result<Submitted, Box<Stop>> {
    let Asking { request, client } = asking;
    let bytes = request.bytes();
    match worker.control.admit(request) {
        Ok(Admission::Started(permit)) => Ok(Submitted::Runs(permit)),
        // Only from here on it is in the way of others; what is dropped without an answer leaves the queue.
        Ok(Admission::Waiting(waiting)) => match worker.waiters.enter(client, bytes) {
            Ok(waiter) => Ok(Submitted::Waits(waiting, waiter)),
            Err(full) => Err(Box::new(refused(worker, &full))),
        },
        Ok(Admission::Refused(_, refusal)) => Err(Box::new(refused(worker, &refusal))),
        Err(error) => Err(Box::new(Stop::Reply(Reply::bad_request(error.to_string())))),
    }
}

/// The rest of it. `stop` says when the request does not go on; `has_left` is asked in the moment of the grant.
pub(crate) async fn admitted(
    worker: &Worker,
    submitted: Submitted,
    stop: impl Future<Output = Stop>,
    has_left: impl Fn() -> bool,
) -> Result<Permit, Stop> {
    let (waiting, waiter) = match submitted {
        Submitted::Runs(permit) => return Ok(permit),
        Submitted::Waits(waiting, waiter) => (waiting, waiter),
    };
    let decided = tokio::select! {
        biased;
        stop = stop => return Err(stop),
        decided = waiting => decided,
    };
    drop(waiter);
    match decided {
        // It may have left in the moment of the grant, and nobody was told yet.
        Some(Ok(permit)) if has_left() => {
            permit.withdraw();
            Err(Stop::Left)
        }
        Some(Ok(permit)) => Ok(permit),
        Some(Err(refusal)) => Err(refused(worker, &refusal)),
        None => Err(Stop::Left),
    }
}

/// The answer to a refusal.
pub(crate) fn refused(worker: &Worker, refusal: &Refusal) -> Stop {
    let quota = worker.control.quota(refusal);
    Stop::Reply(Reply::refused(refusal, worker.control.now(), quota))
}
