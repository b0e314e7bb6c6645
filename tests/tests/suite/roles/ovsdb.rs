//! The OVSDB door: over TCP with the role of the remote, and over the unix socket as other users.

use super::{Admin, Client, Need, Never, Nothing, Operator, REFUSED, ROLES, Viewer, World};
use super::{is_root, rank, uid};
use paceline_tests::Client as Connection;
use serde_json::{Value, json};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Method, parameters, least role.
type Row = (&'static str, &'static str, Need);

const METHODS: &[Row] = &[
    ("echo", r#"["x"]"#, Nothing),
    ("list_dbs", "[]", Viewer),
    ("get_schema", r#"["Paceline"]"#, Viewer),
    ("get_server_id", "[]", Viewer),
    ("set_db_change_aware", "[true]", Viewer),
    ("monitor", r#"["Paceline", "m1", {"Pool": {}}]"#, Viewer),
    ("monitor_cond", r#"["Paceline", "m2", {"Rule": {}, "User": {}}]"#, Viewer),
    ("monitor", r#"["Paceline", "m3", {"Pool": {}, "Token": {}}]"#, Admin),
    ("monitor", r#"["Paceline", "m4", {"User": {}, "Sql_Password": {}}]"#, Admin),
    ("lock", r#"["x"]"#, Client),
    ("unlock", r#"["x"]"#, Client),
    ("steal", r#"["y"]"#, Operator),
    (
        "convert",
        r#"["Other", {"name": "Other", "version": "1.0.1", "tables": {
            "T": {"columns": {"x": {"type": "integer"}}, "isRoot": true}}}]"#,
        Admin,
    ),
];

/// Parameters of `transact`, least role.
const TRANSACTIONS: &[(&str, Need)] = &[
    (r#"["Paceline"]"#, Viewer),
    (r#"["Paceline", {"op": "comment", "comment": "x"}]"#, Viewer),
    (r#"["Paceline", {"op": "select", "table": "Pool", "where": []}]"#, Viewer),
    (r#"["Paceline", {"op": "select", "table": "User", "where": []}]"#, Viewer),
    (r#"["Paceline", {"op": "select", "table": "Sql_Password", "where": []}]"#, Admin),
    (
        r#"["Paceline", {"op": "insert", "table": "Sql_Target", "row": {"name": "t", "sqlite": "a.db"}}]"#,
        Admin,
    ),
    (
        r#"["Paceline", {"op": "wait", "table": "Pool", "where": [], "columns": ["name"],
            "until": "!=", "rows": [], "timeout": 0}]"#,
        Viewer,
    ),
    // A transaction that changes nothing needs no higher role.
    (r#"["Paceline", {"op": "delete", "table": "Rule", "where": [["number", "==", 99]]}]"#, Viewer),
    (r#"["Paceline", {"op": "insert", "table": "Rule", "row": {"number": 8}}]"#, Operator),
    (
        r#"["Paceline", {"op": "update", "table": "Rule", "where": [], "row": {"log": true}}]"#,
        Operator,
    ),
    (
        r#"["Paceline", {"op": "mutate", "table": "Rule", "where": [], "mutations": [["number", "+=", 1]]}]"#,
        Operator,
    ),
    (r#"["Paceline", {"op": "delete", "table": "Rule", "where": []}]"#, Operator),
    (
        r#"["Paceline", {"op": "update", "table": "Pool", "where": [["name", "==", "p"]],
            "row": {"threads_max": 2, "state": "started", "persistent": false}}]"#,
        Operator,
    ),
    (r#"["Paceline", {"op": "delete", "table": "Resource", "where": []}]"#, Operator),
    (
        r#"["Paceline", {"op": "insert", "table": "Checkpoint",
            "row": {"name": "d", "at": "frontend api"}}, {"op": "delete", "table": "Checkpoint",
            "where": [["name", "==", "c"]]}]"#,
        Operator,
    ),
    (r#"["Other", {"op": "insert", "table": "T", "row": {"x": 1}}]"#, Operator),
    (r#"["Paceline", {"op": "insert", "table": "Pool", "row": {"name": "q"}}]"#, Admin),
    (r#"["Paceline", {"op": "delete", "table": "Pool", "where": [["name", "==", "p"]]}]"#, Admin),
    (
        r#"["Paceline", {"op": "update", "table": "Pool", "where": [["name", "==", "p"]],
            "row": {"persistent": true}}]"#,
        Admin,
    ),
    (
        r#"["Paceline", {"op": "insert", "table": "Resource",
            "row": {"name": "kept", "persistent": true}}]"#,
        Admin,
    ),
    // One part that needs a higher role decides for the whole transaction.
    (
        r#"["Paceline", {"op": "update", "table": "Rule", "where": [], "row": {"log": true}},
            {"op": "insert", "table": "Pool", "row": {"name": "q"}}]"#,
        Admin,
    ),
    (
        r#"["Paceline", {"op": "insert", "table": "Saved_Rule", "row": {"number": 77}},
            {"op": "delete", "table": "Saved_Rule", "where": [["number", "!=", 77]]}]"#,
        Admin,
    ),
    (
        r#"["Paceline", {"op": "insert", "table": "User", "row": {"name": "eva", "role": "admin"}}]"#,
        Admin,
    ),
    (r#"["Paceline", {"op": "select", "table": "Token", "where": []}]"#, Admin),
    (
        r#"["Paceline", {"op": "update", "table": "Token", "where": [["name", "==", "t-viewer"]],
            "row": {"role": "viewer"}}]"#,
        Admin,
    ),
    (r#"["Paceline", {"op": "insert", "table": "Lock", "row": {"name": "z"}}]"#, Never),
    (
        r#"["Paceline", {"op": "update", "table": "Daemon", "where": [], "row": {"name": "z"}}]"#,
        Never,
    ),
];

/// The error in a reply to `transact`, in the results or instead of them.
fn error(answer: &Value) -> &Value {
    static NONE: Value = Value::Null;
    let mut results = answer["result"].as_array().into_iter().flatten();
    let failed = results.rfind(|result| !result["error"].is_null());
    failed.or(Some(&answer["error"]).filter(|error| !error.is_null())).unwrap_or(&NONE)
}

/// What is wrong with a reply, if anything.
fn judge(answer: &Value, has: Need, need: Need) -> Option<String> {
    let error = error(answer);
    let right = match has >= need {
        true => error.is_null(),
        false if need == Never && has >= Viewer => error["error"] == "permission error",
        false => error["error"] == "permission error" && error["details"] == REFUSED,
    };
    (!right).then(|| format!("{has:?} has {need:?}: {answer}\n"))
}

fn reset(world: &World) {
    world.reset();
    world.admin("POST", "/v1/rules/clear", &Value::Null);
    world.admin("PUT", "/v1/rules/7", &json!({ "raise": 1 }));
    world.admin("DELETE", "/v1/checkpoints/d", &Value::Null);
    let unsave = r#"["Paceline", {"op": "delete", "table": "Saved_Rule", "where": []}]"#;
    world.daemon.connect().call("transact", &serde_json::from_str(unsave).unwrap()).unwrap();
}

#[test]
fn roles_of_remotes_at_the_ovsdb_door() {
    let mut wrong = String::new();
    for (at, role) in ROLES.iter().enumerate() {
        let world = World::new(role);
        let has = rank(Some(at));
        let mut client = Connection::connect_tcp(world.daemon.port("ptcp")).unwrap();
        let mut ask = |method: &str, params: &str| {
            let id = client.request(method, params).unwrap();
            loop {
                let message = client.message().unwrap();
                if message["id"] == id {
                    return message;
                }
            }
        };
        for (method, params, need) in METHODS {
            reset(&world);
            let answer = ask(method, params);
            wrong.extend(judge(&answer, has, *need).map(|w| format!("{method} {params}: {w}")));
        }
        for (params, need) in TRANSACTIONS {
            reset(&world);
            let answer = ask("transact", params);
            wrong.extend(judge(&answer, has, *need).map(|w| format!("transact {params}: {w}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn roles_of_users_at_the_ovsdb_door() {
    if !is_root() {
        return;
    }
    let world = World::new("viewer");
    let remote = format!("unix:{}", world.daemon.socket().display());
    let mut wrong = String::new();
    for role in (0..ROLES.len()).map(Some).chain([None]) {
        for (params, need) in TRANSACTIONS {
            reset(&world);
            let mut command = Command::new("ovsdb-client");
            command.uid(uid(role)).gid(uid(role)).current_dir("/").env("HOME", "/");
            command.args(["--timeout=10", "transact", &remote, params]);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // It prints the results, or prints an error and fails.
            let result: Value = serde_json::from_str(&text).unwrap_or_default();
            let said = String::from_utf8_lossy(&output.stderr);
            let answer = match said.contains("permission error") {
                true => json!({ "error": { "error": "permission error", "details": REFUSED } }),
                false => json!({ "result": result, "error": null }),
            };
            let told = output.status.success() || said.contains(REFUSED);
            assert!(told, "{params} by {role:?}: {said} {text}");
            let found = judge(&answer, rank(role), *need);
            wrong.extend(found.map(|w| format!("transact {params}: {w}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A user's connection ends when its role is revoked, so that no client keeps a revoked role.
#[test]
fn a_user_whose_role_is_taken_away_is_cut_off() {
    if !is_root() {
        return;
    }
    let world = World::new("viewer");
    let remote = format!("unix:{}", world.daemon.socket().display());
    let mut command = Command::new("ovsdb-client");
    command.uid(uid(Some(0))).gid(uid(Some(0))).current_dir("/").env("HOME", "/");
    command.args(["--timeout=20", "monitor", &remote, "Paceline", "Rule", "number"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It prints the table when the daemon has replied.
    let mut first = [0];
    reset(&world);
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    let path = format!("/v1/users/{}", uid(Some(0)));
    assert_eq!(world.admin("DELETE", &path, &Value::Null).0, 204);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("Alarm clock"), "{said}");
    assert!(!output.status.success() && output.status.code().is_some(), "{output:?}");
}

/// D1: a user without a role may do nothing, so its long messages are not even parsed.
#[test]
fn a_user_without_a_role_sends_short_messages_d1() {
    if !is_root() {
        return;
    }
    let world = World::new("viewer");
    let remote = format!("unix:{}", world.daemon.socket().display());
    let ask = |role: Option<usize>, bytes: usize| {
        let comment = json!({ "op": "comment", "comment": "x".repeat(bytes) });
        let mut command = Command::new("ovsdb-client");
        command.uid(uid(role)).gid(uid(role)).current_dir("/").env("HOME", "/");
        let params = json!(["Paceline", comment]).to_string();
        command.args(["--timeout=10", "transact", &remote, &params]);
        let output = command.output().unwrap();
        let refused = String::from_utf8_lossy(&output.stderr).contains(REFUSED);
        (output.status.success(), refused)
    };
    for bytes in [60_000, 70_000] {
        assert_eq!(ask(Some(0), bytes), (true, false), "a viewer, {bytes} bytes");
    }
    assert_eq!(ask(None, 60_000), (false, true), "a message that is short enough is answered");
    assert_eq!(ask(None, 70_000), (false, false), "a longer one ends the connection");
}
