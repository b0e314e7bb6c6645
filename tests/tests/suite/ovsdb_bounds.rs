//! What one client of the OVSDB door can make the daemon keep.

use paceline_tests::{Client, Kind, Server};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.0.0", "tables": {"T": {"isRoot": true, "columns": {
    "name": {"type": "string"},
    "set": {"type": {"key": "integer", "min": 0, "max": "unlimited"}}}}}}"#;

fn transact(client: &mut Client, operations: &[Value]) -> Value {
    let params = [&[json!("db")], operations].concat();
    client.call("transact", &json!(params)).unwrap()
}

/// D1: a transaction that fails is answered with a `null` for each operation behind the one that failed, and takes no
/// memory for these but that of the message.
#[test]
fn operations_behind_one_that_fails_take_no_memory_d1() {
    const COUNT: usize = 2_000_000;
    let server = Server::with_schemas(Kind::Paceline, &[SCHEMA]);
    let before = server.peak_bytes();
    let mut client = server.connect();
    let params = format!(r#"["db",{}1]"#, "1,".repeat(COUNT - 1));
    client.request("transact", &params).unwrap();
    let answer = client.message().unwrap();
    let results = answer["result"].as_array().unwrap();
    assert_eq!(results.len(), COUNT);
    assert_eq!(results[0]["error"], "syntax error");
    assert!(results[1..].iter().all(Value::is_null));
    let grown = server.peak_bytes() - before;
    assert!(grown < 160 << 20, "it took {} MiB", grown >> 20);
}

/// D1: a client that changes the conditions of its monitor again and again leaves no threads behind.
#[test]
fn changed_conditions_leave_no_threads_behind_d1() {
    let server = Server::with_schemas(Kind::Paceline, &[SCHEMA]);
    let mut client = server.connect();
    let insert = json!({"op": "insert", "table": "T", "row": {"name": "a"}});
    transact(&mut client, &vec![insert; 20_000]);
    for at in 0..4 {
        let set: Vec<u32> = (at * 300_000..(at + 1) * 300_000).collect();
        let row = json!({"set": ["set", set]});
        transact(&mut client, &[json!({"op": "insert", "table": "T", "row": row})]);
    }
    let monitor = json!(["db", "m", {"T": [{"columns": ["name"], "where": [false]}]}]);
    client.call("monitor_cond", &monitor).unwrap();
    let set: Vec<u32> = (1_000_000_000..1_000_001_500).collect();
    let never = json!([["set", "includes", ["set", set]]]);
    for round in 0..200 {
        let clauses = if round % 2 == 0 { &never } else { &json!([false]) };
        let change = json!(["m", "m", {"T": [{"where": clauses}]}]);
        client.request("monitor_cond_change", &change.to_string()).unwrap();
    }
    for _ in 0..200 {
        assert_eq!(client.message().unwrap()["error"], Value::Null);
    }
    let threads = server.threads();
    assert!(threads < 40, "{threads} threads");
}
