//! Backends: servers that do the same work. The servers are objects of their own.

use super::Object;
use super::database::Row;
use super::fields::{Field, Kind, Reading, read_fields, show_fields};
use crate::members::Members;
use crate::respond::Problem;
use serde_json::{Map, Value, json};

/// The table Backend.
pub(super) struct Backend;

/// The members of `health`.
const HEALTH: &[Field] = &[
    Field { member: "path", column: "health_path", kind: Kind::Text },
    Field { member: "host", column: "health_host", kind: Kind::Text },
    Field { member: "interval", column: "health_interval", kind: Kind::Text },
    Field { member: "timeout", column: "health_timeout", kind: Kind::Text },
    Field { member: "rise", column: "health_rise", kind: Kind::Number(1, 1_000) },
    Field { member: "fall", column: "health_fall", kind: Kind::Number(1, 1_000) },
];

/// The members of `tls`.
const TLS: &[Field] = &[
    Field { member: "ca", column: "tls_ca", kind: Kind::Text },
    Field { member: "name", column: "tls_name", kind: Kind::Text },
    Field { member: "verify", column: "tls_verify", kind: Kind::Choice },
    Field { member: "certificate", column: "tls_certificate", kind: Kind::Text },
    Field { member: "key", column: "tls_key", kind: Kind::Text },
];

const BALANCES: &[&str] = &["round-robin", "least-connections", "power-of-two"];

impl Object for Backend {
    const WORD: &'static str = "backend";
    const TABLE: &'static str = "Backend";
    const KEY: &'static str = "name";
    const FIELDS: &'static [Field] = &[
        Field { member: "balance", column: "balance", kind: Kind::Word(BALANCES) },
        Field { member: "queue.max_len", column: "queue_max_len", kind: Kind::Number(0, i64::MAX) },
        Field { member: "queue.max_delay", column: "queue_max_delay", kind: Kind::Text },
        Field { member: "retries", column: "retries", kind: Kind::Number(0, 100) },
        Field { member: "timeouts.connect", column: "timeout_connect", kind: Kind::Text },
        Field { member: "timeouts.response", column: "timeout_response", kind: Kind::Text },
        Field { member: "timeouts.idle", column: "timeout_idle", kind: Kind::Text },
        Field { member: "persistent", column: "persistent", kind: Kind::Flag },
    ];
    const FIGURES: &'static [&'static str] = &["queued", "refused"];

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        read_switch("health", HEALTH, members, reading, row)?;
        read_switch("tls", TLS, members, reading, row)
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        show_switch("health", HEALTH, row, object);
        show_switch("tls", TLS, row, object);
    }

    fn delete_parts(key: &str) -> Vec<Value> {
        let found = json!([["backend", "==", key]]);
        vec![json!({ "op": "delete", "table": "Server", "where": found })]
    }
}

/// Reads a member that is an object of these fields, or `true` where nothing more is to be said.
fn read_switch(
    name: &'static str,
    fields: &'static [Field],
    members: &mut Members,
    reading: &Reading,
    row: &mut Row,
) -> Result<(), Problem> {
    let place = |column: &str| json!({ "table": Backend::TABLE, "column": column });
    let is_given = members.has(name);
    // `true` is as good as an object, and `false` as good as nothing.
    let flag = members.peek(name).and_then(Value::as_bool);
    let object = match flag {
        Some(_) => {
            members.take(name);
            None
        }
        None => members.object(name)?,
    };
    let is_on = flag == Some(true) || object.is_some();
    if is_given || reading.resets() {
        row.insert(name.into(), is_on.into());
    }
    // What is off has nothing of how.
    let reading = if is_given && !is_on { &Reading::Replace } else { reading };
    let mut inner = object.map_or_else(|| Members::of(json!({})), Ok)?;
    read_fields(fields, &mut inner, reading, row, &place)?;
    inner.finish()
}

/// Shows such a member, if it is on.
fn show_switch(name: &str, fields: &[Field], row: &Row, object: &mut Map<String, Value>) {
    if row.get(name) != Some(&Value::Bool(true)) {
        return;
    }
    let mut inner = Map::new();
    show_fields(fields, row, &mut inner);
    let value = if inner.is_empty() { Value::Bool(true) } else { Value::Object(inner) };
    object.insert(name.into(), value);
}
