//! `monitor_cond_since`: a client that reconnects with the last id it saw gets the changes that it missed.

use std::collections::BTreeMap;

use paceline_tests::{Client, Kind, Server};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.0.0", "tables": {
    "T": {"columns": {"k": {"type": "integer"}, "s": {"type": "string"}},
          "isRoot": true, "indexes": [["k"]]}}}"#;

/// The reply to a client that asks with `last`: found, the last id now, and rows.
struct Told {
    found: bool,
    last: String,
    rows: Value,
}

fn ask(client: &mut Client, last: &str) -> Told {
    let requests = json!({"T": [{"columns": ["k", "s"]}]});
    let result = client.call("monitor_cond_since", &json!(["db", "m", requests, last])).unwrap();
    Told {
        found: result[0].as_bool().unwrap(),
        last: result[1].as_str().unwrap().to_owned(),
        rows: result[2]["T"].clone(),
    }
}

fn transact(client: &mut Client, operation: Value) -> Value {
    client.call("transact", &json!(["db", operation])).unwrap()[0].clone()
}

fn insert(client: &mut Client, k: i64, s: &str) -> String {
    let operation = json!({"op": "insert", "table": "T", "row": {"k": k, "s": s}});
    transact(client, operation)["uuid"][1].as_str().unwrap().to_owned()
}

fn update(client: &mut Client, k: i64, s: &str) {
    let operation = json!({"op": "update", "table": "T", "where": [["k", "==", k]],
                           "row": {"s": s}});
    assert_eq!(transact(client, operation), json!({"count": 1}));
}

fn delete(client: &mut Client, k: i64) {
    let operation = json!({"op": "delete", "table": "T", "where": [["k", "==", k]]});
    assert_eq!(transact(client, operation), json!({"count": 1}));
}

const NEVER: &str = "00000000-0000-0000-0000-000000000000";

#[test]
fn a_client_that_comes_back_gets_the_net_changes_it_missed() {
    let server = Server::with_schemas(Kind::Paceline, &[SCHEMA]);
    let mut writer = server.connect();
    let uuids: BTreeMap<i64, String> =
        (1..=4).map(|k| (k, insert(&mut writer, k, "old"))).collect();
    let mut watcher = server.connect();
    let first = ask(&mut watcher, NEVER);
    assert!(!first.found);
    assert_eq!(first.rows.as_object().unwrap().len(), 4);
    update(&mut writer, 1, "seen");
    let seen = watcher.message().unwrap();
    assert_eq!(seen["method"], "update3", "{seen}");
    let last = seen["params"][1].as_str().unwrap().to_owned();
    drop(watcher);

    update(&mut writer, 1, "one");
    update(&mut writer, 1, "two");
    update(&mut writer, 2, "new");
    update(&mut writer, 2, "old");
    delete(&mut writer, 3);
    let fifth = insert(&mut writer, 5, "five");
    insert(&mut writer, 6, "came");
    delete(&mut writer, 6);
    let mut watcher = server.connect();
    let told = ask(&mut watcher, &last);
    assert!(told.found);
    let expected = json!({
        &uuids[&1]: {"modify": {"s": "two"}},
        &uuids[&3]: {"delete": null},
        &fifth: {"insert": {"k": 5, "s": "five"}},
    });
    assert_eq!(told.rows, expected);

    // Nothing more was missed after that, and later changes follow.
    drop(watcher);
    let mut watcher = server.connect();
    let again = ask(&mut watcher, &told.last);
    assert!(again.found && again.last == told.last);
    assert_eq!(again.rows, Value::Null);
    update(&mut writer, 4, "next");
    let next = watcher.message().unwrap();
    assert_eq!(next["params"][2]["T"][&uuids[&4]], json!({"modify": {"s": "next"}}));
    assert_ne!(next["params"][1], json!(told.last));
}

#[test]
fn an_id_that_is_unknown_or_of_another_life_gets_everything() {
    let mut server = Server::with_schemas(Kind::Paceline, &[SCHEMA]);
    let mut writer = server.connect();
    let uuid = insert(&mut writer, 1, "one");
    let everything = json!({&uuid: {"initial": {"k": 1, "s": "one"}}});
    let unknown = ask(&mut server.connect(), "01234567-89ab-4cde-8f01-23456789abcd");
    assert!(!unknown.found);
    assert_eq!(unknown.rows, everything);
    server.restart().unwrap();
    let told = ask(&mut server.connect(), &unknown.last);
    assert!(!told.found, "the id belongs to a server that is gone");
    assert_eq!(told.rows, everything);
}

/// Changes the row of `k` in `times` transactions, sent at once.
fn update_often(client: &mut Client, k: i64, times: i64) {
    for time in 0..times {
        let operation = json!({"op": "update", "table": "T", "where": [["k", "==", k]],
                               "row": {"s": format!("{k} {time}")}});
        client.request("transact", &json!(["db", operation]).to_string()).unwrap();
    }
    for _ in 0..times {
        let message = client.message().unwrap();
        assert_eq!(message["result"], json!([{"count": 1}]));
    }
}

#[test]
fn a_thousand_transactions_are_remembered() {
    let server = Server::with_schemas(Kind::Paceline, &[SCHEMA]);
    let mut writer = server.connect();
    let uuid = insert(&mut writer, 1, "one");
    let last = ask(&mut server.connect(), NEVER).last;
    update_often(&mut writer, 1, 1_000);
    let told = ask(&mut server.connect(), &last);
    assert!(told.found);
    assert_eq!(told.rows, json!({&uuid: {"modify": {"s": "1 999"}}}));
    update(&mut writer, 1, "one more");
    let told = ask(&mut server.connect(), &last);
    assert!(!told.found);
    assert_eq!(told.rows, json!({&uuid: {"initial": {"k": 1, "s": "one more"}}}));
}
