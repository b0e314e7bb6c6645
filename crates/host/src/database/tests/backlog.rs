//! What a client that does not read keeps in memory, and how that counts.

use super::*;
use crate::WatchRequest;
use paceline_tables::Row;
use paceline_tables::monitor::Version;

fn watch(database: &Arc<Hosted>, session: &Arc<Session>, column: &str) {
    let requests = parse(&format!(r#"{{"Thing": {{"columns": ["{column}"]}}}}"#));
    let (ticket, id) = (ticket("0"), ticket("\"m\""));
    let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
    database.watch(session, request).unwrap();
    database.flush_blocking();
    assert_eq!(received(session), ["reply 0"]);
}

fn change(database: &Arc<Hosted>, session: &Arc<Session>, text: &str) {
    transact(database, session, "1", text);
    database.flush_blocking();
    assert!(next_error(session).is_none());
}

fn only_row(database: &Hosted) -> Row {
    let head = database.head();
    let table = head.database.schema().table_id("Thing").unwrap();
    head.database.store().rows(table).next().unwrap().clone()
}

/// D1: updates that a client does not read keep no row of the database in memory, neither before nor after
/// the client has fallen behind; and what piles up comes as one.
#[test]
fn unread_updates_keep_no_row_d1() {
    let world = World::new("unread");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    let insert = r#"[{"op": "insert", "table": "Thing", "row": {"tags": ["set", [1, 2, 3]]}}]"#;
    change(&things, &writer, insert);
    watch(&things, &reader, "name");
    let text = "x".repeat(20_000);
    for at in 0..10 {
        let before = Arc::downgrade(&only_row(&things));
        let update = format!(
            r#"[{{"op": "update", "table": "Thing", "where": [], "row": {{"name": "{at}{text}"}}}}]"#
        );
        change(&things, &writer, &update);
        assert!(before.upgrade().is_none(), "update {at} keeps the row as it was before");
    }
    let told = received(&reader);
    assert!(told.len() < 10, "{told:?}");
}

/// D1: the values that several updates to one client keep until it reads them count, not only the text of
/// each.
#[test]
fn values_that_unread_updates_keep_count_d1() {
    let world = World::new("unread-values");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    let tags = |first: usize, count: usize| {
        let tags: Vec<String> = (first..first + count).map(|tag| tag.to_string()).collect();
        tags.join(",")
    };
    let large = tags(0, 20_000);
    for name in 0..30 {
        change(
            &things,
            &writer,
            &format!(
                r#"[{{"op": "insert", "table": "Thing", "row": {{"name": "{name}",
                "tags": ["set", [{large}]]}}}}]"#
            ),
        );
    }
    watch(&things, &reader, "tags");
    let mutate = |name: usize, tags: &str| {
        let text = format!(
            r#"[{{"op": "mutate", "table": "Thing", "where": [["name", "==", "{name}"]],
            "mutations": [["tags", "insert", ["set", [{tags}]]]]}}]"#
        );
        change(&things, &writer, &text);
    };
    // From here on the client is behind.
    mutate(0, &tags(1_000_000, 20_000));
    for name in 1..30 {
        mutate(name, "2000000");
    }
    assert!(reader.outbox.closed().is_some(), "some 28 MB of sets are kept for one client");
}
