//! The tables of the database as the engine needs them: for types of columns and for the system catalogues.
//!
//! Read from SQLite's own schema, and read again when its version changes.

use crate::token::solids;
use crate::types::{Declared, Type};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The tables and views of a database, by name in lower case.
#[derive(Debug, Default)]
pub struct Schema {
    pub tables: BTreeMap<String, Table>,
}

/// A table or a view.
#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub oid: i64,
    pub is_view: bool,
    pub columns: Vec<Column>,
    pub indexes: Vec<Index>,
    pub foreign: Vec<Foreign>,
    pub sql: String,
}

#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub declared: Declared,
    pub is_required: bool,
    pub default: Option<String>,
    /// Its place in the primary key, from 1; 0 if it is no part of it.
    pub key: i64,
    /// Whether SQLite chooses its value.
    pub is_row_id: bool,
    pub is_generated: bool,
}

#[derive(Debug)]
pub struct Index {
    pub name: String,
    pub oid: i64,
    pub is_unique: bool,
    pub is_primary: bool,
    /// Whether a constraint made it.
    pub is_constraint: bool,
    /// Columns; none for an expression.
    pub columns: Vec<Option<String>>,
    pub is_partial: bool,
    pub sql: Option<String>,
}

#[derive(Debug)]
pub struct Foreign {
    pub id: i64,
    pub table: String,
    pub from: Vec<String>,
    pub to: Vec<String>,
    pub on_update: String,
    pub on_delete: String,
}

/// The first identifier of a user's table, as in PostgreSQL.
const FIRST_OID: i64 = 16_384;
/// The identifiers of indexes that have no row of their own in SQLite's schema.
pub const KEY_OID: i64 = 1 << 30;

impl Schema {
    /// The version that changes with every change of the schema.
    pub fn version(connection: &Connection) -> rusqlite::Result<i64> {
        connection.prepare_cached("PRAGMA main.schema_version")?.query_one([], |row| row.get(0))
    }

    /// Reads all of it.
    pub fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection
            .prepare("SELECT rowid, type, name, coalesce(sql, '') FROM main.sqlite_schema")?;
        let objects: Vec<(i64, String, String, String)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let index_ids: BTreeMap<String, (i64, String)> = objects
            .iter()
            .filter(|(_, kind, ..)| kind == "index")
            .map(|(row, _, name, sql)| (name.clone(), (FIRST_OID + row, sql.clone())))
            .collect();
        let mut tables = BTreeMap::new();
        for (row, kind, name, sql) in objects {
            if (kind != "table" && kind != "view") || name.starts_with("sqlite_") {
                continue;
            }
            let mut table = Table {
                oid: FIRST_OID + row,
                is_view: kind == "view",
                columns: columns(connection, &name, &sql)?,
                indexes: indexes(connection, &name, &index_ids)?,
                foreign: foreign(connection, &name)?,
                sql,
                name: name.clone(),
            };
            table.add_primary_key();
            tables.insert(name.to_ascii_lowercase(), table);
        }
        Ok(Self { tables })
    }

    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(&name.to_ascii_lowercase())
    }
}

impl Table {
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The columns of the primary key, in its order.
    pub fn key(&self) -> Vec<&Column> {
        let mut key: Vec<&Column> = self.columns.iter().filter(|column| column.key > 0).collect();
        key.sort_by_key(|column| column.key);
        key
    }

    /// A key that is SQLite's row number has no index, but clients look for one.
    fn add_primary_key(&mut self) {
        let key: Vec<Option<String>> =
            self.key().iter().map(|column| Some(column.name.clone())).collect();
        if key.is_empty() {
            return;
        }
        let name = format!("{}_pkey", self.name);
        if let Some(index) = self.indexes.iter_mut().find(|index| index.is_primary) {
            index.name = name;
            return;
        }
        let oid = KEY_OID + self.oid;
        self.indexes.push(Index {
            name,
            oid,
            is_unique: true,
            is_primary: true,
            is_constraint: true,
            columns: key,
            is_partial: false,
            sql: None,
        });
    }
}

