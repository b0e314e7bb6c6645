//! What an unsatisfied `wait` asks of whoever tries the transaction again.

use paceline_tables::json::{self, Json};
use paceline_tables::schema::Schema;
use paceline_tables::{Context, Database, Outcome};
use paceline_types::UuidSource;
use std::sync::Arc;

const SCHEMA: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"}}}}}"#;

fn check(operations: &str, elapsed_ms: u64) -> Outcome {
    let schema = Schema::parse(&json::parse(SCHEMA.as_bytes(), 100).unwrap()).unwrap();
    let mut database = Database::new(Arc::new(schema), UuidSource::from_number(1));
    let Json::Array(operations) = json::parse(operations.as_bytes(), 100).unwrap() else {
        panic!("operations are an array")
    };
    let context = Context { elapsed_ms, owns_lock: &|_| false, read_only: false, maintained: &[] };
    database.execute(&operations, &context)
}

const HOLDS: &str = r#"{"op":"wait","table":"T","where":[],"until":"==","rows":[],"timeout":0}"#;

fn unsatisfied(timeout: &str) -> String {
    format!(r#"{{"op":"wait","table":"T","where":[],"until":"!=","rows":[]{timeout}}}"#)
}

#[test]
fn only_the_wait_that_does_not_hold_sets_the_deadline() {
    for (timeout, expected) in [("", None), (r#","timeout":70"#, Some(70))] {
        let outcome = check(&format!("[{HOLDS},{}]", unsatisfied(timeout)), 50);
        let Outcome::Waiting { timeout_ms, tables } = outcome else { panic!("{outcome:?}") };
        assert_eq!(timeout_ms, expected);
        assert_eq!(tables.len(), 1);
    }
}

#[test]
fn a_wait_whose_time_is_up_fails() {
    let outcome = check(&format!("[{}]", unsatisfied(r#","timeout":70"#)), 70);
    let Outcome::Done(done) = outcome else { panic!("{outcome:?}") };
    let mut text = Vec::new();
    done.results.iter().for_each(|result| result.write(&mut text));
    assert!(String::from_utf8(text).unwrap().contains("\"timed out\""));
}
