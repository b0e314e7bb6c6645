//! Where a file is, and which other process has it open.

use std::fs;

use paceline_tests::server::Options;
use paceline_tests::{Kind, Launch, Scratch, Server};
use serde_json::json;

use super::ledger::{self, Answer, Entry};

/// A database with one transaction in its own folder, `DIR/files`.
fn prepare() -> (Scratch, std::path::PathBuf) {
    let scratch = Scratch::new();
    let created = ledger::create(&scratch);
    fs::create_dir(scratch.join("files")).unwrap();
    let file = scratch.join("files").join("db.db");
    fs::rename(created, &file).unwrap();
    let daemon = Launch::serving(&scratch, &file).start().unwrap();
    let answer = ledger::transact(&mut daemon.connect(), &Entry::new(0, 0, true));
    assert_eq!(answer, Answer::Acknowledged);
    assert!(daemon.terminate().status.success());
    (scratch, file)
}

/// Options that make the folder of `file` read-only for the server.
fn on_read_only_disk(file: &std::path::Path, read_only: bool) -> Options {
    let folder = file.parent().unwrap().display().to_string();
    let prelude = format!("mount --bind {folder} {folder}\nmount -o remount,bind,ro {folder}");
    let options = Options::new(Kind::Paceline, vec![file.to_path_buf()]);
    Options { read_only, prelude: Some(prelude), ..options }
}

#[test]
fn a_read_only_folder_is_served_read_only_j6() {
    let (_scratch, file) = prepare();
    let server = Server::start(Scratch::new(), on_read_only_disk(&file, true)).unwrap();
    let mut client = server.connect();
    assert_eq!(ledger::contents(&mut client).get(&0), Some(&1));
    let answer = ledger::transact(&mut client, &Entry::new(0, 1, false));
    assert_eq!(answer, Answer::Refused("not allowed".into()));
    assert_eq!(ledger::contents(&mut client).get(&0), Some(&1));
}

#[test]
fn a_read_only_folder_is_a_clear_error_otherwise_j6() {
    let (_scratch, file) = prepare();
    let error = Server::start(Scratch::new(), on_read_only_disk(&file, false)).unwrap_err();
    assert!(error.contains("db.db") && error.contains("ead-only file system"), "{error}");
}

#[test]
fn a_second_server_is_told_who_has_the_file() {
    let (scratch, file) = prepare();
    let first = Launch::serving(&scratch, &file).start().unwrap();
    let elsewhere = Scratch::new();
    let ended = Launch::serving(&elsewhere, &file).start().unwrap_err();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for part in ["db.db is in use by process", "stop it first"] {
        assert!(ended.log.contains(part), "no {part} in {}", ended.log);
    }
    // Reading needs no lock.
    let reader = Launch::serving(&elsewhere, &file).arg("--read-only").start().unwrap();
    assert_eq!(ledger::contents(&mut reader.connect()).get(&0), Some(&1));
    let answer = ledger::transact(&mut first.connect(), &Entry::new(0, 1, true));
    assert_eq!(answer, Answer::Acknowledged);
}

#[test]
fn a_file_that_ovsdb_server_has_open_is_refused() {
    let (scratch, file) = prepare();
    let options = Options::new(Kind::OvsdbServer, vec![file.clone()]);
    let other = Server::start(Scratch::new(), options).unwrap();
    let ended = Launch::serving(&scratch, &file).start().unwrap_err();
    assert!(ended.log.contains("in use by process"), "{ended:?}");
    let binary = paceline_tests::server::paceline_binary().display().to_string();
    let compact = ["ovsdb", "compact", file.to_str().unwrap()];
    let error = paceline_tests::tool::run(&binary, &compact).unwrap_err();
    assert!(error.contains("in use by process"), "{error}");
    // The other process continues, and frees the file when it exits.
    assert_eq!(other.connect().call("echo", &json!([])).unwrap(), json!([]));
    drop(other);
    let daemon = Launch::serving(&scratch, &file).start().unwrap();
    assert_eq!(ledger::contents(&mut daemon.connect()).get(&0), Some(&1));
}
