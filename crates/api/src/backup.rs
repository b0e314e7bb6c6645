//! Copies of databases, made from a snapshot while the daemon serves.

use crate::Shared;
use crate::config::place;
use crate::objects::own_problem;
use crate::query;
use crate::respond::{Answer, Problem, shown};
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use paceline_host::own;

/// `GET /v1/backup`: a file of a database, which can be served and which `ovsdb-tool` opens.
pub(crate) async fn backup(State(app): State<Shared>, uri: Uri) -> Answer {
    let name = query::value(&uri, "database").unwrap_or(own::DATABASE);
    let _place = place().await?;
    let database = app.host.database(name).filter(|database| database.is_journaled());
    let database = database.ok_or_else(|| {
        Problem::not_found(format!("there is no database {:?} with a file", shown(name)))
            .hint("GET /v1/status lists those that there are")
    })?;
    let bytes = tokio::task::block_in_place(|| database.copy());
    let bytes = bytes.map_err(|error| own_problem(&error))?;
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, bytes).into_response())
}
