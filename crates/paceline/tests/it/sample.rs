//! A daemon with a sample of everything, as the API's contract shows it.
//!
//! A text `@-150` stands for the time 150 seconds ago.

use crate::fake::{Asked, Reply};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn answer(asked: &Asked) -> Option<Reply> {
    let line = asked.line();
    // The directory of a file differs from machine to machine.
    let line = line.split("&directory=").next().unwrap_or_default();
    let found = match line {
        "GET /v1/requests" => requests(),
        "GET /v1/why/17" => why(),
        "GET /v1/pools" => pools(),
        "GET /v1/rules" => rules(),
        "GET /v1/saved-rules" => json!([]),
        "GET /v1/checkpoints" => checkpoints(),
        "GET /v1/frontends" => frontends(),
        "GET /v1/backends" => backends(),
        "GET /v1/servers" => servers(),
        "GET /v1/sql-targets" => sql_targets(),
        "GET /v1/resources" => resources(),
        "GET /v1/tree" => tree(),
        "GET /v1/locks" => locks(),
        "GET /v1/tokens" => tokens(),
        "GET /v1/users" => {
            json!([{"name": "app", "sql_password": true}, {"name": "eva", "role": "operator", "sql_password": true},
                {"name": "größe", "role": "viewer"}])
        }
        "GET /v1/whoami" => json!({"user": "eva", "role": "operator", "host": "unix"}),
        "GET /v1/status" => json!({"version": "0.1.0", "pid": 7, "sync": "asked", "warnings": [],
            "requests": {"running": 2, "waiting": 3}}),
        "POST /v1/tokens" => {
            return Some(Reply::Json(
                201,
                with_times(json!({"name": "ci", "role": "client",
                "user": "ci", "created": "@0", "expires": "@+7776030",
                "token": "0123456789abcdef0123456789abcdef"})),
            ));
        }
        "DELETE /v1/tokens/old" => {
            let body = json!({"error": "not_found", "message": "there is no token \"old\""});
            return Some(Reply::Json(404, body));
        }
        "DELETE /v1/tokens/report" => {
            let message = "caller does not have the necessary permission";
            let body = json!({"error": "permission", "message": message,
                "hint": "this needs the role admin, and yours is viewer; an admin can give you that role"});
            return Some(Reply::Json(403, body));
        }
        "POST /v1/apply?dry_run=true&file=paceline.toml" => json!([
            {"op": "delete", "kind": "rule", "name": "10"},
            {"op": "change", "kind": "checkpoint", "name": "per-user",
             "members": ["key", "rate", "burst", "queue", "status"]},
            {"op": "create", "kind": "pool", "name": "interactive-reports"},
            {"op": "change", "kind": "saved-rule", "name": "20", "members": ["match"]},
            {"op": "drift", "kind": "pool", "name": "batch", "members": ["started", "threads"]},
            {"op": "drift", "kind": "rule", "name": "30", "deleted": true},
        ]),
        "POST /v1/explain" => json!({"message": "rule 10 matched: lower 20, stop\n\
            priority -20, pool \"batch\"\n\
            checkpoint \"per-user\" (key \"etl-7\"): would wait, for 1.5s\n\
            would wait at checkpoint \"per-user\" (key \"etl-7\"), for 1.5s\n",
            "rules": [
                {"number": 5, "outcome": "criterion", "message": "task is \"\", not \"backup\""},
                {"number": 10, "outcome": "matched", "message": "matched, priority -20"},
            ],
            "foreseen": {"kind": "wait"}}),
        "GET /v1/events" => return Some(Reply::Raw(events().into_bytes())),
        line if line.starts_with("GET /v1/why/") => {
            let message = "request 99 neither waits nor runs";
            let body = json!({"error": "not_found", "message": message,
                "hint": "GET /v1/requests lists those that do"});
            return Some(Reply::Json(404, body));
        }
        _ => return None,
    };
    Some(Reply::Json(200, with_times(found)))
}

