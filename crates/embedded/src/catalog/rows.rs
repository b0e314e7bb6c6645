//! The rows of `pg_catalog`.

use super::definition::{constraints, index_definition, view_text};
use super::{Sparse, text};
use crate::functions::Shared;
use crate::schema::{Column, Index, Schema, Table};
use crate::types::Type;
use rusqlite::types::Value;
use std::sync::PoisonError;

const OWNER: i64 = 10;
pub const PUBLIC: i64 = 2200;
const PG_CATALOG: i64 = 11;
const INFORMATION_SCHEMA: i64 = 13_000;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const DEFAULT_COLLATION: i64 = 100;

const fn number(number: i64) -> Value {
    Value::Integer(number)
}

fn truth(truth: bool) -> Value {
    Value::Integer(truth.into())
}

/// The rows of one catalogue; none for those that are always empty.
pub fn rows(name: &str, schema: &Schema, shared: &Shared) -> Vec<Sparse> {
    let tables = || schema.tables.values();
    let indexes =
        || tables().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    match name {
        "pg_class" => tables()
            .map(|table| table_row(schema, table))
            .chain(indexes().map(|(_, index)| index_class(index)))
            .collect(),
        "pg_namespace" => namespaces(),
        "pg_attribute" => attributes(schema),
        "pg_attrdef" => tables().flat_map(defaults).collect(),
        "pg_type" => Type::all().map(type_row).collect(),
        "pg_index" => indexes().map(|(table, index)| index_row(table, index)).collect(),
        "pg_constraint" => constraint_rows(schema),
        "pg_database" => vec![vec![
            ("oid", number(5)),
            ("datname", text(&shared.database)),
            ("datdba", number(OWNER)),
            ("encoding", number(6)),
            ("datlocprovider", text("c")),
            ("datallowconn", truth(true)),
            ("datconnlimit", number(-1)),
            ("datcollate", text("C.UTF-8")),
            ("datctype", text("C.UTF-8")),
        ]],
        "pg_roles" => vec![vec![
            ("oid", number(OWNER)),
            ("rolname", text(&shared.user)),
            ("rolinherit", truth(true)),
            ("rolcanlogin", truth(true)),
            ("rolconnlimit", number(-1)),
        ]],
        "pg_user" => vec![vec![("usename", text(&shared.user)), ("usesysid", number(OWNER))]],
        "pg_am" => [(HEAP, "heap", "t"), (BTREE, "btree", "i")]
            .map(|(oid, name, kind)| {
                vec![("oid", number(oid)), ("amname", text(name)), ("amtype", text(kind))]
            })
            .into(),
        "pg_collation" => [(DEFAULT_COLLATION, "default"), (950, "C")]
            .map(|(oid, name)| {
                vec![
                    ("oid", number(oid)),
                    ("collname", text(name)),
                    ("collnamespace", number(PG_CATALOG)),
                    ("collisdeterministic", truth(true)),
                ]
            })
            .into(),
        "pg_settings" => settings(shared),
        other => lists(other, schema, shared),
    }
}

/// The views that list tables, views and indexes by name.
fn lists(name: &str, schema: &Schema, shared: &Shared) -> Vec<Sparse> {
    let tables = || schema.tables.values();
    let indexes =
        || tables().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    match name {
        "pg_tables" => tables()
            .filter(|table| !table.is_view)
            .map(|table| {
                vec![
                    ("schemaname", text("public")),
                    ("tablename", text(&table.name)),
                    ("tableowner", text(&shared.user)),
                    ("hasindexes", truth(!table.indexes.is_empty())),
                ]
            })
            .collect(),
        "pg_views" => tables()
            .filter(|table| table.is_view)
            .map(|table| {
                vec![
                    ("schemaname", text("public")),
                    ("viewname", text(&table.name)),
                    ("viewowner", text(&shared.user)),
                    ("definition", text(view_text(&table.sql))),
                ]
            })
            .collect(),
        "pg_indexes" => indexes()
            .map(|(table, index)| {
                vec![
                    ("schemaname", text("public")),
                    ("tablename", text(&table.name)),
                    ("indexname", text(&index.name)),
                    ("indexdef", index_definition(schema, index.oid, 0).map_or(Value::Null, text)),
                ]
            })
            .collect(),
        _ => vec![],
    }
}

