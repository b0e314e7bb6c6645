//! The end of a transaction (RFC 7047 section 3.2 and the index extension): integrity, garbage,
//! row counts, weak references, indexes, each by scanning everything.

use super::schema::{Link, Schema};
use super::value::{Atom, Tags, Value};
use super::{Row, Tables};
use paceline_types::Uuid;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A database after a transaction.
#[derive(Debug)]
pub struct Settled {
    pub tables: Tables,
    /// Rows whose content is unchanged only because a weak reference that the transaction added was removed again.
    /// Whether such a row counts as changed is unspecified.
    pub open: BTreeSet<(usize, Uuid)>,
    /// Rows deleted because they were not referred to.
    pub collected: usize,
    /// Rows that lost weak references.
    pub dangling: usize,
}

/// The tables after the commit, or the tags of its error.
pub fn settle(schema: &Schema, mut tables: Tables, before: &Tables) -> Result<Settled, Tags> {
    if !strong_references_hold(schema, &tables) {
        return Err(vec!["referential integrity violation"]);
    }
    let mut collected = collect_garbage(schema, &mut tables);
    for (table, rows) in schema.tables.iter().zip(&tables) {
        if rows.len() > table.max_rows {
            return Err(vec!["constraint violation"]);
        }
    }
    let mut open = BTreeSet::new();
    // A pair of a map that is removed for its weak side can hold the last strong reference to a row.
    while drop_dangling(schema, &mut tables, &mut open)? {
        collected += collect_garbage(schema, &mut tables);
    }
    let dangling = open.len();
    for (table, rows) in schema.tables.iter().zip(&tables) {
        for index in &table.indexes {
            let same = |a: &Row, b: &Row| index.iter().all(|column| a[*column] == b[*column]);
            let twin = |a: &Row| rows.values().any(|b| a[0] != b[0] && same(a, b));
            if rows.values().any(twin) {
                return Err(vec!["constraint violation"]);
            }
        }
    }
    open.retain(|(table, uuid)| keep_unchanged(&mut tables[*table], &before[*table], *uuid));
    for (rows, before) in tables.iter_mut().zip(before) {
        for uuid in before.keys() {
            keep_unchanged(rows, before, *uuid);
        }
    }
    Ok(Settled { tables, open, collected, dangling })
}

/// Restores the old version of a row whose content is unchanged; returns whether it did.
fn keep_unchanged(
    rows: &mut std::collections::BTreeMap<Uuid, Row>,
    before: &std::collections::BTreeMap<Uuid, Row>,
    uuid: Uuid,
) -> bool {
    match (rows.get_mut(&uuid), before.get(&uuid)) {
        (Some(row), Some(old)) if row[2..] == old[2..] => {
            *row = old.clone();
            true
        }
        _ => false,
    }
}

/// Every reference that rows hold: from which table and row, by which link, to which row.
fn references<'a>(
    schema: &Schema,
    tables: &'a Tables,
    link_kind: impl Fn(&Link) -> bool,
) -> Vec<(usize, Uuid, &'a Row, usize, Uuid)> {
    let mut all = Vec::new();
    for (from, rows) in tables.iter().enumerate() {
        let links = schema.tables[from].links();
        for link in links.iter().filter(|link| link_kind(link)) {
            for (uuid, row) in rows {
                for to in row[link.column].references(link.value_side) {
                    all.push((from, *uuid, row, link.table, to));
                }
            }
        }
    }
    all
}

fn strong_references_hold(schema: &Schema, tables: &Tables) -> bool {
    references(schema, tables, |link| link.strong)
        .iter()
        .all(|(_, _, _, table, to)| tables[*table].contains_key(to))
}

/// How many strong references other rows hold to each row.
pub fn strong_counts(
    schema: &Schema,
    tables: &Tables,
) -> std::collections::BTreeMap<(usize, Uuid), u32> {
    let mut counts = std::collections::BTreeMap::new();
    for (from, uuid, _, table, to) in references(schema, tables, |link| link.strong) {
        if (from, uuid) != (table, to) {
            *counts.entry((table, to)).or_insert(0) += 1;
        }
    }
    counts
}

/// Which rows hold weak references to each row.
pub fn weak_referrers(
    schema: &Schema,
    tables: &Tables,
) -> std::collections::BTreeMap<(usize, Uuid), BTreeSet<(usize, Uuid)>> {
    let mut referrers: std::collections::BTreeMap<_, BTreeSet<_>> = Default::default();
    for (from, uuid, _, table, to) in references(schema, tables, |link| !link.strong) {
        referrers.entry((table, to)).or_default().insert((from, uuid));
    }
    referrers
}

fn collect_garbage(schema: &Schema, tables: &mut Tables) -> usize {
    let mut collected = 0;
    loop {
        let counts = strong_counts(schema, tables);
        let before = collected;
        for (table, rows) in tables.iter_mut().enumerate() {
            if !schema.is_root(table) {
                let all = rows.len();
                rows.retain(|uuid, _| counts.contains_key(&(table, *uuid)));
                collected += all - rows.len();
            }
        }
        if collected == before {
            return collected;
        }
    }
}

fn drop_dangling(
    schema: &Schema,
    tables: &mut Tables,
    open: &mut BTreeSet<(usize, Uuid)>,
) -> Result<bool, Tags> {
    let mut any = false;
    let exists = tables.clone();
    for (table, rows) in tables.iter_mut().enumerate() {
        let links = schema.tables[table].links();
        for link in links.iter().filter(|link| !link.strong) {
            for (uuid, row) in rows.iter_mut() {
                let there = |atom: &Atom| match atom {
                    Atom::Uuid(to) => exists[link.table].contains_key(to),
                    other => panic!("{other:?} is no reference"),
                };
                let mut value = row[link.column].clone();
                match &mut value {
                    Value::Set(set) => set.retain(there),
                    Value::Map(map) => {
                        map.retain(|k, v| there(if link.value_side { v } else { k }))
                    }
                }
                if value.len() == row[link.column].len() {
                    continue;
                }
                if value.len() < schema.tables[table].columns[link.column].min {
                    return Err(vec!["constraint violation"]);
                }
                Rc::make_mut(row)[link.column] = value;
                open.insert((table, *uuid));
                any = true;
            }
        }
    }
    Ok(any)
}
