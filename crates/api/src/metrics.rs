//! Figures for Prometheus.
//!
//! All names stand in one table here. Figures of objects are the ephemeral columns of their rows.

use crate::events::followers;
use crate::identity::Identity;
use crate::objects::{DEFAULT_POOL, pairs, select_all};
use crate::respond::Problem;
use crate::{App, Shared};
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use paceline_types::PoolId;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Figures of rows: table, naming columns (a slash is written between two), label, and each column with
/// its metric, type and meaning.
const TABLES: [(&str, &[&str], &str, &[Figure]); 7] = [
    (
        "Pool",
        &["name"],
        "pool",
        &[
            ("running", "paceline_pool_running", "gauge", "Requests that run in the pool."),
            ("waiting", "paceline_pool_waiting", "gauge", "Requests that wait for a slot."),
        ],
    ),
    (
        "Rule",
        &["number"],
        "rule",
        &[
            (
                "evaluations",
                "paceline_rule_evaluations_total",
                "counter",
                "Requests it was tried on.",
            ),
            ("matches", "paceline_rule_matches_total", "counter", "Requests it matched."),
            ("errors", "paceline_rule_errors_total", "counter", "Conditions that failed."),
        ],
    ),
    (
        "Checkpoint",
        &["name"],
        "checkpoint",
        &[
            ("arrived", "paceline_checkpoint_arrived_total", "counter", "Requests that came."),
            ("passed", "paceline_checkpoint_passed_total", "counter", "Requests that passed."),
            ("refused", "paceline_checkpoint_refused_total", "counter", "Requests turned away."),
            ("queued", "paceline_checkpoint_queued", "gauge", "Requests that wait there."),
            ("inflight", "paceline_checkpoint_inflight", "gauge", "Requests that hold a count."),
            ("keys", "paceline_checkpoint_keys", "gauge", "Keys with a counter."),
        ],
    ),
    (
        "Resource",
        &["name"],
        "resource",
        &[
            ("holding", "paceline_resource_holding", "gauge", "Requests that hold it."),
            ("waiting", "paceline_resource_waiting", "gauge", "Requests that wait for it."),
        ],
    ),
    (
        "Frontend",
        &["name"],
        "frontend",
        &[
            ("connections", "paceline_frontend_connections", "gauge", "Connections that are open."),
            (
                "accepted",
                "paceline_frontend_accepted_total",
                "counter",
                "Connections that were accepted.",
            ),
            ("requests", "paceline_frontend_requests_total", "counter", "Requests that came."),
            (
                "responses",
                "paceline_frontend_responses_total",
                "counter",
                "Responses by class of status.",
            ),
            (
                "left",
                "paceline_frontend_left_total",
                "counter",
                "Requests whose client left before there was a response.",
            ),
            ("cut", "paceline_frontend_cut_total", "counter", "Responses that were cut short."),
        ],
    ),
    (
        "Backend",
        &["name"],
        "backend",
        &[
            ("queued", "paceline_backend_queued", "gauge", "Requests that wait for a server."),
            (
                "refused",
                "paceline_backend_refused_total",
                "counter",
                "Requests turned away because no server had room.",
            ),
        ],
    ),
    (
        "Server",
        &["backend", "name"],
        "server",
        &[
            ("up", "paceline_server_up", "gauge", "Whether the server is up."),
            ("inflight", "paceline_server_inflight", "gauge", "Requests that the server has."),
        ],
    ),
];

/// A column, its metric, the type and the meaning.
type Figure = (&'static str, &'static str, &'static str, &'static str);

/// `GET /metrics`
pub(crate) async fn metrics(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Problem> {
    let mut text = String::new();
    own_figures(&app, &mut text);
    for (table, keys, label, figures) in TABLES {
        let mut rows = select_all(&app, &identity, table).await?;
        if table == "Pool" {
            add_default_pool(&app, &mut rows);
        }
        for (column, metric, kind, help) in figures {
            head(&mut text, metric, kind, help);
            for row in &rows {
                let Some(value) = row.get(*column) else { continue };
                let own = format!("{label}=\"{}\"", title(row, keys));
                line(&mut text, metric, &own, value);
            }
        }
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// The default pool is always there, and has a row only if it is configured.
fn add_default_pool(app: &App, rows: &mut Vec<Map<String, Value>>) {
    let name = Value::from(DEFAULT_POOL);
    if rows.iter().any(|row| row.get("name") == Some(&name)) {
        return;
    }
    let (running, waiting) = app.host.control().pool_figures(PoolId::DEFAULT);
    let figures = [("running", running.into()), ("waiting", waiting.into())];
    let row = figures.into_iter().chain([("name", name)]);
    rows.push(row.map(|(column, value)| (column.to_owned(), value)).collect());
}

/// Writes a figure, or one for each class of a map; none of what is not known yet.
fn line(text: &mut String, metric: &str, labels: &str, value: &Value) {
    // Writing to a text cannot fail.
    if let Some(value) = number(value) {
        let _ = writeln!(text, "{metric}{{{labels}}} {value}");
    }
    for (class, value) in pairs(value) {
        if let (Some(class), Some(value)) = (class.as_str(), number(value)) {
            let class = escaped(class);
            let _ = writeln!(text, "{metric}{{{labels},class=\"{class}\"}} {value}");
        }
    }
}

/// A number, or 1 for what is true.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_bool().map(i64::from))
}

/// What a row is called, as the value of a label.
fn title(row: &Map<String, Value>, keys: &[&str]) -> String {
    let part = |key: &&str| match row.get(*key) {
        Some(Value::String(name)) => escaped(name),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    keys.iter().map(part).collect::<Vec<_>>().join("/")
}

fn own_figures(app: &App, text: &mut String) {
    let (sessions, permits) = app.registry.counts();
    let generation = app.host.control().snapshot().generation();
    for (metric, help, value) in [
        ("paceline_api_sessions", "Sessions of the API.", sessions as u64),
        ("paceline_api_permits", "Permits that clients of the API hold.", permits as u64),
        ("paceline_api_followers", "Clients that follow the events.", followers(app) as u64),
        ("paceline_config_generation", "Grows with every edit.", generation),
    ] {
        head(text, metric, "gauge", help);
        let _ = writeln!(text, "{metric} {value}");
    }
    let Some((succeeded, at)) = app.reload.figures() else { return };
    let at = at.unwrap_or_default();
    for (metric, help, value) in [
        (
            "paceline_reload_success",
            "Whether the configuration's files were read without an error when they were last read.",
            u64::from(succeeded),
        ),
        (
            "paceline_reload_success_timestamp_seconds",
            "When the configuration's files were last read without an error.",
            at,
        ),
    ] {
        head(text, metric, "gauge", help);
        let _ = writeln!(text, "{metric} {value}");
    }
}

fn head(text: &mut String, metric: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
}

/// A label's value, with what would end it escaped.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
