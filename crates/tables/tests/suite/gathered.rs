//! Large sets that one transaction mutates many times, between other operations.

use crate::random::Random;
use paceline_tables::json::{self, Json};
use paceline_tables::schema::Schema;
use paceline_tables::{Context, Database, OpResult, Outcome, Work};
use paceline_types::UuidSource;
use paceline_types::limits::CHANGE_STEPS_MAX;
use std::sync::Arc;

/// Parents that refer to their children and count them, as in network databases.
const SCHEMA: &str = r#"{"name":"db","tables":{
    "Parent":{"isRoot":true,"indexes":[["name"]],"columns":{
        "name":{"type":"string"},
        "n":{"type":"integer"},
        "numbers":{"type":{"key":"integer","min":0,"max":"unlimited"}},
        "children":{"type":{"key":{"type":"uuid","refTable":"Child"},"min":0,"max":"unlimited"}},
        "ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}},
    "Child":{"columns":{"k":{"type":"integer"}}}}}"#;

fn database() -> Database {
    let schema = Schema::parse(&json::parse(SCHEMA.as_bytes(), 100).unwrap()).unwrap();
    Database::new(Arc::new(schema), UuidSource::from_number(1))
}

fn parsed(operation: &str) -> Json {
    json::parse(operation.as_bytes(), 100).unwrap()
}

fn run(database: &mut Database, operations: &[Json], steps: u64) -> Vec<OpResult> {
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    match database.execute_within(operations, &context, &mut Work::at_most(steps)) {
        Outcome::Done(done) => done.results,
        waiting @ Outcome::Waiting { .. } => panic!("{waiting:?}"),
    }
}

fn texts(results: &[OpResult]) -> String {
    let mut text = Vec::new();
    results.iter().for_each(|result| result.write(&mut text));
    String::from_utf8(text).unwrap()
}

/// A UUID that stands for `number`.
fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// The bulk load of a client: `times` times, a child is inserted and its parent refers to it. `parent` is the
/// condition on the parent and `more` are further mutations of it.
fn bulk(times: usize, parent: &str, more: &str) -> Vec<Json> {
    let first = r#"{"op":"insert","table":"Parent","uuid-name":"p","row":{"name":"sw"}}"#;
    let children = (0..times).flat_map(|n| {
        let insert = r#"{"op":"insert","table":"Child","uuid-name":"cN","row":{"k":N}}"#;
        let mutate = format!(
            r#"{{"op":"mutate","table":"Parent","where":[{parent}],
            "mutations":[["children","insert",["named-uuid","cN"]]{more}]}}"#
        );
        [insert.to_owned(), mutate].map(|text| parsed(&text.replace('N', &n.to_string())))
    });
    std::iter::once(parsed(first)).chain(children).collect()
}

