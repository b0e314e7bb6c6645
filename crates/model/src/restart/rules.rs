//! The running list of rules becomes the saved one.
//!
//! Promises that the rules of a file stay the objects that the file knows: a rule that was renumbered and saved has the
//! same row in the running list as before the restart, or the file's record names its new row. Otherwise the file would
//! take the rule for deleted, and delete the row that it does not know.

use super::Put;
use super::files::Files;
use crate::model::Tables;
use crate::reader::Reader;
use crate::schema::{RULE, SAVED_RULE};
use paceline_tables::schema::{ColumnId, TableId};
use paceline_tables::value::Datum;
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::{Uuid, UuidSource};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn restore(
    tables: Tables,
    store: &Store,
    uuids: &mut UuidSource,
    files: &mut Files<'_>,
    puts: &mut Vec<Put>,
) {
    let (rules, saved_rules) =
        (store.schema().table(tables.rule), store.schema().table(tables.saved_rule));
    let saved = by_number(store, tables.saved_rule);
    let rows = rows_of(tables, store, &saved, uuids, files);
    let left: BTreeSet<Uuid> = rows.values().copied().collect();
    let gone = store.rows(tables.rule).map(|row| row_uuid(row)).filter(|row| !left.contains(row));
    puts.extend(gone.map(|row| (tables.rule, row, None)));
    // The source of each column of a running rule, if a saved rule has it.
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
        let Some(uuid) = rows.get(&number) else { continue };
        let old = store.row(tables.rule, *uuid);
        if old.is_none_or(|old| old.get(ColumnId::FIRST..) != Some(&values)) {
            puts.push((tables.rule, *uuid, Some(values)));
        }
    }
}

/// The row in the running list of each saved rule, by number: the row that the rule's file knows, otherwise the one of
/// the same number, otherwise a new one. The file's record then has both rows.
fn rows_of(
    tables: Tables,
    store: &Store,
    saved: &BTreeMap<i64, &Row>,
    uuids: &mut UuidSource,
    files: &mut Files<'_>,
) -> BTreeMap<i64, Uuid> {
    let columns = store.schema().table(tables.saved_rule);
    let file_of = |row: &Row| Reader::new(columns, row).owned("file").unwrap_or_default();
    let names = [RULE, SAVED_RULE].map(|table| {
        let known = files.rows(table);
        known.map(|(row, file, name)| ((file.to_owned(), row), name.to_owned())).collect()
    });
    let [names, saved_names]: [BTreeMap<(String, Uuid), String>; 2] = names;
    let saved_name = |row: &Row| saved_names.get(&(file_of(row), row_uuid(row)));
    let mut used = BTreeSet::new();
    let mut rows = BTreeMap::new();
    for (number, row) in saved {
        let known = saved_name(row).and_then(|name| files.row(&file_of(row), RULE, name));
        if let Some(known) = known.filter(|known| used.insert(*known)) {
            rows.insert(*number, known);
        }
    }
    let running = by_number(store, tables.rule);
    for (number, row) in saved {
        let same = || running.get(number).map(|row| row_uuid(row)).filter(|row| used.insert(*row));
        let known = rows.get(number).copied();
        let rule = known.or_else(same).unwrap_or_else(|| uuids.next_uuid());
        rows.insert(*number, rule);
        let file = file_of(row);
        if let Some(name) = saved_name(row) {
            files.set_row(&file, RULE, name, rule);
        } else if let Some(name) = names.get(&(file.clone(), rule)) {
            files.set_row(&file, SAVED_RULE, name, row_uuid(row));
        }
    }
    rows
}

fn by_number(store: &Store, table: TableId) -> BTreeMap<i64, &Row> {
    let columns = store.schema().table(table);
    let number = |row: &Row| Reader::new(columns, row).integer("number");
    store.rows(table).filter_map(|row| Some((number(row)?, row))).collect()
}
