//! Takes back an application of files: the transaction that undoes it.
//!
//! Promises that a start which fails with new files leaves the configuration as it found it, and that edits of other
//! clients since then stay: a column is written back only if it still has the value that the files gave it. It does not touch what clients hold, nor figures.

use super::operation;
use paceline_catalogue::KINDS;
use paceline_model::schema::{FILE, SAVED_RULE};
use paceline_tables::json::Json;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::{Row, Snapshot, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The operations that undo in `store` what made the configuration in `after` of the one in `before`.
#[must_use]
pub fn revert(before: &Snapshot, after: &Snapshot, store: &Store) -> Vec<Json> {
    let schema = store.schema();
    let names: BTreeSet<&str> =
        KINDS.iter().map(|kind| kind.table).chain([SAVED_RULE, FILE]).collect();
    let mut operations = vec![];
    for table in names.iter().filter_map(|name| schema.table_id(name)) {
        revert_table(before, after, store, table, &mut operations);
    }
    operations
}

/// The most operations that fail before [`revert_each`] gives up: each is tried in several transactions.
const FAILED_MAX: usize = 100;

/// Does as many of the operations as possible, if all of them together fail: another client may stand in the way of some.
/// `edit` executes some in one transaction. Returns those that failed, with the reasons.
pub fn revert_each<E>(
    operations: &[Json],
    mut edit: impl FnMut(&[Json]) -> Result<(), E>,
) -> Vec<(Json, E)> {
    let mut left = operations.to_vec();
    loop {
        let mut failed = vec![];
        revert_some(&left, &mut edit, &mut failed);
        // An operation may need another one first, so those that failed are tried again while there are fewer of them.
        if failed.is_empty() || failed.len() >= left.len().min(FAILED_MAX) {
            return failed;
        }
        left = failed.into_iter().map(|(operation, _)| operation).collect();
    }
}

/// Tries operations together, then each half by itself.
fn revert_some<E>(
    operations: &[Json],
    edit: &mut impl FnMut(&[Json]) -> Result<(), E>,
    failed: &mut Vec<(Json, E)>,
) {
    if operations.is_empty() || failed.len() >= FAILED_MAX {
        return;
    }
    match (edit(operations), operations) {
        (Ok(()), _) => {}
        (Err(error), [operation]) => failed.push((operation.clone(), error)),
        (Err(_), _) => {
            let (first, second) = operations.split_at(operations.len() / 2);
            revert_some(first, edit, failed);
            revert_some(second, edit, failed);
        }
    }
}

fn revert_table(
    before: &Snapshot,
    after: &Snapshot,
    store: &Store,
    table: TableId,
    operations: &mut Vec<Json>,
) {
    let columns = store.schema().table(table);
    let name = &*columns.name;
    let made: BTreeMap<Uuid, &Row> = after.rows(table).map(|row| (row_uuid(row), row)).collect();
    let mut known = BTreeSet::new();
    for old in before.rows(table) {
        let uuid = row_uuid(old);
        known.insert(uuid);
        match made.get(&uuid) {
            Some(new) => {
                // Another client may have deleted it since.
                let Some(now) = store.row(table, uuid) else { continue };
                let is_to_undo = |column: ColumnId| {
                    let at = column.index();
                    new[at] != old[at] && now[at] == new[at]
                };
                let changed = values(columns, old, is_to_undo);
                if !changed.is_empty() {
                    operations.push(operation::update(name, uuid, changed));
                }
            }
            None => {
                let all = values(columns, old, |_| true);
                operations.push(operation::insert_again(name, uuid, all));
            }
        }
    }
    let added = made.keys().filter(|row| !known.contains(row));
    let there = added.filter(|row| store.row(table, **row).is_some());
    operations.extend(there.map(|row| operation::delete(name, *row)));
}

/// The values of the wanted columns that are kept on disk.
fn values<'s>(
    table: &'s TableSchema,
    row: &Row,
    is_wanted: impl Fn(ColumnId) -> bool,
) -> Vec<(&'s str, Json)> {
    let kept = table.column_ids().filter(|id| {
        id.index() >= ColumnId::FIRST && table.column(*id).persistent && is_wanted(*id)
    });
    let value = |id: ColumnId| {
        let (column, value) = (table.column(id), &row[id.index()]);
        let json =
            if column.ty.value.is_some() { operation::map(value) } else { operation::value(value) };
        (&*column.name, json)
    };
    kept.map(value).collect()
}
