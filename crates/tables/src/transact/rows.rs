//! The rows that a transaction works on: those of the head, which it may change, or those of a snapshot, which it
//! reads while the head changes.

use super::edit::Edit;
use super::work::Work;
use crate::condition::Condition;
use crate::error::{Error, tag};
use crate::schema::{ColumnId, Schema, TableId};
use crate::store::{Lookup, Row, Snapshot, Store, row_uuid};
use crate::value::{Atom, Datum};
use paceline_types::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) enum Rows<'a> {
    Head(Edit<'a>),
    Copy(Copied<'a>),
}

/// The rows of a snapshot, with look-up tables that are built on first use.
pub(super) struct Copied<'a> {
    snapshot: &'a Snapshot,
    by_uuid: BTreeMap<TableId, Lookup<Uuid, &'a Row>>,
    by_index: BTreeMap<(TableId, usize), Lookup<Vec<&'a Datum>, &'a Row>>,
}

/// How many slots are passed in the time of one step.
const SLOTS_A_STEP: usize = 16;

/// How the rows that satisfy a condition are found.
enum Way {
    Uuid(Option<Uuid>),
    Index(usize),
    Scan,
}

impl<'a> Rows<'a> {
    pub(super) fn of_head(store: &'a mut Store) -> Self {
        Self::Head(Edit::new(store))
    }

    pub(super) fn of_snapshot(snapshot: &'a Snapshot) -> Self {
        Self::Copy(Copied { snapshot, by_uuid: BTreeMap::new(), by_index: BTreeMap::new() })
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        match self {
            Self::Head(edit) => edit.store.schema(),
            Self::Copy(copied) => copied.snapshot.schema(),
        }
    }

    /// The rows to change. Fails on the rows of a snapshot.
    pub(super) fn edit(&mut self) -> Result<&mut Edit<'a>, Error> {
        match self {
            Self::Head(edit) => Ok(edit),
            Self::Copy(_) => Err(Error::new(tag::NOT_ALLOWED, "a snapshot cannot be changed")),
        }
    }

    /// Whether the transaction has changed something.
    pub(super) fn is_changed(&self) -> bool {
        matches!(self, Self::Head(edit) if !edit.touched.is_empty())
    }

    /// Restores everything as it was.
    pub(super) fn abort(self) {
        if let Self::Head(edit) = self {
            edit.abort();
        }
    }

    /// The rows for which every clause holds, found by an index where one fits.
    pub(super) fn matching(
        &mut self,
        table: TableId,
        condition: &Condition,
        work: &mut Work,
    ) -> Result<Vec<Row>, Error> {
        let way = self.way(table, condition);
        let tested = match way {
            Way::Scan => {
                // The slots of deleted rows are passed, too.
                work.spend(1 + self.slots(table) / SLOTS_A_STEP)?;
                self.count(table)
            }
            _ => 1,
        };
        work.spend_times(tested, condition.weight())?;
        match (self, way) {
            (Self::Head(edit), Way::Uuid(uuid)) => {
                let row = uuid.and_then(|uuid| edit.store.row(table, uuid));
                holding(row, condition, work)
            }
            (Self::Head(edit), Way::Index(index)) => {
                let values = values_of(edit.store.schema(), table, index, condition);
                let mut found = Vec::new();
                for (at, row) in edit.store.indexed(table, index, &values).enumerate() {
                    // The transaction may have created other rows with the same values.
                    if at > 0 {
                        work.spend(condition.weight())?;
                    }
                    found.extend(holding(Some(row), condition, work)?);
                }
                Ok(found)
            }
            (Self::Head(edit), Way::Scan) => holding(edit.store.rows(table), condition, work),
            (Self::Copy(copied), Way::Uuid(uuid)) => {
                let row = match uuid {
                    Some(uuid) => copied.by_uuid(table, uuid, work)?,
                    None => None,
                };
                holding(row, condition, work)
            }
            (Self::Copy(copied), Way::Index(index)) => {
                let snapshot = copied.snapshot;
                let values = values_of(snapshot.schema(), table, index, condition);
                let row = copied.by_index(table, index, &values, work)?;
                holding(row, condition, work)
            }
            (Self::Copy(copied), Way::Scan) => {
                holding(copied.snapshot.rows(table), condition, work)
            }
        }
    }

    fn count(&self, table: TableId) -> usize {
        match self {
            Self::Head(edit) => edit.store.row_count(table),
            Self::Copy(copied) => copied.snapshot.slots(table),
        }
    }

    fn slots(&self, table: TableId) -> usize {
        match self {
            Self::Head(edit) => edit.store.slots(table),
            Self::Copy(copied) => copied.snapshot.slots(table),
        }
    }

    fn way(&self, table: TableId, condition: &Condition) -> Way {
        if let Some(value) = condition.equal_to(ColumnId::UUID) {
            return Way::Uuid(value.single().and_then(Atom::as_uuid));
        }
        let indexes = &self.schema().table(table).indexes;
        let fits = |index: &Vec<ColumnId>| {
            index.iter().all(|column| condition.equal_to(*column).is_some())
        };
        indexes.iter().position(fits).map_or(Way::Scan, Way::Index)
    }
}

/// Those of `rows` for which every clause holds.
fn holding<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    condition: &Condition,
    work: &mut Work,
) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    for row in rows {
        work.spend(condition.search_steps(row))?;
        if condition.all(row) {
            found.push(row.clone());
        }
    }
    Ok(found)
}

/// The values that the columns of an index must equal.
fn values_of<'a>(
    schema: &Schema,
    table: TableId,
    index: usize,
    condition: &'a Condition,
) -> Vec<&'a Datum> {
    let columns = &schema.table(table).indexes[index];
    columns.iter().filter_map(|column| condition.equal_to(*column)).collect()
}

impl<'a> Copied<'a> {
    fn by_uuid(
        &mut self,
        table: TableId,
        uuid: Uuid,
        work: &mut Work,
    ) -> Result<Option<&'a Row>, Error> {
        if !self.by_uuid.contains_key(&table) {
            work.spend(self.snapshot.slots(table))?;
            let mut lookup = Lookup::new(0);
            for row in self.snapshot.rows(table) {
                lookup.entry(row_uuid(row)).or_insert(row);
            }
            self.by_uuid.insert(table, lookup);
        }
        Ok(self.by_uuid.get(&table).and_then(|rows| rows.get(&uuid)).copied())
    }

    fn by_index(
        &mut self,
        table: TableId,
        index: usize,
        values: &[&Datum],
        work: &mut Work,
    ) -> Result<Option<&'a Row>, Error> {
        let key = (table, index);
        if !self.by_index.contains_key(&key) {
            let columns = &self.snapshot.schema().table(table).indexes[index];
            work.spend_times(self.snapshot.slots(table), columns.len())?;
            let mut lookup = Lookup::new(0);
            for row in self.snapshot.rows(table) {
                let values = Store::project(row, columns);
                // A look-up reads the values.
                work.spend(values.iter().map(|value| value.steps()).sum())?;
                lookup.entry(values).or_insert(row);
            }
            self.by_index.insert(key, lookup);
        }
        let wanted = self.by_index.get(&key).and_then(|rows| rows.get_by(values));
        Ok(wanted.copied())
    }
}