fn namespaces() -> Vec<Sparse> {
    [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")]
        .map(|(oid, name)| {
            vec![("oid", number(oid)), ("nspname", text(name)), ("nspowner", number(OWNER))]
        })
        .into()
}

fn settings(shared: &Shared) -> Vec<Sparse> {
    let settings = shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
    let row = |(name, value): (&str, &str)| {
        vec![
            ("name", text(name)),
            ("setting", text(value)),
            ("context", text("user")),
            ("vartype", text("string")),
            ("source", text("default")),
        ]
    };
    settings.all().map(row).collect()
}

fn table_row(schema: &Schema, table: &Table) -> Sparse {
    // In PostgreSQL triggers enforce foreign keys, and psql asks for keys only where there are triggers.
    let is_target = |other: &Table| {
        other.foreign.iter().any(|foreign| foreign.table.eq_ignore_ascii_case(&table.name))
    };
    let has_keys = !table.foreign.is_empty() || schema.tables.values().any(is_target);
    vec![
        ("oid", number(table.oid)),
        ("relname", text(&table.name)),
        ("relnamespace", number(PUBLIC)),
        ("relowner", number(OWNER)),
        ("relam", number(if table.is_view { 0 } else { HEAP })),
        ("relhastriggers", truth(has_keys)),
        ("relhasindex", truth(!table.indexes.is_empty())),
        ("relpersistence", text("p")),
        ("relkind", text(if table.is_view { "v" } else { "r" })),
        ("relnatts", number(i64::try_from(table.columns.len()).unwrap_or(0))),
        ("reltuples", Value::Real(-1.0)),
        ("relispopulated", truth(true)),
        ("relreplident", text("d")),
    ]
}

fn index_class(index: &Index) -> Sparse {
    vec![
        ("oid", number(index.oid)),
        ("relname", text(&index.name)),
        ("relnamespace", number(PUBLIC)),
        ("relowner", number(OWNER)),
        ("relam", number(BTREE)),
        ("relpersistence", text("p")),
        ("relkind", text("i")),
        ("relnatts", number(i64::try_from(index.columns.len()).unwrap_or(0))),
        ("relispopulated", truth(true)),
        ("relreplident", text("n")),
    ]
}

fn attributes(schema: &Schema) -> Vec<Sparse> {
    let mut found = vec![];
    for table in schema.tables.values() {
        found.extend(
            (1..).zip(&table.columns).map(|(place, column)| attribute(table.oid, place, column)),
        );
        for index in &table.indexes {
            let columns = (1..).zip(&index.columns);
            found.extend(columns.filter_map(|(place, name)| {
                let column = table.column(name.as_deref()?)?;
                let mut row = attribute(index.oid, place, column);
                row.retain(|(name, _)| !["attnotnull", "atthasdef", "attidentity"].contains(name));
                row.push(("attidentity", text("")));
                Some(row)
            }));
        }
    }
    found
}

fn attribute(relation: i64, place: i64, column: &Column) -> Sparse {
    let kind = column.declared.kind;
    let is_text = kind.category() == 'S';
    vec![
        ("attrelid", number(relation)),
        ("attname", text(&column.name)),
        ("atttypid", number(kind.oid().into())),
        ("attstattarget", number(-1)),
        ("attlen", number(kind.size().into())),
        ("attnum", number(place)),
        ("atttypmod", number(column.declared.modifier.into())),
        ("attnotnull", truth(column.is_required)),
        ("atthasdef", truth(column.default.is_some())),
        ("attidentity", text(if column.is_row_id { "d" } else { "" })),
        ("attgenerated", text(if column.is_generated { "s" } else { "" })),
        ("attislocal", truth(true)),
        ("attcollation", number(if is_text { DEFAULT_COLLATION } else { 0 })),
        ("attcompression", text("")),
        ("attstorage", text("p")),
        ("attalign", text("i")),
    ]
}

fn defaults(table: &Table) -> Vec<Sparse> {
    let columns = (1..).zip(&table.columns);
    columns
        .filter_map(|(place, column)| {
            let default = column.default.as_ref()?;
            Some(vec![
                ("oid", number(table.oid * 2048 + place)),
                ("adrelid", number(table.oid)),
                ("adnum", number(place)),
                ("adbin", text(default)),
            ])
        })
        .collect()
}

fn type_row(kind: Type) -> Sparse {
    let collation = if kind.category() == 'S' { DEFAULT_COLLATION } else { 0 };
    vec![
        ("oid", number(kind.oid().into())),
        ("typname", text(kind.name())),
        ("typnamespace", number(PG_CATALOG)),
        ("typowner", number(OWNER)),
        ("typlen", number(kind.size().into())),
        ("typtype", text(if kind == Type::Void { "p" } else { "b" })),
        ("typcategory", text(kind.category())),
        ("typisdefined", truth(true)),
        ("typdelim", text(",")),
        ("typelem", number(if kind == Type::TextArray { 25 } else { 0 })),
        ("typarray", number(if kind == Type::Text { 1009 } else { 0 })),
        ("typinput", text(format!("{}in", kind.name()))),
        ("typtypmod", number(-1)),
        ("typcollation", number(collation)),
    ]
}

fn index_row(table: &Table, index: &Index) -> Sparse {
    let place = |name: &Option<String>| {
        let find = |column: &Column| Some(&column.name) == name.as_ref();
        table.columns.iter().position(find).map_or(0, |at| at + 1)
    };
    let vector = |items: Vec<String>| text(items.join(" "));
    let count = i64::try_from(index.columns.len()).unwrap_or(0);
    let has_expression = index.columns.contains(&None);
    vec![
        ("indexrelid", number(index.oid)),
        ("indrelid", number(table.oid)),
        ("indnatts", number(count)),
        ("indnkeyatts", number(count)),
        ("indisunique", truth(index.is_unique)),
        ("indisprimary", truth(index.is_primary)),
        ("indimmediate", truth(true)),
        ("indisvalid", truth(true)),
        ("indisready", truth(true)),
        ("indislive", truth(true)),
        ("indkey", vector(index.columns.iter().map(|name| place(name).to_string()).collect())),
        ("indcollation", vector(index.columns.iter().map(|_| "0".to_owned()).collect())),
        ("indclass", vector(index.columns.iter().map(|_| "0".to_owned()).collect())),
        ("indoption", vector(index.columns.iter().map(|_| "0".to_owned()).collect())),
        ("indexprs", if has_expression { text("expression") } else { Value::Null }),
        ("indpred", if index.is_partial { text("condition") } else { Value::Null }),
    ]
}

fn constraint_rows(schema: &Schema) -> Vec<Sparse> {
    let places = |table: &Table, columns: &[String]| {
        let place = |name: &String| {
            table.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let places: Vec<String> =
            columns.iter().filter_map(place).map(|at| (at + 1).to_string()).collect();
        text(format!("{{{}}}", places.join(",")))
    };
    let action = |action: &str| {
        text(match action {
            "CASCADE" => "c",
            "RESTRICT" => "r",
            "SET NULL" => "n",
            "SET DEFAULT" => "d",
            _ => "a",
        })
    };
    constraints(schema)
        .into_iter()
        .map(|constraint| {
            let mut row = vec![
                ("oid", number(constraint.oid)),
                ("conname", text(&constraint.name)),
                ("connamespace", number(PUBLIC)),
                ("contype", text(constraint.kind)),
                ("convalidated", truth(true)),
                ("conislocal", truth(true)),
                ("conrelid", number(constraint.table.oid)),
                ("conindid", number(constraint.index)),
                ("conkey", places(constraint.table, &constraint.columns)),
            ];
            if let Some(target) = constraint.target {
                row.push(("confrelid", number(target.oid)));
                row.push(("confkey", places(target, &constraint.target_columns)));
                row.push(("confupdtype", action(constraint.on_update)));
                row.push(("confdeltype", action(constraint.on_delete)));
                row.push(("confmatchtype", text("s")));
            }
            row
        })
        .collect()
}
