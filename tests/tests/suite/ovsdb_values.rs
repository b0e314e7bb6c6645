//! Values that `ovsdb-server` and Paceline must read identically from one file.

use paceline_tests::{Client, Kind, Server, tool};
use serde_json::{Value, json};

/// A set and a map that may not be empty, so that their defaults have an element.
const SCHEMA: &str = r#"{"name": "db", "version": "1.0.0", "tables": {"T": {"isRoot": true, "columns": {
    "name": {"type": "string"},
    "set": {"type": {"key": "integer", "min": 1, "max": "unlimited"}},
    "map": {"type": {"key": "string", "value": "integer", "min": 1, "max": "unlimited"}}}}}}"#;

fn transact(client: &mut Client, operations: &[Value]) -> Value {
    let params = [&[json!("db")], operations].concat();
    client.call("transact", &json!(params)).unwrap()
}

/// J1: what was acknowledged is what the file contains, for Open vSwitch too. Each change begins at the default of
/// the column, which Open vSwitch 3.1 takes for "there is no old value".
#[test]
fn changes_of_defaults_that_are_not_empty_are_read_by_ovsdb_tool_as_they_are() {
    let mut server = Server::with_schemas(Kind::under_test(), &[SCHEMA]);
    let mut client = server.connect();
    let row = json!({"op": "insert", "table": "T", "row": {"name": "a"}});
    transact(&mut client, &[row]);
    let changes = [
        json!(["set", "insert", ["set", [1, 2]]]),
        json!(["map", "insert", ["map", [["x", 1], ["y", 2]]]]),
    ];
    for change in changes {
        let mutate = json!({"op": "mutate", "table": "T", "where": [], "mutations": [change]});
        let result = transact(&mut client, &[mutate]);
        assert_eq!(result, json!([{"count": 1}]));
    }
    let select =
        json!({"op": "select", "table": "T", "where": [], "columns": ["name", "set", "map"]});
    let served = transact(&mut client, std::slice::from_ref(&select));
    let expected = json!([{"rows": [{"name": "a", "set": ["set", [0, 1, 2]],
        "map": ["map", [["", 0], ["x", 1], ["y", 2]]]}]}]);
    assert_eq!(served, expected);
    server.terminate().unwrap();

    let file = server.database(0).to_str().unwrap().to_owned();
    let query = json!(["db", select]).to_string();
    let output = tool::run("ovsdb-tool", &["query", &file, &query]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), expected);
}
