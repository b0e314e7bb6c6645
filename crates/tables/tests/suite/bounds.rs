//! The limits of one transaction.

use paceline_tables::json::{self, Json};
use paceline_tables::monitor::{Dump, Monitor, Moving, Requests, Version};
use paceline_tables::schema::Schema;
use paceline_tables::{Context, Database, Estimate, OpResult, Outcome, Work};
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
    // The select that exceeds the bound is still answered, so that a single select always is.
    let answered = SELECT_ROWS_MAX / rows + 1;
    assert!(matches!(run(&mut database, SELECT, answered).last(), Some(OpResult::Rows(_))));
    let results = run(&mut database, SELECT, answered + 1);
    let Some(OpResult::Error(error)) = results.last() else { panic!("{:?}", results.last()) };
    assert_eq!(error.tag, "resources exhausted");
}

/// The steps of reading `operations`.
pub fn reading(operations: &[Json]) -> u64 {
    operations.iter().map(|operation| 4 + operation.memory() as u64 / 16).sum()
}

/// Runs `operations` within `steps`, not counting those of reading them.
fn run_within(database: &mut Database, operations: &[Json], steps: u64) -> Vec<OpResult> {
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let steps = steps.saturating_add(reading(operations));
    match database.execute_within(operations, &context, &mut Work::at_most(steps)) {
        Outcome::Done(done) => done.results,
        waiting @ Outcome::Waiting { .. } => panic!("{waiting:?}"),
    }
}

fn with_rows(schema: &str, rows: usize) -> Database {
    let schema = Schema::parse(&json::parse(schema.as_bytes(), 100).unwrap()).unwrap();
    let mut database = Database::new(Arc::new(schema), UuidSource::from_number(1));
    run(&mut database, INSERT, rows);
    database
}

fn parsed(operation: &str) -> Json {
    json::parse(operation.as_bytes(), 100).unwrap()
}

fn texts(results: &[OpResult]) -> String {
    let mut text = Vec::new();
    results.iter().for_each(|result| result.write(&mut text));
    String::from_utf8(text).unwrap()
}

