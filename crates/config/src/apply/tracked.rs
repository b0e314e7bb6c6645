//! Which rows are the objects of the files, although they may have been renamed since.
//!
//! The table File keeps the UUID of each row that a file made. Promises that a renamed row stays the object of
//! its file: it is neither deleted nor made a second time. A row that no longer belongs to the files that are
//! applied is not tracked.

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
    /// By table, then by what the file calls the object.
    rows: BTreeMap<&'static str, BTreeMap<String, &'s Row>>,
    /// What the file calls each row.
    keys: BTreeMap<Uuid, String>,
    /// What backends that were renamed are called, by what the file calls them.
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
                // What the file says anew gets its name back.
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

    /// What the file calls a row.
    pub fn key(&self, row: Uuid) -> Option<&str> {
        self.keys.get(&row).map(String::as_str)
    }

    /// What the backend is called that the file calls `name`.
    pub fn backend<'n>(&'n self, name: &'n str) -> &'n str {
        self.backends.get(name).map_or(name, String::as_str)
    }

    /// What an object is called unless its own name was changed: a server follows its backend.
    pub fn called(&self, object: &Object) -> String {
        match object.key.split_once('/').filter(|_| object.table == SERVER) {
            Some((backend, name)) => format!("{}/{name}", self.backend(backend)),
            None => object.key.clone(),
        }
    }
}
