//! Metrics for Prometheus.
//!
//! All names are in two tables here, which also make the HELP lines and `docs/metrics.md`. Figures of objects are the
//! ephemeral columns of their rows.

use crate::events::followers;
use crate::identity::Identity;
use crate::objects::{DEFAULT_POOL, Row, select_all};
use crate::respond::Answer;
use crate::{App, Shared, large};
use axum::extract::{Extension, State};
use axum::http::HeaderValue;
use paceline_tables::value::{Atom, Datum};
use paceline_types::PoolId;
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
                "Requests that the rule was tried on.",
            ),
            (
                "matches",
                "paceline_rule_matches_total",
                "counter",
                "Requests that the rule matched.",
            ),
            (
                "errors",
                "paceline_rule_errors_total",
                "counter",
                "Conditions of the rule that could not be evaluated.",
            ),
        ],
    ),
    (
        "Checkpoint",
        &["name"],
        "checkpoint",
        &[
            ("arrived", "paceline_checkpoint_arrived_total", "counter", "Requests that arrived."),
            ("passed", "paceline_checkpoint_passed_total", "counter", "Requests that passed."),
            (
                "refused",
                "paceline_checkpoint_refused_total",
                "counter",
                "Requests that were refused.",
            ),
            (
                "would_wait",
                "paceline_checkpoint_would_wait_total",
                "counter",
                "Requests that passed in mode watch and would have waited in mode enforce.",
            ),
            (
                "would_refuse",
                "paceline_checkpoint_would_refuse_total",
                "counter",
                "Requests that passed in mode watch and would have been refused in mode enforce.",
            ),
            (
                "queued",
                "paceline_checkpoint_queued",
                "gauge",
                "Requests that wait at the checkpoint.",
            ),
            (
                "inflight",
                "paceline_checkpoint_inflight",
                "gauge",
                "Requests that count towards its concurrency.",
            ),
            ("keys", "paceline_checkpoint_keys", "gauge", "Keys that have a counter."),
        ],
    ),
    (
        "Resource",
        &["name"],
        "resource",
        &[
            ("holding", "paceline_resource_holding", "gauge", "Requests that hold the resource."),
            (
                "waiting",
                "paceline_resource_waiting",
                "gauge",
                "Requests that wait for the resource.",
            ),
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
            ("requests", "paceline_frontend_requests_total", "counter", "Requests that arrived."),
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
                "Requests whose client disconnected before the response began.",
            ),
            (
                "cut",
                "paceline_frontend_cut_total",
                "counter",
                "Responses that ended before they were complete.",
            ),
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
                "Requests that were refused because no server had room.",
            ),
        ],
    ),
    (
        "Server",
        &["backend", "name"],
        "server",
        &[
            ("up", "paceline_server_up", "gauge", "Whether the server is up (1) or down (0)."),
            ("inflight", "paceline_server_inflight", "gauge", "Requests that the server works on."),
        ],
    ),
];

/// A figure of the daemon as a whole, a gauge: its metric, its meaning, and its value if there is one.
type Own = (&'static str, &'static str, fn(&App) -> Option<u64>);

/// Figures of the daemon as a whole.
const OWN: [Own; 8] = [
    ("paceline_api_sessions", "Sessions of the API.", |app| Some(app.registry.counts().0 as u64)),
    ("paceline_api_permits", "Permits that clients of the API hold.", |app| {
        Some(app.registry.counts().1 as u64)
    }),
    (
        "paceline_api_followers",
        "Clients that follow the events.",
        |app| Some(followers(app) as u64),
    ),
    ("paceline_tokens_expiring", "Valid tokens that expire within 14 days.", |app| {
        Some(tokens(app).0)
    }),
    (
        "paceline_token_next_expiry_timestamp_seconds",
        "When the first of the valid tokens expires; absent if none of them does.",
        |app| tokens(app).1,
    ),
    ("paceline_config_generation", "A number that grows with every edit.", |app| {
        Some(app.host.control().snapshot().generation())
    }),
    (
        "paceline_reload_success",
        "Whether the last reload of the configuration files succeeded (1) or failed (0); absent without files.",
        |app| app.reload.figures().map(|(succeeded, _)| u64::from(succeeded)),
    ),
    (
        "paceline_reload_success_timestamp_seconds",
        "When a reload of the configuration files last succeeded; absent without files.",
        |app| app.reload.figures().map(|(_, at)| at.unwrap_or_default()),
    ),
];

/// How long before its expiry a token counts as expiring soon: 14 days.
const SOON_MS: u64 = 14 * 86_400_000;

/// The text format of Prometheus.
const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// A column, its metric, the type and the meaning.
type Figure = (&'static str, &'static str, &'static str, &'static str);

/// `GET /metrics`
pub(crate) async fn metrics(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let tables = async {
        let mut tables = Vec::with_capacity(TABLES.len());
        for (table, ..) in TABLES {
            let mut rows = select_all(&app, &identity, table).await?;
            if table == "Pool" {
                add_default_pool(&app, &mut rows);
            }
            tables.push(rows);
        }
        Ok(tables)
    };
    let write = |tables: Vec<Vec<Row>>, text: &mut large::Text| text.plain(&page(&app, &tables));
    large::text_of_rows(&app, &identity, PROMETHEUS, tables, write).await
}

