//! `/v1/http`: the HTTP door as a whole, which is one object without a name.

use super::{Object, change, replace, show_one};
use crate::identity::Identity;
use crate::respond::Answer;
use crate::{App, Shared};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use paceline_catalogue::{HTTP, Kind};
use serde_json::{Value, json};

/// The table Http, which has one row or none.
pub(super) struct Http;

/// The key of an object of which there is only one.
const ONLY: &str = "";

impl Object for Http {
    const KIND: &'static Kind = &HTTP;

    fn without_row(_: &App, _: &str) -> Option<Value> {
        Some(json!({}))
    }
}

/// `GET /v1/http`
pub(super) async fn show(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    show_one::<Http>(&app, &identity, ONLY).await
}

/// `PUT /v1/http`
pub(super) async fn put(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    replace::<Http>(&app, &identity, ONLY, &headers, body).await
}

/// `PATCH /v1/http`
pub(super) async fn patch(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    change::<Http>(&app, &identity, ONLY, &headers, body).await
}