/// A daemon that is a reverse proxy.
pub fn answer_http(asked: &Asked) -> Option<Reply> {
    let found = match asked.line().as_str() {
        "GET /v1/requests" => requests_http(),
        "GET /v1/why/43" => why_http(),
        "GET /v1/why/41" => why_connection(),
        "POST /v1/explain" if asked.body["on"] == "connection" => json!({
            "message": "checkpoint \"connections\": would pass\nwould start", "rules": []}),
        "POST /v1/explain" => json!({"message": "backend \"app\", server \"app/a\"\n\
            priority 0, pool \"default\"\n\
            checkpoint \"per-client\" (key \"203.0.113.7\"): would wait, for 1.5s\n\
            checkpoint \"servers of app\": would pass\n\
            would wait at checkpoint \"per-client\" (key \"203.0.113.7\"), for 1.5s",
            "rules": [], "backend": "app", "server": "app/a"}),
        _ => return None,
    };
    Some(Reply::Json(200, with_times(found)))
}

fn requests() -> Value {
    json!([
        {"request": 3, "state": "running", "user": "alice", "text": "nightly backup of everything there is",
         "pool": "default", "priority": 0, "since": "@-150", "permit": "p-1"},
        {"request": 17, "state": "waiting", "behind": 3, "ahead_total": 12, "user": "etl-7", "text": "select * from orders\u{1b}[2J",
         "pool": "batch", "priority": -20, "since": "@-10800",
         "waits_for": {"kind": "resource", "resource": "dataset:tank/home"}},
        {"request": 12345, "state": "waiting", "user": "größe", "text": "レポート",
         "pool": "batch", "priority": 5, "since": "@-432000",
         "waits_for": {"kind": "checkpoint", "checkpoint": "per-user", "key": "größe"}},
    ])
}

fn why() -> Value {
    json!({"request": 17, "state": "waiting", "message": "waits for resource \"dataset:tank/home\"",
        "waits_for": {"kind": "resource", "resource": "dataset:tank/home"},
        "arrived_at": "@-10830", "since": "@-10800", "ahead": [3, 5, 8], "ahead_total": 12,
        "behind": [{"request": 3, "state": "running", "user": "alice", "text": "nightly report", "since": "@-150"},
            {"request": 5, "state": "waiting", "user": "root", "text": "sleep 60\u{1b}[2J", "since": "@-90"}],
        "until": null, "deadline": "@+4000", "priority": -20, "pool": "batch"})
}

/// The requests that run and wait at the HTTP door.
fn requests_http() -> Value {
    let web = |request: u64, members: Value| {
        let mut all = json!({"request": request, "state": "running", "on": "request", "user": "",
            "text": "", "pool": "default", "priority": 0, "since": "@-200", "client": "203.0.113.7",
            "frontend": "web"});
        for (name, value) in members.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    };
    json!([
        web(41, json!({"on": "connection", "pool": "", "since": "@-150"})),
        web(42, json!({"method": "GET", "text": "/search?q=a", "backend": "app", "server": "app/a"})),
        web(43, json!({"method": "POST", "text": "/orders", "backend": "app", "state": "waiting",
            "user": "alice", "ahead_total": 12,
            "waits_for": {"kind": "checkpoint", "checkpoint": "per-client", "key": "203.0.113.7"}})),
        web(44, json!({"on": "connection", "pool": "", "state": "waiting", "client": "2001:db8::17",
            "ahead_total": 100, "waits_for": {"kind": "checkpoint", "checkpoint": "connections"}})),
        {"request": 45, "state": "running", "on": "request", "user": "etl", "text": "nightly",
         "pool": "batch", "priority": -20, "since": "@-10800"},
    ])
}

fn why_http() -> Value {
    json!({"request": 43, "state": "waiting", "on": "request", "method": "POST", "text": "/orders",
        "client": "203.0.113.7", "frontend": "web", "backend": "app",
        "message": "waits at checkpoint \"per-client\" (key \"203.0.113.7\"), 12 ahead, for another 1h7m",
        "waits_for": {"kind": "checkpoint", "checkpoint": "per-client", "key": "203.0.113.7"},
        "arrived_at": "@-150", "since": "@-150", "ahead": [42, 40, 39], "ahead_total": 12,
        "until": "@+4030", "deadline": "@+7230", "priority": 0, "pool": "default"})
}

