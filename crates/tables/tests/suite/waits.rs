//! Which changes make an unsatisfied `wait` worth another try.

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
        let Outcome::Waiting { timeout_ms, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(timeout_ms, expected);
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

/// A wait is tried again only for changes of rows that it looks at, in columns that it looks at.
#[test]
fn only_changes_that_a_wait_can_see_matter_to_it() {
    const WIDE: &str = r#"{"name":"db","tables":{"T":{"columns":{
        "k":{"type":"integer"},"s":{"type":"string"}}}}}"#;
    let schema = Schema::parse(&json::parse(WIDE.as_bytes(), 100).unwrap()).unwrap();
    let mut database = Database::new(Arc::new(schema), UuidSource::from_number(1));
    let mut execute = |text: &str| {
        let Json::Array(operations) = json::parse(text.as_bytes(), 100).unwrap() else {
            panic!("operations are an array")
        };
        let context =
            Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
        database.execute(&operations, &context)
    };
    execute(
        r#"[{"op":"insert","table":"T","row":{"k":1}},{"op":"insert","table":"T","row":{"k":2}}]"#,
    );
    let wait = r#"{"op":"wait","table":"T","where":[["k","==",1]],"columns":["k"],"until":"==","rows":[]}"#;
    let Outcome::Waiting { interest, .. } = execute(&format!("[{wait}]")) else { panic!("holds") };
    let inserting = format!(r#"[{{"op":"insert","table":"T","row":{{"k":5}}}},{wait}]"#);
    let Outcome::Waiting { interest: any, .. } = execute(&inserting) else { panic!("holds") };
    for (operation, matters) in [
        (r#"{"op":"insert","table":"T","row":{"k":3}}"#, false),
        (r#"{"op":"update","table":"T","where":[["k","==",2]],"row":{"s":"x"}}"#, false),
        (r#"{"op":"update","table":"T","where":[["k","==",1]],"row":{"s":"x"}}"#, false),
        (r#"{"op":"insert","table":"T","row":{"k":1}}"#, true),
        (r#"{"op":"update","table":"T","where":[["k","==",2]],"row":{"k":1}}"#, true),
        (r#"{"op":"delete","table":"T","where":[["k","==",1]]}"#, true),
    ] {
        let Outcome::Done(done) = execute(&format!("[{operation}]")) else { panic!("waits") };
        let changes = done.changes.unwrap();
        assert_eq!(interest.touched_by(&changes.rows, 1_000), matters, "{operation}");
        assert!(any.touched_by(&changes.rows, 1_000), "it changes rows of the table itself");
        assert!(interest.touched_by(&changes.rows, 0), "too much to ask");
    }
}
