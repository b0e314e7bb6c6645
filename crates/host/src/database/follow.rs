//! Claims that are kept follow the resources: a holder keeps what it holds, also where an edit renames it
//! or takes it out of what was claimed, and also if the daemon ends after the edit (C1, P3).
//!
//! A kept permit names what it claims. When resources change, names are changed along, and what an edit
//! cuts off from a claimed resource is claimed by itself from then on. Deleted resources keep their names
//! in the claims; nobody else can claim them.

use super::{Head, Hosted};
use crate::own;
use paceline_model::Put;
use paceline_tables::schema::{ColumnId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Row, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Hosted {
    /// Brings the claims of kept permits in step with changes of the resources. Rows that must change are in
    /// line to be written when this returns.
    pub(super) fn follow_claims(self: &Arc<Self>, head: &mut Head, changes: &Changes) {
        let schema = Arc::clone(head.database.schema());
        let (Some(resources), Some(permits)) =
            (schema.table_id(own::RESOURCE_TABLE), schema.table_id(own::PERMIT_TABLE))
        else {
            return;
        };
        if *schema.name != *own::DATABASE || !changes.rows.iter().any(|row| row.table == resources)
        {
            return;
        }
        let (table, store) = (schema.table(permits), head.database.store());
        let Some(column) = table.column_id("claims") else { return };
        let claiming: Vec<Row> =
            store.rows(permits).filter(|row| !row[column.index()].is_empty()).cloned().collect();
        if claiming.is_empty() {
            return;
        }
        let Some(moved) = Moved::of(schema.table(resources), store, changes, resources) else {
            return;
        };
        let puts: Vec<Put> = claiming
            .iter()
            .filter_map(|row| {
                let claims = moved.claims(&row[column.index()])?;
                let mut values = row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
                *values.get_mut(column.index() - ColumnId::FIRST)? = claims;
                Some((permits, row_uuid(row), Some(values)))
            })
            .collect();
        if !puts.is_empty() {
            self.put_rows(head, puts, true, None);
        }
    }
}

/// What an edit does to claims.
#[derive(Debug, Default)]
struct Moved {
    /// New names by old ones.
    renamed: BTreeMap<String, String>,
    /// What may have left the sub-trees of others, by its new name, with the old names of all it was below
    /// and its own.
    cut: Vec<(String, BTreeSet<String>)>,
}

/// A resource before the edit.
struct Before<'a> {
    name: &'a str,
    parents: Vec<Uuid>,
}

impl Moved {
    fn of(
        table: &TableSchema,
        store: &Store,
        changes: &Changes,
        resources: paceline_tables::schema::TableId,
    ) -> Option<Self> {
        let (name, parents) = (table.column_id("name")?, table.column_id("parents")?);
        let name_of = |row: &'_ Row| row[name.index()].single()?.as_str().map(str::to_owned);
        let before = |row| -> Option<Before<'_>> {
            let row: &Row = row;
            let parents = row[parents.index()].keys().filter_map(Atom::as_uuid).collect();
            Some(Before { name: row[name.index()].single()?.as_str()?, parents })
        };
        let changed = || changes.rows.iter().filter(|change| change.table == resources);
        // The graph as it was: what is there now, but for what changed.
        let mut old: BTreeMap<Uuid, Before<'_>> =
            store.rows(resources).filter_map(|row| Some((row_uuid(row), before(row)?))).collect();
        for change in changed() {
            match change.old.as_ref().and_then(&before) {
                Some(row) => drop(old.insert(change.uuid, row)),
                None => drop(old.remove(&change.uuid)),
            }
        }
        let mut moved = Self::default();
        for change in changed() {
            let (Some(was), Some(is)) = (&change.old, &change.new) else { continue };
            let (Some(was_called), Some(is_called)) = (name_of(was), name_of(is)) else { continue };
            if was[parents.index()] != is[parents.index()] {
                moved.cut.push((is_called.clone(), above(&old, change.uuid)));
            }
            if was_called != is_called {
                moved.renamed.insert(was_called, is_called);
            }
        }
        Some(moved)
    }

    /// What a permit claims after the edit; none if that is the same.
    fn claims(&self, claims: &Datum) -> Option<Datum> {
        let old: BTreeMap<&str, &str> =
            claims.pairs().iter().filter_map(|(n, m)| Some((n.as_str()?, m.as_str()?))).collect();
        let mut new: BTreeMap<&str, &str> = BTreeMap::new();
        let mut claim = |name, mode| {
            let held = new.entry(name).or_insert(mode);
            if mode == "exclusive" {
                *held = mode;
            }
        };
        for (name, mode) in &old {
            claim(self.renamed.get(*name).map_or(*name, String::as_str), *mode);
        }
        for (name, above) in &self.cut {
            for (_, mode) in old.iter().filter(|(claimed, _)| above.contains(**claimed)) {
                claim(name, *mode);
            }
        }
        if new == old {
            return None;
        }
        let pairs = new.iter().map(|(name, mode)| (Atom::string(name), Atom::string(mode)));
        Some(Datum::from_sorted_pairs(pairs.collect()))
    }
}

/// The names of a resource and of all it hangs below.
fn above(graph: &BTreeMap<Uuid, Before<'_>>, from: Uuid) -> BTreeSet<String> {
    let (mut names, mut seen, mut left) = (BTreeSet::new(), BTreeSet::new(), vec![from]);
    while let Some(uuid) = left.pop() {
        if let Some(node) = graph.get(&uuid).filter(|_| seen.insert(uuid)) {
            names.insert(node.name.to_owned());
            left.extend(&node.parents);
        }
    }
    names
}
