//! Transactions that are built in the process have the same effect as the same JSON.

use paceline_tables::json::{self, Json};
use paceline_tables::schema::Schema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{
    Context, Database, Estimate, Function, OpResult, Operations, Outcome, Transaction, tag,
};
use paceline_types::UuidSource;
use std::sync::Arc;

const SCHEMA: &str = r#"{"name":"db","tables":{"T":{"isRoot":true,"indexes":[["name"]],"columns":{
    "name":{"type":"string"},
    "once":{"type":"integer","mutable":false},
    "size":{"type":{"key":"real","min":0}},
    "level":{"type":{"key":{"type":"integer","minInteger":1,"maxInteger":9},"min":0}},
    "tags":{"type":{"key":"string","min":0,"max":3}},
    "by":{"type":{"key":"string","value":"integer","min":0,"max":"unlimited"}}}}}}"#;

fn text(text: &str) -> Datum {
    Datum::One(Atom::string(text))
}

fn is(name: &str) -> [(&'static str, Function, Datum); 1] {
    [("name", Function::Equal, text(name))]
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::parse(&json::parse(SCHEMA.as_bytes(), 100).unwrap()).unwrap())
}

/// The answer to a transaction on a database with one row, and the rows after it.
fn run<'a>(schema: &Arc<Schema>, operations: impl Into<Operations<'a>>) -> String {
    let mut database = Database::new(Arc::clone(schema), UuidSource::from_number(1));
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let first = parse(r#"[{"op":"insert","table":"T","row":{"name":"a"}}]"#);
    assert!(matches!(database.execute(&first, &context), Outcome::Done(_)));
    let Outcome::Done(done) = database.execute(operations, &context) else { panic!("waits") };
    let mut out = Vec::new();
    for result in &done.results {
        match result {
            // The UUID of a new row is drawn at another time.
            OpResult::Uuid(_) => out.extend_from_slice(b"uuid"),
            OpResult::Error(error) => {
                // A transaction built in the process has no text to quote.
                out.extend_from_slice(format!("{}: {}", error.tag, error.details).as_bytes());
            }
            OpResult::Rows(rows) => {
                for at in 0..rows.rows().len() {
                    let shown = rows.columns(at).filter(|(name, _)| !name.starts_with('_'));
                    out.extend_from_slice(format!("{:?}", shown.collect::<Vec<_>>()).as_bytes());
                }
            }
            other => other.write(&mut out),
        }
        out.push(b'\n');
    }
    let table = schema.table_id("T").unwrap();
    let mut rows: Vec<String> =
        database.store().rows(table).map(|row| format!("{:?}", row.get(2..))).collect();
    rows.sort();
    format!("{}{} {rows:?}", String::from_utf8(out).unwrap(), done.durable)
}

fn parse(text: &str) -> Vec<Json> {
    json::parse(text.as_bytes(), 100).unwrap().as_array().unwrap().to_vec()
}

#[test]
fn a_transaction_that_was_made_does_what_its_json_does() {
    let schema = schema();
    let begin = || Transaction::on(&schema);
    let number = |number| Datum::One(Atom::Integer(number));
    let insert =
        |column: &'static str, value| begin().insert("T", [("name", text("b")), (column, value)]);
    let none: [[(&str, Datum); 0]; 0] = [];
    let cases = [
        (begin(), "[]"),
        (
            begin().insert("T", [("name", text("b")), ("size", number(2)), ("level", number(9))]),
            r#"[{"op":"insert","table":"T","row":{"name":"b","size":2,"level":9}}]"#,
        ),
        (begin().select("T", []), r#"[{"op":"select","table":"T","where":[]}]"#),
        (
            begin().select("T", is("a")).durable(),
            r#"[{"op":"select","table":"T","where":[["name","==","a"]]},{"op":"commit","durable":true}]"#,
        ),
        (
            begin().update(
                "T",
                is("a"),
                [("tags", Datum::set_of(vec![Atom::string("y"), Atom::string("x")]))],
            ),
            r#"[{"op":"update","table":"T","where":[["name","==","a"]],"row":{"tags":["set",["x","y"]]}}]"#,
        ),
        (
            insert("by", Datum::map_of(vec![(Atom::string("k"), Atom::Integer(3))])),
            r#"[{"op":"insert","table":"T","row":{"name":"b","by":["map",[["k",3]]]}}]"#,
        ),
        (
            begin().delete("T", is("a")).delete("T", is("z")),
            r#"[{"op":"delete","table":"T","where":[["name","==","a"]]},
                {"op":"delete","table":"T","where":[["name","==","z"]]}]"#,
        ),
        (
            begin().expect("T", [], ["name"], [[("name", text("a"))]]).delete("T", []),
            r#"[{"op":"wait","timeout":0,"table":"T","where":[],"columns":["name"],"until":"==",
                 "rows":[{"name":"a"}]},{"op":"delete","table":"T","where":[]}]"#,
        ),
        // A failing operation is refused with the same message and at the same place, and changes nothing.
        (
            begin().delete("T", []).expect("T", is("a"), ["name"], [[("name", text("a"))]]),
            r#"[{"op":"delete","table":"T","where":[]},{"op":"wait","timeout":0,"table":"T",
                 "where":[["name","==","a"]],"columns":["name"],"until":"==","rows":[{"name":"a"}]}]"#,
        ),
        (
            begin().expect("T", [], ["name"], none).insert("T", [("name", number(1))]),
            r#"[{"op":"wait","timeout":0,"table":"T","where":[],"columns":["name"],"until":"==","rows":[]},
                {"op":"insert","table":"T","row":{"name":1}}]"#,
        ),
        (
            insert("level", number(10)),
            r#"[{"op":"insert","table":"T","row":{"name":"b","level":10}}]"#,
        ),
        (
            insert("level", text("x")),
            r#"[{"op":"insert","table":"T","row":{"name":"b","level":"x"}}]"#,
        ),
        (
            insert("name", Datum::Empty),
            r#"[{"op":"insert","table":"T","row":{"name":["set",[]]}}]"#,
        ),
        (
            insert("tags", Datum::set_of(["1", "2", "3", "4"].map(Atom::string).into())),
            r#"[{"op":"insert","table":"T","row":{"name":"b","tags":["set",["1","2","3","4"]]}}]"#,
        ),
        (
            insert("none", text("x")),
            r#"[{"op":"insert","table":"T","row":{"name":"b","none":"x"}}]"#,
        ),
        (
            begin().update("T", [], [("once", number(1))]),
            r#"[{"op":"update","table":"T","where":[],"row":{"once":1}}]"#,
        ),
        (
            begin().insert("T", [("name", text("a"))]),
            r#"[{"op":"insert","table":"T","row":{"name":"a"}}]"#,
        ),
    ];
    for (made, written) in cases {
        let json = parse(written);
        assert_eq!(run(&schema, &made), run(&schema, &json), "{written}");
        assert_eq!(made.len(), json.len());
        let database = Database::new(Arc::clone(&schema), UuidSource::from_number(1));
        let (made_one, json_one) =
            (Estimate::of(&made, database.store()), Estimate::of(&json, database.store()));
        assert_eq!(
            (made_one.only_reads, made_one.may_wait),
            (json_one.only_reads, json_one.may_wait),
            "{written}"
        );
    }
}

/// A text with a null byte, which OVSDB's JSON cannot express, is refused here as well.
#[test]
fn null_bytes_are_refused() {
    let schema = schema();
    let made = Transaction::on(&schema).insert("T", [("name", text("a\0b"))]);
    let answer = run(&schema, &made);
    assert!(
        answer.starts_with("syntax error: null bytes are not supported in strings"),
        "{answer}"
    );
}

/// A transaction built for one schema is not run on rows of another.
#[test]
fn a_transaction_for_another_schema_is_refused() {
    let (one, other) = (schema(), schema());
    let made = Transaction::on(&one).delete("T", []);
    let answer = run(&other, &made);
    assert!(answer.starts_with(tag::NOT_ALLOWED), "{answer}");
}
