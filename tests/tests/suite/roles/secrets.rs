//! No secrets in logs, the audit log, the database, or the configuration that is shown (A1).

use super::World;
use paceline_tests::caller::Caller;
use paceline_tests::{Client, Launch, Scratch};
use serde_json::{Value, json};

#[test]
fn no_token_is_in_any_log_or_file_but_its_own_a1() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch).api("127.0.0.1:0").option("--log", "trace");
    let daemon = launch.start().unwrap();
    let data = scratch.join("data");
    let admin = Caller::Unix(data.join("api.sock"));
    let (_, rest) = daemon.ready.split_once("api http://").unwrap();
    let address = rest.split([',', ';']).next().unwrap().to_owned();
    let tcp = |token: &str| Caller::Tcp { address: address.clone(), token: Some(token.to_owned()) };

    let first = std::fs::read_to_string(data.join("token")).unwrap().trim().to_owned();
    let body = r#"{"name": "ci", "role": "client", "expires": "1h"}"#;
    let (status, made) = tcp(&first).ask("POST", "/v1/tokens", Some(body));
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().unwrap().to_owned();
    assert_eq!(tcp(&token).ask("GET", "/v1/whoami", None).0, 200);
    assert_eq!(tcp(&token).ask("GET", "/v1/tokens", None).0, 403);
    let (_, session) = tcp(&token).ask("POST", "/v1/sessions", Some("{}"));
    let session = session["session"].as_str().unwrap().to_owned();
    let wrong = format!("{token}0");
    assert_eq!(tcp(&wrong).ask("GET", "/v1/whoami", None).0, 401);
    let mut ovsdb = Client::connect(&data.join("ovsdb.sock")).unwrap();
    let select = json!(["Paceline", { "op": "select", "table": "Token", "where": [] }]);
    let rows = ovsdb.call("transact", &select).unwrap().to_string();
    let list = admin.ask("GET", "/v1/tokens", None).1.to_string();
    assert_eq!(admin.ask("DELETE", "/v1/tokens/admin", None).0, 204);
    let second = std::fs::read_to_string(data.join("token")).unwrap().trim().to_owned();
    assert_eq!(tcp(&first).ask("GET", "/v1/whoami", None).0, 401, "revoked");
    assert_eq!(tcp(&second).ask("DELETE", "/v1/tokens/ci", None).0, 204);
    assert_eq!(tcp(&token).ask("GET", "/v1/whoami", None).0, 401, "revoked");

    let log = daemon.terminate().log;
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "it logs all there is: {log}");
    let read =
        |name: &str| String::from_utf8_lossy(&std::fs::read(data.join(name)).unwrap()).into_owned();
    let (audit, database) = (read("audit.log"), read("paceline.db"));
    assert!(database.contains("Token") && audit.contains("Token"), "they were kept and recorded");
    for (place, text) in [
        ("log", &log),
        ("audit", &audit),
        ("database", &database),
        ("list", &list),
        ("table", &rows),
    ] {
        for secret in [&first, &token, &second, &session] {
            assert!(!text.contains(secret.as_str()), "{secret} is in the {place}");
        }
    }
    let edits: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["what"] != "refused permission")
        .collect();
    let told: Vec<String> =
        edits.iter().map(|edit| format!("{} {}", edit["what"], edit["changes"])).collect();
    assert_eq!(edits.len(), 3, "made, replaced, revoked: {told:?}");
    assert!(edits.iter().all(|edit| edit["at"].is_string() && edit["who"].is_string()));
    let made = json!([{ "op": "insert", "table": "Token", "row": "ci" }]);
    assert_eq!(edits[0]["changes"], made);
}

/// A revoked token stays revoked after a restart, and a valid one stays valid.
#[test]
fn tokens_and_users_survive_a_restart() {
    let world = World::new("operator");
    assert_eq!(world.admin("DELETE", "/v1/tokens/t-client", &Value::Null).0, 204);
    let World { daemon, scratch, tokens } = world;
    daemon.kill();
    let daemon = Launch::new(&scratch).api("127.0.0.1:0").start().unwrap();
    let world = World { daemon, scratch, tokens };
    let status = |at: usize| world.tcp(Some(&world.tokens[at])).ask("GET", "/v1/whoami", None).0;
    assert_eq!([0, 1, 2, 3].map(status), [200, 401, 200, 200]);
    let (_, users) = world.admin("GET", "/v1/users", &Value::Null);
    assert_eq!(users.as_array().unwrap().len(), 4, "{users}");
}
