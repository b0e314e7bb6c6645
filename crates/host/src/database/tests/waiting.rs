//! Requests and commits that wait, and how they count.

use super::backlog::change;
use super::*;
use paceline_tables::value::Atom;
use paceline_types::limits::SESSION_BYTES_MAX;

/// D1: the id of a request counts as long as the request waits: for a row to change, for a conversion or for
/// the disk.
#[test]
fn ids_of_requests_that_wait_count_d1() {
    let world = World::new("long-ids");
    let things = world.open(SCHEMA);
    let client = world.client(Role::Admin);
    let long = |number: usize| format!("\"{number}{}\"", "x".repeat(1 << 20));
    let wait = r#"[{"op": "wait", "table": "Thing", "where": [], "columns": ["name"],
                    "until": "==", "rows": [{"name": "never"}]}]"#;
    (0..20).for_each(|number| transact(&things, &client, &long(number), wait));
    let waiting = things.head().waits.all().len();
    assert_eq!(waiting, (SESSION_BYTES_MAX >> 20) - 1, "the others are refused");
    things.end_session(&client);
    hold_back(&things);
    let client = world.client(Role::Admin);
    let insert = r#"[{"op": "insert", "table": "Thing", "row": {"name": "one"}}]"#;
    let comment = r#"[{"op": "comment", "comment": "x"}]"#;
    for (number, text) in [insert, comment].into_iter().enumerate() {
        let before = client.waiting_bytes();
        transact(&things, &client, &long(number), text);
        assert!(client.waiting_bytes() - before > 1 << 20, "{text}");
    }
    let before = client.waiting_bytes();
    things.unwatch(&client, ticket(&long(2)), ticket(&long(3)));
    assert!(client.waiting_bytes() - before > 2 << 20);
    publish(&things);
    assert_eq!(received(&client).len(), 3);
    assert!(client.is_settled());
}

/// D1: a commit that waits for the disk counts for the values that it keeps, old and new, however short the
/// request was.
#[test]
fn commits_that_wait_for_the_disk_count_for_what_they_keep_d1() {
    const COUNT: usize = 10_000;
    let world = World::new("waiting-commits");
    let things = world.open(SCHEMA);
    let client = world.client(Role::Admin);
    let tags: Vec<String> = (0..COUNT).map(|tag| tag.to_string()).collect();
    let insert = format!(
        r#"[{{"op": "insert", "table": "Thing", "row": {{"tags": ["set", [{}]]}}}}]"#,
        tags.join(",")
    );
    change(&things, &client, &insert);
    hold_back(&things);
    for tag in 0..10 {
        let before = client.waiting_bytes();
        let mutate = format!(
            r#"[{{"op": "mutate", "table": "Thing", "where": [],
                  "mutations": [["tags", "insert", {}]]}}]"#,
            COUNT + tag
        );
        transact(&things, &client, "1", &mutate);
        let counted = client.waiting_bytes() - before;
        assert!(counted >= COUNT * size_of::<Atom>(), "{counted}");
    }
    publish(&things);
    assert_eq!(received(&client).len(), 10);
    assert!(client.is_settled());
}

const UNIQUE: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {"Thing": {"isRoot": true,
    "columns": {"name": {"type": "string"}, "number": {"type": "integer"}}, "indexes": [["number"]]}}}"#;

const NEVER: &str = r#"{"op": "wait", "table": "Thing", "where": [["name", "==", "n"]], "columns": ["name"],
    "until": "==", "rows": [{"name": "n"}]}"#;

/// D4: what a waiting transaction does before it waits is repeated at each try, so it counts: rows that it
/// inserts, rows that it finds, and the operations themselves.
#[test]
fn what_comes_before_a_wait_counts_d4() {
    let world = World::new("before-waits");
    let things = world.open(UNIQUE);
    let insert =
        |number| format!(r#"{{"op": "insert", "table": "Thing", "row": {{"number": {number}}}}}"#);
    let mutate =
        r#"{"op": "mutate", "table": "Thing", "where": [["number", "==", 0]], "mutations": []}"#;
    let comment = r#"{"op": "comment", "comment": ""}"#;
    let plain: Vec<String> = (0..3_000).map(insert).collect();
    let alike = [vec![insert(0); 1_000], vec![mutate.to_owned(); 1_000]].concat();
    for (what, most) in [(plain, 10), (alike, 0), (vec![comment.to_owned(); 3_000], 20)] {
        let client = world.client(Role::Operator);
        let text = format!("[{},{NEVER}]", what.join(","));
        (0..40).for_each(|id| transact(&things, &client, &id.to_string(), &text));
        let waiting = things.head().waits.all().len();
        assert!(waiting <= most, "{waiting} wait: {}", what[0]);
        let error = next_error(&client).unwrap();
        assert_eq!(error.tag, paceline_tables::tag::RESOURCES);
        things.end_session(&client);
    }
}

/// D4: a client that may change nothing is refused before its changes are tried, even if they would wait; an
/// operation that finds nothing to change is not refused.
#[test]
fn changes_of_a_client_that_may_make_none_are_not_tried_d4() {
    let world = World::new("refused-early");
    let things = world.open(UNIQUE);
    let insert = r#"{"op": "insert", "table": "Thing", "row": {}}"#;
    let delete = r#"{"op": "delete", "table": "Thing", "where": []}"#;
    let update = r#"{"op": "update", "table": "Thing", "where": [], "row": {"number": 1}}"#;
    for role in [Role::Viewer, Role::Client] {
        let client = world.client(role);
        for text in [format!("[{insert},{NEVER}]"), format!("[{NEVER},{insert}]")] {
            transact(&things, &client, "1", &text);
            assert!(things.head().waits.all().is_empty());
            let Some(Outgoing::Reply(_, Reply::Results(results))) = client.outbox.take() else {
                panic!("no answer");
            };
            let [OpResult::Nulls(2), OpResult::Error(error)] = &results[..] else {
                panic!("{results:?}");
            };
            assert_eq!(error.tag, paceline_tables::tag::PERMISSION);
            assert_eq!(error.details, crate::REFUSED);
        }
        transact(&things, &client, "1", &format!("[{insert},{delete}]"));
        assert_eq!(next_error(&client).unwrap().tag, paceline_tables::tag::PERMISSION);
        transact(&things, &client, "1", &format!("[{update},{delete}]"));
        assert!(next_error(&client).is_none(), "there is nothing to change");
    }
    let operator = world.client(Role::Operator);
    transact(&things, &operator, "1", &format!("[{insert},{NEVER}]"));
    assert_eq!(things.head().waits.all().len(), 1);
}
