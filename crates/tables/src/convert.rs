//! Conversion of a database to another schema.
//!
//! Tables and columns of the same name are kept. Others are dropped, and new ones get defaults. A value that does
//! not fit the new type of its column fails the conversion.

use crate::error::Error;
use crate::json::{self, Json};
use crate::schema::{Column, ColumnId, Schema};
use crate::store::{Snapshot, row_uuid};
use crate::transact::{Database, default_row};
use crate::value::{Atom, Datum};
use paceline_types::UuidSource;
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::sync::Arc;

/// The content of `old` in a new database of `schema`.
pub fn convert(old: &Snapshot, schema: Arc<Schema>, uuids: UuidSource) -> Result<Database, Error> {
    let mut database = Database::new(schema.clone(), uuids);
    database.edit(|edit, symbols| {
        for from in old.schema().table_ids() {
            let from_schema = old.schema().table(from);
            let Some(to) = schema.table_id(&from_schema.name) else { continue };
            let to_schema = schema.table(to);
            let carried: Vec<(ColumnId, ColumnId)> = from_schema
                .column_ids()
                .skip(ColumnId::FIRST)
                .filter_map(|id| Some((id, to_schema.column_id(&from_schema.column(id).name)?)))
                .collect();
            for row in old.rows(from) {
                let mut fields = default_row(to_schema);
                for (from, to) in &carried {
                    let (source, target) = (from_schema.column(*from), to_schema.column(*to));
                    fields[to.index()] = convert_value(&row[from.index()], source, target)?;
                }
                fields[ColumnId::UUID.index()] = row[ColumnId::UUID.index()].clone();
                fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(symbols.fresh()));
                edit.put(to, row_uuid(row), Some(fields.into()));
            }
        }
        Ok(())
    })?;
    Ok(database)
}

fn convert_value(value: &Datum, from: &Column, to: &Column) -> Result<Datum, Error> {
    if from.ty == to.ty {
        return Ok(value.clone());
    }
    let mut text = Vec::new();
    value.write(&from.ty, &mut text);
    let json = json::parse(&text, JSON_DEPTH_MAX_OVSDB).unwrap_or(Json::Null);
    Datum::parse(&json, &to.ty, None)
}
