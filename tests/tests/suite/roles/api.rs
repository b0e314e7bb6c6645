//! The API, over TCP with tokens and over the unix socket as other local users.

use super::{Admin, Client, Need, Nothing, Operator, REFUSED, ROLES, Viewer, World};
use super::{is_root, rank, uid};
use paceline_tests::caller::Caller;
use serde_json::Value;

/// Method, path, body (`$S` is a session), least role, and the status of success.
type Row = (&'static str, &'static str, &'static str, Need, u16);

const TABLE: &[Row] = &[
    ("GET", "/healthz", "", Nothing, 200),
    ("GET", "/v1/whoami", "", Viewer, 200),
    ("GET", "/v1/openapi.json", "", Viewer, 200),
    ("GET", "/metrics", "", Viewer, 200),
    ("GET", "/v1/pools", "", Viewer, 200),
    ("GET", "/v1/pools/p", "", Viewer, 200),
    ("GET", "/v1/rules", "", Viewer, 200),
    ("GET", "/v1/rules/7", "", Viewer, 200),
    ("GET", "/v1/saved-rules", "", Viewer, 200),
    ("GET", "/v1/checkpoints", "", Viewer, 200),
    ("GET", "/v1/resources", "", Viewer, 200),
    ("GET", "/v1/frontends", "", Viewer, 200),
    ("GET", "/v1/frontends/f", "", Viewer, 200),
    ("GET", "/v1/backends", "", Viewer, 200),
    ("GET", "/v1/backends/b", "", Viewer, 200),
    ("GET", "/v1/servers", "", Viewer, 200),
    ("GET", "/v1/servers/b/s", "", Viewer, 200),
    ("GET", "/v1/api", "", Viewer, 200),
    ("GET", "/v1/http", "", Viewer, 200),
    ("GET", "/v1/tree", "", Viewer, 200),
    ("GET", "/v1/locks", "", Viewer, 200),
    ("GET", "/v1/permits", "", Viewer, 200),
    ("GET", "/v1/requests", "", Viewer, 200),
    ("GET", "/v1/why/999999", "", Viewer, 404),
    ("POST", "/v1/explain", "{}", Viewer, 200),
    ("GET", "/v1/events", "", Viewer, 200),
    ("POST", "/v1/sessions", "{}", Client, 201),
    ("POST", "/v1/sessions/$S/renew", "{}", Client, 200),
    ("DELETE", "/v1/sessions/$S", "", Client, 204),
    ("POST", "/v1/permits", r#"{"lease": "1s"}"#, Client, 201),
    ("PUT", "/v1/permits/job", "{}", Client, 201),
    ("PUT", "/v1/locks/x", r#"{"session": "$S"}"#, Client, 200),
    ("DELETE", "/v1/locks/x?session=$S", "", Client, 409),
    ("PUT", "/v1/locks/x", r#"{"session": "$S", "steal": true}"#, Operator, 200),
    ("POST", "/v1/permits", r#"{"attributes": {"user": "x"}, "lease": "1s"}"#, Operator, 201),
    ("POST", "/v1/requests/999999/cancel", "{}", Operator, 404),
    ("POST", "/v1/pools/p/start", "", Operator, 200),
    ("POST", "/v1/pools/p/stop", "", Operator, 200),
    ("POST", "/v1/pools/p/drain", "", Operator, 200),
    ("PATCH", "/v1/pools/p", r#"{"threads": {"max": 2}}"#, Operator, 200),
    ("PUT", "/v1/pools/p", r#"{"priority": [-8, -1]}"#, Operator, 200),
    ("POST", "/v1/rules", r#"{"raise": 1}"#, Operator, 201),
    ("PUT", "/v1/rules/8", r#"{"raise": 1}"#, Operator, 201),
    ("PATCH", "/v1/rules/7", r#"{"lower": 1, "raise": null}"#, Operator, 200),
    ("POST", "/v1/rules/7/disable", "", Operator, 200),
    ("POST", "/v1/rules/7/enable", "", Operator, 200),
    ("DELETE", "/v1/rules/7", "", Operator, 204),
    ("POST", "/v1/rules/clear", "", Operator, 204),
    ("PATCH", "/v1/checkpoints/c", r#"{"rate": "8000/s"}"#, Operator, 200),
    ("DELETE", "/v1/checkpoints/c", "", Operator, 204),
    ("PUT", "/v1/resources/r", r#"{"parents": []}"#, Operator, 200),
    ("DELETE", "/v1/resources/r", "", Operator, 204),
    ("PUT", "/v1/frontends/g", r#"{"listen": "127.0.0.1:0"}"#, Operator, 201),
    ("PATCH", "/v1/frontends/f", r#"{"max_body": 5}"#, Operator, 200),
    ("DELETE", "/v1/frontends/f", "", Operator, 204),
    ("PUT", "/v1/backends/c", "{}", Operator, 201),
    ("PATCH", "/v1/backends/b", r#"{"retries": 1}"#, Operator, 200),
    ("DELETE", "/v1/backends/b", "", Operator, 204),
    ("PUT", "/v1/servers/b/t", r#"{"address": "127.0.0.1:1"}"#, Operator, 201),
    ("PATCH", "/v1/servers/b/s", r#"{"weight": 0}"#, Operator, 200),
    ("DELETE", "/v1/servers/b/s", "", Operator, 204),
    // The content of such a file is shown to every client.
    ("PATCH", "/v1/frontends/f", r#"{"errors": {"503": "/etc/hostname"}}"#, Admin, 200),
    ("PATCH", "/v1/frontends/f", r#"{"persistent": true}"#, Admin, 200),
    ("PATCH", "/v1/backends/b", r#"{"tls": true}"#, Operator, 200),
    ("PATCH", "/v1/backends/b", r#"{"tls": {"ca": "/etc/hostname"}}"#, Admin, 200),
    ("PATCH", "/v1/backends/b", r#"{"tls": {"certificate": "/c", "key": "/k"}}"#, Admin, 200),
    ("PATCH", "/v1/backends/b", r#"{"tls": {"verify": false}}"#, Admin, 200),
    ("PUT", "/v1/backends/c", r#"{"persistent": true}"#, Admin, 201),
    ("PUT", "/v1/pools/q", "{}", Admin, 201),
    ("DELETE", "/v1/pools/p", "", Admin, 204),
    ("POST", "/v1/pools/p/persist", "", Admin, 200),
    ("PATCH", "/v1/pools/p", r#"{"persistent": true}"#, Admin, 200),
    ("PUT", "/v1/resources/kept", r#"{"persistent": true}"#, Admin, 201),
    ("PATCH", "/v1/checkpoints/c", r#"{"persistent": true}"#, Admin, 200),
    ("POST", "/v1/rules/save", "", Admin, 204),
    ("GET", "/v1/tokens", "", Admin, 200),
    ("POST", "/v1/tokens", r#"{"name": "ci", "role": "viewer"}"#, Admin, 201),
    ("DELETE", "/v1/tokens/none", "", Admin, 404),
    ("PUT", "/v1/sql-targets/t", r#"{"sqlite": "a.db"}"#, Admin, 201),
    ("PATCH", "/v1/sql-targets/s", r#"{"notice": false}"#, Operator, 200),
    ("PATCH", "/v1/sql-targets/s", r#"{"sqlite": "b.db"}"#, Admin, 200),
    ("DELETE", "/v1/sql-targets/s", "", Admin, 204),
    ("GET", "/v1/sql-targets", "", Viewer, 200),
    // One of the rules cannot be expressed.
    ("GET", "/v1/rules/export", "", Viewer, 409),
    ("GET", "/v1/users", "", Viewer, 200),
    ("PUT", "/v1/users/eva", r#"{"role": "viewer"}"#, Admin, 201),
    ("DELETE", "/v1/users/none", "", Admin, 404),
];

/// All callers of the API: name, caller, rank, and the status of a refusal.
fn callers(world: &World) -> Vec<(String, Caller, Need, u16)> {
    let mut all = vec![
        ("no token".to_owned(), world.tcp(None), Nothing, 401),
        ("wrong token".to_owned(), world.tcp(Some(&"0".repeat(64))), Nothing, 401),
    ];
    for (at, role) in ROLES.iter().enumerate() {
        let caller = world.tcp(Some(&world.tokens[at]));
        all.push((format!("token of {role}"), caller, rank(Some(at)), 403));
    }
    let roles = (0..ROLES.len()).map(Some).chain([None]);
    for role in roles.filter(|_| is_root()) {
        let caller = Caller::User(world.socket(), uid(role));
        all.push((format!("user with {:?}", rank(role)), caller, rank(role), 403));
    }
    all
}

#[test]
fn roles_at_the_api() {
    let world = World::new("operator");
    let callers = callers(&world);
    let mut wrong = String::new();
    for (method, path, body, need, success) in TABLE {
        for (who, caller, has, refusal) in &callers {
            world.reset();
            let session = world.session();
            let [path, body] = [path, body].map(|text| text.replace("$S", &session));
            let (status, answer) =
                caller.ask(method, &path, Some(body.as_str()).filter(|b| !b.is_empty()));
            let expected = if has >= need { *success } else { *refusal };
            let told = *refusal != 403 || has >= need || answer["message"] == REFUSED;
            if status != expected || !told {
                wrong += &format!(
                    "{method} {path} {body} by {who}: {status}, not {expected}: {answer}\n"
                );
            }
            world.admin("DELETE", &format!("/v1/sessions/{session}"), &Value::Null);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A refused edit is reported and recorded, and nothing of it is done.
#[test]
fn what_is_refused_at_the_api_changes_nothing() {
    let world = World::new("operator");
    world.reset();
    let before = world.admin("GET", "/v1/pools", &Value::Null);
    let operator = world.tcp(Some(&world.tokens[2]));
    let both = r#"{"threads": {"max": 1}, "persistent": true}"#;
    assert_eq!(operator.ask("PATCH", "/v1/pools/p", Some(both)).0, 403);
    assert_eq!(world.admin("GET", "/v1/pools", &Value::Null), before);
}
