//! A request's way to its permit.

use crate::respond::Reply;
use crate::serve::stream::Socket;
use crate::serve::worker::Worker;
use paceline_host::{Admission, Permit};
use paceline_types::{Refusal, Request};

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
    request: Request,
    client: &Socket,
) -> Result<Permit, Stop> {
    let left = async {
        client.left().await;
        Stop::Left
    };
    admit_until(worker, request, left, || client.has_left()).await
}

/// The same where `stop` says when the request does not go on; `has_left` is asked in the moment of the grant.
pub(crate) async fn admit_until(
    worker: &Worker,
    request: Request,
    stop: impl Future<Output = Stop>,
    has_left: impl Fn() -> bool,
) -> Result<Permit, Stop> {
    let waiting = match worker.control.admit(request) {
        Ok(Admission::Started(permit)) => return Ok(permit),
        Ok(Admission::Refused(_, refusal)) => return Err(refused(worker, &refusal)),
        Ok(Admission::Waiting(waiting)) => waiting,
        Err(error) => return Err(Stop::Reply(Reply::bad_request(error.to_string()))),
    };
    let decided = tokio::select! {
        biased;
        stop = stop => return Err(stop),
        decided = waiting => decided,
    };
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
