//! The cost of the end of a transaction: rows that are collected, references that are removed; and changes that are
//! refused before they are made.

use paceline_tables::json::{self, Json};
use paceline_tables::monitor::{Requests, Seen, Version};
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, Context, Database, Estimate, OpResult, Outcome, Work};
use paceline_types::UuidSource;
use std::sync::Arc;

/// A tree as in network databases, and rows that refer to its leaves weakly.
const TREE: &str = r#"{"name":"db","tables":{
    "Root":{"isRoot":true,"columns":{
        "bridges":{"type":{"key":{"type":"uuid","refTable":"Bridge"},"min":0,"max":"unlimited"}}}},
    "Bridge":{"columns":{
        "ports":{"type":{"key":{"type":"uuid","refTable":"Port"},"min":0,"max":"unlimited"}}}},
    "Port":{"columns":{"name":{"type":"string"}},"indexes":[["name"]]},
    "Flow":{"isRoot":true,"columns":{"n":{"type":"integer"},
        "ports":{"type":{"key":{"type":"uuid","refTable":"Port","refType":"weak"},
            "min":0,"max":"unlimited"}}}}}}"#;

fn parsed(text: &str) -> Json {
    json::parse(text.as_bytes(), 100).unwrap()
}

fn database(schema: &str) -> Database {
    let schema = Schema::parse(&parsed(schema)).unwrap();
    Database::new(Arc::new(schema), UuidSource::from_number(1))
}

/// Runs `operations` within `work`. Returns the text of the results, and the changes.
fn run(
    database: &mut Database,
    operations: &[Json],
    work: &mut Work,
) -> (String, Option<Arc<Changes>>) {
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let Outcome::Done(done) = database.execute_within(operations, &context, work) else {
        panic!("it waits");
    };
    let mut text = Vec::new();
    done.results.iter().for_each(|result: &OpResult| result.write(&mut text));
    (String::from_utf8(text).unwrap(), done.changes)
}

fn succeed(database: &mut Database, operations: &[Json]) -> u64 {
    let mut work = Work::at_most(u64::MAX);
    let (text, _) = run(database, operations, &mut work);
    assert!(!text.contains("error"), "{text}");
    work.spent()
}

