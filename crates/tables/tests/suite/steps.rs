//! D4: every part of a large value that an operation or a monitor reads takes steps; parts that it does not read
//! take none.

use crate::bounds::reading;
use paceline_tables::json::{self, Json};
use paceline_tables::monitor::{Dump, Monitor, Moving, Requests, Telling, Version};
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, Context, Database, OpResult, Outcome, Work};
use paceline_types::UuidSource;
use std::sync::Arc;

const SCHEMA: &str = r#"{"name":"db","tables":{"T":{"isRoot":true,"columns":{
    "n":{"type":"integer"},
    "text":{"type":"string"},
    "texts":{"type":{"key":"string","min":0,"max":"unlimited"}},
    "numbers":{"type":{"key":"integer","min":0,"max":"unlimited"}},
    "map":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}},
    "I":{"isRoot":true,"columns":{"n":{"type":"integer"},"text":{"type":"string"}},"indexes":[["text"]]}}}"#;

const CONTEXT: Context<'static> =
    Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };

/// How many rows have large values, and about how many bytes each value has.
const ROWS: usize = 50;
const BYTES: usize = 256 << 10;

/// One step stands for at most this many bytes read.
const STEP_BYTES: usize = 128;

fn empty() -> Database {
    let schema = Schema::parse(&parsed(SCHEMA)).unwrap();
    Database::new(Arc::new(schema), UuidSource::from_number(1))
}

fn parsed(text: &str) -> Json {
    json::parse(text.as_bytes(), 100).unwrap()
}

/// Runs an operation. Returns the steps beyond those of reading it, its results, and its changes.
fn run(database: &mut Database, operation: &str) -> (u64, Vec<OpResult>, Option<Arc<Changes>>) {
    let operations = [parsed(operation)];
    let mut work = Work::at_most(u64::MAX);
    match database.execute_within(&operations, &CONTEXT, &mut work) {
        Outcome::Done(done) => (work.spent() - reading(&operations), done.results, done.changes),
        waiting @ Outcome::Waiting { .. } => panic!("{waiting:?}"),
    }
}

fn ok(database: &mut Database, operation: &str) -> Option<Arc<Changes>> {
    let (_, results, changes) = run(database, operation);
    for result in &results {
        assert!(!matches!(result, OpResult::Error(_)), "{result:?}");
    }
    changes
}

