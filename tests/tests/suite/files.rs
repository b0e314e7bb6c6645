//! Database files: shared with Open vSwitch's `ovsdb-tool`, torn, damaged, locked, and on a disk that is full or
//! fails. Tests promises J2, J3, J4 and J5 from outside.
//!
//! Runs against Paceline, or against `ovsdb-server` with `SERVER=ovsdb-server`.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_tests::server::{Options, create_databases, paceline_binary};
use paceline_tests::{Client, Kind, Scratch, Server, tool};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"name": "db", "version": "1.2.3", "cksum": "12345 6", "tables": {
    "T": {"columns": {"k": {"type": "integer"}, "s": {"type": "string"}}, "isRoot": true}}}"#;

const NEWER: &str = r#"{"name": "db", "version": "2.0.0", "tables": {
    "T": {"columns": {"k": {"type": "integer"}, "s": {"type": "string"},
                      "more": {"type": "boolean"}}, "isRoot": true}}}"#;

fn start() -> Server {
    Server::with_schemas(Kind::under_test(), &[SCHEMA])
}

fn ovsdb_tool(args: &[&str], file: &Path) -> Result<String, String> {
    let (command, rest) = args.split_first().unwrap();
    let file = file.to_str().unwrap();
    tool::run("ovsdb-tool", &[&[*command, file], rest].concat())
}

/// The values of `k` and `s`, sorted.
fn rows(client: &mut Client) -> Vec<(i64, String)> {
    let select = json!({"op": "select", "table": "T", "where": [], "columns": ["k", "s"]});
    let result = client.call("transact", &json!(["db", select])).unwrap();
    let rows = result[0]["rows"].as_array().unwrap();
    let mut rows: Vec<_> = rows
        .iter()
        .map(|row| (row["k"].as_i64().unwrap(), row["s"].as_str().unwrap().to_owned()))
        .collect();
    rows.sort();
    rows
}

fn insert_operation(k: i64, s: &str) -> Value {
    json!({"op": "insert", "table": "T", "row": {"k": k, "s": s}})
}

fn insert(client: &mut Client, k: i64, s: &str) {
    let durable = json!({"op": "commit", "durable": true});
    let comment = json!({"op": "comment", "comment": format!("insert {k}")});
    let params = json!(["db", insert_operation(k, s), comment, durable]);
    let result = client.call("transact", &params).unwrap();
    assert!(result[0].get("uuid").is_some() && result[2] == json!({}), "{result}");
}

/// The error of a transaction whose commit must fail.
fn insert_error(client: &mut Client, k: i64, s: &str) -> String {
    let durable = json!({"op": "commit", "durable": true});
    let params = json!(["db", insert_operation(k, s), durable]);
    let result = client.call("transact", &params).unwrap();
    let errors = result.as_array().unwrap().iter().filter_map(|item| item["error"].as_str());
    errors.map(str::to_owned).next().unwrap_or_else(|| panic!("no error in {result}"))
}

fn owned(rows: &[(i64, &str)]) -> Vec<(i64, String)> {
    rows.iter().map(|(k, s)| (*k, (*s).to_owned())).collect()
}

#[test]
fn files_made_by_ovsdb_tool_open() {
    let scratch = Scratch::new();
    let file = create_databases(&scratch, &[SCHEMA]).unwrap().remove(0);
    let transact = |operation: Value| {
        ovsdb_tool(&["transact", &json!(["db", operation]).to_string()], &file).unwrap();
    };
    transact(insert_operation(1, "one"));
    transact(insert_operation(2, "two"));
    ovsdb_tool(&["compact"], &file).unwrap();
    transact(json!({"op": "update", "table": "T", "where": [["k", "==", 1]], "row": {"s": "uno"}}));
    transact(json!({"op": "delete", "table": "T", "where": [["k", "==", 2]]}));
    transact(insert_operation(3, "three"));
    let newer = scratch.write("newer.ovsschema", NEWER);
    ovsdb_tool(&["convert", newer.to_str().unwrap()], &file).unwrap();
    transact(insert_operation(4, "four"));

    let server = Server::start(scratch, Options::new(Kind::under_test(), vec![file])).unwrap();
    let mut client = server.connect();
    assert_eq!(rows(&mut client), owned(&[(1, "uno"), (3, "three"), (4, "four")]));
    let schema = client.call("get_schema", &json!(["db"])).unwrap();
    assert_eq!(schema["version"], "2.0.0");
}

