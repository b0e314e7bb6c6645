//! Compatibility with OVS's own `ovsdb-tool`, from Debian's `openvswitch-common`.

use std::process::Command;

use paceline_journal::disk::RealDisk;
use paceline_journal::{FileLog, Log, Mode, OpenError};

use std::sync::Arc;

use crate::place::Place;
use crate::{framed, replay};

const SCHEMA: &str = r#"{"name":"Toys","tables":{"Toy":{"columns":{"name":{"type":"string"}}}}}"#;
const RECORD: &str = r#"{"_date":1700000000000,"_comment":"ours","Toy":{"2b66b2ea-2906-45ee-84d9-43220a14b54e":{"name":"top"}}}"#;

/// Runs `ovsdb-tool`; returns its output or its error message.
fn tool(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ovsdb-tool")
        .args(args)
        .output()
        .expect("ovsdb-tool runs; it is in Debian's package openvswitch-common");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The names of all toys, as the tool reads them from the file.
fn toys(path: &str) -> String {
    let query = r#"["Toys",{"op":"select","table":"Toy","where":[],"columns":["name"]}]"#;
    tool(&["query", path, query]).unwrap()
}

fn insert(path: &str, name: &str) -> Result<String, String> {
    let insert = format!(r#"["Toys",{{"op":"insert","table":"Toy","row":{{"name":"{name}"}}}}]"#);
    tool(&["transact", path, &insert])
}

fn open(path: &str) -> (FileLog, Vec<String>) {
    let (log, recovery, bodies) = replay(Arc::new(RealDisk), path, Mode::ReadWrite).unwrap();
    assert_eq!(recovery.torn, None);
    (log, bodies)
}

#[test]
fn its_files_are_ours() {
    let place = Place::new("its");
    let (path, schema) = (place.path("db"), place.path("schema"));
    std::fs::write(&schema, SCHEMA).unwrap();
    tool(&["create", &path, &schema]).unwrap();

    let (mut log, bodies) = open(&path);
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].contains(r#""name":"Toys""#), "{bodies:?}");
    log.append(log.position(), &framed(RECORD)).unwrap();
    log.sync().unwrap();
    drop(log);

    assert!(tool(&["show-log", &path]).unwrap().contains("\"ours\""));
    insert(&path, "kite").unwrap();
    let (_, bodies) = open(&path);
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[1], RECORD);
    assert!(bodies[2].contains("kite"), "{bodies:?}");

    tool(&["compact", &path]).unwrap();
    let (_, bodies) = open(&path);
    assert_eq!(bodies.len(), 2, "schema and snapshot");
}

#[test]
fn our_files_are_its() {
    let place = Place::new("ours");
    let path = place.path("db");
    let mut log = FileLog::create(&path, SCHEMA.as_bytes()).unwrap();
    let snapshot_at = log.append(log.position(), &framed(RECORD)).unwrap();
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&[framed(SCHEMA), framed(RECORD)].concat()).unwrap();
    log.install(rewrite, snapshot_at).unwrap();

    // While the log is open the tool may read, but not write.
    assert_eq!(tool(&["db-name", &path]).unwrap(), "Toys\n");
    assert!(toys(&path).contains("top"));
    let refused = insert(&path, "kite").unwrap_err();
    assert!(refused.contains("lock"), "{refused}");
    drop(log);
    insert(&path, "kite").unwrap();
    let found = toys(&path);
    assert!(found.contains("top") && found.contains("kite"), "{found}");
}

/// J2: the tool also reads the file after it was cut.
#[test]
fn a_cut_file_is_whole_again() {
    let place = Place::new("cut");
    let path = place.path("db");
    let mut log = FileLog::create(&path, SCHEMA.as_bytes()).unwrap();
    log.append(log.position(), &framed(RECORD)).unwrap();
    drop(log);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&framed(RECORD)[..90]);
    std::fs::write(&path, bytes).unwrap();
    let (log, recovery, _) = replay(Arc::new(RealDisk), &path, Mode::ReadWrite).unwrap();
    assert_eq!(recovery.torn.unwrap().bytes, 90);
    drop(log);
    assert_eq!(tool(&["show-log", &path]).unwrap().lines().count(), 3);
    insert(&path, "kite").unwrap();
}

#[test]
fn clustered_files_are_refused() {
    let place = Place::new("cluster");
    let (path, schema) = (place.path("db"), place.path("schema"));
    std::fs::write(&schema, SCHEMA).unwrap();
    tool(&["create-cluster", &path, &schema, "unix:db.raft"]).unwrap();
    let error = FileLog::open(&path, Mode::ReadWrite).unwrap_err();
    assert!(matches!(error, OpenError::Clustered(_)), "{error}");
}
