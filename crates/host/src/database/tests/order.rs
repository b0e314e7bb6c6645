//! Items leave for one client in the order of what it has seen: an answer never follows a change that the
//! answer does not show.

use super::*;
use crate::WatchRequest;
use paceline_tables::monitor::Version;

const SELECT: &str = r#"[{"op": "select", "table": "Thing", "where": []}]"#;
const INSERT: &str = r#"[{"op": "insert", "table": "Thing", "row": {"name": "one"}}]"#;

fn watch(database: &Arc<Hosted>, session: &Arc<Session>) {
    let requests = parse(r#"{"Thing": {"columns": ["name"]}}"#);
    let (ticket, id) = (ticket("0"), ticket("\"m\""));
    let request = WatchRequest { ticket, id, requests, version: Version::V1, since: None };
    database.watch(session, request).unwrap();
    database.flush_blocking();
    assert_eq!(received(session), ["reply 0"]);
}

/// A reader that also watches, and a writer; the order of their requests is that of `requests`.
fn check(name: &str, requests: &[(&str, &str)], expected: &[&str]) {
    let world = World::new(name);
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    watch(&things, &reader);
    hold_back(&things);
    for (at, (who, what)) in requests.iter().enumerate() {
        let session = if *who == "reader" { &reader } else { &writer };
        transact(&things, session, &at.to_string(), what);
    }
    publish(&things);
    assert_eq!(received(&reader), expected, "{requests:?}");
}

/// The answer was read before the change.
#[test]
fn an_answer_leaves_before_the_change_that_came_after_it() {
    check("before", &[("reader", SELECT), ("writer", INSERT)], &["reply 0", "update"]);
}

/// The answer shows the change.
#[test]
fn an_answer_leaves_after_the_change_it_shows() {
    check("after", &[("writer", INSERT), ("reader", SELECT)], &["update", "reply 1"]);
}

#[test]
fn answers_between_changes_keep_their_place() {
    let requests = [
        ("reader", SELECT),
        ("writer", INSERT),
        ("reader", SELECT),
        ("writer", INSERT),
        ("reader", SELECT),
    ];
    check("between", &requests, &["reply 0", "update", "reply 2", "update", "reply 4"]);
}
