//! The operations of a transaction, from RFC 7047 (section 5.2).

use paceline_tables::Row;
use paceline_tables::json::Json;
use paceline_tables::schema::ColumnId;
use paceline_tables::value::{Atom, Datum};
use paceline_types::Uuid;

pub(super) fn insert(table: &str, row: Vec<(&str, Json)>, name: Option<&str>) -> Json {
    let mut members =
        vec![("op", Json::string("insert")), ("table", Json::string(table)), ("row", object(row))];
    if let Some(name) = name {
        members.push(("uuid-name", Json::string(name)));
    }
    object(members)
}

/// Inserts a row that was there before, under the UUID that it had.
pub(super) fn insert_again(table: &str, uuid: Uuid, row: Vec<(&str, Json)>) -> Json {
    object(vec![
        ("op", Json::string("insert")),
        ("table", Json::string(table)),
        ("row", object(row)),
        ("uuid", Json::string(uuid.to_string())),
    ])
}

pub(super) fn update(table: &str, row: Uuid, columns: Vec<(&str, Json)>) -> Json {
    let condition = is_row(row);
    let op = Json::string("update");
    let table = Json::string(table);
    object(vec![("op", op), ("table", table), ("where", condition), ("row", object(columns))])
}

pub(super) fn delete(table: &str, row: Uuid) -> Json {
    let (op, table) = (Json::string("delete"), Json::string(table));
    object(vec![("op", op), ("table", table), ("where", is_row(row))])
}

/// Fails at once if the row has changed since it was compared.
pub(super) fn wait(table: &str, row: &Row) -> Json {
    let version = row.get(ColumnId::VERSION.index()).map_or_else(|| set(vec![]), value);
    object(vec![
        ("op", Json::string("wait")),
        ("table", Json::string(table)),
        ("where", is_row(paceline_tables::row_uuid(row))),
        ("columns", Json::Array(vec![Json::string("_version")])),
        ("until", Json::string("==")),
        ("rows", Json::Array(vec![object(vec![("_version", version)])])),
        ("timeout", Json::Integer(0)),
    ])
}

/// The name of the row that an object of the file becomes, within the transaction.
pub(super) fn new_name(table: &str, index: usize) -> String {
    format!("new_{table}_{index}")
}

pub(super) fn uuid(uuid: Uuid) -> Json {
    pair("uuid", Json::string(uuid.to_string()))
}

pub(super) fn named(name: &str) -> Json {
    pair("named-uuid", Json::string(name))
}

pub(super) fn set(elements: Vec<Json>) -> Json {
    pair("set", Json::Array(elements))
}

/// The value of a column that is a map.
pub(super) fn map(value: &Datum) -> Json {
    let each = value.pairs().iter().map(|(key, of)| Json::Array(vec![atom(key), atom(of)]));
    pair("map", Json::Array(each.collect()))
}

/// The value of a column that is not a map.
pub(super) fn value(value: &Datum) -> Json {
    match value.single() {
        Some(single) => atom(single),
        None => set(value.atoms().iter().map(atom).collect()),
    }
}

fn atom(atom: &Atom) -> Json {
    match atom {
        Atom::Integer(integer) => Json::Integer(*integer),
        Atom::Real(real) => Json::Real(*real),
        Atom::Boolean(boolean) => Json::Bool(*boolean),
        Atom::Uuid(id) => uuid(*id),
        Atom::Short(..) | Atom::Long(_) => Json::string(atom.as_str().unwrap_or_default()),
    }
}

fn is_row(row: Uuid) -> Json {
    let clause = vec![Json::string("_uuid"), Json::string("=="), uuid(row)];
    Json::Array(vec![Json::Array(clause)])
}

fn pair(word: &str, value: Json) -> Json {
    Json::Array(vec![Json::string(word), value])
}

fn object(members: Vec<(&str, Json)>) -> Json {
    Json::object(members)
}
