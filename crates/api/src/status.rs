//! The daemon's state: its version, its write policy, the databases it serves, warnings, the last reading of
//! its files, and the state of the HTTP door.

use crate::config::own_database;
use crate::respond::{Answer, ok};
use crate::{App, Shared};
use axum::extract::State;
use paceline_host::DoorProblem;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
    let warnings = [app.warnings.clone(), own_database(&app)?.warnings()].concat();
    let (running, waiting) = app.host.control().open_requests();
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "now": now.text(now.time),
        "read_only": policy.read_only,
        // Promise J7: which transactions are answered only when they are on disk.
        "sync": if policy.durable { "always" } else { "asked" },
        "databases": files,
        "open_files_max": getrlimit(Resource::Nofile).current,
        "warnings": warnings,
        "requests": { "running": running, "waiting": waiting },
        "draining": app.host.control().is_ending(),
        "http": http(&app),
    });
    if let Some(reload) = app.reload.json() {
        status["reload"] = reload;
    }
    ok(&status)
}

/// The most servers that are down and are named.
const DOWN_MAX: usize = 100;

/// The most problems of the HTTP door that are shown.
const PROBLEMS_MAX: usize = 100;

/// One problem of the HTTP door in a sentence.
fn told(problem: &DoorProblem) -> String {
    match &problem.frontend {
        Some(frontend) => format!("frontend {frontend}: {}", problem.message),
        None => problem.message.clone(),
    }
}

/// The HTTP door: where it listens, its problems, and which servers are down.
fn http(app: &App) -> Value {
    let control = app.host.control();
    let door = control.http().state();
    let mut frontends: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let snapshot = control.snapshot();
    for frontend in snapshot.routing().frontends() {
        frontends.entry(&frontend.name).or_default();
    }
    for (name, address) in &door.listening {
        frontends.entry(name).or_default().push(address);
    }
    let frontend = |(name, addresses)| json!({ "name": name, "listening": addresses });
    let servers = control.servers();
    let down: Vec<_> = servers.iter().filter(|(_, figures)| !figures.up).collect();
    let names = down.iter().filter_map(|(id, _)| snapshot.routing().server_name(*id));
    let mut http = json!({
        "frontends": frontends.into_iter().map(frontend).collect::<Value>(),
        "servers": servers.len(),
        "servers_down": down.len(),
        "down": names.take(DOWN_MAX).collect::<Value>(),
    });
    if let Some(first) = door.problems.first() {
        http["problem"] = told(first).into();
        let all = door.problems.iter().take(PROBLEMS_MAX);
        http["problems"] = all.map(told).collect::<Value>();
    }
    http
}
