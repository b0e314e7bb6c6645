//! What one transaction may ask for.

use paceline_tables::json::{self, Json};
use paceline_tables::schema::Schema;
use paceline_tables::{Context, Database, OpResult, Outcome};
use paceline_types::UuidSource;
use paceline_types::limits::SELECT_ROWS_MAX;
use std::sync::Arc;

const SCHEMA: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"}}}}}"#;
const INSERT: &str = r#"{"op":"insert","table":"T","row":{}}"#;
const SELECT: &str = r#"{"op":"select","table":"T","where":[]}"#;

fn run(database: &mut Database, operation: &str, times: usize) -> Vec<OpResult> {
    let operation: Json = json::parse(operation.as_bytes(), 100).unwrap();
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    match database.execute(&vec![operation; times], &context) {
        Outcome::Done(done) => done.results,
        waiting @ Outcome::Waiting { .. } => panic!("{waiting:?}"),
    }
}

#[test]
fn selects_of_one_transaction_find_a_bounded_number_of_rows() {
    let schema = Schema::parse(&json::parse(SCHEMA.as_bytes(), 100).unwrap()).unwrap();
    let mut database = Database::new(Arc::new(schema), UuidSource::from_number(1));
    let rows = 2_000;
    run(&mut database, INSERT, rows);
    // The select that passes the bound is answered, so that a single one always is.
    let answered = SELECT_ROWS_MAX / rows + 1;
    assert!(matches!(run(&mut database, SELECT, answered).last(), Some(OpResult::Rows(_))));
    let results = run(&mut database, SELECT, answered + 1);
    let Some(OpResult::Error(error)) = results.last() else { panic!("{:?}", results.last()) };
    assert_eq!(error.tag, "resources exhausted");
}