#[test]
fn ovsdb_tool_reads_what_the_server_wrote() {
    let mut server = start();
    let mut client = server.connect();
    insert(&mut client, 1, "one");
    insert(&mut client, 2, "two");
    let update = json!({"op": "update", "table": "T", "where": [["k", "==", 1]],
                        "row": {"s": "uno"}});
    let delete = json!({"op": "delete", "table": "T", "where": [["k", "==", 2]]});
    client.call("transact", &json!(["db", update, delete])).unwrap();
    server.terminate().unwrap();

    let file = server.database(0).to_owned();
    assert_eq!(ovsdb_tool(&["db-name"], &file).unwrap(), "db\n");
    assert_eq!(ovsdb_tool(&["db-version"], &file).unwrap(), "1.2.3\n");
    assert_eq!(ovsdb_tool(&["db-cksum"], &file).unwrap(), "12345 6\n");
    let select = r#"["db", {"op": "select", "table": "T", "where": [], "columns": ["k", "s"]}]"#;
    let output = ovsdb_tool(&["query", select], &file).unwrap();
    let value: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(value, json!([{"rows": [{"k": 1, "s": "uno"}]}]));

    let log = tool::run("ovsdb-tool", &["-mm", "show-log", file.to_str().unwrap()]).unwrap();
    for part in ["\"db\" schema, version=\"1.2.3\"", "insert 1", "insert 2", "insert row", "k=1"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert!(log.contains("delete row") && log.contains("s=uno"), "{log}");
}

#[test]
fn ovsdb_tool_writes_to_what_the_server_wrote() {
    let mut server = start();
    insert(&mut server.connect(), 1, "one");
    server.terminate().unwrap();
    let file = server.database(0).to_owned();
    let row = json!(["db", insert_operation(2, "two")]).to_string();
    ovsdb_tool(&["transact", &row], &file).unwrap();
    server.relaunch().unwrap();
    let mut client = server.connect();
    assert_eq!(rows(&mut client), owned(&[(1, "one"), (2, "two")]));
    insert(&mut client, 3, "three");
    server.terminate().unwrap();

    ovsdb_tool(&["compact"], &file).unwrap();
    server.relaunch().unwrap();
    let mut client = server.connect();
    assert_eq!(rows(&mut client), owned(&[(1, "one"), (2, "two"), (3, "three")]));
    insert(&mut client, 4, "four");
    server.kill();
    ovsdb_tool(&["query", r#"["db"]"#], &file).unwrap();
    server.relaunch().unwrap();
    assert_eq!(rows(&mut server.connect()).len(), 4);
}

#[test]
fn one_file_has_one_server() {
    let mut server = start();
    insert(&mut server.connect(), 1, "one");
    let file = server.database(0).to_owned();
    let row = json!(["db", insert_operation(2, "two")]).to_string();
    let error = ovsdb_tool(&["transact", &row], &file).unwrap_err();
    assert!(error.contains("lock"), "{error}");
    let error = ovsdb_tool(&["compact"], &file).unwrap_err();
    assert!(error.contains("lock"), "{error}");

    let kinds: &[Kind] = match server.kind() {
        Kind::Paceline => &[Kind::Paceline, Kind::OvsdbServer],
        Kind::OvsdbServer => &[Kind::OvsdbServer],
    };
    for kind in kinds {
        let second = Server::start(Scratch::new(), Options::new(*kind, vec![file.clone()]));
        let error = second.unwrap_err();
        let word = if *kind == Kind::Paceline { "in use by process" } else { "lock" };
        assert!(error.contains(word), "{error}");
    }
    // The first process continues, and frees the file when it exits.
    insert(&mut server.connect(), 3, "three");
    server.kill_and_restart().unwrap();
    assert_eq!(rows(&mut server.connect()), owned(&[(1, "one"), (3, "three")]));
    server.terminate().unwrap();
    ovsdb_tool(&["transact", &row], &file).unwrap();
}

/// What a crash does to a file.
type Tear<'a> = &'a dyn Fn(Vec<u8>) -> Vec<u8>;

#[test]
fn a_torn_tail_is_cut_and_service_comes_up_j2() {
    let half_record = b"OVSDB JSON 100 0123456789012345678901234567890123456789\n{\"_date\":";
    let tears: &[(&str, Tear, usize)] = &[
        ("half a record", &|bytes| [&bytes, &half_record[..]].concat(), 2),
        ("half a header", &|bytes| [&bytes, &half_record[..9]].concat(), 2),
        ("zeros", &|bytes| [&bytes, &[0; 100][..]].concat(), 2),
        ("a short last record", &|bytes| bytes[..bytes.len() - 5].to_vec(), 1),
    ];
    for (name, tear, left) in tears {
        let mut server = start();
        let mut client = server.connect();
        insert(&mut client, 1, "one");
        insert(&mut client, 2, "two");
        server.kill();
        let file = server.database(0).to_owned();
        fs::write(&file, tear(fs::read(&file).unwrap())).unwrap();
        // Paceline records the synced position in a side file. A shorter file is then damage that only the owner of
        // the data can judge, so the test removes that record.
        forget_synced_position(&server);
        server.relaunch().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut client = server.connect();
        assert_eq!(rows(&mut client).len(), *left, "{name}");
        insert(&mut client, 3, "three");
        server.kill_and_restart().unwrap();
        assert_eq!(rows(&mut server.connect()).len(), left + 1, "{name}");
        server.terminate().unwrap();
        ovsdb_tool(&["query", r#"["db"]"#], &file).unwrap();
    }
}

/// Removes files beside the database and in the data folder, but not the database itself.
fn forget_synced_position(server: &Server) {
    let file = server.database(0);
    for folder in [file.parent().unwrap().to_owned(), server.scratch().join("data")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_file() && name.contains("db.db") && path != file {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn damage_in_the_middle_is_refused_j3() {
    if Kind::under_test() == Kind::OvsdbServer {
        // ovsdb-server drops everything after the damage and starts.
        return;
    }
    let mut server = start();
    let mut client = server.connect();
    for k in 1..=4 {
        insert(&mut client, k, "row");
    }
    server.terminate().unwrap();
    let file = server.database(0).to_owned();
    let mut bytes = fs::read(&file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let starts: Vec<_> = text.match_indices("OVSDB JSON ").map(|(offset, _)| offset).collect();
    let damaged = starts[2];
    let at = damaged + text[damaged..].find("row").unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();

    let error = server.relaunch().unwrap_err();
    assert!(error.contains("db.db"), "{error}");
    // The offset of the record or that of its data, after the header line.
    let data = damaged + text[damaged..].find('\n').unwrap() + 1;
    let named = [damaged, data].iter().any(|offset| error.contains(&offset.to_string()));
    assert!(named, "{error} names neither offset {damaged} nor {data}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "a refused file must be left alone");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    for text in ["", "not a database", "OVSDB CLUSTER 2 00\n{}\n", "{\"name\": \"db\"}"] {
        let scratch = Scratch::new();
        let file = scratch.write("x.db", text);
        let options = Options::new(Kind::under_test(), vec![file.clone()]);
        let error = Server::start(scratch, options).unwrap_err();
        assert!(error.contains("x.db"), "{text:?}: {error}");
    }
    let scratch = Scratch::new();
    let absent = scratch.join("absent.db");
    let error = Server::start(scratch, Options::new(Kind::under_test(), vec![absent])).unwrap_err();
    assert!(error.contains("absent.db"), "{error}");
}

#[test]
fn a_read_only_server_leaves_the_file_alone() {
    let mut first = start();
    insert(&mut first.connect(), 1, "one");
    first.terminate().unwrap();
    let file = first.database(0).to_owned();
    let before = fs::read(&file).unwrap();
    let options =
        Options { read_only: true, ..Options::new(Kind::under_test(), vec![file.clone()]) };
    let mut server = Server::start(Scratch::new(), options).unwrap();
    let mut client = server.connect();
    assert_eq!(rows(&mut client), owned(&[(1, "one")]));
    assert_eq!(insert_error(&mut client, 2, "two"), "not allowed");
    server.terminate().unwrap();
    assert_eq!(fs::read(&file).unwrap(), before);
}

/// Serves a database on a file system of 512 KiB, most of which is occupied by a removable file.
fn start_on_small_disk() -> (Server, PathBuf) {
    let scratch = Scratch::new();
    let file = create_databases(&scratch, &[SCHEMA]).unwrap().remove(0);
    let disk = scratch.join("disk");
    fs::create_dir(&disk).unwrap();
    let prelude = format!(
        "mount -t tmpfs -o size=512k none {disk}\ncp {file} {disk}/db.db\n\
         head -c 400000 /dev/zero > {disk}/ballast",
        disk = disk.display(),
        file = file.display()
    );
    let options = Options {
        prelude: Some(prelude),
        ..Options::new(Kind::under_test(), vec![disk.join("db.db")])
    };
    let server = Server::start(scratch, options).unwrap();
    (server, disk.join("ballast"))
}

#[test]
fn a_full_disk_refuses_writes_and_service_recovers_j5() {
    let (server, ballast) = start_on_small_disk();
    let mut client = server.connect();
    insert(&mut client, 1, "one");
    let large = "x".repeat(300_000);
    let error = insert_error(&mut client, 2, &large);
    let expected = match server.kind() {
        Kind::Paceline => "resources exhausted",
        Kind::OvsdbServer => "I/O error",
    };
    assert_eq!(error, expected);
    // Reads and locks continue, and nothing of the refused transaction is visible.
    assert_eq!(rows(&mut client), owned(&[(1, "one")]));
    let locked = client.call("lock", &json!(["l"])).unwrap();
    assert_eq!(locked, json!({"locked": true}));
    assert_eq!(client.call("unlock", &json!(["l"])).unwrap(), json!({}));
    // With room again, the same process writes again.
    fs::remove_file(server.view_of(&ballast)).unwrap();
    insert(&mut client, 3, &large);
    assert_eq!(rows(&mut client).len(), 2);
    let file = server.view_of(server.database(0));
    let copy = server.scratch().join("copy.db");
    fs::copy(file, &copy).unwrap();
    let count =
        ovsdb_tool(&["query", r#"["db", {"op": "select", "table": "T", "where": []}]"#], &copy);
    let value: Value = serde_json::from_str(&count.unwrap()).unwrap();
    assert_eq!(value[0]["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn a_failed_write_is_refused_and_undone_j4() {
    let scratch = Scratch::new();
    let databases = create_databases(&scratch, &[SCHEMA]).unwrap();
    // Files of this process are limited to 128 blocks of 512 bytes; the signal for it is ignored.
    let prelude = Some("trap '' XFSZ\nulimit -f 128".to_owned());
    let options = Options { prelude, ..Options::new(Kind::under_test(), databases) };
    let server = Server::start(scratch, options).unwrap();
    let mut client = server.connect();
    insert(&mut client, 1, "one");
    // A file that may not grow is either a failure or a limit; both errors are valid.
    let error = insert_error(&mut client, 2, &"x".repeat(100_000));
    assert!(["I/O error", "resources exhausted"].contains(&error.as_str()), "{error}");
    assert_eq!(rows(&mut client), owned(&[(1, "one")]));
}

#[test]
fn pacelines_own_file_commands() {
    if Kind::under_test() == Kind::OvsdbServer {
        // These commands exist only in Paceline.
        return;
    }
    let scratch = Scratch::new();
    let binary = paceline_binary().display().to_string();
    let schema = scratch.write("db.ovsschema", SCHEMA).display().to_string();
    let file = scratch.join("db.db");
    let name = file.to_str().unwrap();
    tool::run(&binary, &["ovsdb", "create", name, &schema]).unwrap();
    assert_eq!(ovsdb_tool(&["db-version"], &file).unwrap(), "1.2.3\n");
    // An existing file is not replaced.
    assert!(tool::run(&binary, &["ovsdb", "create", name, &schema]).unwrap_err().contains(name));

    for k in 1..=3 {
        let comment = json!({"op": "comment", "comment": format!("word {k}")});
        let row = json!(["db", insert_operation(k, "row"), comment]).to_string();
        ovsdb_tool(&["transact", &row], &file).unwrap();
    }
    let log = tool::run(&binary, &["ovsdb", "show-log", name]).unwrap();
    assert!(log.contains("word 1") && log.contains("word 3") && log.contains("1.2.3"), "{log}");

    let before = fs::metadata(&file).unwrap().len();
    tool::run(&binary, &["ovsdb", "compact", name]).unwrap();
    assert!(fs::metadata(&file).unwrap().len() < before);
    let select = r#"["db", {"op": "select", "table": "T", "where": []}]"#;
    let value: Value =
        serde_json::from_str(&ovsdb_tool(&["query", select], &file).unwrap()).unwrap();
    assert_eq!(value[0]["rows"].as_array().unwrap().len(), 3);
}
