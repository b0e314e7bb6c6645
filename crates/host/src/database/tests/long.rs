//! Long reads run beside other requests and are answered in order; waits are bounded.

use super::*;
use crate::WatchRequest;
use crate::places::Peer;
use paceline_tables::monitor::Version;
use paceline_tables::{Estimate, tag};
use paceline_types::limits::{READ_AT_ONCE_STEPS_MAX, WAITS_MAX, WAITS_PEER_MAX};

const ROWS: usize = 2_000;

fn list(operation: &str, times: usize) -> String {
    format!("[{}]", vec![operation; times].join(","))
}

/// A transaction of selects that is too long to run with the head locked.
fn long_select() -> String {
    let times = READ_AT_ONCE_STEPS_MAX as usize / ROWS + 1;
    list(r#"{"op": "select", "table": "Thing", "where": [], "columns": ["_uuid"]}"#, times)
}

fn filled(world: &World) -> Arc<Hosted> {
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let insert = list(r#"{"op": "insert", "table": "Thing", "row": {"name": "old"}}"#, ROWS);
    transact(&things, &writer, "0", &insert);
    things.flush_blocking();
    assert!(next_error(&writer).is_none());
    things
}

/// Waits for the next item to a client.
fn next(session: &Session) -> Outgoing {
    loop {
        match session.outbox.take() {
            Some(item) => return item,
            None => std::thread::yield_now(),
        }
    }
}

/// How many rows the first select of the next answer found.
fn rows_of_next(session: &Session) -> usize {
    let item = next(session);
    let Outgoing::Reply(_, Reply::Results(results)) = &item else { panic!("{item:?}") };
    let Some(OpResult::Rows(selected)) = results.first() else { panic!("{results:?}") };
    selected.rows().len()
}

/// D4: the answer shows the rows as they were, and leaves before the change that was made after it.
#[test]
fn a_long_read_is_answered_in_its_place() {
    let world = World::new("long");
    let things = filled(&world);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    let requests = parse(r#"{"Thing": {"columns": ["name"], "select": {"initial": false}}}"#);
    let (watch, id) = (ticket("0"), ticket("\"m\""));
    let request = WatchRequest { ticket: watch, id, requests, version: Version::V1, since: None };
    things.watch(&reader, request).unwrap();
    things.flush_blocking();
    assert!(matches!(next(&reader), Outgoing::Reply(..)));
    for round in 0..20 {
        let before = things.head().steps;
        transact(&things, &reader, "1", &long_select());
        let after = things.head().steps;
        assert_eq!(after, before, "nothing of it is done while the head is locked");
        let insert = r#"[{"op": "insert", "table": "Thing", "row": {"name": "new"}}]"#;
        transact(&things, &writer, "2", insert);
        things.flush_blocking();
        assert_eq!(rows_of_next(&reader), ROWS + round);
        assert!(matches!(next(&reader), Outgoing::Update(_)));
    }
    assert!(reader.outbox.take().is_none());
    while !reader.is_settled() {
        std::thread::yield_now();
    }
    assert_eq!(reader.waiting_bytes(), 0);
}

/// J4: changes that a long read has seen and that are then undone are not in its answer.
#[test]
fn a_long_read_of_what_is_undone_is_done_again_j4() {
    let world = World::new("long-undone");
    let things = filled(&world);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    world.inject("sync-error=1");
    hold_back(&things);
    let durable = r#"[{"op": "insert", "table": "Thing", "row": {"name": "new"}},
        {"op": "commit", "durable": true}]"#;
    transact(&things, &writer, "1", durable);
    transact(&things, &reader, "2", &long_select());
    publish(&things);
    assert_eq!(next_error(&writer).unwrap().tag, tag::IO);
    assert_eq!(rows_of_next(&reader), ROWS);
}

/// D4: a transaction that reads too much is refused, also on a separate thread.
#[test]
fn a_read_of_too_many_steps_is_refused_d4() {
    let world = World::new("steps");
    let things = filled(&world);
    let reader = world.client(Role::Viewer);
    let clauses = vec![r#"["name", "!=", "x"]"#; 60_000].join(",");
    let select = format!(r#"[{{"op": "select", "table": "Thing", "where": [{clauses}]}}]"#);
    transact(&things, &reader, "1", &select);
    let item = next(&reader);
    let Outgoing::Reply(_, Reply::Results(results)) = &item else { panic!("{item:?}") };
    let Some(OpResult::Error(error)) = results.first() else { panic!("{results:?}") };
    assert_eq!(error.tag, tag::RESOURCES);
}

/// The errors that a client receives for transactions it leaves waiting.
fn refused(session: &Session) -> Vec<String> {
    let mut details = Vec::new();
    while let Some(Outgoing::Reply(_, Reply::Results(results))) = session.outbox.take() {
        details.extend(results.into_iter().filter_map(|result| match result {
            OpResult::Error(error) => Some(format!("{}: {}", error.tag, error.details)),
            _ => None,
        }));
    }
    details
}

/// D4: waits that look at many rows are bounded, and so are those of one connection.
#[test]
fn transactions_that_wait_are_bounded_d4() {
    let world = World::new("waits");
    let things = filled(&world);
    let (scans, looks) = (world.client(Role::Viewer), world.client(Role::Viewer));
    let wait = |condition: &str| {
        format!(
            r#"[{{"op": "wait", "table": "Thing", "where": [{condition}], "columns": ["name"],
            "until": "==", "rows": [{{"name": "never"}}]}}]"#
        )
    };
    for at in 0..WAITS_MAX {
        transact(&things, &scans, &at.to_string(), &wait(""));
    }
    let told = refused(&scans);
    let many = "resources exhausted: the waiting transactions of this client look at too many rows";
    assert!(!told.is_empty() && told.iter().all(|details| details == many), "{told:?}");
    world.host.end_session(&scans);

    let by_uuid = r#"["_uuid", "==", ["uuid", "550e8400-e29b-41d4-a716-446655440000"]]"#;
    for at in 0..=WAITS_MAX {
        transact(&things, &looks, &at.to_string(), &wait(by_uuid));
    }
    let told = refused(&looks);
    assert_eq!(told, ["resources exhausted: this connection holds too many waiting transactions"]);
    world.host.end_session(&looks);
    let again = world.client(Role::Viewer);
    transact(&things, &again, "1", &wait(""));
    assert!(refused(&again).is_empty(), "what others waited for is free again");
}

/// D4: one client, over all its connections, leaves most of the waiting transactions and of the steps for
/// trying them again to others.
#[test]
fn waits_of_one_client_leave_room_for_others_d4() {
    let world = World::new("waits-peer");
    let things = filled(&world);
    let of = |peer| world.client_of(peer, Role::Viewer);
    let wait = |condition: &str| {
        format!(
            r#"[{{"op": "wait", "table": "Thing", "where": [{condition}], "columns": ["name"],
            "until": "==", "rows": [{{"name": "never"}}]}}]"#
        )
    };
    let by_uuid = wait(r#"["_uuid", "==", ["uuid", "550e8400-e29b-41d4-a716-446655440000"]]"#);
    let one = Peer::of_address("192.0.2.1".parse().unwrap());
    let (few, many) = (wait(""), "hold too many waiting transactions");
    for (operations, expected) in [(&by_uuid, many), (&few, "look at too many rows")] {
        let sessions: Vec<_> = (0..10).map(|_| of(one)).collect();
        let mut told = Vec::new();
        for session in &sessions {
            for at in 0..WAITS_MAX {
                transact(&things, session, &at.to_string(), operations);
            }
            told.extend(refused(session));
        }
        assert!(told.len() >= 10 * WAITS_MAX - WAITS_PEER_MAX, "{}", told.len());
        assert!(told.iter().all(|details| details.ends_with(expected)), "{told:?}");
        for peer in [Peer::User(1), Peer::Owner, Peer::of_address("192.0.2.2".parse().unwrap())] {
            let other = of(peer);
            transact(&things, &other, "1", operations);
            assert!(refused(&other).is_empty(), "{peer:?} has no room");
            world.host.end_session(&other);
        }
        sessions.iter().for_each(|session| world.host.end_session(session));
    }
}

