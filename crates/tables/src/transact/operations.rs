//! The operations that read and change rows, and the small ones: comment, commit, assert.

use super::gather::Mutations;
use super::{Execution, OpResult, Selected, Stop};
use crate::condition::Condition;
use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::mutation::Mutation;
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::store::Row;
use crate::value::{Atom, Datum};
use paceline_types::Uuid;
use paceline_types::limits::SELECT_ROWS_MAX;
use std::sync::Arc;

impl Execution<'_> {
    /// The `table` member.
    pub(super) fn table(&self, members: &mut Members<'_>) -> Option<TableId> {
        let name = members.required("table", Kinds::ID).and_then(Json::as_str)?;
        let table = self.rows.schema().table_id(name);
        if table.is_none() {
            members.fail(format!("No table named {name}."));
        }
        table
    }

    /// Refuses to change a table that only the server changes. To be asked when all members are
    /// read, because a problem of form comes first.
    fn check_changeable(&self, table: TableId) -> Result<(), Error> {
        if self.context.maintained.contains(&table) {
            let name = &self.rows.schema().table(table).name;
            let details = format!("table {name} is maintained by the server and can only be read");
            return Err(Error::new(tag::PERMISSION, details));
        }
        Ok(())
    }

    /// The `where` member, parsed.
    pub(super) fn condition(&mut self, json: &[Json], table: TableId) -> Result<Condition, Error> {
        let schema = self.rows.schema().clone();
        Condition::parse(json, schema.table(table), Some(&mut self.symbols))
    }

    /// Parses a row: all columns, defaults where nothing was said, and the columns that were named.
    pub(super) fn parse_row(
        &mut self,
        json: &Json,
        table: TableId,
    ) -> Result<(Vec<Datum>, Vec<ColumnId>), Error> {
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        let Some(object) = json.as_object() else {
            return Err(Error::syntax(json, "row must be JSON object"));
        };
        let mut row = default_row(schema);
        let mut named = Vec::with_capacity(object.len());
        for (name, value) in object.iter() {
            let Some(id) = schema.column_id(name) else {
                let details = format!("No column {name} in table {}.", schema.name);
                return Err(Error::quoting("unknown column", json, details));
            };
            let ty = &schema.column(id).ty;
            row[id.index()] = Datum::parse(value, ty, Some(&mut self.symbols))?;
            named.push(id);
        }
        Ok((row, named))
    }

    pub(super) fn insert(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let table = self.table(members);
        let uuid = members.optional("uuid", Kinds::STRING);
        let uuid_name = members.optional("uuid-name", Kinds::ID);
        let row = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some(table), Some(row)) = (table, row) else { return Ok(OpResult::Empty) };
        self.check_changeable(table)?;
        let uuid = uuid.map(|uuid| self.chosen_uuid(uuid, table)).transpose()?;
        let uuid = match uuid_name {
            Some(json) => {
                self.symbols.create(json.as_str().unwrap_or_default(), uuid).ok_or_else(|| {
                    let details = "This \"uuid-name\" appeared on an earlier \"insert\" operation.";
                    Error::quoting("duplicate uuid-name", json, details)
                })?
            }
            None => uuid.unwrap_or_else(|| self.symbols.fresh()),
        };
        let (mut row, named) = self.parse_row(row, table)?;
        let copied: usize = named.iter().map(|id| row[id.index()].steps()).sum();
        self.work.spend(row.len() + copied)?;
        let schema = self.rows.schema().clone();
        // Only a default value can be against the constraints here, and defaults have one element.
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

    /// A UUID that the client chose for its new row.
    fn chosen_uuid(&mut self, json: &Json, table: TableId) -> Result<Uuid, Error> {
        let text = json.as_str().unwrap_or_default();
        let uuid: Uuid = text.parse().map_err(|_| Error::syntax(json, "bad uuid"))?;
        let edit = self.rows.edit()?;
        // One that this transaction has inserted and deleted again is free.
        let was_there = edit.before(table, uuid).is_some_and(|before| before.old.is_some());
        if edit.store.row(table, uuid).is_some() || was_there {
            let details = format!(
                "This UUID would duplicate a UUID already present within the \"{}\" table or \
                 deleted from this table within the same transaction.",
                self.rows.schema().table(table).name
            );
            return Err(Error::quoting("duplicate uuid", json, details));
        }
        Ok(uuid)
    }

    pub(super) fn select(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let columns = members.optional("columns", Kinds::ARRAY);
        let sort = members.optional("sort", Kinds::ARRAY);
        members.check()?;
        let (Some(table), Some(condition)) = (table, condition) else { return Ok(OpResult::Empty) };
        let condition = self.condition(condition, table)?;
        let schema = self.rows.schema().clone();
        let columns = columns_or_all(schema.table(table), columns)?;
        let sort = sort.map(|sort| schema.table(table).column_set(sort)).transpose()?;
        if self.selected > SELECT_ROWS_MAX {
            let details = format!("the transaction selects more than {SELECT_ROWS_MAX} rows");
            return Err(Error::new(tag::RESOURCES, details).into());
        }
        self.before_looking(table, &condition, &columns)?;
        self.before_looking(table, &condition, sort.as_deref().unwrap_or_default())?;
        let rows = self.rows.matching(table, &condition, self.work)?;
        self.selected += rows.len();
        // Equal rows are told once, for which they are compared unless the UUID tells them apart.
        let is_compared = rows.len() > 1 && !columns.contains(&ColumnId::UUID);
        self.work.spend(if is_compared { values_in(&rows, &columns) } else { rows.len() })?;
        let mut selected = Selected::new(schema, table, columns, rows);
        selected.distinct();
        if let Some(sort) = sort {
            // Each row is compared with as many others as the number of rows has binary digits.
            let times = usize::BITS - selected.rows().len().leading_zeros();
            self.work.spend_times(times as usize, values_in(selected.rows(), &sort))?;
            selected.sort(&sort);
        }
        Ok(OpResult::Rows(selected))
    }

    pub(super) fn update(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let row = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some(table), Some(condition), Some(row)) = (table, condition, row) else {
            return Ok(OpResult::Empty);
        };
        self.check_changeable(table)?;
        let (values, named) = self.parse_row(row, table)?;
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        if let Some(id) = named.iter().find(|id| !schema.column(**id).mutable) {
            let column = &schema.column(*id).name;
            let details =
                format!("Cannot update immutable column {column} in table {}.", schema.name);
            return Err(Error::quoting(tag::CONSTRAINT, members.json(), details).into());
        }
        let condition = self.condition(condition, table)?;
        self.before_looking(table, &condition, &named)?;
        let rows = self.rows.matching(table, &condition, self.work)?;
        let count = rows.len();
        let copied: usize = named.iter().map(|id| values[id.index()].steps()).sum();
        self.work.spend_times(count, schema.columns.len() + copied)?;
        for row in rows {
            let same = named.iter().all(|id| row[id.index()] == values[id.index()]);
            if !same {
                self.change_row(table, row, |fields| {
                    for id in &named {
                        fields[id.index()].clone_from(&values[id.index()]);
                    }
                    Ok(())
                })?;
            }
        }
        Ok(OpResult::Count(count))
    }

    pub(super) fn mutate(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let mutations = members.required("mutations", Kinds::ARRAY).and_then(Json::as_array);
        members.check()?;
        let (Some(table), Some(condition), Some(mutations)) = (table, condition, mutations) else {
            return Ok(OpResult::Empty);
        };
        self.check_changeable(table)?;
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        let mutations = mutations
            .iter()
            .map(|mutation| Mutation::parse(mutation, schema, Some(&mut self.symbols)))
            .collect::<Result<Vec<_>, _>>()?;
        let condition = self.condition(condition, table)?;
        let mutations = Mutations::new(mutations);
        self.before_looking(table, &condition, &[])?;
        let rows = self.rows.matching(table, &condition, self.work)?;
        let count = rows.len();
        if !mutations.is_empty() {
            rows.into_iter().try_for_each(|row| self.mutate_row(table, row, &mutations))?;
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

    /// Puts `new` in the place of the row with this UUID, or takes that row away. What is derived from the row is
    /// moved, which takes steps; and again if the transaction is undone.
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

    pub(super) fn delete(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let table = self.table(members);
        members.check()?;
        let (Some(table), Some(condition)) = (table, condition) else { return Ok(OpResult::Empty) };
        self.check_changeable(table)?;
        let condition = self.condition(condition, table)?;
        self.before_looking(table, &condition, &[])?;
        let rows = self.rows.matching(table, &condition, self.work)?;
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

    pub(super) fn set_durable(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        if let Some(Json::Bool(true)) = members.required("durable", Kinds::BOOL) {
            self.durable = true;
        }
        Ok(OpResult::Empty)
    }

    pub(super) fn add_comment(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        if let Some(comment) = members.required("comment", Kinds::STRING).and_then(Json::as_str) {
            if !self.comment.is_empty() {
                self.comment.push('\n');
            }
            self.comment.push_str(comment);
        }
        Ok(OpResult::Empty)
    }

    pub(super) fn assert_lock(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let Some(name) = members.required("lock", Kinds::STRING).and_then(Json::as_str) else {
            return Ok(OpResult::Empty);
        };
        if (self.context.owns_lock)(name) {
            return Ok(OpResult::Empty);
        }
        Err(Error::new("not owner", format!("Asserted lock {name} not held.")).into())
    }
}

/// A row of defaults.
pub(crate) fn default_row(schema: &TableSchema) -> Vec<Datum> {
    schema.columns.iter().map(|column| column.default.clone()).collect()
}

/// How many values and elements of them `rows` have in these columns; long ones count as several, because
/// sorting and comparing them reads them.
pub(super) fn values_in(rows: &[Row], columns: &[ColumnId]) -> usize {
    let values =
        |row: &Row| columns.iter().map(|column| 1 + row[column.index()].steps()).sum::<usize>();
    rows.iter().map(values).sum()
}

/// The columns named in `json`, or all of them.
pub(super) fn columns_or_all(
    schema: &TableSchema,
    json: Option<&Json>,
) -> Result<Vec<ColumnId>, Error> {
    json.map_or_else(|| Ok(schema.column_ids().collect()), |json| schema.column_set(json))
}
