//! Journal records: one transaction as a JSON object, as in OVSDB's standalone log.
//!
//! `{table: {uuid: {column: value, ...} | null, ...}, ..., "_comment": ..., "_date": ...,
//! "_is_diff": true}`. New rows contain the columns that differ from their default, changed rows the difference of
//! each changed column, deleted rows are `null`. Ephemeral columns are left out; a transaction that changed nothing
//! else has no record.

use crate::changes::{Changes, RowChange};
use crate::error::{Error, tag};
use crate::json::{Json, Reader, write_integer, write_string};
use crate::schema::{ColumnId, Schema, TableId, TableSchema};
use crate::store::{Row, Snapshot};
use crate::transact::{Database, default_row};
use crate::value::{Atom, Datum, Symbols, apply_diff, diff};
use paceline_types::Uuid;
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::sync::Arc;

/// Appends the record of `changes`, made at `date_ms` (milliseconds since 1970), without the tables in `skip`.
/// Returns false, and appends nothing, if nothing persistent changed.
pub fn write_record(
    changes: &Changes,
    schema: &Schema,
    skip: &[TableId],
    comment: &str,
    date_ms: u64,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let form = form_of(changes, schema);
    out.push(b'{');
    let mut any = false;
    for rows in changes.by_table() {
        let Some(first) = rows.first().filter(|first| !skip.contains(&first.table)) else {
            continue;
        };
        let table = schema.table(first.table);
        let table_start = out.len();
        write_string(table.name.as_bytes(), out);
        out.extend_from_slice(b":{");
        let rows_start = out.len();
        for change in rows {
            write_change(change, table, form, out);
        }
        if out.len() == rows_start {
            out.truncate(table_start);
        } else {
            end_list(out);
            out.extend_from_slice(b"},");
            any = true;
        }
    }
    if !any {
        out.truncate(start);
        return false;
    }
    write_annotations(comment, date_ms, form, out);
    true
}

/// How a record describes changed columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// By the difference that turns the old value into the new one.
    Differences,
    /// By the new value.
    Values,
}

/// Differences are shorter, but readers of Open vSwitch 3.1 refuse a difference with more or fewer elements than
/// the column itself may have. They also read a difference as the new value where the old value is the column's
/// default; if that default is not empty, the two differ. A record that would need such a difference contains
/// values instead.
fn form_of(changes: &Changes, schema: &Schema) -> Form {
    for change in &changes.rows {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let table = schema.table(change.table);
        for id in journaled(table) {
            let (old, new, ty) = (&old[id.index()], &new[id.index()], &table.column(id).ty);
            let bounded = ty.max > 1 && (ty.min > 0 || ty.max < u32::MAX);
            if bounded && old != new {
                if !old.is_empty() && *old == table.column(id).default {
                    return Form::Values;
                }
                let count = diff(old, new, ty).len();
                if count < ty.min as usize || count > ty.max as usize {
                    return Form::Values;
                }
            }
        }
    }
    Form::Differences
}

/// Appends the record of the whole `snapshot` without the tables in `skip`. It is one record, because rows that
/// refer to each other must be restored together.
pub fn write_snapshot(
    snapshot: &Snapshot,
    skip: &[TableId],
    comment: &str,
    date_ms: u64,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for table in snapshot.schema().table_ids().filter(|table| !skip.contains(table)) {
        let schema = snapshot.schema().table(table);
        let table_start = out.len();
        write_string(schema.name.as_bytes(), out);
        out.extend_from_slice(b":{");
        let rows_start = out.len();
        for row in snapshot.rows(table) {
            write_new_row(row, schema, out);
        }
        if out.len() == rows_start {
            out.truncate(table_start);
        } else {
            end_list(out);
            out.extend_from_slice(b"},");
        }
    }
    write_annotations(comment, date_ms, Form::Differences, out);
}

