//! What is left of the rows after a restart.
//!
//! Transient pools, checkpoints and resources are gone. Persistent pools come back started, also if
//! they had been stopped. The running list of rules is filled from the saved one. What was journaled
//! before the daemon ended is brought to that by one list of changes.

use crate::model::Tables;
use crate::reader::Reader;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::{Uuid, UuidSource};

/// A row to be put: its table, itself, and its values, or none if it goes.
pub type Put = (TableId, Uuid, Option<Vec<Datum>>);

/// The changes that a restart makes; new rows take their UUIDs from `uuids`.
pub(crate) fn restart(tables: Tables, store: &Store, uuids: &mut UuidSource) -> Vec<Put> {
    let mut puts = Vec::new();
    for table in [tables.pool, tables.checkpoint, tables.resource] {
        drop_transient(store, table, &mut puts);
    }
    start_pools(store, tables.pool, &mut puts);
    restore_rules(tables, store, uuids, &mut puts);
    puts
}

fn drop_transient(store: &Store, table: TableId, puts: &mut Vec<Put>) {
    let columns = store.schema().table(table);
    let gone = store.rows(table).filter(|row| !Reader::new(columns, row).flag("persistent"));
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

fn restore_rules(tables: Tables, store: &Store, uuids: &mut UuidSource, puts: &mut Vec<Put>) {
    let (rules, saved) =
        (store.schema().table(tables.rule), store.schema().table(tables.saved_rule));
    let number = |table: &TableSchema, row: &Row| Reader::new(table, row).integer("number");
    for row in store.rows(tables.rule) {
        let kept = store.rows(tables.saved_rule).any(|s| number(saved, s) == number(rules, row));
        if !kept {
            puts.push((tables.rule, row_uuid(row), None));
        }
    }
    for row in store.rows(tables.saved_rule) {
        let running = store.rows(tables.rule).find(|r| number(rules, r) == number(saved, row));
        let values: Vec<Datum> = rules
            .columns
            .iter()
            .skip(ColumnId::FIRST)
            .map(|column| {
                let from = saved.column_id(&column.name);
                from.map_or_else(|| column.default.clone(), |from| row[from.index()].clone())
            })
            .collect();
        let is_same =
            running.is_some_and(|running| running.get(ColumnId::FIRST..) == Some(&values));
        if !is_same {
            let uuid = running.map_or_else(|| uuids.next_uuid(), |running| row_uuid(running));
            puts.push((tables.rule, uuid, Some(values)));
        }
    }
}
