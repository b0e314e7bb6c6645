//! Whether the daemon serves at all.

use crate::Shared;
use crate::respond::{Answer, json_response};
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

/// `GET /healthz`
pub(crate) async fn healthz(State(app): State<Shared>) -> Answer {
    Ok(match app.host.control().is_draining() {
        false => json_response(StatusCode::OK, &json!({ "status": "ok" })),
        true => json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" })),
    })
}
