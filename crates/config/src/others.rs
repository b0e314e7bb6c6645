//! Objects that exist besides those of a file. A file may name backends, pools, checkpoints and resources that
//! another file or a person created.

use crate::check::make_harmless;
use crate::document::{Document, Object, text};
use crate::doubt::used_by;
use crate::place::Place;
use paceline_model::schema::{BACKEND, CHECKPOINT, FRONTEND, POOL, RESOURCE, SERVER};
use paceline_pools::DEFAULT_NAME;
use paceline_tables::Snapshot;
use paceline_tables::value::{Atom, Datum};
use std::collections::BTreeSet;

/// Objects by name only, so that nothing else about them can conflict with a file: whether they fit is checked when
/// the file is applied.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub(crate) objects: Vec<Object>,
    /// The backends that frontends among them use.
    pub(crate) used: BTreeSet<String>,
}

impl Others {
    /// The objects of a database that do not belong to these files.
    #[must_use]
    pub fn besides(document: &Document, rows: &Snapshot) -> Self {
        let tables = [POOL, CHECKPOINT, RESOURCE, FRONTEND, BACKEND, SERVER];
        let of = |table: &'static str| objects(table, rows);
        let is_other = |object: &Object| {
            let file = object.columns.get("file").and_then(Datum::single).and_then(Atom::as_str);
            file.is_none_or(|file| !document.files.iter().any(|own| own == file))
        };
        let mut objects: Vec<Object> = tables.into_iter().flat_map(of).filter(is_other).collect();
        let frontends = objects.iter().filter(|object| object.table == FRONTEND);
        let used = frontends.flat_map(used_by).map(str::to_owned).collect();
        objects.iter_mut().for_each(make_harmless);
        Self { objects, used }
    }
}

fn objects(table: &'static str, rows: &Snapshot) -> Vec<Object> {
    let Some(id) = rows.schema().table_id(table) else { return vec![] };
    let columns = rows.schema().table(id);
    let value = |row: &paceline_tables::Row, column: &str| {
        Some(row.get(columns.column_id(column)?.index())?.single()?.as_str()?.to_owned())
    };
    let object = |row| {
        let name = value(row, "name").filter(|name| table != POOL || name != DEFAULT_NAME)?;
        let mut object = Object::new(table, Place::START);
        object.columns.insert("name", text(&name));
        if let Some(kept) = columns.column_id("persistent").and_then(|id| row.get(id.index())) {
            object.columns.insert("persistent", kept.clone());
        }
        object.key = match value(row, "backend").filter(|_| table == SERVER) {
            Some(backend) => {
                object.columns.insert("backend", text(&backend));
                format!("{backend}/{name}")
            }
            None => name,
        };
        for column in ["backend", "use_backend"].iter().filter(|_| table == FRONTEND) {
            let value = columns.column_id(column).and_then(|id| row.get(id.index()));
            object.columns.extend(value.map(|value| (*column, value.clone())));
        }
        match value(row, "file") {
            Some(file) => object.columns.insert("file", text(&file)),
            None => object.columns.remove("file"),
        };
        Some(object)
    };
    rows.rows(id).filter_map(object).collect()
}