fn why_connection() -> Value {
    json!({"request": 41, "state": "running", "on": "connection", "text": "", "message": "runs",
        "client": "203.0.113.7", "frontend": "web", "waits_for": {"kind": "nothing"},
        "arrived_at": "@-150", "since": "@-150", "ahead": [], "ahead_total": 0, "priority": 0,
        "pool": ""})
}

fn pools() -> Value {
    json!([
        {"name": "default", "state": "started", "persistent": true,
         "figures": {"running": 1, "waiting": 0}},
        {"name": "batch", "state": "draining", "priority": [-127, -1], "threads": {"min": 0, "max": 8},
         "queue": {"max_len": 10000, "max_delay": "10m"}, "persistent": true,
         "figures": {"running": 8, "waiting": 1234}},
        {"name": "interactive-reports", "state": "stopped", "priority": [10, 20],
         "threads": {"min": 2, "max": 16}, "persistent": false,
         "figures": {"running": 0, "waiting": 0}},
    ])
}

fn rules() -> Value {
    json!([
        {"number": 10, "match": {"user": "etl-*", "text": "select *"}, "mode": "glob",
         "when": "rate(\"per-user\", user) > 100.0", "lower": 20, "then": "stop",
         "figures": {"matches": 12, "evaluations": 4711}},
        {"number": 20, "match": {"user": {"regex": "^root$"}}, "reject": true, "then": "stop",
         "log": true, "disabled": true, "figures": {"matches": 0, "evaluations": 4699}},
        {"number": 30, "set": 5, "then": "continue", "figures": {"matches": 9, "evaluations": 9}},
        {"number": 40, "match": {}, "then": "continue", "log": true},
    ])
}

fn checkpoints() -> Value {
    json!([
        {"name": "per-user", "at": "frontend api", "key": "user", "rate": "500/s", "burst": 50,
         "figures": {"arrived": 90000, "passed": 89000, "refused": 998, "queued": 2, "inflight": 0}},
        {"name": "batch-inflight", "at": "pool batch", "concurrency": 10, "mode": "watch",
         "figures": {"passed": 100, "refused": 0, "would_refuse": 7, "would_wait": 31, "queued": 0,
                     "inflight": 8}},
        {"name": "all", "at": "frontend api", "figures": {"passed": 5}},
    ])
}

fn frontends() -> Value {
    json!([
        {"name": "web", "listen": ["0.0.0.0:443", "[::]:443"], "backend": "app",
         "tls": [{"certificate": "/etc/tls/a.pem", "key": "/etc/tls/a.key"}],
         "use_backend": [{"when": "path.startsWith(\"/static/\")", "backend": "files"},
                         {"when": "inflight(\"busy\") > 90", "backend": "overflow"}],
         "user": "bearer", "access_log": "json", "persistent": true, "proxy_protocol": false,
         "figures": {"connections": 312, "accepted": 90210, "requests": 1234567, "left": 17, "cut": 3,
                     "listening": ["0.0.0.0:443", "[::]:443"],
                     "responses": {"1xx": 0, "2xx": 1230000, "3xx": 512, "4xx": 4000, "5xx": 55}}},
        {"name": "behind", "listen": ["unix:/run/paceline/web.sock"], "backend": "app",
         "persistent": false, "proxy_protocol": true,
         "figures": {"connections": 0, "accepted": 0, "requests": 0, "left": 0, "cut": 0}},
    ])
}

fn backends() -> Value {
    json!([
        {"name": "app", "balance": "least-connections", "health": {"path": "/health"},
         "queue": {"max_len": 1000, "max_delay": "10s"}, "tls": true, "persistent": true,
         "figures": {"queued": 3, "refused": 12}},
        {"name": "files", "health": true, "tls": {"verify": false}, "persistent": true,
         "figures": {"queued": 0, "refused": 0}},
        {"name": "overflow", "persistent": true, "figures": {"queued": 0, "refused": 0}},
    ])
}

fn servers() -> Value {
    json!([
        {"backend": "app", "name": "a", "address": "10.0.0.11:8080", "weight": 2,
         "max_connections": 100, "figures": {"up": true, "inflight": 17}},
        {"backend": "app", "name": "b", "address": "10.0.0.12:8080",
         "figures": {"up": false, "inflight": 0}},
        {"backend": "files", "name": "unix:/run/files.sock", "address": "unix:/run/files.sock",
         "figures": {"inflight": 0}},
    ])
}

