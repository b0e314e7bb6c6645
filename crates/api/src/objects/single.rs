//! Objects of which there is only one: `/v1/api`, the API as a whole, and `/v1/http`, the HTTP door as a whole.

use super::{Object, change, get_of, patch_of, put_of, replace, show_one};
use crate::identity::{Identity, Role};
use crate::respond::Answer;
use crate::router::Routes;
use crate::{App, Shared};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use paceline_catalogue::{API, HTTP, Kind};
use serde_json::{Value, json};

/// The table Api, which has one row or none.
struct Api;

/// The table Http, which has one row or none.
struct Http;

/// The key of an object of which there is only one.
const ONLY: &str = "";

impl Object for Api {
    const KIND: &'static Kind = &API;

    fn without_row(_: &App, _: &str) -> Option<Value> {
        Some(json!({ "show_text": false }))
    }
}

impl Object for Http {
    const KIND: &'static Kind = &HTTP;

    fn without_row(_: &App, _: &str) -> Option<Value> {
        Some(json!({}))
    }
}

/// Adds the operations.
pub(super) fn routes(routes: Routes) -> Routes {
    single::<Http>(single::<Api>(routes, "/v1/api"), "/v1/http")
}

fn single<O: Object>(routes: Routes, path: &'static str) -> Routes {
    routes
        .add(get_of::<O>(path), show::<O>)
        .add(put_of::<O>(Role::Admin, path), put::<O>)
        .add(patch_of::<O>(Role::Admin, path), patch::<O>)
}

/// `GET`
async fn show<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    show_one::<O>(&app, &identity, ONLY).await
}

/// `PUT`
async fn put<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    replace::<O>(&app, &identity, ONLY, &headers, body).await
}

/// `PATCH`
async fn patch<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    change::<O>(&app, &identity, ONLY, &headers, body).await
}
