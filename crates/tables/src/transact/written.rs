//! Operations as OVSDB clients write them: from JSON to [`Operation`].
//!
//! An operation is parsed when its turn comes: the protocol requires the results of the operations before a
//! malformed one, and a name may stand for a UUID that an earlier operation has created.

use super::Execution;
use super::gather::Mutations;
use super::operation::Operation;
use super::operations::default_row;
use crate::condition::Condition;
use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::mutation::Mutation;
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::value::Datum;
use paceline_types::Uuid;

/// The result of parsing; `None` if a member is missing, which [`Members::finish`] reports.
type Parsed = Result<Option<Operation>, Error>;

impl Execution<'_> {
    /// Parses the operation named `word`.
    pub(super) fn parse(&mut self, word: &str, members: &mut Members<'_>) -> Parsed {
        match word {
            "insert" => self.parse_insert(members),
            "select" => self.parse_select(members),
            "update" => self.parse_update(members),
            "mutate" => self.parse_mutate(members),
            "delete" => self.parse_delete(members),
            "wait" => self.parse_wait(members),
            "commit" => {
                let durable = members.required("durable", Kinds::BOOL);
                Ok(Some(Operation::Commit { durable: matches!(durable, Some(Json::Bool(true))) }))
            }
            "abort" => Ok(Some(Operation::Abort)),
            "comment" => {
                let comment = members.required("comment", Kinds::STRING).and_then(Json::as_str);
                Ok(comment.map(|comment| Operation::Comment(comment.into())))
            }
            "assert" => {
                let lock = members.required("lock", Kinds::STRING).and_then(Json::as_str);
                Ok(lock.map(|lock| Operation::Assert { lock: lock.into() }))
            }
            other => {
                members.fail(format!("No operation \"{other}\""));
                Ok(None)
            }
        }
    }

    fn parse_insert(&mut self, members: &mut Members<'_>) -> Parsed {
        let table = self.table(members);
        let uuid = members.optional("uuid", Kinds::STRING);
        let uuid_name = members.optional("uuid-name", Kinds::ID);
        let row = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some(table), Some(row)) = (table, row) else { return Ok(None) };
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
        let (row, named) = self.parse_row(row, table)?;
        Ok(Some(Operation::Insert { table, uuid: Some(uuid), row, named }))
    }

    /// A UUID that the client chose for its new row.
    fn chosen_uuid(&mut self, json: &Json, table: TableId) -> Result<Uuid, Error> {
        let text = json.as_str().unwrap_or_default();
        let uuid: Uuid = text.parse().map_err(|_| Error::syntax(json, "bad uuid"))?;
        let edit = self.rows.edit()?;
        // A UUID that this transaction has inserted and deleted again is free.
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

    fn parse_select(&mut self, members: &mut Members<'_>) -> Parsed {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let columns = members.optional("columns", Kinds::ARRAY);
        let sort = members.optional("sort", Kinds::ARRAY);
        members.check()?;
        let (Some(table), Some(condition)) = (table, condition) else { return Ok(None) };
        let condition = self.condition(condition, table)?;
        let schema = self.rows.schema().clone();
        let columns = columns_or_all(schema.table(table), columns)?;
        let sort = sort.map(|sort| schema.table(table).column_set(sort)).transpose()?;
        Ok(Some(Operation::Select { table, condition, columns, sort }))
    }

    fn parse_update(&mut self, members: &mut Members<'_>) -> Parsed {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let row = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some(table), Some(condition), Some(row)) = (table, condition, row) else {
            return Ok(None);
        };
        self.check_changeable(table)?;
        let (row, named) = self.parse_row(row, table)?;
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        if let Some(details) = immutable_in(schema, &named) {
            return Err(Error::quoting(tag::CONSTRAINT, members.json(), details));
        }
        let condition = self.condition(condition, table)?;
        Ok(Some(Operation::Update { table, condition, row, named }))
    }

    fn parse_mutate(&mut self, members: &mut Members<'_>) -> Parsed {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let mutations = members.required("mutations", Kinds::ARRAY).and_then(Json::as_array);
        members.check()?;
        let (Some(table), Some(condition), Some(mutations)) = (table, condition, mutations) else {
            return Ok(None);
        };
        self.check_changeable(table)?;
        let schema = self.rows.schema().clone();
        let schema = schema.table(table);
        let mutations = mutations
            .iter()
            .map(|mutation| Mutation::parse(mutation, schema, Some(&mut self.symbols)))
            .collect::<Result<Vec<_>, _>>()?;
        let condition = self.condition(condition, table)?;
        Ok(Some(Operation::Mutate { table, condition, mutations: Mutations::new(mutations) }))
    }

    fn parse_delete(&mut self, members: &mut Members<'_>) -> Parsed {
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let table = self.table(members);
        members.check()?;
        let (Some(table), Some(condition)) = (table, condition) else { return Ok(None) };
        self.check_changeable(table)?;
        let condition = self.condition(condition, table)?;
        Ok(Some(Operation::Delete { table, condition }))
    }

    fn parse_wait(&mut self, members: &mut Members<'_>) -> Parsed {
        let timeout = members.optional("timeout", Kinds::INTEGER);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let columns = members.optional("columns", Kinds::ARRAY);
        let until = members.required("until", Kinds::STRING);
        let rows = members.required("rows", Kinds::ARRAY).and_then(Json::as_array);
        let table = self.table(members);
        members.check()?;
        let (Some(table), Some(condition), Some(until), Some(rows)) =
            (table, condition, until, rows)
        else {
            return Ok(None);
        };
        let condition = self.condition(condition, table)?;
        let schema = self.rows.schema().clone();
        let columns = columns_or_all(schema.table(table), columns)?;
        let timeout_ms = wait_timeout(timeout)?;
        let until_equal = match until.as_str() {
            Some("==") => true,
            Some("!=") => false,
            _ => return Err(Error::syntax(until, "\"until\" must be \"==\" or \"!=\"")),
        };
        // Each expected row is built with all its columns, and compared.
        self.work.spend_times(rows.len(), 2 * schema.table(table).columns.len())?;
        let mut expected = Vec::with_capacity(rows.len());
        for row in rows {
            expected.push(self.parse_row(row, table)?.0);
        }
        Ok(Some(Operation::Wait { table, condition, columns, expected, until_equal, timeout_ms }))
    }

    /// The `table` member.
    fn table(&self, members: &mut Members<'_>) -> Option<TableId> {
        let name = members.required("table", Kinds::ID).and_then(Json::as_str)?;
        let table = self.rows.schema().table_id(name);
        if table.is_none() {
            members.fail(format!("No table named {name}."));
        }
        table
    }

    /// The `where` member, parsed.
    fn condition(&mut self, json: &[Json], table: TableId) -> Result<Condition, Error> {
        let schema = self.rows.schema().clone();
        Condition::parse(json, schema.table(table), Some(&mut self.symbols))
    }

    /// Parses a row: all columns, with defaults for those not given, and the columns that were given.
    fn parse_row(
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
}

/// The error for setting these columns in existing rows, if one of them is immutable.
pub(super) fn immutable_in(schema: &TableSchema, named: &[ColumnId]) -> Option<String> {
    let id = named.iter().find(|id| !schema.column(**id).mutable)?;
    let column = &schema.column(*id).name;
    Some(format!("Cannot update immutable column {column} in table {}.", schema.name))
}

/// The columns named in `json`, or all of them.
fn columns_or_all(schema: &TableSchema, json: Option<&Json>) -> Result<Vec<ColumnId>, Error> {
    json.map_or_else(|| Ok(schema.column_ids().collect()), |json| schema.column_set(json))
}

fn wait_timeout(json: Option<&Json>) -> Result<Option<u64>, Error> {
    let Some(json @ Json::Integer(timeout)) = json else { return Ok(None) };
    let timeout =
        u64::try_from(*timeout).map_err(|_| Error::syntax(json, "timeout must be nonnegative"))?;
    Ok(Some(timeout))
}