/// D4: rows tested, clauses, mutations and copied elements are bounded, and a refused transaction has changed
/// nothing.
#[test]
fn a_transaction_that_takes_too_many_steps_is_refused_d4() {
    let clauses = vec![r#"["k", ">=", 0]"#; 100].join(",");
    let scan = format!(r#"{{"op":"select","table":"T","where":[{clauses}]}}"#);
    let wait = r#"{"op":"wait","table":"T","where":[["k","==",7]],"until":"==","rows":[]}"#;
    let update = r#"{"op":"update","table":"T","where":[],"row":{"k":1}}"#;
    let mutate = r#"{"op":"mutate","table":"T","where":[],"mutations":[["k","+=",1]]}"#;
    let delete = r#"{"op":"delete","table":"T","where":[["k","==",9]]}"#;
    for (operation, times) in
        [(&*scan, 1), (SELECT, 200), (wait, 200), (update, 200), (mutate, 200), (delete, 200)]
    {
        let mut database = with_rows(SCHEMA, 1_000);
        let before = texts(&run(&mut database, SELECT, 1));
        let first = parsed(r#"{"op":"update","table":"T","where":[],"row":{"k":5}}"#);
        let operations = [vec![first], vec![parsed(operation); times]].concat();
        let results = run_within(&mut database, &operations, 100_000);
        let error = results.iter().find_map(|result| match result {
            OpResult::Error(error) => Some(error),
            _ => None,
        });
        let error = error.unwrap_or_else(|| panic!("{operation} was not refused"));
        assert_eq!(error.tag, "resources exhausted", "{operation}");
        let most = 100_000 + reading(&operations);
        assert!(error.details.contains(&format!("{most} steps")), "{}", error.details);
        assert_eq!(texts(&run(&mut database, SELECT, 1)), before, "{operation} changed something");
    }
}

/// D4: a long string takes as many steps as comparing or copying it.
#[test]
fn long_strings_take_steps_d4() {
    const STRINGS: &str = r#"{"name":"db","tables":{"T":{"columns":{"s":{"type":"string"},
        "set":{"type":{"key":"string","min":0,"max":"unlimited"}}}}}}"#;
    for (is_long, text) in [(false, "x".repeat(20)), (true, "x".repeat(64_000))] {
        let mut database = with_rows(STRINGS, 100);
        let fill = format!(r#"{{"op":"update","table":"T","where":[],"row":{{"s":"{text}"}}}}"#);
        run(&mut database, &fill, 1);
        for operation in [
            r#"{"op":"select","table":"T","where":[],"sort":["s"]}"#.to_owned(),
            r#"{"op":"select","table":"T","where":[],"columns":["s"]}"#.to_owned(),
            format!(r#"{{"op":"select","table":"T","where":[["s","!=","{text}"]]}}"#),
            format!(r#"{{"op":"update","table":"T","where":[],"row":{{"s":"{text}"}}}}"#),
            format!(r#"{{"op":"mutate","table":"T","where":[],"mutations":[["set","insert","{text}"]]}}"#),
            r#"{"op":"wait","table":"T","where":[],"timeout":0,"until":"!=","columns":["s"],"rows":[]}"#.to_owned(),
            r#"{"op":"delete","table":"T","where":[]}"#.to_owned(),
        ] {
            let results = run_within(&mut database, &[parsed(&operation)], 20_000);
            let refused = results.iter().any(|result| {
                matches!(result, OpResult::Error(error) if error.tag == "resources exhausted")
            });
            let what: String = operation.chars().take(90).collect();
            assert_eq!(refused, is_long, "{what}");
        }
    }
}

/// A UUID that a client chooses is free or not as in `ovsdb-server`. It is taken if a row has it, or had it before
/// the transaction. It is free if the transaction itself inserted and deleted the row, or in another table.
#[test]
fn a_chosen_uuid_is_free_or_not() {
    const TWO: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"}},"isRoot":true},
        "U":{"columns":{"k":{"type":"integer"}},"isRoot":true}}}"#;
    let insert = |table: &str, k: u32| {
        parsed(&format!(
            r#"{{"op":"insert","table":"{table}","uuid":"550e8400-e29b-41d4-a716-446655440000","row":{{"k":{k}}}}}"#
        ))
    };
    let delete = || parsed(r#"{"op":"delete","table":"T","where":[]}"#);
    for (before, operations, refused) in [
        (false, vec![insert("T", 1)], false),
        (true, vec![insert("T", 1)], true),
        (true, vec![delete(), insert("T", 1)], true),
        (true, vec![delete(), insert("U", 1)], false),
        (false, vec![insert("T", 1), insert("T", 2)], true),
        (false, vec![insert("T", 1), delete(), insert("T", 2)], false),
        (true, vec![delete(), insert("U", 1), insert("T", 2)], true),
    ] {
        let mut database = with_rows(TWO, 0);
        if before {
            run_within(&mut database, &[insert("T", 7)], 1_000);
        }
        let results = texts(&run_within(&mut database, &operations, 1_000));
        assert_eq!(results.contains("duplicate uuid"), refused, "{before} {operations:?}");
        let rows = texts(&run(&mut database, SELECT, 1));
        let last = operations.len() == 3 && !before;
        assert_eq!(rows.contains(r#""k":2"#), last && !refused, "{rows}");
    }
}

/// D4: rows found by an index take only their own steps.
#[test]
fn a_row_that_is_found_by_its_uuid_takes_few_steps() {
    let mut database = with_rows(SCHEMA, 1_000);
    let OpResult::Uuid(uuid) = run(&mut database, INSERT, 1).remove(0) else { panic!("no row") };
    let select =
        format!(r#"{{"op":"select","table":"T","where":[["_uuid","==",["uuid","{uuid}"]]]}}"#);
    let results = run_within(&mut database, &vec![parsed(&select); 1_000], 20_000);
    assert!(results.iter().all(|result| matches!(result, OpResult::Rows(_))));
}

const SETS: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"},
    "set":{"type":{"key":"integer","min":0,"max":"unlimited"}},
    "map":{"type":{"key":"integer","value":"string","min":0,"max":"unlimited"}}}}}}"#;

/// D4: many mutations of a large set or map copy it once, with the same result as if each had copied it.
#[test]
fn mutations_of_a_large_set_copy_it_once_d4() {
    let mut database = with_rows(SETS, 0);
    let list = |elements: Vec<String>| elements.join(",");
    let set = list((0..30_000).map(|n| (2 * n).to_string()).collect());
    let map = list((0..30_000).map(|n| format!(r#"[{n},"v"]"#)).collect());
    let row = format!(r#"{{"set":["set",[{set}]],"map":["map",[{map}]]}}"#);
    let insert = format!(r#"{{"op":"insert","table":"T","row":{row}}}"#);
    let mut uuids = run(&mut database, &insert, 2).into_iter().map(|result| match result {
        OpResult::Uuid(uuid) => uuid,
        other => panic!("{other:?}"),
    });
    let (one, two) = (uuids.next().unwrap(), uuids.next().unwrap());
    // A clause that always holds makes the second row use the other code path.
    let mutations = |uuid, more: &str, times: i64| -> Vec<Json> {
        let mutate = |n: i64| {
            parsed(&format!(
                r#"{{"op":"mutate","table":"T","where":[["_uuid","==",["uuid","{uuid}"]]{more}],
                "mutations":[["set","insert",{}],["set","delete",["set",[{},-{n}]]],
                    ["map","insert",["map",[[{n},"new"],[{},"new"]]]],
                    ["map","delete",["map",[[{},"v"]]]],["map","delete",["set",[{}]]]]}}"#,
                2 * n + 1,
                4 * n + 2,
                40_000 + n,
                3 * n,
                7 * n,
            ))
        };
        (0..times).map(mutate).collect()
    };
    let ok = |results: Vec<OpResult>| {
        assert!(results.iter().all(|result| matches!(result, OpResult::Count(1))), "{results:?}");
    };
    ok(run_within(&mut database, &mutations(one, "", 2_000), 400_000));
    for mutation in mutations(two, ",true", 2_000) {
        ok(run_within(&mut database, &[mutation], u64::MAX));
    }
    let select = r#"{"op":"select","table":"T","where":[],"columns":["set","map"]}"#;
    let OpResult::Rows(rows) = run(&mut database, select, 1).remove(0) else { panic!("no rows") };
    assert_eq!(rows.rows().len(), 1, "both rows hold the same");
}

/// A transaction that only reads gets the same answers from a snapshot as from the head.
#[test]
fn a_snapshot_answers_as_the_head_does() {
    const INDEXED: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"},
        "s":{"type":"string"}},"indexes":[["k"]]}}}"#;
    let mut database = with_rows(INDEXED, 0);
    for k in 0..500 {
        run(
            &mut database,
            &format!(r#"{{"op":"insert","table":"T","row":{{"k":{k},"s":"a"}}}}"#),
            1,
        );
    }
    run(&mut database, r#"{"op":"delete","table":"T","where":[["k","<",100]]}"#, 1);
    let OpResult::Rows(rows) = run(&mut database, SELECT, 1).remove(0) else { panic!("no rows") };
    let uuid = paceline_tables::row_uuid(&rows.rows()[7]);
    let operations: Vec<Json> = [
        SELECT,
        r#"{"op":"select","table":"T","where":[["k","==",300]]}"#,
        r#"{"op":"select","table":"T","where":[["k","==",3]]}"#,
        &format!(r#"{{"op":"select","table":"T","where":[["_uuid","==",["uuid","{uuid}"]]]}}"#),
        r#"{"op":"select","table":"T","where":[["k",">",490]],"columns":["k"],"sort":["k"]}"#,
        r#"{"op":"select","table":"T","where":[],"columns":["s"]}"#,
        r#"{"op":"comment","comment":"read"}"#,
        r#"{"op":"wait","timeout":0,"table":"T","where":[["k","==",300]],"columns":["k"],
            "until":"==","rows":[{"k":300}]}"#,
        r#"{"op":"wait","timeout":0,"table":"T","where":[["k","==",300]],"columns":["k"],
            "until":"==","rows":[{"k":301}]}"#,
        SELECT,
    ]
    .map(parsed)
    .to_vec();
    assert!(Estimate::of(&operations, database.store()).only_reads);
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let copy = database.snapshot();
    let work = Work::at_most(100_000);
    let copied = copy.execute_within(&operations, &context, work, UuidSource::from_number(9));
    assert_eq!(texts(&copied), texts(&run_within(&mut database, &operations, 100_000)));
}

/// Only a transaction that neither changes anything nor waits may run on a snapshot.
#[test]
fn what_changes_or_waits_does_not_only_read() {
    let mut database = with_rows(SCHEMA, 300);
    run(&mut database, INSERT, 1);
    for (operation, only_reads, work) in [
        (SELECT, true, 301),
        (r#"{"op":"select","table":"T","where":[["k","==",1],["k","==",1]]}"#, true, 903),
        (r#"{"op":"select","table":"T","where":[["_uuid","==",1]]}"#, true, 2),
        (r#"{"op":"wait","timeout":0,"table":"T","where":[]}"#, true, 301),
        (r#"{"op":"wait","timeout":1,"table":"T","where":[]}"#, false, 301),
        (r#"{"op":"wait","table":"T","where":[]}"#, false, 301),
        (r#"{"op":"update","table":"T","where":[]}"#, false, 301),
        (r#"{"op":"delete","table":"T","where":[]}"#, false, 301),
        (r#"{"op":"mutate","table":"T","where":[]}"#, false, 301),
        (r#"{"op":"commit","durable":true}"#, false, 1),
        (INSERT, false, 3),
        (r#"{"op":"assert","lock":"l"}"#, false, 1),
        (r#"{"op":"nonsense"}"#, true, 1),
    ] {
        let operations = [parsed(operation)];
        let estimate = Estimate::of(&operations, database.store());
        // Reading the operation takes steps, too.
        let work = work + reading(&operations);
        assert_eq!((estimate.only_reads, estimate.work), (only_reads, work), "{operation}");
        let may_wait = operation.contains("wait") && !only_reads;
        assert_eq!(estimate.may_wait, may_wait, "{operation}");
    }
}

const UNIQUE: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"},
    "s":{"type":"string"}},"indexes":[["k"]],"isRoot":true}}}"#;

/// D4: in a transaction many rows may have the same values in an index. Each row that a look-up finds takes steps,
/// whatever is done with it.
#[test]
fn rows_that_have_the_same_values_in_an_index_take_steps_each_d4() {
    let mutate = r#"{"op":"mutate","table":"T","where":[["k","==",0]],"mutations":[]}"#;
    let nothing = r#"{"op":"select","table":"T","where":[["k","==",0],["k","==",1]]}"#;
    let update = r#"{"op":"update","table":"T","where":[["k","==",0],["s","==","x"]],"row":{}}"#;
    let wait = r#"{"op":"wait","table":"T","where":[["k","==",0],["k","==",1]],"timeout":0,
        "until":"==","rows":[]}"#;
    for operation in [mutate, nothing, update, wait] {
        let mut database = with_rows(UNIQUE, 0);
        let operations = [vec![parsed(INSERT); 500], vec![parsed(operation); 500]].concat();
        let results = texts(&run_within(&mut database, &operations, 100_000));
        assert!(results.contains("resources exhausted"), "{operation}");
        let estimate = Estimate::of(&operations, database.store());
        assert!(estimate.work > 500 * 500, "{operation}: {}", estimate.work);
        // If the rows differ, each look-up finds one.
        let insert = |k| parsed(&format!(r#"{{"op":"insert","table":"T","row":{{"k":{k}}}}}"#));
        let operations = [(0..500).map(insert).collect(), vec![parsed(operation); 500]].concat();
        let results = texts(&run_within(&mut database, &operations, 100_000));
        assert!(!results.contains("error"), "{operation}: {results}");
    }
}

/// D4: an inserted row takes a step for each of its columns, and more for long values. So do the rows that a `wait`
/// expects, and the slots of deleted rows.
#[test]
fn inserted_and_expected_rows_and_empty_places_take_steps_d4() {
    let long = format!(r#"{{"op":"insert","table":"T","row":{{"s":"{}"}}}}"#, "x".repeat(64_000));
    let expected = vec!["{}"; 20_000].join(",");
    let wait = format!(
        r#"{{"op":"wait","table":"T","where":[["_uuid","==",["uuid","550e8400-e29b-41d4-a716-446655440000"]]],
            "timeout":0,"until":"!=","rows":[{expected}]}}"#
    );
    for (operation, times, is_refused) in
        [(INSERT, 5_001, true), (INSERT, 4_000, false), (&*long, 20, true), (&*wait, 1, true)]
    {
        let mut database = with_rows(STRING, 0);
        let results = run_within(&mut database, &vec![parsed(operation); times], 20_000);
        let what: String = operation.chars().take(90).collect();
        assert_eq!(texts(&results).contains("resources exhausted"), is_refused, "{what}");
    }
    let mut database = with_rows(STRING, 20_000);
    run(&mut database, r#"{"op":"delete","table":"T","where":[]}"#, 1);
    let results = run_within(&mut database, &vec![parsed(SELECT); 1_000], 100_000);
    assert!(texts(&results).contains("resources exhausted"));
}

const STRING: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"},
    "s":{"type":"string"}},"isRoot":true}}}"#;

/// Only a transaction that inserts a row permanently certainly changes something.
#[test]
fn what_inserts_for_good_surely_changes() {
    const TWO: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"}},"isRoot":true},
        "U":{"columns":{"k":{"type":"integer"}}}}}"#;
    let database = with_rows(TWO, 0);
    let maintained = database.schema().table_id("T").unwrap();
    let of_other = INSERT.replace("\"T\"", "\"U\"");
    let update = r#"{"op":"update","table":"T","where":[],"row":{}}"#;
    let delete = r#"{"op":"delete","table":"T","where":[]}"#;
    for (operations, surely) in [
        (vec![INSERT], true),
        (vec![update, INSERT, SELECT], true),
        (vec![update, SELECT], false),
        (vec![INSERT, delete], false),
        (vec![INSERT, r#"{"op":"abort"}"#], false),
        (vec![&*of_other], false),
        (vec![], false),
    ] {
        let operations: Vec<Json> = operations.into_iter().map(parsed).collect();
        let changes =
            |maintained| Estimate::surely_changes(&operations, database.schema(), maintained);
        assert_eq!(changes(&[]), surely, "{operations:?}");
        assert!(!changes(&[maintained]), "{operations:?}");
    }
}

fn monitor(database: &Database, clauses: &str) -> Arc<Monitor> {
    let requests = parsed(&format!(r#"{{"T":[{{"columns":["k"],"where":[{clauses}]}}]}}"#));
    let monitor = Requests::new(&requests).unwrap().parse(database.schema(), Version::V2);
    Arc::new(monitor.unwrap())
}

/// D4: rows that a monitor does not show are tested a piece at a time, and all rows that it shows are written.
#[test]
fn a_dump_stops_for_others_while_it_finds_nothing_d4() {
    let mut database = with_rows(SCHEMA, 2_000);
    run(&mut database, r#"{"op":"insert","table":"T","row":{"k":7}}"#, 1);
    let clauses = vec![r#"["k","<",-1]"#; 1_000].join(",");
    let mut dump =
        Dump::new(monitor(&database, &format!(r#"{clauses},["k",">",6]"#)), database.snapshot());
    let (mut text, mut pieces) = (Vec::new(), 1);
    while dump.write(1 << 20, &mut text) {
        pieces += 1;
    }
    assert!(pieces > 10, "{pieces}");
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with(r#"{"T":{""#) && text.ends_with(r#"{"initial":{"k":7}}}}"#), "{text}");
}

/// D4: pairs of maps whose weak side dangles and whose strong side keeps the next row alive are removed one after
/// the other. Each looks at no more than its neighbours, so the time for a long chain is proportional to its
/// length.
#[test]
fn a_long_chain_of_weak_and_strong_references_goes_in_time_d4() {
    const CHAIN: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"}}},
        "R":{"isRoot":true,"columns":{
            "m":{"type":{"key":{"type":"uuid","refTable":"T","refType":"weak"},
                "value":{"type":"uuid","refTable":"T"},"min":0,"max":"unlimited"}},
            "s":{"type":{"key":{"type":"uuid","refTable":"T"},"min":0,"max":"unlimited"}}}}}}"#;
    const LENGTH: usize = 30_000;
    let mut database = with_rows(CHAIN, 0);
    let link = |n: usize| {
        let row = format!(r#"{{"op":"insert","table":"T","row":{{"k":{n}}},"uuid-name":"t{n}"}}"#);
        let (this, next) = (format!(r#"["named-uuid","t{n}"]"#), n + 1);
        let pair = format!(r#"["map",[[{this},["named-uuid","t{next}"]]]]"#);
        let pair = format!(r#"{{"op":"insert","table":"R","row":{{"m":{pair}}}}}"#);
        [parsed(&row), parsed(&pair)]
    };
    let last = format!(r#"{{"op":"insert","table":"T","row":{{}},"uuid-name":"t{LENGTH}"}}"#);
    let root = r#"{"op":"insert","table":"R","row":{"s":["named-uuid","t0"]}}"#;
    let mut operations: Vec<Json> = (0..LENGTH).flat_map(link).collect();
    operations.extend([parsed(&last), parsed(root)]);
    let results = run_within(&mut database, &operations, u64::MAX);
    let Some(OpResult::Uuid(root)) = results.last() else { panic!("{:?}", results.last()) };
    let table = database.schema().table_id("T").unwrap();
    assert_eq!(database.store().row_count(table), LENGTH + 1);
    let delete =
        format!(r#"{{"op":"delete","table":"R","where":[["_uuid","==",["uuid","{root}"]]]}}"#);
    run(&mut database, &delete, 1);
    assert_eq!(database.store().row_count(table), 0);
}

/// D4: rows are tested on changed conditions a piece at a time, and nothing is written before one is found.
#[test]
fn changed_conditions_stop_for_others_while_they_find_nothing_d4() {
    let mut database = with_rows(SCHEMA, 2_000);
    run(&mut database, r#"{"op":"insert","table":"T","row":{"k":7}}"#, 1);
    let clauses = vec![r#"["k","<",-1]"#; 1_000].join(",");
    let to = monitor(&database, &format!(r#"{clauses},["k",">",6]"#));
    let mut moving = Moving::new(monitor(&database, "false"), to, database.snapshot());
    let (mut text, mut pieces) = (Vec::new(), 1);
    while moving.write(1 << 20, &mut text) {
        assert!(text.is_empty() && !moving.has_begun());
        pieces += 1;
    }
    assert!(pieces > 10, "{pieces}");
    assert!(moving.has_begun());
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with(r#"{"T":{""#) && text.ends_with(r#"{"insert":{"k":7}}}}"#), "{text}");
}

/// D4: clauses that are tested one by one take a step each for a changed row. The kinds of clause that clients use by
/// the thousand take few steps, and hold for the same rows.
#[test]
fn clauses_of_monitors_that_every_change_tests_are_few_d4() {
    const TAGS: &str = r#"{"name":"db","tables":{"T":{"columns":{"k":{"type":"integer"},
        "set":{"type":{"key":"integer","min":0,"max":"unlimited"}}}}}}"#;
    let mut database = with_rows(TAGS, 0);
    let many = |clause: &str| -> String {
        (0..5_000).map(|n| clause.replace('N', &n.to_string())).collect::<Vec<_>>().join(",")
    };
    let steps = |clause: &str| monitor(&database, &many(clause)).weight();
    assert!(steps(r#"["k","==",N]"#) < 64);
    assert!(steps(r#"["set","includes",N]"#) < 64);
    assert!(steps(r#"["k","<",N]"#) >= 5_000);
    assert!(steps(r#"["set","excludes",N]"#) >= 5_000);
    for (set, shown) in [("[]", false), ("[-1,7]", true), ("[-1]", false), ("[4999]", true)] {
        run(&mut database, r#"{"op":"delete","table":"T","where":[]}"#, 1);
        let row = format!(r#"{{"op":"insert","table":"T","row":{{"k":1,"set":["set",{set}]}}}}"#);
        run(&mut database, &row, 1);
        let mut text = Vec::new();
        let wanted = monitor(&database, &many(r#"["set","includes",N]"#));
        assert!(!Dump::new(wanted, database.snapshot()).write(1 << 20, &mut text));
        assert_eq!(text != b"{}", shown, "{set}");
    }
}

/// D1, D4: operations behind one that fails take neither memory nor steps, however many they are.
#[test]
fn operations_behind_one_that_fails_are_a_number_d1_d4() {
    let mut database = with_rows(SCHEMA, 0);
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let operations = vec![Json::Integer(1); 1_000_000];
    let mut work = Work::at_most(u64::MAX);
    let outcome = database.execute_within(&operations, &context, &mut work);
    let Outcome::Done(done) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(done.results[..], [OpResult::Error(_), OpResult::Nulls(999_999)]));
    assert!(done.results.capacity() < 100, "room for {}", done.results.capacity());
    assert!(work.spent() < 10, "{} steps", work.spent());
    let mut text = Vec::new();
    OpResult::Nulls(3).write(&mut text);
    assert_eq!(text, b"null,null,null");
}

/// D4: to look for names of rows that later operations insert takes a step for each operation, if there is such a name.
#[test]
fn looking_for_names_takes_steps_d4() {
    let mut database = with_rows(SCHEMA, 0);
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let named = r#"{"op":"insert","table":"T","row":{},"uuid-name":"a",
        "uuid":"00000000-0000-0000-0000-000000000001"}"#;
    let mut operations = vec![Json::Integer(1); 10_000];
    let mut tags = |operations: &[Json]| {
        let mut work = Work::at_most(1_000);
        match database.execute_within(operations, &context, &mut work) {
            Outcome::Done(done) => match &done.results[..] {
                [OpResult::Error(error), OpResult::Nulls(nulls)] => (error.tag, *nulls),
                results => panic!("{results:?}"),
            },
            waiting @ Outcome::Waiting { .. } => panic!("{waiting:?}"),
        }
    };
    assert_eq!(tags(&operations), ("syntax error", 9_999));
    operations.push(json::parse(named.as_bytes(), 100).unwrap());
    assert_eq!(tags(&operations), ("resources exhausted", 10_000));
}
