//! Every script of `scenarios/`, against Paceline and against `ovsdb-server` as the reference.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_tests::{Kind, runner};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn check(script: &str) {
    runner::check_script(&folder().join(script), &Kind::for_scenarios());
}

#[test]
fn every_script_is_run() {
    let source = include_str!("scenarios.rs");
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_run = source.contains(&format!("check(\"{name}\")"));
        assert!(is_run || !name.ends_with(".txt"), "{name} has no test");
    }
}

#[test]
fn locks() {
    check("locks.txt");
}

#[test]
fn indexes() {
    check("indexes.txt");
}

#[test]
fn methods() {
    check("methods.txt");
}

#[test]
fn operations() {
    check("operations.txt");
}

#[test]
fn conditions() {
    check("conditions.txt");
}

#[test]
fn mutations() {
    check("mutations.txt");
}

#[test]
fn types() {
    check("types.txt");
}

#[test]
fn integrity() {
    check("integrity.txt");
}

#[test]
fn wait() {
    check("wait.txt");
}

#[test]
fn monitor() {
    check("monitor.txt");
}

#[test]
fn monitor_cond() {
    check("monitor_cond.txt");
}

#[test]
fn server_db() {
    check("server_db.txt");
}

#[test]
fn read_only() {
    check("read_only.txt");
}

#[test]
fn lock_table() {
    check("lock_table.txt");
}

#[test]
fn configuration() {
    check("configuration.txt");
}