/// A large value of each type. Values with different `last` differ at their very end.
fn values(last: char) -> Vec<(&'static str, String)> {
    let long = |at: usize, bytes: usize| format!("\"{at:02}{}{last}\"", "x".repeat(bytes));
    let texts: Vec<String> = (0..16).map(|at| long(at, BYTES / 16)).collect();
    let pairs: Vec<String> = texts.iter().map(|text| format!("[{text},{text}]")).collect();
    let mut numbers: Vec<String> = (0..BYTES / 24).map(|n| n.to_string()).collect();
    numbers.push(format!("{}", 1_000_000 + last as u32));
    vec![
        ("text", long(0, BYTES)),
        ("texts", format!(r#"["set",[{}]]"#, texts.join(","))),
        ("numbers", format!(r#"["set",[{}]]"#, numbers.join(","))),
        ("map", format!(r#"["map",[{}]]"#, pairs.join(","))),
    ]
}

/// Rows that have a large value in one column, each its own copy of it.
fn filled(column: &str, value: &str) -> Database {
    let mut database = empty();
    for n in 0..ROWS {
        let row = format!(r#"{{"n":{n},"{column}":{value}}}"#);
        ok(&mut database, &format!(r#"{{"op":"insert","table":"T","row":{row}}}"#));
    }
    database
}

/// D4: every operation that reads a large value of many rows takes steps for each of these bytes.
#[test]
fn what_an_operation_reads_takes_steps_d4() {
    for ((column, value), (_, other)) in values('a').into_iter().zip(values('b')) {
        let scan = |function: &str, with: &str| {
            format!(
                r#"{{"op":"select","table":"T","where":[["{column}","{function}",{with}]],"columns":["n"]}}"#
            )
        };
        let select = format!(r#"{{"op":"select","table":"T","where":[],"columns":["{column}"]"#);
        let wait = |until: &str| {
            format!(
                r#"{{"op":"wait","table":"T","where":[],"timeout":0,"columns":["{column}"],"until":"{until}","rows":[{{"{column}":{value}}}]}}"#
            )
        };
        let mut operations = vec![
            scan("==", &value),
            scan("!=", &value),
            scan("==", &other),
            scan("includes", &value),
            scan("excludes", &other),
            format!("{select}}}"),
            format!(r#"{select},"sort":["{column}"]}}"#),
            wait("=="),
            wait("!="),
            format!(r#"{{"op":"update","table":"T","where":[],"row":{{"{column}":{value}}}}}"#),
            format!(r#"{{"op":"update","table":"T","where":[],"row":{{"{column}":{other}}}}}"#),
            r#"{"op":"delete","table":"T","where":[]}"#.to_owned(),
        ];
        let mutation = |mutator: &str, argument: &str| {
            format!(
                r#"{{"op":"mutate","table":"T","where":[],"mutations":[["{column}","{mutator}",{argument}]]}}"#
            )
        };
        match column {
            "texts" => operations.extend([
                mutation("insert", r#""new""#),
                mutation("delete", r#""no""#),
                mutation("insert", &other),
                mutation("delete", &other),
            ]),
            "numbers" => operations.extend([
                mutation("+=", "1"),
                mutation("insert", "-1"),
                mutation("delete", &other),
            ]),
            "map" => operations.extend([
                mutation("insert", r#"["map",[["new","v"]]]"#),
                mutation("delete", r#"["set",["no"]]"#),
                mutation("delete", &other),
            ]),
            _ => {}
        }
        for operation in operations {
            let (steps, ..) = run(&mut filled(column, &value), &operation);
            let what: String = operation.chars().take(120).collect();
            let least = (ROWS * BYTES / STEP_BYTES) as u64;
            assert!(steps >= least, "{column}: {what} takes {steps} steps, not {least}");
        }
    }
}

/// D4: values that an operation does not read take no steps, however large they are.
#[test]
fn large_values_that_are_not_touched_take_no_steps_d4() {
    for (column, value) in values('a') {
        let mut database = filled(column, &value);
        for operation in [
            r#"{"op":"mutate","table":"T","where":[],"mutations":[["n","+=",1]]}"#,
            r#"{"op":"update","table":"T","where":[],"row":{"n":7}}"#,
            r#"{"op":"select","table":"T","where":[["n","<",1000]],"columns":["n"]}"#,
        ] {
            let (steps, ..) = run(&mut database, operation);
            assert!(steps <= 30 * ROWS as u64, "{column}: {operation} takes {steps} steps");
        }
    }
}

/// D1, D4: a change keeps what it removes or adds, not what both versions of the row share.
#[test]
fn a_change_of_one_column_keeps_no_other_d1() {
    for (column, value) in values('a') {
        let mut database = filled(column, &value);
        let mutate = r#"{"op":"mutate","table":"T","where":[],"mutations":[["n","+=",1]]}"#;
        let changes = ok(&mut database, mutate).unwrap();
        assert!(changes.memory() < 1_000 * ROWS, "{column}: {}", changes.memory());
        let changes = ok(&mut database, r#"{"op":"delete","table":"T","where":[]}"#).unwrap();
        assert!(changes.memory() >= BYTES * ROWS, "{column}: {}", changes.memory());
    }
}

/// D4: an index of long values is read for the rows whose indexed values changed, and takes steps; so does the
/// look-up table of a snapshot.
#[test]
fn long_values_of_an_index_take_steps_d4() {
    let mut database = empty();
    for n in 0..ROWS {
        let text = format!("{}{n}", "x".repeat(BYTES));
        let row = format!(r#"{{"n":{n},"text":"{text}"}}"#);
        let insert = format!(r#"{{"op":"insert","table":"I","row":{row}}}"#);
        let (steps, ..) = run(&mut database, &insert);
        // It is added, looked up at the end, and removed again if the transaction is undone.
        assert!(steps >= (3 * BYTES / STEP_BYTES) as u64, "{steps}");
    }
    let (steps, ..) = run(&mut database, r#"{"op":"update","table":"I","where":[],"row":{"n":7}}"#);
    assert!(steps <= 30 * ROWS as u64, "{steps}");
    let select = [parsed(r#"{"op":"select","table":"I","where":[["text","==","x"]]}"#)];
    let steps = reading(&select) + (ROWS * BYTES / STEP_BYTES) as u64;
    let (copy, work) = (database.snapshot(), Work::at_most(steps));
    let results = copy.execute_within(&select, &CONTEXT, work, UuidSource::from_number(2));
    let is_refused =
        |result: &OpResult| matches!(result, OpResult::Error(e) if e.tag == "resources exhausted");
    assert!(results.iter().any(is_refused), "{results:?}");
}

fn monitor(database: &Database, columns: &str, clauses: &[String]) -> Arc<Monitor> {
    let clauses = clauses.join(",");
    let requests = parsed(&format!(r#"{{"T":[{{"columns":[{columns}],"where":[{clauses}]}}]}}"#));
    let monitor = Requests::new(&requests).unwrap().parse(database.schema(), Version::V2);
    Arc::new(monitor.unwrap())
}

/// `rows` rows with `elements` numbers each, all even.
fn numbered(rows: usize, elements: usize) -> Database {
    let mut database = empty();
    let numbers: Vec<String> = (0..elements).map(|n| (2 * n).to_string()).collect();
    let insert = format!(
        r#"{{"op":"insert","table":"T","row":{{"numbers":["set",[{}]]}}}}"#,
        numbers.join(",")
    );
    (0..rows).for_each(|_| drop(ok(&mut database, &insert)));
    database
}

/// Clauses that hold for none of these rows.
fn odd(from: usize, clauses: usize) -> Vec<String> {
    (0..clauses).map(|n| format!(r#"["numbers","includes",{}]"#, 2 * (from + n) + 1)).collect()
}

/// The number of pieces of a change of conditions that shows nothing, and of a dump.
fn pieces(database: &Database, from: &[String], to: &[String]) -> (usize, usize) {
    let (from, to) = (monitor(database, r#""n""#, from), monitor(database, r#""n""#, to));
    let mut moving = Moving::new(from, to.clone(), database.snapshot());
    let mut dump = Dump::new(to, database.snapshot());
    let (mut moved, mut dumped, mut text) = (1, 1, Vec::new());
    while moving.write(1 << 20, &mut text) {
        moved += 1;
    }
    assert!(text.is_empty());
    while dump.write(1 << 20, &mut text) {
        dumped += 1;
    }
    assert_eq!(text, b"{}");
    (moved, dumped)
}

/// D4: rows with large sets that are tested on many `includes` take steps for what is looked at: the smaller of the
/// set and the clauses.
#[test]
fn many_includes_on_large_sets_take_steps_d4() {
    let database = numbered(200, 2_000);
    let (moved, dumped) = pieces(&database, &odd(0, 2_000), &odd(1, 2_000));
    // A step for each of 2,000 elements, and for each of the 11 elements that a search compares it with.
    assert!(moved >= 2 * 200 * 2_000 * 11 / 100_000, "{moved}");
    assert!(dumped >= 200 * 2_000 * 11 / 100_000, "{dumped}");
    // Few clauses on large sets, and many clauses on small sets, are few steps.
    let (moved, dumped) = pieces(&database, &odd(0, 20), &odd(1, 20));
    assert!(moved <= 2 && dumped <= 1, "{moved} {dumped}");
    let (moved, dumped) = pieces(&numbered(200, 20), &odd(0, 2_000), &odd(1, 2_000));
    assert!(moved <= 2 && dumped <= 1, "{moved} {dumped}");
}

/// D4: so do long values that are tested on many `==`.
#[test]
fn many_equals_on_long_values_take_steps_d4() {
    for (column, value) in values('a') {
        let database = filled(column, &value);
        let clauses = |from: char| -> Vec<String> {
            let others = (from..)
                .take(10)
                .filter_map(|last| values(last).into_iter().find(|(name, _)| *name == column));
            others.map(|(_, value)| format!(r#"["{column}","==",{value}]"#)).collect()
        };
        let (moved, dumped) = pieces(&database, &clauses('b'), &clauses('c'));
        let least = ROWS * BYTES / STEP_BYTES / 100_000;
        assert!(moved > least && dumped > least, "{column}: {moved} {dumped}");
    }
}

/// Which elements of a row are found does not depend on which of the two is searched.
#[test]
fn many_includes_find_what_a_few_do() {
    let database = numbered(1, 50);
    for clauses in [9, 49, 50, 51, 2_000] {
        for (hit, shown) in [(Some(0), true), (Some(98), true), (Some(100), false), (None, false)] {
            let mut all = odd(0, clauses);
            all.extend(hit.map(|hit| format!(r#"["numbers","includes",{hit}]"#)));
            let mut text = Vec::new();
            let mut dump = Dump::new(monitor(&database, r#""n""#, &all), database.snapshot());
            while dump.write(1 << 20, &mut text) {}
            assert_eq!(text != b"{}", shown, "{clauses} clauses and {hit:?}");
        }
    }
}

/// D4: one row that takes longer than a piece is a piece of its own, and the caller can see this before it is made.
#[test]
fn a_row_that_takes_long_is_announced_d4() {
    let mut database = numbered(3, 10);
    let numbers: Vec<String> = (0..20_000).map(|n| (2 * n).to_string()).collect();
    let long = "x".repeat(2 << 20);
    let row = format!(r#"{{"text":"{long}","numbers":["set",[{}]]}}"#, numbers.join(","));
    let changes =
        ok(&mut database, &format!(r#"{{"op":"insert","table":"T","row":{row}}}"#)).unwrap();
    // It is long to test, or to write, or both.
    for (columns, clauses, longs) in [
        (r#""n""#, odd(0, 20_000), 1),
        (r#""text""#, vec!["true".to_owned()], 1),
        (r#""n""#, vec!["true".to_owned()], 0),
    ] {
        let to = monitor(&database, columns, &clauses);
        let from = monitor(&database, columns, &["false".to_owned()]);
        let mut moving = Moving::new(from, to.clone(), database.snapshot());
        let mut dump = Dump::new(to.clone(), database.snapshot());
        let (mut text, mut announced) = (Vec::new(), (0, 0));
        while moving.write(1 << 16, &mut text) {
            announced.0 += usize::from(moving.is_long());
            assert!(!moving.is_long() || text.len() < 1 << 20, "it is written already");
        }
        text.clear();
        while dump.write(1 << 16, &mut text) {
            announced.1 += usize::from(dump.is_long());
            assert!(!dump.is_long() || text.len() < 1 << 20, "it is written already");
        }
        assert_eq!(announced, (longs, longs), "{columns}");
        let schema = database.schema().clone();
        let telling = Telling::new(to, schema, changes.clone());
        assert_eq!(telling.is_long(30_000), longs > 0, "{columns}");
    }
}
