//! The rows of `information_schema`.

use super::definition::{Constraint, constraints, view_text};
use super::{Sparse, text};
use crate::functions::Shared;
use crate::schema::{Column, Schema, Table};
use crate::types::Type;
use rusqlite::types::Value;

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(0))
}

fn yes(truth: bool) -> Value {
    text(if truth { "YES" } else { "NO" })
}

/// The rows of one table; none for those that are always empty.
pub fn rows(name: &str, schema: &Schema, shared: &Shared) -> Vec<Sparse> {
    let catalog = || text(&shared.database);
    let tables = || schema.tables.values();
    match name.trim_start_matches("information_schema.") {
        "tables" => tables()
            .map(|table| {
                let kind = if table.is_view { "VIEW" } else { "BASE TABLE" };
                let mut row = of_table(table, shared);
                row.push(("table_type", text(kind)));
                row.push(("is_insertable_into", yes(!table.is_view)));
                row
            })
            .collect(),
        "views" => tables()
            .filter(|table| table.is_view)
            .map(|table| {
                let mut row = of_table(table, shared);
                row.push(("view_definition", text(view_text(&table.sql))));
                row.push(("check_option", text("NONE")));
                row.push(("is_updatable", yes(false)));
                row
            })
            .collect(),
        "columns" => tables()
            .flat_map(|table| {
                let columns = table.columns.iter().enumerate();
                columns.map(move |(at, column)| of_column(table, at, column, shared))
            })
            .collect(),
        "schemata" => ["public", "pg_catalog", "information_schema"]
            .map(|name| {
                vec![
                    ("catalog_name", catalog()),
                    ("schema_name", text(name)),
                    ("schema_owner", text(&shared.user)),
                ]
            })
            .into(),
        "table_constraints" => constraints(schema)
            .iter()
            .map(|constraint| {
                let mut row = of_constraint(constraint, shared);
                let kind = match constraint.kind {
                    'p' => "PRIMARY KEY",
                    'u' => "UNIQUE",
                    _ => "FOREIGN KEY",
                };
                row.push(("constraint_type", text(kind)));
                row.push(("is_deferrable", yes(false)));
                row.push(("initially_deferred", yes(false)));
                row
            })
            .collect(),
        "key_column_usage" => {
            constraints(schema).iter().flat_map(|c| key_columns(c, shared)).collect()
        }
        "referential_constraints" => {
            constraints(schema).iter().filter_map(|c| reference(c, shared)).collect()
        }
        "constraint_column_usage" => {
            constraints(schema).iter().flat_map(|c| used(c, shared)).collect()
        }
        _ => vec![],
    }
}

fn of_table(table: &Table, shared: &Shared) -> Sparse {
    vec![
        ("table_catalog", text(&shared.database)),
        ("table_schema", text("public")),
        ("table_name", text(&table.name)),
    ]
}

fn of_column(table: &Table, at: usize, column: &Column, shared: &Shared) -> Sparse {
    let declared = column.declared;
    let mut row = of_table(table, shared);
    let length = matches!(declared.kind, Type::Varchar | Type::Bpchar) && declared.modifier > 4;
    let (precision, scale) = match declared.kind {
        Type::Int2 => (Some(16), Some(0)),
        Type::Int4 => (Some(32), Some(0)),
        Type::Int8 => (Some(64), Some(0)),
        Type::Float4 => (Some(24), None),
        Type::Float8 => (Some(53), None),
        Type::Numeric if declared.modifier > 4 => {
            (usize::try_from((declared.modifier - 4) >> 16).ok(), declared.scale())
        }
        _ => (None, None),
    };
    let optional = |value: Option<usize>| value.map_or(Value::Null, number);
    let default = column.default.as_ref();
    row.extend([
        ("column_name", text(&column.name)),
        ("ordinal_position", number(at + 1)),
        ("column_default", default.map_or(Value::Null, text)),
        ("is_nullable", yes(!column.is_required)),
        ("data_type", text(declared.kind.sql_name())),
        (
            "character_maximum_length",
            if length { Value::Integer((declared.modifier - 4).into()) } else { Value::Null },
        ),
        ("numeric_precision", optional(precision)),
        ("numeric_scale", optional(scale)),
        ("datetime_precision", Value::Null),
        ("udt_catalog", text(&shared.database)),
        ("udt_schema", text("pg_catalog")),
        ("udt_name", text(declared.kind.name())),
        ("is_identity", yes(column.is_row_id)),
        ("identity_generation", if column.is_row_id { text("BY DEFAULT") } else { Value::Null }),
        ("is_generated", text(if column.is_generated { "ALWAYS" } else { "NEVER" })),
        ("is_updatable", yes(!table.is_view)),
    ]);
    row
}

fn of_constraint(constraint: &Constraint<'_>, shared: &Shared) -> Sparse {
    let mut row = of_table(constraint.table, shared);
    row.extend([
        ("constraint_catalog", text(&shared.database)),
        ("constraint_schema", text("public")),
        ("constraint_name", text(&constraint.name)),
    ]);
    row
}

fn key_columns(constraint: &Constraint<'_>, shared: &Shared) -> Vec<Sparse> {
    let columns = constraint.columns.iter().enumerate();
    columns
        .map(|(at, column)| {
            let mut row = of_constraint(constraint, shared);
            row.push(("column_name", text(column)));
            row.push(("ordinal_position", number(at + 1)));
            let is_foreign = constraint.kind == 'f';
            let place = if is_foreign { number(at + 1) } else { Value::Null };
            row.push(("position_in_unique_constraint", place));
            row
        })
        .collect()
}

fn reference(constraint: &Constraint<'_>, shared: &Shared) -> Option<Sparse> {
    let target = constraint.target?;
    let key = target.indexes.iter().find(|index| index.oid == constraint.index);
    Some(vec![
        ("constraint_catalog", text(&shared.database)),
        ("constraint_schema", text("public")),
        ("constraint_name", text(&constraint.name)),
        ("unique_constraint_schema", text("public")),
        ("unique_constraint_name", key.map_or(Value::Null, |index| text(&index.name))),
        ("match_option", text("NONE")),
        ("update_rule", text(constraint.on_update)),
        ("delete_rule", text(constraint.on_delete)),
    ])
}

fn used(constraint: &Constraint<'_>, shared: &Shared) -> Vec<Sparse> {
    let (table, columns) = match constraint.target {
        Some(target) => (target, &constraint.target_columns),
        None => (constraint.table, &constraint.columns),
    };
    columns
        .iter()
        .map(|column| {
            let mut row = of_constraint(constraint, shared);
            row.retain(|(name, _)| *name != "table_name");
            row.push(("table_name", text(&table.name)));
            row.push(("column_name", text(column)));
            row
        })
        .collect()
}
