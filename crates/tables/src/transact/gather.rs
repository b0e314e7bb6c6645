//! Large sets and maps that a transaction mutates more than once.
//!
//! When 2,000 operations add to a set of 30,000 elements, with any operations between them, the set is not copied
//! 2,000 times. When a transaction mutates a row again that it has changed before, the row's large columns move
//! here, into a form that takes one element at a time. The row in the store stays correct in every other column
//! except its version. It is put together again before an operation looks at a column that is here, and at the end
//! of the transaction.

use super::Execution;
use crate::condition::Condition;
use crate::error::Error;
use crate::mutation::{Gathered, Mutation};
use crate::schema::{ColumnId, TableId};
use crate::store::{Row, row_uuid};
use crate::value::{Atom, Datum};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Smaller values are copied, which is as fast.
const GATHER_MIN: usize = 64;

/// The columns that a transaction has in this form.
#[derive(Default)]
pub(super) struct Gathering {
    rows: BTreeMap<(TableId, Uuid), Vec<(ColumnId, Gathered)>>,
    /// How many rows of a table have each column here, so that most operations need not look at the rows.
    columns: BTreeMap<(TableId, ColumnId), usize>,
}

impl Gathering {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&mut self, table: TableId, uuid: Uuid, column: ColumnId) -> Option<&mut Gathered> {
        let columns = self.rows.get_mut(&(table, uuid))?;
        let found = columns.iter_mut().find(|(known, _)| *known == column);
        found.map(|(_, gathered)| gathered)
    }

    fn add(&mut self, table: TableId, uuid: Uuid, column: ColumnId, gathered: Gathered) {
        *self.columns.entry((table, column)).or_insert(0) += 1;
        self.rows.entry((table, uuid)).or_default().push((column, gathered));
    }

    /// Removes the columns of a row from here, to be put together or dropped.
    pub(super) fn take(&mut self, table: TableId, uuid: Uuid) -> Vec<(ColumnId, Gathered)> {
        let columns = self.rows.remove(&(table, uuid)).unwrap_or_default();
        for (column, _) in &columns {
            if let Some(count) = self.columns.get_mut(&(table, *column)) {
                *count -= 1;
                if *count == 0 {
                    self.columns.remove(&(table, *column));
                }
            }
        }
        columns
    }

    /// Whether the store is out of date in one of the columns that an operation tests or shows.
    fn hides(&self, table: TableId, condition: &Condition, shown: &[ColumnId]) -> bool {
        let of_table = (table, ColumnId(0))..=(table, ColumnId(u16::MAX));
        let looked_at = |column: ColumnId| shown.contains(&column) || condition.tests(column);
        let mut gathered = self.columns.range(of_table).map(|((_, column), _)| *column).peekable();
        gathered.peek().is_some() && (looked_at(ColumnId::VERSION) || gathered.any(looked_at))
    }

    fn rows_of(&self, table: TableId) -> Vec<Uuid> {
        let of_table = (table, Uuid::ZERO)..=(table, Uuid([255; 16]));
        self.rows.range(of_table).map(|((_, uuid), _)| *uuid).collect()
    }
}

impl Execution<'_> {
    /// Puts rows of `table` together if an operation depends on it that tests `condition` on them and then reads
    /// the columns `shown`.
    pub(super) fn before_looking(
        &mut self,
        table: TableId,
        condition: &Condition,
        shown: &[ColumnId],
    ) -> Result<(), Error> {
        if self.gathering.is_empty() || !self.gathering.hides(table, condition, shown) {
            return Ok(());
        }
        match condition.equal_to(ColumnId::UUID).map(|value| value.single().and_then(Atom::as_uuid))
        {
            Some(Some(uuid)) => self.put_together(table, uuid),
            Some(None) => Ok(()),
            None => {
                let rows = self.gathering.rows_of(table);
                rows.into_iter().try_for_each(|uuid| self.put_together(table, uuid))
            }
        }
    }

    /// Puts every row together.
    pub(super) fn put_all_together(&mut self) -> Result<(), Error> {
        while let Some(((table, uuid), _)) = self.gathering.rows.first_key_value() {
            let (table, uuid) = (*table, *uuid);
            self.put_together(table, uuid)?;
        }
        Ok(())
    }

    fn put_together(&mut self, table: TableId, uuid: Uuid) -> Result<(), Error> {
        let columns = self.gathering.take(table, uuid);
        let row = self.rows.edit()?.row(table, uuid);
        let Some(row) = row.filter(|_| !columns.is_empty()) else { return Ok(()) };
        let mut fields = row.to_vec();
        for (id, gathered) in columns {
            self.work.spend(gathered.len())?;
            fields[id.index()] = gathered.into_datum();
        }
        fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(self.symbols.fresh()));
        self.put(table, uuid, Some(fields.into()))
    }

    /// Applies `mutations` to one row. A large set or map is gathered unless this is the transaction's first change
    /// to it: many are changed only once, and then one copy is cheaper.
    pub(super) fn mutate_row(
        &mut self,
        table: TableId,
        mut row: Row,
        mutations: &Mutations,
    ) -> Result<(), Error> {
        let uuid = row_uuid(&row);
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        if mutations.whole.iter().any(|id| self.gathering.column(table, uuid, *id).is_some()) {
            self.put_together(table, uuid)?;
            row = self.rows.edit()?.row(table, uuid).unwrap_or(row);
        }
        let is_touched = self.rows.edit()?.has_touched(table, uuid);
        let mut copied: Vec<ColumnId> = Vec::new();
        self.work.spend(schema.columns.len())?;
        for mutation in &mutations.list {
            let id = mutation.column;
            let ty = &schema.column(id).ty;
            self.work.spend(mutation.steps())?;
            if let Some(gathered) = self.gathering.column(table, uuid, id) {
                mutation.apply_to(gathered, ty)?;
                continue;
            }
            let value = &row[id.index()];
            self.work.spend(value.steps())?;
            let is_again = is_touched || copied.contains(&id);
            if is_again && value.len() >= GATHER_MIN && !mutations.whole.contains(&id) {
                let mut gathered = Gathered::new(value);
                mutation.apply_to(&mut gathered, ty)?;
                self.gathering.add(table, uuid, id, gathered);
                continue;
            }
            let changed = mutation.apply(value, ty)?;
            Arc::make_mut(&mut row)[id.index()] = changed;
            if !copied.contains(&id) {
                copied.push(id);
            }
        }
        if !copied.is_empty() {
            let version = Datum::One(Atom::Uuid(self.symbols.fresh()));
            Arc::make_mut(&mut row)[ColumnId::VERSION.index()] = version;
            self.put(table, uuid, Some(row))?;
        }
        Ok(())
    }
}

/// The mutations of one operation.
#[derive(Clone, Debug)]
pub(super) struct Mutations {
    list: Vec<Mutation>,
    /// The columns with arithmetic on their elements, which needs all elements together.
    whole: BTreeSet<ColumnId>,
}

impl Mutations {
    pub(super) fn new(list: Vec<Mutation>) -> Self {
        let computes = list.iter().filter(|mutation| !mutation.is_by_element());
        let whole = computes.map(|mutation| mutation.column).collect();
        Self { list, whole }
    }

    /// The columns that the mutations change.
    pub(super) fn columns(&self) -> impl Iterator<Item = ColumnId> {
        self.list.iter().map(|mutation| mutation.column)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
