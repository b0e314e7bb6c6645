//! Copies of databases, made from a snapshot while the daemon serves.
//!
//! A copy is in memory until it is sent, so few are made at a time.

use crate::Shared;
use crate::identity::Identity;
use crate::large::Counted;
use crate::objects::own_problem;
use crate::query;
use crate::respond::{Answer, Problem, shown};
use crate::turns::wait;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use hyper::body::{Frame, SizeHint};
use paceline_host::own;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;

/// The most copies at a time, until they are sent.
const COPIES_MAX: usize = 2;

/// Bytes that are passed to the connection at a time, and then no longer count.
const PIECE_BYTES_MAX: usize = 16 << 10;

static COPIES: Semaphore = Semaphore::const_new(COPIES_MAX);

/// `GET /v1/backup`: a file of a database, which can be served and which `ovsdb-tool` opens.
pub(crate) async fn backup(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let name = query::value(&uri, "database").unwrap_or(own::DATABASE);
    let database = app.host.database(name).filter(|database| database.is_journaled());
    let database = database.ok_or_else(|| {
        Problem::not_found(format!("there is no database {:?} with a file", shown(name)))
            .hint("GET /v1/status lists the databases")
    })?;
    let held = COPIES.try_acquire().map_err(|_| Problem::exhausted("copies", COPIES_MAX))?;
    let working = wait(&app.answers.working, &identity).await;
    let bytes = tokio::task::block_in_place(|| database.copy());
    drop(working);
    let left = Bytes::from(bytes.map_err(|error| own_problem(&error))?);
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CACHE_CONTROL, "no-store")];
    Ok((Extension(Counted), headers, Body::new(Guarded::new(left, held))).into_response())
}

/// A body that releases its place when it is sent completely, or dropped.
pub(crate) struct Guarded<P> {
    left: Bytes,
    _place: P,
}

impl<P> Guarded<P> {
    /// A body that holds this place.
    pub(crate) fn new(left: Bytes, place: P) -> Self {
        Self { left, _place: place }
    }
}

impl<P: Unpin> hyper::body::Body for Guarded<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.left.len().min(PIECE_BYTES_MAX);
        let piece = self.left.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
