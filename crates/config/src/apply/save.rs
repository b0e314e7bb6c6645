//! Saves the running list of rules: the transaction that makes the saved list say the same.
//!
//! Promises that a saved rule belongs to the file that the running one belongs to, and is the row that the file knows,
//! also if the running rule was renumbered.

use super::operation;
use super::owner::{FileRows, Kept, key_of, owner};
use paceline_model::schema::{RULE, SAVED_RULE};
use paceline_tables::json::Json;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The operations that save the running list of rules.
#[must_use]
pub fn save_rules(store: &Store) -> Vec<Json> {
    let schema = store.schema();
    let (Some(rules), Some(saved)) = (schema.table_id(RULE), schema.table_id(SAVED_RULE)) else {
        return vec![];
    };
    let files = FileRows::new(store);
    let known = saved_rows(&files, store, rules, saved);
    let left: BTreeSet<Uuid> = known.values().copied().collect();
    let gone = store.rows(saved).map(|row| row_uuid(row)).filter(|row| !left.contains(row));
    let mut operations: Vec<Json> = gone.map(|row| operation::delete(SAVED_RULE, row)).collect();
    let mut kept = BTreeMap::new();
    for (index, rule) in store.rows(rules).enumerate() {
        let values = values(schema.table(rules), rule, schema.table(saved));
        let old = known.get(&row_uuid(rule)).and_then(|row| store.row(saved, *row));
        let is_same =
            |row: &Row| values.iter().all(|(column, _, value)| row[column.index()] == **value);
        let columns = values.iter().map(|(_, name, value)| (*name, operation::value(value)));
        let row = match old {
            Some(old) => {
                if !is_same(old) {
                    let columns = columns.collect();
                    operations.push(operation::update(SAVED_RULE, row_uuid(old), columns));
                }
                Kept::Row(row_uuid(old))
            }
            None => {
                let name = operation::new_name(SAVED_RULE, index);
                operations.push(operation::insert(SAVED_RULE, columns.collect(), Some(&name)));
                Kept::New(name)
            }
        };
        if let Some(file) = owner(schema.table(rules), rule) {
            kept.insert(row_uuid(rule), (file, row));
        }
    }
    operations.extend(files.record((RULE, SAVED_RULE), &kept));
    operations
}

/// The saved row of each running rule that has one: the row that the rule's file knows, or else the row of the
/// same number.
fn saved_rows(
    files: &FileRows<'_>,
    store: &Store,
    rules: TableId,
    saved: TableId,
) -> BTreeMap<Uuid, Uuid> {
    let mut known = BTreeMap::new();
    let mut used = BTreeSet::new();
    for rows in files.rows() {
        for (key, rule) in rows {
            let number = key.strip_prefix(RULE).and_then(|rest| rest.strip_prefix(' '));
            let row = number.and_then(|number| rows.get(&key_of(SAVED_RULE, number)));
            let is_there = |row: &&Uuid| store.row(saved, **row).is_some();
            if store.row(rules, *rule).is_some()
                && let Some(row) = row.filter(is_there)
                && used.insert(*row)
            {
                known.insert(*rule, *row);
            }
        }
    }
    let numbers: BTreeMap<Option<i64>, Uuid> =
        store.rows(saved).map(|row| (number(store, saved, row), row_uuid(row))).collect();
    for rule in store.rows(rules) {
        if !known.contains_key(&row_uuid(rule))
            && let Some(row) = numbers.get(&number(store, rules, rule))
            && used.insert(*row)
        {
            known.insert(row_uuid(rule), *row);
        }
    }
    known
}

fn number(store: &Store, table: TableId, row: &Row) -> Option<i64> {
    let column = store.schema().table(table).column_id("number")?;
    row.get(column.index())?.single().and_then(Atom::as_integer)
}

/// What a saved rule takes from a running one: each column, its name and its value.
fn values<'s>(
    rules: &TableSchema,
    rule: &'s Row,
    saved: &'s TableSchema,
) -> Vec<(ColumnId, &'s str, &'s Datum)> {
    let value = |column: ColumnId| {
        let name = &*saved.column(column).name;
        Some((column, name, rule.get(rules.column_id(name)?.index())?))
    };
    saved
        .column_ids()
        .filter(|column| column.index() >= ColumnId::FIRST)
        .filter_map(value)
        .collect()
}
