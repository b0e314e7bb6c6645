//! The table File during a restart: what each file said of its objects, and the UUIDs of their rows.
//!
//! Owns the rows of the table as they will be, so that all steps of a restart change them in one record.

use super::Put;
use crate::reader::Reader;
use paceline_tables::schema::{ColumnId, TableId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The rows of the table File by the names of the files.
pub(super) struct Files<'s> {
    store: &'s Store,
    table: TableId,
    /// The columns `said` and `rows`; none if the schema has no such columns.
    columns: Option<[ColumnId; 2]>,
    files: BTreeMap<&'s str, File<'s>>,
}

struct File<'s> {
    row: &'s Row,
    said: BTreeMap<Atom, Atom>,
    rows: BTreeMap<Atom, Atom>,
}

impl<'s> Files<'s> {
    pub fn new(store: &'s Store, table: TableId) -> Self {
        let schema = store.schema().table(table);
        let columns = schema.column_id("said").zip(schema.column_id("rows"));
        let columns = columns.map(|(said, rows)| [said, rows]);
        let read = |row: &'s Row| {
            let [said, rows] = columns?.map(|id| row[id.index()].pairs().iter().cloned().collect());
            Some((Reader::new(schema, row).text("name"), File { row, said, rows }))
        };
        let files = store.rows(table).filter_map(read).collect();
        Self { store, table, columns, files }
    }

    /// Removes what files said of the rows that `puts` delete. A file identifies a row by its UUID. A file that was
    /// applied by an earlier version identifies a row by its table and name, and a server by those of its backend too.
    pub fn forget(&mut self, puts: &[Put]) {
        let store = self.store;
        let gone: BTreeSet<Uuid> = puts.iter().map(|(_, uuid, _)| *uuid).collect();
        let names: BTreeSet<String> = puts.iter().filter_map(|put| said_name(store, put)).collect();
        for file in self.files.values_mut() {
            let known: BTreeMap<Atom, Uuid> = file
                .rows
                .iter()
                .filter_map(|(key, row)| Some((key.clone(), row.as_uuid()?)))
                .collect();
            let is_left = |key: &Atom| {
                let name = key.as_str().unwrap_or_default();
                match known.get(key).filter(|uuid| is_there(store, name, **uuid)) {
                    Some(uuid) => !gone.contains(uuid),
                    None => !names.contains(name),
                }
            };
            file.said.retain(|key, _| is_left(key));
            file.rows.retain(|key, _| is_left(key));
        }
    }

    /// The row in `table` of the object named `name` in `file`.
    pub fn row(&self, file: &str, table: &str, name: &str) -> Option<Uuid> {
        self.files.get(file)?.rows.get(&key(table, name))?.as_uuid()
    }

    /// The rows in `table` of the objects of all files, each with its file and its name there.
    pub fn rows<'f>(&'f self, table: &'f str) -> impl Iterator<Item = (Uuid, &'s str, &'f str)> {
        let of_table = move |key: &'f Atom| key.as_str()?.strip_prefix(table)?.strip_prefix(' ');
        self.files.iter().flat_map(move |(file, own)| {
            own.rows
                .iter()
                .filter_map(move |(key, row)| Some((row.as_uuid()?, *file, of_table(key)?)))
        })
    }

    /// Records the row in `table` of the object named `name` in `file`.
    pub fn set_row(&mut self, file: &str, table: &str, name: &str, row: Uuid) {
        if let Some(file) = self.files.get_mut(file) {
            file.rows.insert(key(table, name), Atom::Uuid(row));
        }
    }

    /// The rows that changed.
    pub fn puts(self) -> impl Iterator<Item = Put> {
        let (table, columns) = (self.table, self.columns);
        self.files.into_values().filter_map(move |file| {
            let old = file.row.get(ColumnId::FIRST..)?;
            let mut values = old.to_vec();
            for (column, pairs) in columns?.into_iter().zip([file.said, file.rows]) {
                let value = values.get_mut(column.index() - ColumnId::FIRST)?;
                *value = Datum::from_sorted_pairs(pairs.into_iter().collect());
            }
            (old != values).then(|| (table, row_uuid(file.row), Some(values)))
        })
    }
}

fn key(table: &str, name: &str) -> Atom {
    Atom::string(&format!("{table} {name}"))
}

/// Whether the object named `name` in a file has this row.
fn is_there(store: &Store, name: &str, row: Uuid) -> bool {
    let table = name.split_once(' ').and_then(|(table, _)| store.schema().table_id(table));
    table.is_some_and(|table| store.row(table, row).is_some())
}

/// The name in a file of a row that was not renamed.
fn said_name(store: &Store, (table, uuid, _): &Put) -> Option<String> {
    let columns = store.schema().table(*table);
    let row = Reader::new(columns, store.row(*table, *uuid)?);
    let backend = columns.column_id("address").map(|_| format!("{}/", row.text("backend")));
    Some(format!("{} {}{}", columns.name, backend.unwrap_or_default(), row.text("name")))
}
