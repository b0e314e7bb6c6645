//! Gets a request its permit: submits it to the engine, and waits for the grant.

use crate::respond::Reply;
use crate::serve::attributes::Asking;
use crate::serve::clients::WaitCount;
use crate::serve::lost::Stop;
use crate::serve::worker::Worker;
use paceline_host::{Admission, Permit, Waiting};
use paceline_net::stream::Socket;
use paceline_types::Refusal;

/// The immediate outcome of a submitted request.
#[derive(Debug)]
pub(crate) enum Submitted {
    Runs(Permit, WaitCount),
    Waits(Waiting, WaitCount),
}

/// Submits a request. Most requests run at once, so submitting is no part of a future that waits.
pub(crate) fn submit(worker: &Worker, asking: Asking) -> Result<Submitted, Box<Stop>> {
    let Asking { request, client } = asking;
    let mut waits = WaitCount::new(client, request.bytes());
    match worker.control.admit(request) {
        Ok(Admission::Started(permit)) => Ok(Submitted::Runs(permit, waits)),
        // If the request is refused here, dropping `waiting` removes it from the queue.
        Ok(Admission::Waiting(waiting)) => match waits.wait(&worker.means.clients) {
            Ok(()) => Ok(Submitted::Waits(waiting, waits)),
            Err(full) => Err(Box::new(refused(worker, &full))),
        },
        Ok(Admission::Refused(_, refusal)) => Err(Box::new(refused(worker, &refusal))),
        Err(error) => Err(Box::new(Stop::Reply(Reply::bad_request(error.to_string())))),
    }
}

/// Waits for the permit of a request. `stop` ends when the request must not go on. `has_left` is checked at the
/// moment of the grant.
pub(crate) async fn granted(
    worker: &Worker,
    (waiting, waits): (Waiting, WaitCount),
    stop: impl Future<Output = Stop>,
    has_left: impl Fn() -> bool,
) -> Result<(Permit, WaitCount), Stop> {
    let decided = tokio::select! {
        biased;
        stop = stop => return Err(stop),
        decided = waiting => decided,
    };
    match decided {
        // The client may have disconnected at the moment of the grant, before this was reported.
        Some(Ok(permit)) if has_left() => {
            permit.withdraw();
            Err(Stop::Left)
        }
        Some(Ok(permit)) => Ok((permit, waits)),
        Some(Err(refusal)) => Err(refused(worker, &refusal)),
        None => Err(Stop::Left),
    }
}

/// Waits for the permit of a request that stops when its client disconnects.
pub(crate) async fn granted_to(
    worker: &Worker,
    waiting: (Waiting, WaitCount),
    client: &Socket,
) -> Result<(Permit, WaitCount), Stop> {
    let left = async {
        client.left().await;
        Stop::Left
    };
    granted(worker, waiting, left, || client.has_left()).await
}

/// The answer to a refusal.
pub(crate) fn refused(worker: &Worker, refusal: &Refusal) -> Stop {
    let quota = worker.control.quota(refusal);
    Stop::Reply(Reply::refused(refusal, worker.control.now(), quota))
}