fn columns(connection: &Connection, table: &str, sql: &str) -> rusqlite::Result<Vec<Column>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)",
    )?;
    let rows = statement.query_map([table], |row| {
        let declared: String = row.get(1)?;
        let hidden: i64 = row.get(5)?;
        Ok(Column {
            name: row.get(0)?,
            declared: Declared::read(&declared).unwrap_or(of_affinity(&declared)),
            is_required: row.get(2)?,
            default: row.get(3)?,
            key: row.get(4)?,
            is_row_id: declared.eq_ignore_ascii_case("integer"),
            is_generated: hidden > 1,
        })
    })?;
    let mut columns: Vec<Column> = rows.collect::<rusqlite::Result<_>>()?;
    let keys = columns.iter().filter(|column| column.key > 0).count();
    let has_row_id =
        !solids(sql).windows(2).any(|pair| pair[0].is("without") && pair[1].is("rowid"));
    let wide = big_serials(sql);
    for column in &mut columns {
        column.is_row_id &= column.key == 1 && keys == 1 && has_row_id;
        column.is_required |= column.key > 0;
        if column.is_row_id && wide.contains(&column.name.to_ascii_lowercase()) {
            column.declared = Declared::of(Type::Int8);
        }
    }
    Ok(columns)
}

/// The comment that the rewriter leaves after the type of a `BIGSERIAL`, which SQLite must know as `INTEGER`.
pub const BIG_MARK: &str = "/* bigint */";

fn big_serials(sql: &str) -> Vec<String> {
    let before = sql.match_indices(BIG_MARK).filter_map(|(at, _)| sql.get(..at));
    let name = |text: &str| {
        let toks = solids(text);
        let at = toks.len().checked_sub(2)?;
        toks.get(at)?.name()
    };
    before.filter_map(name).collect()
}

/// A declared type that PostgreSQL does not have is read by SQLite's rules of affinity.
fn of_affinity(declared: &str) -> Declared {
    let upper = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| upper.contains(word));
    Declared::of(if upper.is_empty() {
        Type::Text
    } else if has(&["INT"]) {
        Type::Int8
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Type::Text
    } else if has(&["BLOB"]) {
        Type::Bytea
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        Type::Float8
    } else {
        Type::Text
    })
}

fn indexes(
    connection: &Connection,
    table: &str,
    ids: &BTreeMap<String, (i64, String)>,
) -> rusqlite::Result<Vec<Index>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, name, \"unique\", origin, partial FROM pragma_index_list(?1) ORDER BY seq",
    )?;
    let rows = statement.query_map([table], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, bool>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, bool>(4)?,
        ))
    })?;
    let mut found = vec![];
    for row in rows {
        let (place, name, is_unique, origin, is_partial) = row?;
        let mut columns =
            connection.prepare_cached("SELECT name FROM pragma_index_info(?1) ORDER BY seqno")?;
        let columns: Vec<Option<String>> =
            columns.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let id = ids.get(&name);
        let names: Vec<&str> = columns.iter().flatten().map(String::as_str).collect();
        let shown = match origin.as_str() {
            "u" => format!("{table}_{}_key", names.join("_")),
            _ => name,
        };
        found.push(Index {
            name: shown,
            oid: id.map_or(KEY_OID + place, |(oid, _)| *oid),
            is_unique,
            is_primary: origin == "pk",
            is_constraint: origin != "c",
            columns,
            is_partial,
            sql: id.map(|(_, sql)| sql.clone()).filter(|sql| !sql.is_empty()),
        });
    }
    Ok(found)
}

fn foreign(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Foreign>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let mut rows = statement.query([table])?;
    let mut found: Vec<Foreign> = vec![];
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if found.last().is_none_or(|last| last.id != id) {
            found.push(Foreign {
                id,
                table: row.get(1)?,
                from: vec![],
                to: vec![],
                on_update: row.get(4)?,
                on_delete: row.get(5)?,
            });
        }
        if let Some(last) = found.last_mut() {
            last.from.push(row.get(2)?);
            last.to.extend(row.get::<_, Option<String>>(3)?);
        }
    }
    Ok(found)
}
