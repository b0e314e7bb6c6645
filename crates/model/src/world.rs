//! A database with its model, for the tests of both.

use crate::model::Model;
use crate::schema;
use paceline_tables::{Changes, Context, Database, Outcome, json};
use paceline_types::UuidSource;
use std::sync::Arc;

pub(crate) struct World {
    pub database: Database,
    pub model: Model,
}

impl World {
    pub fn new() -> Self {
        let schema = Arc::new(schema::schema().unwrap());
        let database = Database::new(Arc::clone(&schema), UuidSource::from_number(1));
        Self { database, model: Model::new(schema).unwrap() }
    }

    pub fn transact(&mut self, operations: &str) -> Result<Arc<Changes>, String> {
        let json = json::parse(operations.as_bytes(), 128).unwrap();
        let context =
            Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
        let Outcome::Done(done) = self.database.execute(json.as_array().unwrap(), &context) else {
            panic!("nothing waits here");
        };
        done.changes.ok_or_else(|| format!("{:?}", done.results))
    }
}