fn write_annotations(comment: &str, date_ms: u64, form: Form, out: &mut Vec<u8>) {
    if !comment.is_empty() {
        out.extend_from_slice(b"\"_comment\":");
        write_string(comment.as_bytes(), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"_date\":");
    write_integer(i64::try_from(date_ms).unwrap_or(i64::MAX), out);
    if form == Form::Differences {
        out.extend_from_slice(b",\"_is_diff\":true");
    }
    out.push(b'}');
}

/// Removes the comma after the last element.
fn end_list(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
}

fn write_key(uuid: Uuid, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&uuid.text());
    out.extend_from_slice(b"\":");
}

fn write_change(change: &RowChange, table: &TableSchema, form: Form, out: &mut Vec<u8>) {
    match (&change.old, &change.new) {
        (_, None) => {
            write_key(change.uuid, out);
            out.extend_from_slice(b"null,");
        }
        (None, Some(new)) => write_new_row(new, table, out),
        (Some(old), Some(new)) => {
            let start = out.len();
            write_key(change.uuid, out);
            out.push(b'{');
            let columns_start = out.len();
            for id in journaled(table) {
                let (old, new, column) = (&old[id.index()], &new[id.index()], table.column(id));
                if old != new {
                    write_string(column.name.as_bytes(), out);
                    out.push(b':');
                    match form {
                        Form::Differences => diff(old, new, &column.ty).write(&column.ty, out),
                        Form::Values => new.write(&column.ty, out),
                    }
                    out.push(b',');
                }
            }
            if out.len() == columns_start {
                out.truncate(start);
            } else {
                end_list(out);
                out.extend_from_slice(b"},");
            }
        }
    }
}

fn write_new_row(row: &Row, table: &TableSchema, out: &mut Vec<u8>) {
    write_key(crate::store::row_uuid(row), out);
    out.push(b'{');
    for id in journaled(table) {
        let (value, column) = (&row[id.index()], table.column(id));
        if *value != column.default {
            write_string(column.name.as_bytes(), out);
            out.push(b':');
            value.write(&column.ty, out);
            out.push(b',');
        }
    }
    end_list(out);
    out.extend_from_slice(b"},");
}

fn journaled(table: &TableSchema) -> impl Iterator<Item = ColumnId> {
    table.column_ids().skip(ColumnId::FIRST).filter(|id| table.column(*id).journaled)
}

impl Database {
    /// Applies a journal record. The record was checked when it was written, so a failure means that it is not a
    /// record of this database. It is read column by column, so that a record of a whole database is never in
    /// memory as a value.
    pub fn apply_record(&mut self, record: &[u8]) -> Result<Changes, Error> {
        let schema = self.schema().clone();
        let differences = tells_differences(record)?;
        self.edit(|edit, symbols| {
            let mut reader = Reader::new(record, JSON_DEPTH_MAX_OVSDB);
            reader.object(|reader, name| {
                let Some(table) = schema.table_id(name) else {
                    return read_annotation(name, &reader.value()?);
                };
                reader.object(|reader, uuid| {
                    let uuid: Uuid = uuid.parse().map_err(|_| {
                        Error::new(tag::SYNTAX, format!("\"{uuid}\" is not a valid UUID"))
                    })?;
                    let old = edit.row(table, uuid);
                    let table_schema = schema.table(table);
                    let new = read_row(reader, old, table_schema, uuid, differences, symbols)?;
                    edit.put(table, uuid, new);
                    Ok(())
                })
            })?;
            Ok(reader.end()?)
        })
    }

    /// Replaces the rows of one table that the server itself maintains. Each row is given by its UUID and the
    /// values of its columns in schema order without `_uuid` and `_version`.
    pub fn maintain(
        &mut self,
        rows: Vec<(TableId, Uuid, Option<Vec<Datum>>)>,
    ) -> Result<Changes, Error> {
        self.edit(|edit, symbols| {
            for (table, uuid, values) in rows {
                let row = values.map(|values| finish_row(uuid, values, symbols));
                edit.put(table, uuid, row);
            }
            Ok(())
        })
    }