/// D4: a client that may not change rows is refused before it has delayed others for long: when it looks at
/// many rows, and when it is about to change the first one.
#[test]
fn a_change_by_one_who_may_not_is_not_run_for_long_d4() {
    let world = World::new("long-change");
    let things = filled(&world);
    let look = r#"{"op": "update", "table": "Thing", "where": [], "row": {"name": "old"}}"#;
    let update = r#"{"op": "update", "table": "Thing", "where": [], "row": {"name": "x"}}"#;
    for role in [Role::Viewer, Role::Client] {
        let client = world.client(role);
        transact(&things, &client, "1", &list(look, 40));
        publish(&things);
        let told = refused(&client).concat();
        assert!(told.starts_with("resources exhausted") && told.contains("200000"), "{told}");
        transact(&things, &client, "1", &list(update, 40));
        publish(&things);
        assert!(refused(&client).concat().starts_with("permission error"), "{role}");
        transact(&things, &client, "2", r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
        publish(&things);
        assert!(refused(&client).concat().starts_with("permission error"), "{role}");
    }
}

const TREE: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {
    "Root": {"isRoot": true, "columns": {"leaves": {"type":
        {"key": {"type": "uuid", "refTable": "Leaf"}, "min": 0, "max": "unlimited"}}}},
    "Leaf": {"columns": {"k": {"type": "integer"}}},
    "Other": {"isRoot": true, "columns": {"k": {"type": "integer"}}}}}"#;