/// All figures, with those of the rows of each table.
fn page(app: &App, tables: &[Vec<Row>]) -> String {
    let mut text = String::new();
    own_figures(app, &mut text);
    for ((_, keys, label, figures), rows) in TABLES.iter().zip(tables) {
        for (column, metric, kind, help) in *figures {
            head(&mut text, metric, kind, help);
            for row in rows {
                let Some(value) = row.get(*column) else { continue };
                let own = format!("{label}=\"{}\"", title(row, keys));
                line(&mut text, metric, &own, value);
            }
        }
    }
    text
}

/// Adds the default pool, which always exists, but has a row only if it is configured.
fn add_default_pool(app: &App, rows: &mut Vec<Row>) {
    let name = Datum::One(Atom::string(DEFAULT_POOL));
    if rows.iter().any(|row| row.get("name") == Some(&name)) {
        return;
    }
    let (running, waiting) = app.host.control().pool_figures(PoolId::DEFAULT);
    let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
    let figures = [("running", running.into()), ("waiting", waiting)];
    let figures = figures.map(|(column, number)| (column, Datum::One(Atom::Integer(number))));
    let row = figures.into_iter().chain([("name", name)]);
    rows.push(row.map(|(column, value)| (column.to_owned(), value)).collect());
}

/// Writes a figure, or one for each class of a map; nothing for a value that is not known yet.
fn line(text: &mut String, metric: &str, labels: &str, value: &Datum) {
    // Writing to a text cannot fail.
    if let Some(value) = value.single().and_then(number) {
        let _ = writeln!(text, "{metric}{{{labels}}} {value}");
    }
    for (class, value) in value.pairs() {
        if let (Some(class), Some(value)) = (class.as_str(), number(value)) {
            let class = escaped(class);
            let _ = writeln!(text, "{metric}{{{labels},class=\"{class}\"}} {value}");
        }
    }
}

/// A number; 1 for true.
const fn number(value: &Atom) -> Option<i64> {
    match value {
        Atom::Integer(number) => Some(*number),
        Atom::Boolean(flag) => Some(*flag as i64),
        _ => None,
    }
}

/// The name of a row, as the value of a label.
fn title(row: &Row, keys: &[&str]) -> String {
    let part = |key: &&str| match row.get(*key).and_then(Datum::single) {
        Some(Atom::Integer(number)) => number.to_string(),
        Some(name) => escaped(name.as_str().unwrap_or_default()),
        None => String::new(),
    };
    keys.iter().map(part).collect::<Vec<_>>().join("/")
}

fn own_figures(app: &App, text: &mut String) {
    for (metric, help, value) in OWN {
        let Some(value) = value(app) else { continue };
        head(text, metric, "gauge", help);
        let _ = writeln!(text, "{metric} {value}");
    }
}

/// How many valid tokens expire soon, and when the first of all expires, in seconds since 1970.
fn tokens(app: &App) -> (u64, Option<u64>) {
    let (expiries, now) = app.host.access().token_expiries();
    let soon = expiries.iter().filter(|ms| **ms <= now.saturating_add(SOON_MS)).count() as u64;
    (soon, expiries.iter().min().map(|ms| ms / 1_000))
}

#[cfg(test)]
const PAGE_HEAD: &str = "\
# Metrics

`GET /metrics` returns these figures in the text format of Prometheus. The role viewer is enough. This page is generated from
the tables in `crates/api/src/metrics.rs`, which also make the HELP lines; do not edit it.

## The daemon

| metric | type | meaning |
| --- | --- | --- |
";

/// The page `docs/metrics.md`.
#[cfg(test)]
fn metrics_page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for (metric, help, _) in OWN {
        let _ = writeln!(page, "| `{metric}` | gauge | {help} |");
    }
    for (table, keys, label, figures) in TABLES {
        let value = keys.iter().map(|key| key.to_uppercase()).collect::<Vec<_>>().join("/");
        let _ = write!(
            page,
            "\n## Table `{table}`\n\nEach row has the label `{label}=\"{value}\"`.\n\n\
             | metric | type | meaning |\n| --- | --- | --- |\n"
        );
        for (_, metric, kind, help) in figures {
            let _ = writeln!(page, "| `{metric}` | {kind} | {help} |");
        }
    }
    page
}

fn head(text: &mut String, metric: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
}

/// The value of a label, escaped.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::metrics_page;
    use std::path::Path;

    /// `REFERENCE_UPDATE=1` writes the page.
    #[test]
    fn the_page_of_metrics_is_made_from_the_tables() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let page = metrics_page();
        if std::env::var_os("REFERENCE_UPDATE").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == page,
            "docs/metrics.md is out of date: run the tests with REFERENCE_UPDATE=1"
        );
    }
}