/// A root with one bridge that has `ports` ports, and `flows` flows that refer to the first ten of them.
fn tree(ports: usize, flows: usize) -> Database {
    let mut database = database(TREE);
    let named = |n: usize| format!(r#"["named-uuid","p{n}"]"#);
    let set = |n: usize| (0..n).map(named).collect::<Vec<_>>().join(",");
    let mut operations: Vec<Json> = (0..ports)
        .map(|n| {
            let insert = r#"{"op":"insert","table":"Port","uuid-name":"pN","row":{"name":"N"}}"#;
            parsed(&insert.replace('N', &n.to_string()))
        })
        .collect();
    let (all, ten) = (set(ports), set(ports.min(10)));
    let bridge = format!(r#"{{"ports":["set",[{all}]]}}"#);
    let flow = format!(r#"{{"op":"insert","table":"Flow","row":{{"ports":["set",[{ten}]]}}}}"#);
    operations.push(parsed(&format!(
        r#"{{"op":"insert","table":"Bridge","uuid-name":"b","row":{bridge}}}"#
    )));
    let root = r#"{"op":"insert","table":"Root","row":{"bridges":["named-uuid","b"]}}"#;
    operations.push(parsed(root));
    operations.extend(vec![parsed(&flow); flows]);
    succeed(&mut database, &operations);
    database
}

fn count(database: &Database, table: &str) -> usize {
    database.store().row_count(database.schema().table_id(table).unwrap())
}

const DELETE_ROOT: &str = r#"{"op":"delete","table":"Root","where":[]}"#;
const NO_PORTS: &str = r#"{"op":"update","table":"Bridge","where":[],"row":{"ports":["set",[]]}}"#;
const DELETE_BRIDGES: &str =
    r#"{"op":"mutate","table":"Root","where":[],"mutations":[["bridges","delete",["set",[]]]]}"#;

/// D4: rows that are collected because they are no longer referred to take steps like deleted rows. A transaction
/// that would take too many is refused and undone.
#[test]
fn collected_rows_take_steps_d4() {
    const PORTS: usize = 3_000;
    for operation in [DELETE_ROOT, NO_PORTS] {
        let mut database = tree(PORTS, 0);
        let (text, changes) =
            run(&mut database, &[parsed(operation)], &mut Work::at_most(PORTS as u64));
        assert!(text.contains("resources exhausted") && changes.is_none(), "{operation}: {text}");
        assert_eq!(count(&database, "Port"), PORTS);
        let steps = succeed(&mut database, &[parsed(operation)]);
        assert_eq!(count(&database, "Port"), 0);
        assert!(steps < 40 * PORTS as u64, "{operation}: {steps}");
    }
}

/// D4: each row that refers weakly to a deleted row takes steps, and so does the rest of the set with the
/// reference.
#[test]
fn weak_references_that_go_take_steps_d4() {
    const FLOWS: usize = 1_000;
    let mut database = tree(10, FLOWS);
    let (text, changes) =
        run(&mut database, &[parsed(DELETE_ROOT)], &mut Work::at_most(10 * FLOWS as u64));
    assert!(text.contains("resources exhausted") && changes.is_none(), "{text}");
    let referred = |database: &Database| -> usize {
        let port = database.schema().table_id("Port").unwrap();
        let ports = database.store().rows(port).map(|row| paceline_tables::row_uuid(row));
        ports.map(|uuid| database.store().weak_referrers(port, uuid).len()).sum()
    };
    assert_eq!((count(&database, "Port"), referred(&database)), (10, 10 * FLOWS));
    let steps = succeed(&mut database, &[parsed(DELETE_ROOT)]);
    assert_eq!((count(&database, "Port"), referred(&database)), (0, 0));
    assert!(steps < 200 * FLOWS as u64, "{steps}");
}

/// D4: changing the references of a column takes steps for the removed as well as for the added ones.
#[test]
fn references_that_go_take_steps_d4() {
    const PORTS: usize = 3_000;
    let mut database = tree(PORTS, 0);
    // Another row refers to the ports, so that none is collected.
    let table = database.schema().table_id("Bridge").unwrap();
    let bridge = database.store().rows(table).next().unwrap().clone();
    let mut set = Vec::new();
    bridge[2].write(&database.schema().table(table).columns[2].ty, &mut set);
    let row = format!(r#"{{"ports":{}}}"#, String::from_utf8(set).unwrap());
    let other = format!(r#"{{"op":"insert","table":"Bridge","uuid-name":"o","row":{row}}}"#);
    let keep = r#"{"op":"insert","table":"Root","row":{"bridges":["named-uuid","o"]}}"#;
    succeed(&mut database, &[parsed(&other), parsed(keep)]);
    let uuid = paceline_tables::row_uuid(&bridge);
    let update = format!(
        r#"{{"op":"update","table":"Bridge","where":[["_uuid","==",["uuid","{uuid}"]]],
            "row":{{"ports":["set",[]]}}}}"#
    );
    let steps = succeed(&mut database, &[parsed(&update)]);
    assert!(steps > 2 * PORTS as u64, "{steps}");
}

/// D4: a transaction that may not change rows is refused when it is about to change the first one, whatever else
/// that change would delete. A transaction that finds nothing to change is not refused.
#[test]
fn changes_that_are_not_allowed_are_refused_before_they_are_made_d4() {
    let mut database = tree(2_000, 10);
    let insert = r#"{"op":"insert","table":"Root","row":{}}"#;
    for operation in [DELETE_ROOT, NO_PORTS, DELETE_BRIDGES, insert] {
        let mut work = Work::without_changes(1_000_000);
        let (text, changes) = run(&mut database, &[parsed(operation)], &mut work);
        assert!(text.contains("permission error") && changes.is_none(), "{operation}: {text}");
        assert!(work.is_change_refused());
        assert!(work.spent() < 100, "{operation}: {}", work.spent());
    }
    let same = r#"{"op":"update","table":"Flow","where":[],"row":{"n":0}}"#;
    let none = r#"{"op":"delete","table":"Flow","where":[["n","==",1]]}"#;
    for operation in [same, none] {
        let mut work = Work::without_changes(1_000_000);
        let (text, _) = run(&mut database, &[parsed(operation)], &mut work);
        assert!(text.contains("count") && !work.is_change_refused(), "{operation}: {text}");
    }
}

/// D4: pairs of one map that are removed one after the other, each because the previous one was removed, take steps
/// in proportion to their number, whichever side of the map dangles.
#[test]
fn a_chain_in_one_row_takes_steps_in_its_length_d4() {
    let weak = r#"{"type":"uuid","refTable":"T","refType":"weak"}"#;
    let strong = r#"{"type":"uuid","refTable":"T"}"#;
    for (key, value) in [(weak, strong), (strong, weak)] {
        let schema = format!(
            r#"{{"name":"db","tables":{{"T":{{"columns":{{"k":{{"type":"integer"}}}}}},
            "M":{{"isRoot":true,"columns":{{"m":{{"type":{{"key":{key},"value":{value},
                "min":0,"max":"unlimited"}}}}}}}},
            "K":{{"isRoot":true,"columns":{{"s":{{"type":{{"key":{strong},"min":0,"max":1}}}}}}}}}}}}"#
        );
        let steps = |length: usize| {
            let mut database = database(&schema);
            let insert = |n| {
                parsed(&format!(r#"{{"op":"insert","table":"T","row":{{}},"uuid-name":"t{n}"}}"#))
            };
            let pair = |n: usize| {
                let (this, next) = (
                    format!(r#"["named-uuid","t{n}"]"#),
                    format!(r#"["named-uuid","t{}"]"#, n + 1),
                );
                if key == weak { format!("[{this},{next}]") } else { format!("[{next},{this}]") }
            };
            let pairs = (0..length).map(pair).collect::<Vec<_>>().join(",");
            let mut operations: Vec<Json> = (0..=length).map(insert).collect();
            operations.push(parsed(&format!(
                r#"{{"op":"insert","table":"M","row":{{"m":["map",[{pairs}]]}}}}"#
            )));
            let first = r#"{"op":"insert","table":"K","row":{"s":["named-uuid","t0"]}}"#;
            operations.push(parsed(first));
            succeed(&mut database, &operations);
            assert_eq!(count(&database, "T"), length + 1);
            let delete = parsed(r#"{"op":"delete","table":"K","where":[]}"#);
            // It is undone halfway, and nothing is lost.
            let refused = run(
                &mut database,
                std::slice::from_ref(&delete),
                &mut Work::at_most(8 * length as u64),
            );
            assert!(refused.0.contains("resources exhausted"), "{}", refused.0);
            assert_eq!(count(&database, "T"), length + 1);
            let steps = succeed(&mut database, &[delete]);
            assert_eq!((count(&database, "T"), count(&database, "M")), (0, 1));
            let map = database.store().rows(database.schema().table_id("M").unwrap()).next();
            assert!(map.unwrap()[2].is_empty());
            steps
        };
        let (short, long) = (steps(2_000), steps(20_000));
        assert!(long < 11 * short && long < 40 * 20_000, "{short} {long}");
    }
}

/// D4: an operation takes steps even if it looks at no row, and more if it is long.
#[test]
fn operations_that_look_at_no_row_take_steps_d4() {
    let mut database = database(TREE);
    let comment = format!(r#"{{"op":"comment","comment":"{}"}}"#, "x".repeat(16_000));
    let mutate = r#"{"op":"mutate","table":"Port","where":[],"mutations":[]}"#;
    let delete = r#"{"op":"delete","table":"Port","where":[]}"#;
    for (operation, times) in [(delete, 1_000), (mutate, 1_000), (&*comment, 5)] {
        let operations = vec![parsed(operation); times];
        let (text, _) = run(&mut database, &operations, &mut Work::at_most(4_000));
        let what = &operation[..20];
        assert!(text.contains("resources exhausted"), "{what}");
        let estimate = Estimate::of(&operations, database.store());
        assert!(estimate.work > 4_000, "{what}: {}", estimate.work);
    }
}

/// D4: what a monitor sees of a transaction takes a step for each column of a row, however many clauses its
/// condition has. If too few steps are left, it takes none.
#[test]
fn what_a_monitor_sees_takes_steps_for_columns_not_for_clauses_d4() {
    let mut database = tree(10, 100);
    let clauses: Vec<_> = (0..5_000).map(|n| format!(r#"["n","<",-{}]"#, n + 1)).collect();
    let requests =
        format!(r#"{{"Flow":[{{"columns":["ports"],"where":[{}]}}]}}"#, clauses.join(","));
    let requests = parsed(&requests);
    let monitor = Requests::new(&requests).unwrap().parse(database.schema(), Version::V2).unwrap();
    let mutate = parsed(r#"{"op":"mutate","table":"Flow","where":[],"mutations":[["n","+=",1]]}"#);
    let (_, changes) = run(&mut database, &[mutate], &mut Work::at_most(u64::MAX));
    let changes = changes.unwrap();
    let mut steps = 100 * 4;
    let seen = Seen::within(&mut steps, &monitor, &changes).unwrap();
    assert_eq!((seen.rows(), steps), (100, 0));
    assert!(Seen::within(&mut steps, &monitor, &changes).is_none());
}