fn sql_targets() -> Value {
    json!([
        {"name": "app", "upstream": "postgresql://db1.internal,db2.internal:5433/app?sslmode=verify-full",
         "pooling": "session", "connections": {"max": 40, "idle": "5m"},
         "login": {"user": "web", "password_file": "/etc/paceline/web.pw"}, "persistent": true},
        {"name": "reports", "upstream": "postgresql:///reports?host=/run/postgresql", "persistent": false},
        {"name": "notes", "sqlite": "notes.db", "notice": false, "persistent": true},
    ])
}

fn resources() -> Value {
    json!([
        {"name": "disk:/dev/da0", "parents": [], "figures": {"holding": 1, "waiting": 0}},
        {"name": "disk:/dev/da1", "parents": [], "figures": {"holding": 0, "waiting": 0}},
        {"name": "zpool:tank", "parents": ["disk:/dev/da0", "disk:/dev/da1"],
         "figures": {"holding": 0, "waiting": 2}},
    ])
}

fn tokens() -> Value {
    json!([
        {"name": "admin", "role": "admin", "user": "admin"},
        {"name": "ci", "role": "client", "user": "ci", "created": "@-432000", "expires": "@+7344030"},
        {"name": "old-report-of-last-year", "role": "viewer", "user": "größe",
         "created": "@-34560000", "expires": "@-3600"},
    ])
}

fn tree() -> Value {
    json!([
        {"name": "disk:/dev/da0", "parents": [], "holders": [], "waiters": []},
        {"name": "disk:/dev/da1", "parents": [], "holders": [{"request": 9, "mode": "shared"}],
         "waiters": []},
        {"name": "zpool:tank", "parents": ["disk:/dev/da0", "disk:/dev/da1"],
         "holders": [], "waiters": []},
        {"name": "dataset:tank/home", "parents": ["zpool:tank"],
         "holders": [{"request": 3, "mode": "exclusive"}], "waiters": [17, 18]},
        {"name": "dataset:tank/var", "parents": ["zpool:tank"], "holders": [], "waiters": []},
        {"name": "snapshot:tank/home@monday", "parents": ["dataset:tank/home"],
         "holders": [], "waiters": []},
        {"name": "link:uplink-between-the-two-machine-rooms", "parents": [], "holders": [],
         "waiters": [21]},
    ])
}

fn locks() -> Value {
    json!([
        {"name": "deploy", "owner": "alice", "waiters": ["bob", "carol"], "waiting": 2, "fencing": 1042},
        {"name": "nightly-report-of-the-warehouse", "owner": null, "waiters": [], "waiting": 0, "fencing": 7},
    ])
}

fn events() -> String {
    let events = [
        (
            "started",
            json!({"request": 18, "at": "2026-01-31T10:20:30.123456Z", "pool": "default",
            "priority": 0}),
        ),
        (
            "refused",
            json!({"request": 19, "at": "2026-01-31T10:20:31.000000Z", "reason": "queue_full",
            "message": "pool \"batch\": the queue is full, 10000 may wait"}),
        ),
        ("lock", json!({"at": "2026-01-31T10:20:32.000000Z", "lock": "deploy", "what": "stolen"})),
        (
            "config",
            json!({"at": "2026-01-31T10:20:33.000000Z", "who": "api:alice@unix", "changes": [
                {"op": "insert", "table": "Pool", "row": "batch"},
                {"op": "update", "table": "Rule", "row": "10"},
                {"op": "delete", "table": "Resource", "row": "zpool:tank"}], "more": 4}),
        ),
    ];
    let text = |(kind, data): &(&str, Value)| format!("event: {kind}\ndata: {data}\n\n");
    let body: String = events.iter().map(text).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}")
}

fn with_times(value: Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('@') {
            Some(seconds) => moment(seconds.parse().unwrap()).into(),
            None => text.into(),
        },
        Value::Array(values) => values.into_iter().map(with_times).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, with_times(value))).collect()
        }
        other => other,
    }
}

/// The time `offset` seconds from now, RFC 3339.
fn moment(offset: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seconds = i64::try_from(now.as_secs()).unwrap() + offset;
    let (mut day, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let (month, day) = (month + 1, day + 1);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000000Z")
}
