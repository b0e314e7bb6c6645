//! Running operations: those that read and change rows, and the small ones: comment, commit, assert.

use super::gather::Mutations;
use super::operation::Operation;
use super::wait::Until;
use super::{Execution, OpResult, Selected, Stop};
use crate::condition::Condition;
use crate::error::{Error, tag};
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::store::Row;
use crate::value::{Atom, Datum};
use paceline_types::Uuid;
use paceline_types::limits::SELECT_ROWS_MAX;
use std::sync::Arc;

impl Execution<'_> {
    /// Runs one operation.
    pub(super) fn perform(&mut self, operation: Operation) -> Result<OpResult, Stop> {
        match operation {
            Operation::Insert { table, uuid, row, named } => self.insert(table, uuid, row, &named),
            Operation::Select { table, condition, columns, sort } => {
                self.select(table, &condition, columns, sort)
            }
            Operation::Update { table, condition, row, named } => {
                self.update(table, &condition, &row, &named)
            }
            Operation::Mutate { table, condition, mutations } => {
                self.mutate(table, &condition, &mutations)
            }
            Operation::Delete { table, condition } => self.delete(table, &condition),
            Operation::Wait { table, condition, columns, expected, until_equal, timeout_ms } => {
                let until = Until { expected, until_equal, timeout_ms };
                self.wait(table, condition, columns, &until)
            }
            Operation::Commit { durable } => {
                self.durable |= durable;
                Ok(OpResult::Empty)
            }
            Operation::Abort => Err(Error::new("aborted", "aborted by request").into()),
            Operation::Comment(comment) => {
                if !self.comment.is_empty() {
                    self.comment.push('\n');
                }
                self.comment.push_str(&comment);
                Ok(OpResult::Empty)
            }
            Operation::Assert { lock } if (self.context.owns_lock)(&lock) => Ok(OpResult::Empty),
            Operation::Assert { lock } => {
                Err(Error::new("not owner", format!("Asserted lock {lock} not held.")).into())
            }
        }
    }

    /// Refuses to change a table that only the server changes. Called when the form of the operation is known to be
    /// valid, because an error of form takes precedence.
    pub(super) fn check_changeable(&self, table: TableId) -> Result<(), Error> {
        if self.context.maintained.contains(&table) {
            let name = &self.rows.schema().table(table).name;
            let details = format!("table {name} is maintained by the server and can only be read");
            return Err(Error::new(tag::PERMISSION, details));
        }
        Ok(())
    }

    fn insert(
        &mut self,
        table: TableId,
        uuid: Option<Uuid>,
        mut row: Vec<Datum>,
        named: &[ColumnId],
    ) -> Result<OpResult, Stop> {
        let uuid = uuid.unwrap_or_else(|| self.symbols.fresh());
        let copied: usize = named.iter().map(|id| row[id.index()].steps()).sum();
        self.work.spend(row.len() + copied)?;
        let schema = self.rows.schema().clone();
        // Only a default value can violate the constraints here, and defaults have one element.
        for (column, value) in schema.table(table).columns.iter().zip(&row) {
            if value.len() == 1 {
                value.check(&column.ty)?;
            }
        }
        row[ColumnId::UUID.index()] = Datum::One(Atom::Uuid(uuid));
        row[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(self.symbols.fresh()));
        self.put(table, uuid, Some(row.into()))?;
        Ok(OpResult::Uuid(uuid))
    }

    fn select(
        &mut self,
        table: TableId,
        condition: &Condition,
        columns: Vec<ColumnId>,
        sort: Option<Vec<ColumnId>>,
    ) -> Result<OpResult, Stop> {
        if self.selected > SELECT_ROWS_MAX {
            let details = format!("the transaction selects more than {SELECT_ROWS_MAX} rows");
            return Err(Error::new(tag::RESOURCES, details).into());
        }
        self.before_looking(table, condition, &columns)?;
        self.before_looking(table, condition, sort.as_deref().unwrap_or_default())?;
        let rows = self.rows.matching(table, condition, self.work)?;
        self.selected += rows.len();
        // Equal rows are returned once. To find them, rows are compared unless their UUIDs are selected.
        let is_compared = rows.len() > 1 && !columns.contains(&ColumnId::UUID);
        self.work.spend(if is_compared { values_in(&rows, &columns) } else { rows.len() })?;
        let mut selected = Selected::new(self.rows.schema().clone(), table, columns, rows);
        selected.distinct();
        if let Some(sort) = sort {
            // Each row is compared with about log2 of the number of rows.
            let times = usize::BITS - selected.rows().len().leading_zeros();
            self.work.spend_times(times as usize, values_in(selected.rows(), &sort))?;
            selected.sort(&sort);
        }
        Ok(OpResult::Rows(selected))
    }

    fn update(
        &mut self,
        table: TableId,
        condition: &Condition,
        values: &[Datum],
        named: &[ColumnId],
    ) -> Result<OpResult, Stop> {
        self.before_looking(table, condition, named)?;
        let rows = self.rows.matching(table, condition, self.work)?;
        let count = rows.len();
        let copied: usize = named.iter().map(|id| values[id.index()].steps()).sum();
        self.work.spend_times(count, self.rows.schema().table(table).columns.len() + copied)?;
        for row in rows {
            let same = named.iter().all(|id| row[id.index()] == values[id.index()]);
            if !same {
                self.change_row(table, row, |fields| {
                    for id in named {
                        fields[id.index()].clone_from(&values[id.index()]);
                    }
                    Ok(())
                })?;
            }
        }
        Ok(OpResult::Count(count))
    }

    fn mutate(
        &mut self,
        table: TableId,
        condition: &Condition,
        mutations: &Mutations,
    ) -> Result<OpResult, Stop> {
        self.before_looking(table, condition, &[])?;
        let rows = self.rows.matching(table, condition, self.work)?;
        let count = rows.len();
        if !mutations.is_empty() {
            rows.into_iter().try_for_each(|row| self.mutate_row(table, row, mutations))?;
        }
        Ok(OpResult::Count(count))
    }

    fn delete(&mut self, table: TableId, condition: &Condition) -> Result<OpResult, Stop> {
        self.before_looking(table, condition, &[])?;
        let rows = self.rows.matching(table, condition, self.work)?;
        let count = rows.len();
        if count > 0 {
            self.work.check_change()?;
        }
        let columns: Vec<ColumnId> = self.rows.schema().table(table).column_ids().collect();
        self.work.spend(values_in(&rows, &columns))?;
        for row in rows {
            let uuid = crate::store::row_uuid(&row);
            self.gathering.take(table, uuid);
            self.put(table, uuid, None)?;
        }
        Ok(OpResult::Count(count))
    }

    /// Puts a changed copy of `row` into the head, under a new version.
    fn change_row(
        &mut self,
        table: TableId,
        mut row: Row,
        change: impl FnOnce(&mut [Datum]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let uuid = crate::store::row_uuid(&row);
        let fields = Arc::make_mut(&mut row);
        change(fields)?;
        fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(self.symbols.fresh()));
        self.put(table, uuid, Some(row))
    }

    /// Replaces the row with this UUID by `new`, or removes it. Updating what is derived from the row takes steps,
    /// and again if the transaction is undone.
    pub(super) fn put(
        &mut self,
        table: TableId,
        uuid: Uuid,
        new: Option<Row>,
    ) -> Result<(), Error> {
        self.work.check_change()?;
        let edit = self.rows.edit()?;
        self.work.spend_times(2, edit.store.put_steps(table, uuid, new.as_deref()))?;
        edit.put(table, uuid, new);
        Ok(())
    }
}

/// A row with the default of every column.
pub(crate) fn default_row(schema: &TableSchema) -> Vec<Datum> {
    schema.columns.iter().map(|column| column.default.clone()).collect()
}

/// How many values and elements `rows` have in these columns. Long values count as several, because sorting and
/// comparing reads them.
pub(super) fn values_in(rows: &[Row], columns: &[ColumnId]) -> usize {
    let values =
        |row: &Row| columns.iter().map(|column| 1 + row[column.index()].steps()).sum::<usize>();
    rows.iter().map(values).sum()
}
