//! Answers that may be large: lists of what clients hold and wait for.
//!
//! Promises that few such lists are in memory, however slowly clients read: a few are made at a time, away from the
//! tasks of others, and a list of more than a megabyte takes one of a few places until it is sent. A client has limited
//! time to read one (`Connection::answer_begins`), and one user may take only some of the places.

use crate::backup::Guarded;
use crate::identity::Identity;
use crate::respond::{Answer, JSON, Problem};
use crate::turns::{Turns, take};
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Lists that are made at a time; others wait for their turn.
static MAKING: Semaphore = Semaphore::const_new(2);

/// The same for lists of rows, which wait for the disk if something was written that is not on it yet.
static MAKING_ROWS: Semaphore = Semaphore::const_new(2);

/// What is longer is large.
const SMALL_BYTES_MAX: usize = 1 << 20;

/// Large lists at a time, until they are sent.
static SENDING: Turns = Turns::new("large answers", 8);

/// 200 with the list that `make` makes, as [`text`] writes it.
pub(crate) async fn list(identity: &Identity, make: impl FnOnce() -> Vec<u8>) -> Answer {
    let _turn = turn_in(&MAKING).await?;
    sent(identity, tokio::task::block_in_place(make))
}

/// 200 with a list of rows, which `rows` finds and `make` writes.
pub(crate) async fn list_rows<T>(
    identity: &Identity,
    rows: impl Future<Output = Result<T, Problem>>,
    make: impl FnOnce(T) -> Vec<u8>,
) -> Answer {
    let _turn = turn_in(&MAKING_ROWS).await?;
    let rows = rows.await?;
    sent(identity, tokio::task::block_in_place(|| make(rows)))
}

async fn turn_in(turns: &'static Semaphore) -> Result<SemaphorePermit<'static>, Problem> {
    turns.acquire().await.map_err(|_| Problem::internal("no turns for lists"))
}

fn sent(identity: &Identity, bytes: Vec<u8>) -> Answer {
    let left = Bytes::from(bytes);
    let body = match left.len() <= SMALL_BYTES_MAX {
        true => Body::from(left),
        false => Body::new(Guarded::new(left, take(&SENDING, identity)?)),
    };
    Ok(([(CONTENT_TYPE, JSON)], body).into_response())
}

/// A value as JSON.
pub(crate) fn text(value: &impl Serialize) -> Vec<u8> {
    // Writing fails only for maps whose keys are no texts, of which there are none here.
    serde_json::to_vec(value).unwrap_or_default()
}
