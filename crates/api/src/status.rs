//! The daemon about itself: its version, how it writes, what it serves, what is doubtful.

use crate::Shared;
use crate::config::own_database;
use crate::respond::{Answer, ok};
use axum::extract::State;
use rustix::process::{Resource, getrlimit};
use serde_json::json;

/// `GET /v1/status`
pub(crate) async fn status(State(app): State<Shared>) -> Answer {
    let policy = app.host.policy();
    let now = app.wall.now();
    let files: Vec<String> = app
        .host
        .databases()
        .iter()
        .filter(|database| database.is_journaled())
        .map(|database| database.name.clone())
        .collect();
    ok(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "now": now.text(now.time),
        "read_only": policy.read_only,
        // Promise J7: which transactions are answered only when they are on disk.
        "sync": if policy.durable { "always" } else { "asked" },
        "databases": files,
        "open_files_max": getrlimit(Resource::Nofile).current,
        "warnings": own_database(&app)?.warnings(),
    }))
}
