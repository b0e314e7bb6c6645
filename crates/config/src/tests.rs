//! The file as a whole: the examples, all errors, applying, exporting, and random files.

mod applying;
mod catalogue;
mod doubts;
mod errors;
mod exporting;
mod http;
mod limits;
mod owning;
mod random;
mod reading;
mod renaming;
mod reverting;
mod ruleset;
mod saving;
mod sql;

use crate::How;
use crate::{Applied, Document, Object, parse};
use paceline_model::schema;
use paceline_tables::json::Json;
use paceline_tables::value::Datum;
use paceline_tables::{Context, Database, OpResult, Outcome, json};
use paceline_types::UuidSource;
use std::sync::Arc;

/// The example that users read first.
const EXAMPLE: &str = include_str!("../../../examples/paceline.toml");

/// The example of the HTTP door.
const HTTP_EXAMPLE: &str = include_str!("../../../examples/http.toml");

/// The example of the SQL door.
const SQL_EXAMPLE: &str = include_str!("../../../examples/sql.toml");

/// An empty database of the schema.
fn database() -> Database {
    Database::new(Arc::new(schema::schema().unwrap()), UuidSource::from_number(1))
}

/// Runs operations; returns the first error.
fn execute(database: &mut Database, operations: &[Json]) -> Result<(), String> {
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let Outcome::Done(done) = database.execute(operations, &context) else {
        panic!("a guard must not wait");
    };
    let error = done.results.iter().find_map(|result| match result {
        OpResult::Error(error) => Some(format!("{error:?}")),
        _ => None,
    });
    error.map_or(Ok(()), Err)
}

/// Runs operations written as text, as a plain client does.
fn transact(database: &mut Database, operations: &str) {
    let json = json::parse(operations.as_bytes(), 128).unwrap();
    execute(database, json.as_array().unwrap()).unwrap();
}

/// Applies a document; returns the changes.
fn apply(database: &mut Database, document: &Document) -> Applied {
    let applied = document.apply(database.store(), How::default());
    execute(database, &applied.operations).unwrap();
    applied
}

fn read(text: &str) -> Document {
    parse(text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"))
}

fn object<'d>(document: &'d Document, table: &str, key: &str) -> &'d Object {
    let found = document.objects().iter().find(|o| o.table == table && o.key == key);
    found.unwrap_or_else(|| panic!("no {table} {key}"))
}

/// The value of a column as text; `-` if the file does not set it.
fn column(object: &Object, column: &str) -> String {
    match object.columns.get(column).and_then(Datum::single) {
        None => "-".to_owned(),
        Some(atom) => atom.as_str().map_or_else(|| atom.to_text(), str::to_owned),
    }
}

/// The errors of a file, found in either step, as lines.
fn wrong(text: &str) -> Vec<String> {
    let errors = match parse(text) {
        Err(errors) => errors,
        Ok(document) => document.check().err().unwrap_or_default(),
    };
    errors.iter().map(ToString::to_string).collect()
}
