//! The rows that are left after a restart.
//!
//! Transient pools, checkpoints, resources, frontends, backends, servers and SQL targets are deleted. Persistent pools are
//! started, even if they were stopped. The running list of rules is replaced by the saved one. One list of changes
//! does this to the rows that were journaled before the daemon ended. The record of what files said of the deleted
//! rows is removed, so that the rows are created again when the files are next applied.

mod files;
mod rules;

use crate::model::Tables;
use crate::reader::Reader;
use files::Files;
use paceline_pools::DEFAULT_NAME;
use paceline_tables::schema::{ColumnId, TableId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Store, row_uuid};
use paceline_types::{Uuid, UuidSource};

/// A row to be written: its table, its UUID, and its values, or `None` if it is deleted.
pub type Put = (TableId, Uuid, Option<Vec<Datum>>);

/// The changes of a restart; new rows get their UUIDs from `uuids`.
pub(crate) fn restart(tables: Tables, store: &Store, uuids: &mut UuidSource) -> Vec<Put> {
    let mut puts = Vec::new();
    let Tables { pool, checkpoint, resource, frontend, backend, server, sql_target, .. } = tables;
    for table in [pool, checkpoint, resource, frontend, backend, server, sql_target] {
        drop_transient(store, table, table == tables.pool, &mut puts);
    }
    let mut files = Files::new(store, tables.file);
    files.forget(&puts);
    start_pools(store, tables.pool, &mut puts);
    rules::restore(tables, store, uuids, &mut files, &mut puts);
    puts.extend(files.puts());
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
