//! What clients ask about the server, the session and the definitions of objects.

use super::{Shared, argument, pure, stable, whole};
use crate::catalog;
use crate::types::{Declared, Type};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};
use std::sync::{Arc, PoisonError};

pub const VERSION: &str = "15.0";

/// Functions whose answer is always the same, by name, number of arguments and answer.
const CONSTANTS: &[(&str, i32, &str)] = &[
    ("current_schema", 0, "public"),
    ("current_schemas", 1, "{pg_catalog,public}"),
    ("pg_encoding_to_char", 1, "UTF8"),
    ("pg_size_pretty", 1, "0 bytes"),
];

/// Functions that are always true.
const TRUE: &[&str] = &[
    "pg_table_is_visible",
    "pg_function_is_visible",
    "pg_type_is_visible",
    "pg_collation_is_visible",
    "pg_opclass_is_visible",
    "has_table_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "has_column_privilege",
    "has_any_column_privilege",
    "has_sequence_privilege",
    "has_function_privilege",
    "pg_advisory_unlock",
];

/// Functions that are always NULL: comments, and definitions of objects that do not exist here.
const NULL: &[&str] = &[
    "obj_description",
    "col_description",
    "shobj_description",
    "pg_get_triggerdef",
    "pg_get_ruledef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_statisticsobjdef_columns",
    "pg_get_partkeydef",
    "pg_get_serial_sequence",
    "pg_tablespace_location",
    "pg_get_function_identity_arguments",
    "pg_advisory_unlock_all",
];

const ZERO: &[&str] = &[
    "pg_is_in_recovery",
    "pg_is_other_temp_schema",
    "pg_my_temp_schema",
    "pg_relation_is_publishable",
    "pg_table_size",
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_partition_ancestors",
    "txid_current",
    "pg_indexes_size",
];

pub fn define(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    for (name, count, answer) in CONSTANTS {
        pure(connection, name, *count, |_| Ok(Some(Value::Text((*answer).to_owned()))))?;
    }
    for (names, answer) in
        [(TRUE, Value::Integer(1)), (NULL, Value::Null), (ZERO, Value::Integer(0))]
    {
        for name in names {
            let answer = answer.clone();
            pure(connection, name, -1, move |_| Ok(Some(answer.clone())))?;
        }
    }
    pure(connection, "format_type", 2, |context| {
        let kind = whole(context, 0).and_then(|oid| Type::of_oid(u32::try_from(oid).ok()?));
        let modifier = whole(context, 1).and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
        let name = kind.map(|kind| Declared { kind, modifier }.sql_name());
        Ok(whole(context, 0).map(|_| Value::Text(name.unwrap_or_else(|| "-".into()))))
    })?;
    pure(connection, "pg_get_expr", -1, |context| Ok(argument(context, 0).map(Value::Text)))?;
    pure(connection, "pg_typeof", 1, |context| {
        Ok(Some(Value::Text(context.get_raw(0).data_type().to_string().to_ascii_lowercase())))
    })?;
    session(connection, shared)?;
    definitions(connection, shared)
}

fn session(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    stable(connection, "version", 0, |_| {
        let text = format!("PostgreSQL {VERSION} (Paceline, SQLite {})", rusqlite::version());
        Ok(Some(Value::Text(text)))
    })?;
    for name in ["current_user_name", "pg_get_userbyid"] {
        let user = shared.user.clone();
        stable(connection, name, -1, move |_| Ok(Some(Value::Text(user.clone()))))?;
    }
    let database = shared.database.clone();
    stable(connection, "current_database", 0, move |_| Ok(Some(Value::Text(database.clone()))))?;
    let process = shared.process;
    stable(connection, "pg_backend_pid", 0, move |_| Ok(Some(Value::Integer(process.into()))))?;
    for count in [1, 2] {
        let kept = Arc::clone(shared);
        stable(connection, "current_setting", count, move |context| {
            let name = argument(context, 0).unwrap_or_default();
            let settings = kept.settings.lock().unwrap_or_else(PoisonError::into_inner);
            match settings.show(&name) {
                Ok(value) => Ok(Some(Value::Text(value))),
                Err(_) if context.len() == 2 => Ok(None),
                Err(failure) => Err(kept.fail(failure)),
            }
        })?;
    }
    let kept = Arc::clone(shared);
    stable(connection, "set_config", 3, move |context| {
        let (name, value) = (argument(context, 0), argument(context, 1));
        let (name, value) = (name.unwrap_or_default(), value.unwrap_or_default());
        let mut settings = kept.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match settings.set(&name, &value) {
            Ok(()) => Ok(Some(Value::Text(value))),
            Err(failure) => Err(kept.fail(failure)),
        }
    })
}

fn definitions(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    let schema =
        |shared: &Shared| Arc::clone(&shared.schema.lock().unwrap_or_else(PoisonError::into_inner));
    let kept = Arc::clone(shared);
    stable(connection, "pg_get_indexdef", -1, move |context| {
        let column = if context.len() > 1 { whole(context, 1).unwrap_or(0) } else { 0 };
        let found = whole(context, 0)
            .and_then(|oid| catalog::index_definition(&schema(&kept), oid, column));
        Ok(found.map(Value::Text))
    })?;
    let kept = Arc::clone(shared);
    stable(connection, "pg_get_constraintdef", -1, move |context| {
        let schema = schema(&kept);
        let found = whole(context, 0).and_then(|oid| {
            catalog::constraints(&schema).into_iter().find(|constraint| constraint.oid == oid)
        });
        Ok(found.map(|constraint| Value::Text(constraint.definition)))
    })?;
    let kept = Arc::clone(shared);
    stable(connection, "pg_get_viewdef", -1, move |context| {
        let schema = schema(&kept);
        let oid = whole(context, 0);
        let found = schema.tables.values().find(|table| table.is_view && Some(table.oid) == oid);
        Ok(found.map(|table| Value::Text(catalog::view_text(&table.sql))))
    })?;
    for name in ["to_regclass", "to_regtype"] {
        let kept = Arc::clone(shared);
        stable(connection, name, 1, move |context| {
            let text = argument(context, 0).unwrap_or_default();
            let oid = match name {
                "to_regclass" => {
                    schema(&kept).table(text.trim_start_matches("public.")).map(|t| t.oid)
                }
                _ => Declared::read(&text).map(|declared| declared.kind.oid().into()),
            };
            Ok(oid.map(Value::Integer))
        })?;
    }
    Ok(())
}