const LEAVES: usize = 20_000;

/// A root row with many rows below it.
fn tree(world: &World) -> Arc<Hosted> {
    let things = world.open(TREE);
    let writer = world.client(Role::Admin);
    let insert =
        |n| format!(r#"{{"op": "insert", "table": "Leaf", "uuid-name": "l{n}", "row": {{}}}}"#);
    let leaves: Vec<String> = (0..LEAVES).map(insert).collect();
    let named: Vec<String> = (0..LEAVES).map(|n| format!(r#"["named-uuid", "l{n}"]"#)).collect();
    let root = format!(r#"{{"leaves": ["set", [{}]]}}"#, named.join(","));
    let root = format!(r#"{{"op": "insert", "table": "Root", "row": {root}}}"#);
    let other = r#"{"op": "insert", "table": "Other", "row": {}}"#;
    transact(&things, &writer, "0", &format!("[{},{root},{other}]", leaves.join(",")));
    things.flush_blocking();
    assert!(next_error(&writer).is_none());
    things
}

/// D4, L3: a change by a client that may make none is refused before its side effects are done: at the
/// operation that would be the first to change a row. Nor does it wait.
#[test]
fn a_change_by_one_who_may_not_is_refused_at_its_first_row_d4() {
    let world = World::new("first-row");
    let things = tree(&world);
    let delete = r#"{"op": "delete", "table": "Root", "where": []}"#;
    let update =
        r#"{"op": "update", "table": "Root", "where": [], "row": {"leaves": ["set", []]}}"#;
    let wait = r#"{"op": "wait", "table": "Other", "where": [], "columns": ["k"], "until": "==",
        "rows": [{"k": -1}]}"#;
    for role in [Role::Viewer, Role::Client] {
        let client = world.client(role);
        for text in [format!("[{delete}]"), format!("[{update},{wait}]")] {
            let before = things.head().steps;
            transact(&things, &client, "1", &text);
            let Outgoing::Reply(_, Reply::Results(results)) = next(&client) else {
                panic!("no answer");
            };
            let Some(OpResult::Error(error)) = results.first() else { panic!("{results:?}") };
            assert_eq!((error.tag, error.details.as_str()), (tag::PERMISSION, crate::REFUSED));
            let steps = things.head().steps - before;
            assert!(steps < 100, "{text}: {steps}");
            assert!(things.head().waits.all().is_empty());
        }
    }
}

/// D4: references that a waiting transaction removes and restores each time it is tried count.
#[test]
fn references_that_a_waiting_transaction_moves_count_d4() {
    let world = World::new("waiting-references");
    let things = tree(&world);
    let operator = world.client(Role::Operator);
    let text = r#"[{"op": "update", "table": "Root", "where": [], "row": {"leaves": ["set", []]}},
        {"op": "wait", "table": "Other", "where": [], "columns": ["k"], "until": "==", "rows": [{"k": -1}]}]"#;
    (0..20).for_each(|id| transact(&things, &operator, &id.to_string(), text));
    let waiting = things.head().waits.all().len();
    assert!((1..=6).contains(&waiting), "{waiting} wait");
    assert_eq!(refused(&operator).len(), 20 - waiting);
}

/// L3: a transaction that takes more steps than estimated runs where it delays no others.
#[test]
fn a_transaction_that_takes_more_than_it_seemed_is_run_aside_l3() {
    let world = World::new("long-commit");
    let things = tree(&world);
    let operator = world.client(Role::Operator);
    let delete = operations(r#"[{"op": "delete", "table": "Root", "where": []}]"#);
    let before = {
        let head = things.head();
        assert!(Estimate::of(&delete, head.database.store()).work < 100);
        head.steps
    };
    things.transact(&operator, [(ticket("1"), delete)]);
    things.flush_blocking();
    assert!(next_error(&operator).is_none());
    let steps = things.head().steps - before;
    // It begins as a short one, is undone, and runs again.
    assert!(steps > 2 * READ_AT_ONCE_STEPS_MAX * 9 / 10, "{steps}");
    let leaf = things.schema().table_id("Leaf").unwrap();
    assert_eq!(things.head().database.store().row_count(leaf), 0);
}

/// D1, D4: a transaction that is refused is answered in a few bytes, however many operations it has. All of
/// them are scanned before the head is locked: here another thread holds the head.
#[test]
fn a_refused_transaction_of_many_operations_is_small_d1_d4() {
    const COUNT: usize = 200_000;
    let world = World::new("refused");
    let things = world.open(SCHEMA);
    let viewer = world.client(Role::Viewer);
    let mut many = operations(r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    many.resize(COUNT, Json::Integer(1));
    let transaction = paceline_tables::Transaction::from(many.clone());
    let head = things.head();
    std::thread::scope(|scope| {
        scope.spawn(|| things.glance(super::super::asker::Who::of(&viewer), &transaction));
    });
    let bytes = transaction.memory();
    assert_eq!(bytes, many.iter().map(Json::memory).sum::<usize>());
    drop(head);
    for (id, operations) in [("1", many.clone()), ("2", many[1..].to_vec())] {
        things.transact(&viewer, [(ticket(id), operations)]);
        let item = next(&viewer);
        let own = item.own();
        let Outgoing::Reply(_, Reply::Results(results)) = item else { panic!("{item:?}") };
        assert_eq!(results.len(), 2, "{:?}", results.len());
        let nulls: usize = results.iter().map(OpResult::operations).sum::<usize>() - 1;
        assert_eq!(nulls, if id == "1" { COUNT } else { COUNT - 2 });
        assert!(own < 10_000, "{own} bytes");
    }
}

/// D1, D4: transactions that are undone because the disk fails are answered in a few bytes, too.
#[test]
fn an_undone_transaction_of_many_operations_is_small_d1() {
    let world = World::new("undone");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    world.inject("full-after=0");
    transact(
        &things,
        &writer,
        "1",
        &list(r#"{"op": "insert", "table": "Thing", "row": {}}"#, 1_000),
    );
    things.flush_blocking();
    let Outgoing::Reply(_, Reply::Results(results)) = next(&writer) else { panic!("no results") };
    assert!(matches!(results[..], [OpResult::Nulls(1_000), OpResult::Error(_)]), "{results:?}");
}

/// D4: the text of a schema is made once for all clients, and again when the schema changes.
#[test]
fn the_text_of_a_schema_is_made_once_d4() {
    let world = World::new("schema-text");
    let things = world.open(SCHEMA);
    let text = things.schema_text();
    assert_eq!(parse(std::str::from_utf8(&text).unwrap()), things.schema().to_json());
    assert!(Arc::ptr_eq(&text, &things.schema_text()));
    let other = parse(&SCHEMA.replace("1.0.0", "1.0.1"));
    let other = paceline_tables::schema::Schema::parse(&other).unwrap();
    *super::super::lock(&things.schema) = Arc::new(other);
    assert!(!Arc::ptr_eq(&text, &things.schema_text()));
    assert!(String::from_utf8_lossy(&things.schema_text()).contains("1.0.1"));
}
