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
    const FIGURES: &'static [&'static str] = &[];

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        let place = |column: &str| json!({ "table": Self::TABLE, "column": column });
        let is_given = members.has("health");
        // `true` is as good as an object, and `false` as good as nothing.
        let flag = members.peek("health").and_then(Value::as_bool);
        let object = match flag {
            Some(_) => {
                members.take("health");
                None
            }
            None => members.object("health")?,
        };
        let is_on = flag == Some(true) || object.is_some();
        if is_given || reading.resets() {
            row.insert("health".into(), is_on.into());
        }
        // What is not looked after has nothing of how.
        let reading = if is_given && !is_on { &Reading::Replace } else { reading };
        let mut inner = object.map_or_else(|| Members::of(json!({})), Ok)?;
        read_fields(HEALTH, &mut inner, reading, row, &place)?;
        inner.finish()
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        if row.get("health") != Some(&Value::Bool(true)) {
            return;
        }
        let mut health = Map::new();
        show_fields(HEALTH, row, &mut health);
        let health = if health.is_empty() { Value::Bool(true) } else { Value::Object(health) };
        object.insert("health".into(), health);
    }

    fn delete_parts(key: &str) -> Vec<Value> {
        let found = json!([["backend", "==", key]]);
        vec![json!({ "op": "delete", "table": "Server", "where": found })]
    }
}
