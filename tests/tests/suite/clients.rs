//! Open vSwitch's own clients: `ovsdb-client`, `ovs-vsctl` and the Python IDL.
//!
//! Runs against Paceline, or against `ovsdb-server` with `SERVER=ovsdb-server`.

use std::fs;
use std::path::Path;

use paceline_tests::server::create_databases;
use paceline_tests::tool::{self, Running};
use paceline_tests::{Daemon, Kind, Launch, Scratch, Server};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.2.3", "cksum": "12345 6", "tables": {
    "T": {"columns": {"k": {"type": "integer"}, "s": {"type": "string"},
                      "kids": {"type": {"key": "integer", "min": 0, "max": "unlimited"}}},
          "isRoot": true},
    "Other": {"columns": {"x": {"type": "real"}}, "isRoot": true}}}"#;

const OLDER: &str = r#"{"name": "db", "version": "1.0.0", "tables": {
    "T": {"columns": {"k": {"type": "integer"}}, "isRoot": true}}}"#;

const VSWITCH_SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

fn start() -> Server {
    Server::with_schemas(Kind::under_test(), &[SCHEMA])
}

/// Runs `ovsdb-client COMMAND SERVER ARGS...` and returns its output.
fn client(server: &Server, command: &str, args: &[&str]) -> Result<String, String> {
    let remote = server.remote();
    let mut all = vec!["--timeout=10", "--format=csv", "-voff", command, &remote];
    all.extend(args);
    tool::run("ovsdb-client", &all)
}

fn insert(server: &Server, k: i64, s: &str) {
    let row = json!({"op": "insert", "table": "T", "row": {"k": k, "s": s}});
    client(server, "transact", &[&json!(["db", row]).to_string()]).unwrap();
}

#[test]
fn ovsdb_client_lists_databases() {
    let server = start();
    let output = client(&server, "list-dbs", &[]).unwrap();
    assert_eq!(output.lines().collect::<Vec<_>>(), ["_Server", "db"]);
}

#[test]
fn ovsdb_client_reads_the_schema() {
    let server = start();
    let schema: Value =
        serde_json::from_str(&client(&server, "get-schema", &["db"]).unwrap()).unwrap();
    assert_eq!(schema["tables"]["Other"]["columns"]["x"], json!({"type": "real"}));
    assert_eq!(client(&server, "get-schema-version", &["db"]).unwrap(), "1.2.3\n");
    assert_eq!(client(&server, "get-schema-cksum", &["db"]).unwrap(), "12345 6\n");
    let error = client(&server, "get-schema", &["absent"]).unwrap_err();
    assert!(error.contains("absent"), "{error}");
}

