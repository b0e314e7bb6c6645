//! `/v1/http`: the HTTP door as a whole, which is one object without a name.

use super::{Object, change, get_of, patch_of, put_of, replace, show_one};
use crate::identity::{Identity, Role};
use crate::respond::Answer;
use crate::router::Routes;
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

/// Adds the operations.
pub(super) fn routes(routes: Routes) -> Routes {
    const PATH: &str = "/v1/http";
    routes
        .add(get_of::<Http>(PATH), show)
        .add(put_of::<Http>(Role::Admin, PATH), put)
        .add(patch_of::<Http>(Role::Admin, PATH), patch)
}

/// `GET /v1/http`
async fn show(State(app): State<Shared>, Extension(identity): Extension<Identity>) -> Answer {
    show_one::<Http>(&app, &identity, ONLY).await
}

/// `PUT /v1/http`
async fn put(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    replace::<Http>(&app, &identity, ONLY, &headers, body).await
}

/// `PATCH /v1/http`
async fn patch(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    change::<Http>(&app, &identity, ONLY, &headers, body).await
}
