//! The rows of the files' objects, even if they were renamed since.
//!
//! The table File keeps the UUID of each row that a file created. Promises that a renamed row stays the object of its
//! file: it is neither deleted nor created a second time. A row that no longer belongs to the files that are applied
//! is not tracked.

use super::{Ownership, owner};
use crate::document::Object;
use paceline_model::schema::{BACKEND, SERVER};
use paceline_tables::value::Atom;
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::BTreeMap;

/// The rows of objects, found by their UUIDs.
#[derive(Default)]
pub(super) struct Tracked<'s> {
    /// By table, then by the name in the file.
    rows: BTreeMap<&'static str, BTreeMap<String, &'s Row>>,
    /// The name in the file of each row.
    keys: BTreeMap<Uuid, String>,
    /// The current names of renamed backends, by their names in the file.
    backends: BTreeMap<String, String>,
}

impl<'s> Tracked<'s> {
    pub fn new(objects: &[Object], store: &'s Store, own: &Ownership) -> Self {
        let mut tracked = Self::default();
        for (table, _, of) in super::TABLES {
            let Some(id) = store.schema().table_id(table) else { continue };
            let columns = store.schema().table(id);
            let is_own = |row: &&Row| owner::owner(columns, row).is_some_and(|file| own.has(file));
            for object in objects.iter().filter(|object| object.table == of) {
                let row = own.row(table, &object.key).and_then(|uuid| store.row(id, uuid));
                let Some(row) = row.filter(is_own) else { continue };
                tracked.keys.insert(row_uuid(row), object.key.clone());
                tracked.rows.entry(table).or_default().insert(object.key.clone(), row);
                let name = columns.column_id("name").and_then(|id| row.get(id.index())?.single());
                // An object that is new in the file gets its name from the file again.
                if table == BACKEND
                    && own.said(object).is_some()
                    && let Some(name) = name.and_then(Atom::as_str)
                {
                    tracked.backends.insert(object.key.clone(), name.to_owned());
                }
            }
        }
        tracked
    }

    /// The row of an object.
    pub fn row(&self, table: &str, object: &Object) -> Option<&'s Row> {
        self.rows.get(table)?.get(&object.key).copied()
    }

    /// The name of a row in the file.
    pub fn key(&self, row: Uuid) -> Option<&str> {
        self.keys.get(&row).map(String::as_str)
    }

    /// The current name of the backend that is `name` in the file.
    pub fn backend<'n>(&'n self, name: &'n str) -> &'n str {
        self.backends.get(name).map_or(name, String::as_str)
    }

    /// The name of an object unless its own name was changed: the name of a server includes that of its backend.
    pub fn called(&self, object: &Object) -> String {
        match object.key.split_once('/').filter(|_| object.table == SERVER) {
            Some((backend, name)) => format!("{}/{name}", self.backend(backend)),
            None => object.key.clone(),
        }
    }
}
