//! The layers: which crate may depend on which. A new dependency is a new word in this table, in a commit of its own
//! that states the reason.

use crate::manifest::{Kind, dependencies};
use crate::{Offence, repo, report};

/// Rooms decide one thing each and do not depend on each other.
const ROOMS: &[&str] = &["rules", "checkpoints", "claims", "locks", "pools", "routing", "tasks"];
const ENGINE: &[&str] = &["types", "expr"];
const MODEL: &[&str] = &["types", "catalogue", "expr", "tables", "postgres", "engine"];
const CONFIG: &[&str] = &["types", "catalogue", "tables", "engine", "model"];
const HOST: &[&str] = &["types", "expr", "tables", "engine", "model", "journal", "groups"];

/// The lower crates that a crate may use, and whether the rooms are among them.
fn allowed(name: &str) -> Option<(&'static [&'static str], bool)> {
    Some(match name {
        "types" => (&[], false),
        "expr" | "tables" | "catalogue" | "postgres" | "journal" | "groups" => (&["types"], false),
        room if ROOMS.contains(&room) => (&["types", "expr"], false),
        "engine" => (ENGINE, true),
        "model" => (MODEL, true),
        "config" => (CONFIG, true),
        "host" => (HOST, true),
        "etcd" => (&["types", "journal"], false),
        "net" => (&["host", "routing"], false),
        "http" => (&["types", "host", "net", "routing"], false),
        "embedded" => (&["types", "postgres"], false),
        "sql" => (&["types", "postgres", "embedded", "host", "net", "routing", "tables"], false),
        "ovsdb" => (&["types", "host", "tables"], false),
        "api" => (&["types", "catalogue", "host", "tables", "tasks", "config"], false),
        "client" => (&["types", "groups"], false),
        _ => return None,
    })
}

/// Crates that own no socket, file, thread, clock or logger.
pub const PURE: &[&str] = &[
    "types",
    "expr",
    "rules",
    "checkpoints",
    "claims",
    "locks",
    "pools",
    "routing",
    "tasks",
    "tables",
    "engine",
    "model",
    "config",
    "catalogue",
    "postgres",
];

/// The external crates that a pure crate may use: computation only.
fn outside(pure: &str) -> &'static [&'static str] {
    match pure {
        "tables" => &["hashbrown", "foldhash"],
        "checkpoints" => &["siphasher"],
        "config" => &["toml_edit"],
        "postgres" => &["base64", "md-5", "memchr", "ring", "stringprep"],
        "rules" => &["aho-corasick", "memchr", "regex", "regex-automata", "regex-syntax"],
        _ => &[],
    }
}

/// Only the host and the crates above or outside it are asynchronous.
const NEVER_ASYNC: &[&str] = &["journal", "groups", "embedded"];
const ASYNC: &[&str] = &["tokio", "tracing", "futures", "mio", "hyper"];

fn check(path: &str, text: &str) -> Vec<Offence> {
    let Some(name) = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"))
    else {
        return vec![];
    };
    if name == "paceline" {
        return vec![];
    }
    let Some((below, rooms)) = allowed(name) else {
        return vec![Offence::new(path, 1, format!("crate {name} stands in no layer"))];
    };
    let mut offences = vec![];
    for dependency in dependencies(text) {
        if dependency.kind == Kind::Dev {
            continue;
        }
        let used = dependency.name.as_str();
        let fits = match dependency.room() {
            Some(other) => below.contains(&other) || (rooms && ROOMS.contains(&other)),
            None if PURE.contains(&name) => outside(name).contains(&used),
            None => {
                !(NEVER_ASYNC.contains(&name) && ASYNC.iter().any(|word| used.starts_with(word)))
            }
        };
        if !fits {
            offences.push(Offence::new(
                path,
                dependency.line,
                format!("{name} may not use {used}"),
            ));
        }
    }
    offences
}

#[test]
fn arrows_point_one_way() {
    report(repo::manifests().iter().flat_map(|file| check(&file.path, &file.text)).collect());
}

#[test]
fn wrong_arrows_are_found() {
    let found = |name: &str, used: &str| {
        let manifest = format!("[dependencies]\n{used} = \"1\"\n[dev-dependencies]\ntokio = \"1\"");
        !check(&format!("crates/{name}/Cargo.toml"), &manifest).is_empty()
    };
    let wrong = [
        ("types", "paceline-expr"),
        ("locks", "paceline-claims"),
        ("locks", "tokio"),
        ("tables", "tracing"),
        ("locks", "hashbrown"),
        ("engine", "paceline-tables"),
        ("journal", "paceline-host"),
        ("journal", "tokio"),
        ("ovsdb", "paceline-locks"),
        ("ovsdb", "paceline-http"),
        ("host", "paceline-paceline"),
        ("config", "paceline-host"),
        ("model", "paceline-config"),
        ("model", "toml_edit"),
        ("misc", "sha1"),
    ];
    for (name, used) in wrong {
        assert!(found(name, used), "{name} -> {used} was not found");
    }
    let right = [
        ("locks", "paceline-types"),
        ("tables", "hashbrown"),
        ("engine", "paceline-locks"),
        ("model", "paceline-engine"),
        ("config", "paceline-model"),
        ("config", "toml_edit"),
        ("journal", "rustix"),
        ("host", "paceline-journal"),
        ("host", "tokio"),
        ("ovsdb", "paceline-tables"),
        ("paceline", "paceline-ovsdb"),
    ];
    for (name, used) in right {
        assert!(!found(name, used), "{name} -> {used} was found");
    }
}
