//! Backends: servers that do the same work. The servers are objects of their own.

use super::Object;
use paceline_catalogue::{BACKENDS, Kind};
use serde_json::{Value, json};

/// The table Backend.
pub(super) struct Backend;

impl Object for Backend {
    const KIND: &'static Kind = &BACKENDS;

    fn delete_parts(key: &str) -> Vec<Value> {
        let found = json!([["backend", "==", key]]);
        vec![json!({ "op": "delete", "table": "Server", "where": found })]
    }
}