#[test]
fn ovsdb_client_lists_tables_and_columns() {
    let server = start();
    let tables = client(&server, "list-tables", &["db"]).unwrap();
    assert_eq!(sorted(&tables), ["Other", "T", "Table"]);
    let columns = client(&server, "list-columns", &["db", "Other"]).unwrap();
    let expected =
        [r#"_uuid,"""uuid""""#, r#"_version,"""uuid""""#, r#"x,"""real""""#, "Column,Type"];
    assert_eq!(sorted(&columns), sorted(&expected.join("\n")));
}

#[test]
fn ovsdb_client_transacts_and_queries() {
    let server = start();
    insert(&server, 1, "one");
    let select = r#"["db", {"op": "select", "table": "T", "where": [], "columns": ["k", "s"]}]"#;
    for command in ["transact", "query"] {
        let output = client(&server, command, &[select]).unwrap();
        let value: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(value, json!([{"rows": [{"k": 1, "s": "one"}]}]), "{command}");
    }
    // A query is a transaction that is never committed.
    let row = r#"["db", {"op": "insert", "table": "T", "row": {"k": 9}}]"#;
    client(&server, "query", &[row]).unwrap();
    let output = client(&server, "transact", &[select]).unwrap();
    assert!(!output.contains('9'), "{output}");
}

#[test]
fn ovsdb_client_dumps() {
    let server = start();
    insert(&server, 1, "one");
    insert(&server, 2, "two");
    let output = client(&server, "dump", &["db", "T", "k", "s"]).unwrap();
    assert_eq!(sorted(&output), ["1,one", "2,two", "T table", "k,s"]);
    let output = client(&server, "dump", &["db"]).unwrap();
    assert!(output.contains("Other table") && output.contains("T table"), "{output}");
}

/// A client without a database name looks for the only database besides `_Server`.
#[test]
fn ovsdb_client_finds_the_only_database() {
    let server = start();
    insert(&server, 1, "one");
    let output = client(&server, "dump", &["T", "k", "s"]).unwrap();
    assert_eq!(sorted(&output), ["1,one", "T table", "k,s"]);
    assert_eq!(client(&server, "get-schema-version", &[]).unwrap(), "1.2.3\n");
}

/// The databases that clients find in `_Server`, and by `list_dbs`.
fn listed(daemon: &Daemon) -> (Vec<String>, Vec<String>) {
    let names = |rows: &Value| {
        let mut names: Vec<String> =
            rows.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let mut client = daemon.connect();
    let select = json!({"op": "select", "table": "Database", "where": [], "columns": ["name"]});
    let found = client.call("transact", &json!(["_Server", select])).unwrap();
    let found = found[0]["rows"].as_array().unwrap().iter().map(|row| row["name"].clone());
    (names(&client.call("list_dbs", &json!([])).unwrap()), names(&found.collect()))
}

/// The daemon's own database is listed if it is the only one, or with `--list-own`. It can always be used by its
/// name.
#[test]
fn the_own_database_is_listed_where_it_is_alone_or_asked_for() {
    let scratch = Scratch::new();
    let file = create_databases(&scratch, &[SCHEMA]).unwrap().remove(0);
    let both = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        (names.clone(), names)
    };
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let alone = Launch::new(&scratch).option("--ovsdb", socket).start().unwrap();
    assert_eq!(listed(&alone), both(&["Paceline", "_Server"]));
    alone.terminate();
    let beside = Launch::serving(&scratch, &file).start().unwrap();
    assert_eq!(listed(&beside), both(&["_Server", "db"]));
    let select = json!({"op": "select", "table": "Daemon", "where": [], "columns": []});
    let mut named = beside.connect();
    let rows = named.call("transact", &json!(["Paceline", select])).unwrap();
    assert_eq!(rows, json!([{"rows": [{}]}]));
    assert_eq!(named.call("get_schema", &json!(["Paceline"])).unwrap()["name"], "Paceline");
    let columns = json!({"Pool": {"columns": ["name"]}});
    named.call("monitor", &json!(["Paceline", "m", columns])).unwrap();
    drop(named);
    beside.terminate();
    let asked = Launch::serving(&scratch, &file).arg("--list-own").start().unwrap();
    assert_eq!(listed(&asked), both(&["Paceline", "_Server", "db"]));
}

#[test]
fn ovsdb_client_waits_for_states() {
    let server = start();
    assert_eq!(client(&server, "wait", &["db", "connected"]).unwrap(), "");
    assert_eq!(client(&server, "wait", &["db", "added"]).unwrap(), "");
    assert_eq!(client(&server, "wait", &["absent", "removed"]).unwrap(), "");
}

#[test]
fn ovsdb_client_monitors() {
    for command in ["monitor", "monitor-cond", "monitor-cond-since"] {
        let server = start();
        insert(&server, 1, "one");
        let remote = server.remote();
        let mut args = vec!["--format=csv", "-voff", command, &remote, "db"];
        match command {
            "monitor" => args.extend(["T", "k,s"]),
            "monitor-cond" => args.extend([r#"[["k","<",5]]"#, "T", "k,s"]),
            _ => args.extend([
                "00000000-0000-0000-0000-000000000000",
                r#"[["k","<",5]]"#,
                "T",
                "k,s",
            ]),
        }
        let monitor = Running::start("ovsdb-client", &args);
        let next = || loop {
            // Each group of changes has its own heading, and the third form prints its position between them.
            let line = monitor.line();
            if line.ends_with(|c: char| c.is_ascii_alphabetic()) && line.contains(",") {
                let fields: Vec<_> = line.split(',').map(str::to_owned).collect();
                if fields[0] != "row" {
                    break fields[1..].join(",");
                }
            }
        };
        assert_eq!(next(), "initial,1,one", "{command}");
        insert(&server, 2, "two");
        let inserted = next();
        assert!(["new,2,two", "insert,2,two"].contains(&inserted.as_str()), "{inserted}");
    }
}

#[test]
fn ovsdb_client_backs_up_and_restores() {
    let server = start();
    insert(&server, 1, "one");
    let backup = client(&server, "backup", &["db"]).unwrap();
    assert!(backup.starts_with("OVSDB JSON "), "{backup}");
    insert(&server, 2, "two");
    let remote = server.remote();
    let args = ["--timeout=10", "-voff", "restore", &remote, "db"];
    let file = server.scratch().write("backup", backup);
    tool::run_with_file("ovsdb-client", &args, &file).unwrap();
    let output = client(&server, "dump", &["db", "T", "k", "s"]).unwrap();
    assert_eq!(sorted(&output), ["1,one", "T table", "k,s"]);
}

#[test]
fn ovsdb_client_locks_and_steals() {
    let server = start();
    let remote = server.remote();
    let lock = |command: &str| Running::start("ovsdb-client", &["-voff", command, &remote, "l"]);
    let owner = lock("lock");
    assert_eq!(owner.line(), r#"{"locked":true}"#);
    let waiter = lock("lock");
    assert_eq!(waiter.line(), r#"{"locked":false}"#);
    let thief = lock("steal");
    assert_eq!(thief.line(), r#"{"locked":true}"#);
    assert_eq!([owner.line(), owner.line()], ["stolen", r#"["l"]"#]);
    // When the thief disconnects, the lock returns to the session that it was stolen from.
    drop(thief);
    assert_eq!([owner.line(), owner.line()], ["locked", r#"["l"]"#]);
    drop(owner);
    assert_eq!([waiter.line(), waiter.line()], ["locked", r#"["l"]"#]);
}

#[test]
fn ovsdb_client_converts() {
    let server = Server::with_schemas(Kind::under_test(), &[OLDER]);
    let row = r#"["db", {"op": "insert", "table": "T", "row": {"k": 7}}]"#;
    client(&server, "transact", &[row]).unwrap();
    let schema = server.scratch().write("new.ovsschema", SCHEMA);
    let schema = schema.to_str().unwrap();
    assert_eq!(client(&server, "needs-conversion", &[schema]).unwrap(), "yes\n");
    client(&server, "convert", &[schema]).unwrap();
    assert_eq!(client(&server, "needs-conversion", &[schema]).unwrap(), "no\n");
    assert_eq!(client(&server, "get-schema-version", &["db"]).unwrap(), "1.2.3\n");
    let output = client(&server, "dump", &["db", "T", "k", "s"]).unwrap();
    assert_eq!(sorted(&output), [r#"7,"""""""#, "T table", "k,s"]);
}

#[test]
fn ovs_vsctl_manages_bridges_and_ports() {
    let schema = fs::read_to_string(VSWITCH_SCHEMA)
        .unwrap_or_else(|error| panic!("{VSWITCH_SCHEMA}: {error}: install openvswitch-common"));
    let mut server = Server::with_schemas(Kind::under_test(), &[&schema]);
    let db = format!("--db={}", server.remote());
    let vsctl = |args: &[&str]| {
        let all = [&["--timeout=10", "--no-wait", "-voff", &db], args].concat();
        tool::run("ovs-vsctl", &all)
    };
    let steps: &[(&[&str], &str)] = &[
        (&["init"], ""),
        (&["add-br", "br0"], ""),
        (&["add-br", "br1", "--", "add-port", "br1", "p0", "tag=9"], ""),
        (&["list-br"], "br0\nbr1\n"),
        (&["add-port", "br0", "eth0", "--", "set", "interface", "eth0", "type=internal"], ""),
        (&["add-bond", "br0", "bond0", "eth1", "eth2"], ""),
        (&["list-ports", "br0"], "bond0\neth0\n"),
        (&["list-ifaces", "br0"], "eth0\neth1\neth2\n"),
        (&["get", "interface", "eth0", "type"], "internal\n"),
        (&["get", "port", "p0", "tag"], "9\n"),
        (&["port-to-br", "bond0"], "br0\n"),
        (
            &["set", "bridge", "br0", "other_config:hwaddr=02:00:00:00:00:01", "fail_mode=secure"],
            "",
        ),
        (&["get", "bridge", "br0", "other_config:hwaddr"], "\"02:00:00:00:00:01\"\n"),
        (&["get-fail-mode", "br0"], "secure\n"),
        (&["remove", "bridge", "br0", "other_config", "hwaddr"], ""),
        (&["get", "bridge", "br0", "other_config"], "{}\n"),
        (
            &[
                "--",
                "--id=@m",
                "create",
                "mirror",
                "name=m0",
                "--",
                "set",
                "bridge",
                "br1",
                "mirrors=@m",
            ],
            "*",
        ),
        (&["--columns=name", "--format=csv", "--data=bare", "list", "mirror"], "name\nm0\n"),
        (&["--columns=name", "--format=csv", "--data=bare", "find", "port", "tag=9"], "name\np0\n"),
        (&["set-manager", "ptcp:6640:127.0.0.1"], ""),
        (&["get-manager"], "ptcp:6640:127.0.0.1\n"),
        (&["del-manager"], ""),
        (&["del-port", "br0", "bond0"], ""),
        (&["list-ports", "br0"], "eth0\n"),
        (&["--if-exists", "del-port", "nothing"], ""),
        (&["--may-exist", "add-br", "br0"], ""),
        (&["del-br", "br0"], ""),
        (&["list-br"], "br1\n"),
    ];
    for (args, expected) in steps {
        let output = vsctl(args).unwrap();
        assert!(*expected == "*" || output == *expected, "{args:?} gave {output}");
    }
    assert!(vsctl(&["add-br", "br1"]).unwrap_err().contains("br1"));
    // The whole bridge is deleted, and the rest survives.
    let rows = vsctl(&["--columns=name", "--format=csv", "--data=bare", "list", "interface"]);
    assert_eq!(sorted(&rows.unwrap()), ["br1", "name", "p0"]);
    server.restart().unwrap();
    assert_eq!(vsctl(&["list-br"]).unwrap(), "br1\n");
}

#[test]
fn python_idl_tracks_changes() {
    let server = start();
    insert(&server, 1, "one");
    let script = python("track.py");
    let schema = server.scratch().write("t.ovsschema", SCHEMA);
    let args = [script.as_str(), &server.remote(), schema.to_str().unwrap()];
    let tracker = Running::start("/usr/bin/python3", &args);
    assert_eq!(tracker.line(), "create k=1 s=one kids=[]");
    assert_eq!(tracker.line(), "ready 1");
    let mut other = server.connect();
    let mut transact = |operation: Value| {
        other.call("transact", &json!(["db", operation])).unwrap();
    };
    transact(json!({"op": "insert", "table": "T", "row": {"k": 2, "s": "two"}}));
    assert_eq!(tracker.line(), "create k=2 s=two kids=[]");
    let two = json!([["k", "==", 2]]);
    transact(json!({"op": "mutate", "table": "T", "where": two,
                    "mutations": [["kids", "insert", ["set", [5, 4]]]]}));
    assert_eq!(tracker.line(), "update k=2 s=two kids=[4, 5]");
    transact(json!({"op": "mutate", "table": "T", "where": two,
                    "mutations": [["kids", "delete", 4]]}));
    assert_eq!(tracker.line(), "update k=2 s=two kids=[5]");
    transact(json!({"op": "delete", "table": "T", "where": two}));
    assert_eq!(tracker.line(), "delete k=2 s=two kids=[5]");
    transact(json!({"op": "update", "table": "T", "where": [], "row": {"s": "end"}}));
    assert_eq!(tracker.line(), "update k=1 s=end kids=[]");
}

#[test]
fn python_idl_writes_under_a_lock() {
    let server = start();
    let script = python("write.py");
    let schema = server.scratch().write("t.ovsschema", SCHEMA);
    let args = [script.as_str(), &server.remote(), schema.to_str().unwrap()];
    let output = tool::run("/usr/bin/python3", &args).unwrap();
    assert_eq!(output, "insert success\nverified success\nincrement success\nk 3\n");
}

fn python(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name).display().to_string()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}
