//! The database for the loads of `tables`: a table of plain rows with unique names, and one row that refers to parts.

use crate::Outcome;
use paceline_tables::json::{self, Json};
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Context, Database, OpResult, Outcome as Executed};
use paceline_types::{Uuid, UuidSource};
use std::sync::Arc;

const SCHEMA: &str = r#"{"name": "Bench", "tables": {
    "Row": {"isRoot": true, "indexes": [["name"]], "columns": {
        "name": {"type": "string"},
        "note": {"type": "string"},
        "number": {"type": "integer"},
        "tags": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
    "Set": {"isRoot": true, "columns": {
        "parts": {"type": {
            "key": {"type": "uuid", "refTable": "Part"}, "min": 0, "max": "unlimited"}}}},
    "Part": {"columns": {"label": {"type": "string"}}}}}"#;

/// Maximum nesting of the JSON texts here.
pub const DEPTH_MAX: usize = 32;

/// A database and the UUIDs of its plain rows.
pub struct World {
    /// The database.
    pub database: Database,
    /// The rows, in the order of their creation.
    pub rows: Vec<Uuid>,
}

impl World {
    /// A database with `count` plain rows.
    pub fn new(count: usize) -> Outcome<Self> {
        let schema = Arc::new(Schema::parse(&json::parse(SCHEMA.as_bytes(), DEPTH_MAX)?)?);
        let mut database = Database::new(schema, UuidSource::from_number(1));
        let table = table(&database, "Row")?;
        let rows: Vec<Uuid> = (0..count).map(|_| database.fresh_uuid()).collect();
        // Rows are loaded as the server loads its own database, without JSON.
        for (piece, uuids) in rows.chunks(10_000).enumerate() {
            let row = |(at, uuid): (usize, &Uuid)| {
                let number = piece * 10_000 + at;
                let name = Atom::string(&row_name(number));
                let note = Atom::string("a note of ordinary length about the row");
                let number = Atom::Integer(i64::try_from(number).unwrap_or(i64::MAX));
                let tags = vec![(Atom::string("kind"), Atom::string("plain"))];
                let values = [name, note, number].map(Datum::One).into_iter();
                let values = values.chain([Datum::from_sorted_pairs(tags)]).collect();
                (*uuid, Some(values))
            };
            let rows = uuids.iter().enumerate().map(row);
            database.maintain(rows.map(|(uuid, values)| (table, uuid, values)).collect())?;
        }
        Ok(Self { database, rows })
    }

    /// `count` transactions, each of which sets the number of a different row, which it finds by UUID. With another
    /// `round` they set other numbers, so that every one of them changes something.
    pub fn updates(&self, count: usize, round: usize) -> Outcome<Vec<Vec<Json>>> {
        let update = |at: usize| {
            let uuid = self.rows[spread(self.rows.len(), at)];
            operations(&format!(
                r#"[{{"op": "update", "table": "Row",
                    "where": [["_uuid", "==", ["uuid", "{uuid}"]]], "row": {{"number": {}}}}}]"#,
                round * 1_000_000_000 + at
            ))
        };
        (0..count).map(update).collect()
    }

    /// Runs a transaction, which must succeed.
    pub fn execute(&mut self, operations: &[Json]) -> Outcome<Answer> {
        execute(&mut self.database, operations)
    }
}

/// The results and the changes of a transaction.
pub type Answer = (Vec<OpResult>, Option<Arc<Changes>>);

/// Runs a transaction, which must succeed.
pub fn execute(database: &mut Database, operations: &[Json]) -> Outcome<Answer> {
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let Executed::Done(done) = database.execute(operations, &context) else {
        return Err("a transaction waits".into());
    };
    for result in &done.results {
        if let OpResult::Error(error) = result {
            return Err(error.to_string().into());
        }
    }
    Ok((done.results, done.changes))
}

/// The name of plain row number `number`.
pub fn row_name(number: usize) -> String {
    format!("row-{number}")
}

/// The table of this name.
pub fn table(database: &Database, name: &str) -> Outcome<TableId> {
    database.schema().table_id(name).ok_or_else(|| format!("no table {name}").into())
}

/// Parses the operations of a transaction.
pub fn operations(text: &str) -> Outcome<Vec<Json>> {
    match json::parse(text.as_bytes(), DEPTH_MAX)? {
        Json::Array(operations) => Ok(operations),
        _ => Err("operations are an array".into()),
    }
}

/// Repeatable positions spread over `count`.
pub fn spread(count: usize, at: usize) -> usize {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) % count.max(1)
}