/// D4: a transaction that adds many children to one parent, each after its insertion, takes steps in
/// proportion to their number, however the parent is found and whatever else is done to it.
#[test]
fn children_added_one_by_one_take_steps_in_proportion_d4() {
    let times = 5_000;
    for (parent, more) in [
        (r#"["_uuid","==",["named-uuid","p"]]"#, ""),
        (r#"["name","==","sw"]"#, ""),
        (r#"["name","==","sw"]"#, r#",["n","+=",1],["ids","insert",["map",[["kN","v"]]]]"#),
    ] {
        let mut database = database();
        let operations = bulk(times, parent, more);
        let steps = times as u64 * 40 + crate::bounds::reading(&operations);
        let results = run(&mut database, &operations, steps);
        let error = results.iter().find(|result| matches!(result, OpResult::Error(_)));
        assert!(error.is_none(), "{parent} {more}: {error:?}");
        let select = r#"{"op":"select","table":"Parent","where":[],"columns":["children"]}"#;
        let parents = texts(&run(&mut database, &[parsed(select)], u64::MAX));
        assert_eq!(parents.matches(r#"["uuid","#).count(), times, "{parent} {more}");
    }
}

/// D4: 30,000 children, as large a bulk load as a message holds, are far from the limit.
#[test]
fn a_large_bulk_load_is_within_the_limit_d4() {
    let operations = bulk(30_000, r#"["_uuid","==",["named-uuid","p"]]"#, "");
    let results = run(&mut database(), &operations, CHANGE_STEPS_MAX / 5);
    assert!(!results.iter().any(|result| matches!(result, OpResult::Error(_))));
}

/// A random operation on parents 0 to 2, one of which is deleted now and then.
fn operation(random: &mut Random) -> Json {
    let one = uuid(random.below(3));
    let by_uuid = format!(r#"["_uuid","==",["uuid","{one}"]]"#);
    let by_name = format!(r#"["name","==","{}"]"#, random.below(3));
    let number = random.below(200);
    let by_element = format!(r#"["numbers","includes",{number}]"#);
    let condition = random.pick(&[by_uuid, by_name, by_element, String::new()]).clone();
    let key = random.below(200);
    let mutations = [
        format!(r#"["numbers","insert",{number}]"#),
        format!(r#"["numbers","delete",["set",[{number},{}]]]"#, number + 1),
        format!(r#"["ids","insert",["map",[["{key}","w"]]]]"#),
        format!(r#"["ids","delete",["map",[["{key}","v"]]]]"#),
        format!(r#"["ids","delete",["set",["{key}","{}"]]]"#, key + 1),
        r#"["numbers","+=",1]"#.to_owned(),
        r#"["n","+=",1]"#.to_owned(),
    ];
    let mutations: Vec<_> = (0..random.between(0, 3)).map(|_| random.pick(&mutations)).collect();
    let mutations: Vec<_> = mutations.into_iter().map(String::as_str).collect();
    let mutate = format!(
        r#"{{"op":"mutate","table":"Parent","where":[{condition}],"mutations":[{}]}}"#,
        mutations.join(",")
    );
    let columns = random.pick(&[r#""n""#, r#""numbers""#, r#""name","ids""#]);
    let select = format!(
        r#"{{"op":"select","table":"Parent","where":[{condition}],"columns":[{columns}],
        "sort":["name"]}}"#
    );
    let wait = format!(
        r#"{{"op":"wait","timeout":0,"table":"Parent","where":[{condition}],"columns":["numbers"],
        "until":"!=","rows":[{{"numbers":["set",[1,2]]}}]}}"#
    );
    let row = random.pick(&[r#"{"n":7}"#, r#"{"numbers":["set",[1,2,3]]}"#]);
    let update = format!(r#"{{"op":"update","table":"Parent","where":[{condition}],"row":{row}}}"#);
    let delete = format!(r#"{{"op":"delete","table":"Parent","where":[{condition}]}}"#);
    let insert = r#"{"op":"insert","table":"Child","row":{"k":1}}"#.to_owned();
    parsed(match random.below(100) {
        0..60 => &mutate,
        60..75 => &select,
        75..80 => &wait,
        80..90 => &update,
        90 => &delete,
        _ => &insert,
    })
}

/// One transaction of many operations gives the same results, and leaves the same rows, as each operation in its
/// own transaction.
#[test]
fn operations_of_one_transaction_see_what_mutations_before_them_did() {
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let list =
            |text: &str| (0..100).map(|n| text.replace('N', &n.to_string())).collect::<Vec<_>>();
        let (numbers, ids) = (list("N").join(","), list(r#"["N","v"]"#).join(","));
        let start: Vec<Json> = (0..3)
            .map(|n| {
                parsed(&format!(
                    r#"{{"op":"insert","table":"Parent","uuid":"{}","row":{{"name":"{n}",
                    "numbers":["set",[{numbers}]],"ids":["map",[{ids}]]}}}}"#,
                    uuid(n)
                ))
            })
            .collect();
        let operations: Vec<Json> = (0..40).map(|_| operation(random)).collect();
        let (mut together, mut apart) = (database(), database());
        for database in [&mut together, &mut apart] {
            run(database, &start, u64::MAX);
        }
        // The UUIDs of children differ; those of parents are equal.
        let comparable = |results: &[OpResult]| -> Vec<String> {
            let is_shown = |result: &&OpResult| !matches!(result, OpResult::Uuid(_));
            results
                .iter()
                .filter(is_shown)
                .map(|result| texts(std::slice::from_ref(result)))
                .collect()
        };
        let results = comparable(&run(&mut together, &operations, u64::MAX));
        let expected: Vec<String> = operations
            .iter()
            .flat_map(|one| comparable(&run(&mut apart, std::slice::from_ref(one), u64::MAX)))
            .collect();
        let differs = results.iter().zip(&expected).position(|(one, other)| one != other);
        assert_eq!((differs, results.len()), (None, expected.len()), "seed {seed}");
        let all = parsed(
            r#"{"op":"select","table":"Parent","where":[],"sort":["name"],
            "columns":["_uuid","name","n","numbers","ids"]}"#,
        );
        let all = std::slice::from_ref(&all);
        let rows = texts(&run(&mut together, all, u64::MAX));
        assert!(rows == texts(&run(&mut apart, all, u64::MAX)), "seed {seed}");
    }
}