    /// The same for ephemeral columns of existing rows. The rows keep their `_version`, so that clients that watch
    /// it for changes of the row itself are not disturbed.
    pub fn refresh(
        &mut self,
        rows: Vec<(TableId, Uuid, Option<Vec<Datum>>)>,
    ) -> Result<Changes, Error> {
        self.edit(|edit, _| {
            for (table, uuid, values) in rows {
                let (Some(old), Some(values)) = (edit.row(table, uuid), values) else { continue };
                let kept = old.iter().take(ColumnId::FIRST).cloned();
                edit.put(table, uuid, Some(kept.chain(values).collect()));
            }
            Ok(())
        })
    }
}

/// A member of a record that is not a table.
fn read_annotation(name: &str, value: &Json) -> Result<(), Error> {
    match (name, value) {
        ("_date", Json::Integer(_)) | ("_is_diff", Json::Bool(_)) | ("_comment", _) => Ok(()),
        _ => Err(Error::new("unknown table", format!("No table named {name}."))),
    }
}

/// Whether a record describes changed columns by their difference.
fn tells_differences(record: &[u8]) -> Result<bool, Error> {
    // The marker is a member like any other and may be anywhere; it usually comes last.
    if record.trim_ascii_end().ends_with(b"\"_is_diff\":true}") {
        return Ok(true);
    }
    let mut differences = false;
    Reader::new(record, JSON_DEPTH_MAX_OVSDB).object(|reader, name| {
        if name == "_is_diff" {
            differences = reader.value()? == Json::Bool(true);
        } else {
            reader.skip()?;
        }
        Ok::<(), Error>(())
    })?;
    Ok(differences)
}

/// A whole row from the values of its own columns.
pub(crate) fn finish_row(uuid: Uuid, values: Vec<Datum>, symbols: &mut Symbols<'_>) -> Row {
    let mut row = Vec::with_capacity(values.len() + ColumnId::FIRST);
    row.push(Datum::One(Atom::Uuid(uuid)));
    row.push(Datum::One(Atom::Uuid(symbols.fresh())));
    row.extend(values);
    row.into()
}

/// Reads a row: `null` if it is deleted, otherwise the columns that create or change it.
fn read_row(
    reader: &mut Reader<'_>,
    old: Option<Row>,
    table: &TableSchema,
    uuid: Uuid,
    differences: bool,
    symbols: &mut Symbols<'_>,
) -> Result<Option<Row>, Error> {
    if !reader.is_object() {
        return match (reader.value()?, old) {
            (Json::Null, Some(_)) => Ok(None),
            (Json::Null, None) => {
                let details = format!("transaction deletes row {uuid} that does not exist");
                Err(Error::new(tag::SYNTAX, details))
            }
            (other, _) => Err(Error::syntax(&other, "row must be JSON object")),
        };
    }
    let differences = differences && old.is_some();
    let mut row: Row = old.unwrap_or_else(|| default_row(table).into());
    let fields = Arc::make_mut(&mut row);
    reader.object(|reader, name| {
        let value = reader.value()?;
        let Some(id) = table.column_id(name) else {
            let details = format!("No column {name} in table {}.", table.name);
            return Err(Error::new("unknown column", details));
        };
        let ty = &table.column(id).ty;
        let field = &mut fields[id.index()];
        *field = if differences {
            // A difference may have more or fewer elements than the column itself.
            let change = Datum::parse_between(&value, ty, (0, u32::MAX), None)?;
            let changed = apply_diff(field, &change, ty);
            changed.check_count(ty)?;
            changed
        } else {
            Datum::parse(&value, ty, None)?
        };
        Ok(())
    })?;
    fields[ColumnId::UUID.index()] = Datum::One(Atom::Uuid(uuid));
    fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(symbols.fresh()));
    Ok(Some(row))
}
