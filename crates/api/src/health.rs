//! Whether the daemon serves at all.

use crate::respond::{Answer, ok};
use serde_json::json;

/// `GET /healthz`
pub(crate) async fn healthz() -> Answer {
    ok(&json!({ "status": "ok" }))
}
