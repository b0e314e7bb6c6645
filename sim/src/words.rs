//! The alphabets of all histories: every name and value that can occur.
//!
//! Names are static texts, so that plain values can be copied and compared. Texts of the engine are looked up
//! here.

/// Values of `user`.
pub const USERS: [&str; 4] = ["ann", "bob", "cid", ""];
/// Values of `host`.
pub const HOSTS: [&str; 3] = ["east", "west", ""];
/// Values of `task`.
pub const TASKS: [&str; 4] = ["load", "loop", "scan", ""];
/// Values of `text`.
pub const TEXTS: [&str; 4] = ["select 1", "select 2", "insert", "update"];
/// Frontends.
pub const FRONTENDS: [&str; 3] = ["api", "web", "site"];
/// Backends at the start.
pub const BACKENDS: [&str; 2] = ["db", "app"];
/// Every name that a backend may get, and the empty name.
pub const BACKEND_NAMES: [&str; 5] = ["db", "app", "hot", "cold", ""];
/// Servers of the first backend.
pub const SERVERS: [&str; 2] = ["db/one", "db/two"];
/// Servers of all backends at the start.
pub const FLEET: [&str; 5] = ["db/one", "db/two", "db/three", "app/one", "app/two"];
/// Every name that a server may get, and the empty name.
pub const SERVER_NAMES: [&str; 13] = [
    "db/one",
    "db/two",
    "db/three",
    "app/one",
    "app/two",
    "app/three",
    "hot/one",
    "hot/two",
    "hot/three",
    "cold/one",
    "cold/two",
    "cold/three",
    "",
];
/// The gates of all backends, in the order of their names.
pub const GATES: [&str; 4] =
    ["servers of db", "servers of app", "servers of hot", "servers of cold"];
/// Locks.
pub const LOCKS: [&str; 2] = ["key", "door"];
/// Names of checkpoints.
pub const CHECKPOINTS: [&str; 12] =
    ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11"];
/// Names of pools, the default pool first.
pub const POOLS: [&str; 7] = ["default", "p0", "p1", "p2", "p3", "p4", "p5"];
/// Names of resources that are configured.
pub const RESOURCES: [&str; 24] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23",
];
/// Names of resources that requests create; none of them is ever configured.
pub const MADE: [&str; 3] = ["tmp0", "tmp1", "tmp2"];

/// The gate of the backend of this name.
#[must_use]
pub fn gate_of(backend: &str) -> &'static str {
    let at = BACKEND_NAMES.iter().position(|name| *name == backend);
    at.and_then(|at| GATES.get(at)).copied().unwrap_or("?")
}

/// The server of this backend with the same name as that server of another backend.
#[must_use]
pub fn server_of(backend: &str, server: &str) -> &'static str {
    let is_it = |name: &&&str| {
        let (of, short) = name.split_once('/').unwrap_or_default();
        of == backend && server.split_once('/').is_some_and(|(_, other)| other == short)
    };
    SERVER_NAMES.iter().find(is_it).copied().unwrap_or("?")
}

/// The static word of an alphabet that equals this text; `?` if there is none.
#[must_use]
pub fn known(text: &str) -> &'static str {
    let all: [&[&'static str]; 13] = [
        &USERS,
        &HOSTS,
        &TASKS,
        &TEXTS,
        &FRONTENDS,
        &BACKEND_NAMES,
        &SERVER_NAMES,
        &GATES,
        &LOCKS,
        &CHECKPOINTS,
        &POOLS,
        &RESOURCES,
        &MADE,
    ];
    all.iter().flat_map(|words| words.iter()).find(|word| **word == text).copied().unwrap_or("?")
}
