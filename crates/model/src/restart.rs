//! What is left of the rows after a restart.
//!
//! Transient pools, checkpoints, resources, frontends, backends and servers are gone. Persistent pools come back started, also if
//! they had been stopped. The running list of rules is filled from the saved one. What was journaled
//! before the daemon ended is brought to that by one list of changes. Files are taken to have said nothing of
//! the rows that are gone, so that the next time they are applied these are made again.

use crate::model::Tables;
use crate::reader::Reader;
use paceline_pools::DEFAULT_NAME;
use paceline_tables::schema::{ColumnId, TableId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::{Uuid, UuidSource};
use std::collections::{BTreeMap, BTreeSet};

/// A row to be put: its table, itself, and its values, or none if it goes.
pub type Put = (TableId, Uuid, Option<Vec<Datum>>);

/// The changes that a restart makes; new rows take their UUIDs from `uuids`.
pub(crate) fn restart(tables: Tables, store: &Store, uuids: &mut UuidSource) -> Vec<Put> {
    let mut puts = Vec::new();
    let Tables { pool, checkpoint, resource, frontend, backend, server, .. } = tables;
    for table in [pool, checkpoint, resource, frontend, backend, server] {
        drop_transient(store, table, table == tables.pool, &mut puts);
    }
    forget_said(store, tables.file, &mut puts);
    start_pools(store, tables.pool, &mut puts);
    restore_rules(tables, store, uuids, &mut puts);
    puts
}

fn drop_transient(store: &Store, table: TableId, is_pool: bool, puts: &mut Vec<Put>) {
    let columns = store.schema().table(table);
    // The default pool is persistent whatever its row says.
    let is_kept =
        |row: Reader<'_>| row.flag("persistent") || (is_pool && row.text("name") == DEFAULT_NAME);
    let gone = store.rows(table).filter(|row| !is_kept(Reader::new(columns, row)));
    puts.extend(gone.map(|row| (table, row_uuid(row), None)));
}

/// Takes the rows that go out of what files said. A file knows a row by its UUID, and one that was applied by an
/// earlier version by its table and its name, and a server by those of its backend too.
fn forget_said(store: &Store, files: TableId, puts: &mut Vec<Put>) {
    let gone: BTreeSet<Uuid> = puts.iter().map(|(_, uuid, _)| *uuid).collect();
    let names: BTreeSet<String> = puts.iter().filter_map(|put| said_name(store, put)).collect();
    let columns = store.schema().table(files);
    let (said, rows) = (columns.column_id("said"), columns.column_id("rows"));
    let Some((said, rows)) = said.zip(rows).filter(|_| !gone.is_empty()) else { return };
    for row in store.rows(files) {
        let known = row[rows.index()].pairs().iter();
        let known: BTreeMap<&Atom, Uuid> =
            known.filter_map(|(key, uuid)| Some((key, uuid.as_uuid()?))).collect();
        let is_left = |key: &Atom| {
            let name = key.as_str().unwrap_or_default();
            match known.get(key).filter(|uuid| is_there(store, name, **uuid)) {
                Some(uuid) => !gone.contains(uuid),
                None => !names.contains(name),
            }
        };
        let mut values = row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
        for column in [said, rows] {
            let pairs = row[column.index()].pairs().iter();
            let left: Vec<(Atom, Atom)> = pairs.filter(|(key, _)| is_left(key)).cloned().collect();
            if let Some(value) = values.get_mut(column.index() - ColumnId::FIRST) {
                *value = Datum::from_sorted_pairs(left);
            }
        }
        if row.get(ColumnId::FIRST..) != Some(&values) {
            puts.push((files, row_uuid(row), Some(values)));
        }
    }
}

/// Whether the object that a file calls `name` has this row.
fn is_there(store: &Store, name: &str, row: Uuid) -> bool {
    let table = name.split_once(' ').and_then(|(table, _)| store.schema().table_id(table));
    table.is_some_and(|table| store.row(table, row).is_some())
}

/// What a file calls a row that was not renamed.
fn said_name(store: &Store, (table, uuid, _): &Put) -> Option<String> {
    let columns = store.schema().table(*table);
    let row = Reader::new(columns, store.row(*table, *uuid)?);
    let backend = columns.column_id("address").map(|_| format!("{}/", row.text("backend")));
    Some(format!("{} {}{}", columns.name, backend.unwrap_or_default(), row.text("name")))
}

fn start_pools(store: &Store, table: TableId, puts: &mut Vec<Put>) {
    let columns = store.schema().table(table);
    let Some(state) = columns.column_id("state") else { return };
    for row in store.rows(table) {
        let reader = Reader::new(columns, row);
        let can_start = reader.integer("priority_min").is_some();
        let is_started = reader.optional("state") == Some("started");
        if reader.flag("persistent") && can_start && !is_started {
            let mut values = row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
            if let Some(value) = values.get_mut(state.index() - ColumnId::FIRST) {
                *value = Datum::One(Atom::string("started"));
            }
            puts.push((table, reader.uuid(), Some(values)));
        }
    }
}

fn restore_rules(tables: Tables, store: &Store, uuids: &mut UuidSource, puts: &mut Vec<Put>) {
    let (running, saved) = (by_number(store, tables.rule), by_number(store, tables.saved_rule));
    let (rules, saved_rules) =
        (store.schema().table(tables.rule), store.schema().table(tables.saved_rule));
    let gone = running.iter().filter(|(number, _)| !saved.contains_key(number));
    puts.extend(gone.map(|(_, row)| (tables.rule, row_uuid(row), None)));
    // Where each column of a running rule comes from, if a saved one has it.
    let columns: Vec<(Option<ColumnId>, &Datum)> = rules
        .columns
        .iter()
        .skip(ColumnId::FIRST)
        .map(|column| (saved_rules.column_id(&column.name), &column.default))
        .collect();
    for (number, row) in saved {
        let value = |(from, default): &(Option<ColumnId>, &Datum)| {
            from.map_or_else(|| (*default).clone(), |from| row[from.index()].clone())
        };
        let values: Vec<Datum> = columns.iter().map(value).collect();
        let old = running.get(&number);
        if old.is_none_or(|old| old.get(ColumnId::FIRST..) != Some(&values)) {
            let uuid = old.map_or_else(|| uuids.next_uuid(), |old| row_uuid(old));
            puts.push((tables.rule, uuid, Some(values)));
        }
    }
}

fn by_number(store: &Store, table: TableId) -> BTreeMap<i64, &Row> {
    let Some(column) = store.schema().table(table).column_id("number") else {
        return BTreeMap::new();
    };
    let number = |row: &Row| row[column.index()].single().and_then(Atom::as_integer);
    store.rows(table).filter_map(|row| Some((number(row)?, row))).collect()
}
