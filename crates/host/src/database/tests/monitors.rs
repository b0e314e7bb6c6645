//! Monitors: how many there may be, what a commit looks at, and what a returning client receives.

use super::*;
use crate::WatchRequest;
use crate::outbox::Content;
use crate::places::Peer;
use paceline_tables::monitor::Version;
use paceline_tables::tag;
use paceline_types::Uuid;
use paceline_types::limits::{
    BACKLOG_BYTES_MAX, MONITORS_DATABASE_MAX, MONITORS_KEPT, MONITORS_MAX, MONITORS_PEER_MAX,
};

const REQUESTS: &str = r#"{"Thing": {"columns": ["name"], "select": {"initial": false}}}"#;

fn request(id: usize, version: Version, since: Option<Uuid>) -> WatchRequest {
    let (ticket, id) = (ticket("w"), ticket(&id.to_string()));
    WatchRequest { ticket, id, requests: parse(REQUESTS), version, since }
}

/// Adds monitors to `session` until one is refused. Returns how many there are, and the reason.
fn fill(database: &Arc<Hosted>, session: &Arc<Session>) -> (usize, String) {
    let refused = |at| database.watch(session, request(at, Version::V1, None)).err();
    let (count, error) = (0..).find_map(|at| Some((at, refused(at)?))).unwrap();
    assert_eq!(error.tag, tag::RESOURCES);
    (count, error.details)
}

/// Conditions that take some 6,000 steps to test on a row.
fn long_conditions() -> String {
    let clauses: Vec<String> = (0..3_000).map(|n| format!(r#"["name", "!=", "{n}"]"#)).collect();
    format!("[{}]", clauses.join(","))
}

/// D4: the conditions that are tested on every row are bounded over all connections of a client, and over all
/// clients, also when they are changed. Conditions that end make room.
#[test]
fn conditions_are_bounded_d4() {
    let world = World::new("conditions");
    let things = world.open(SCHEMA);
    let of = |peer| world.client_of(peer, Role::Viewer);
    let conditions = long_conditions();
    let watch = |session: &Arc<Session>| {
        let requests = parse(&format!(r#"{{"Thing": {{"where": {conditions}}}}}"#));
        let (ticket, id) = (ticket("1"), ticket("\"m\""));
        let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
        things.watch(session, request)
    };
    let fill = |peer| {
        let mut sessions = Vec::new();
        loop {
            let session = of(peer);
            match watch(&session) {
                Ok(()) => sessions.push(session),
                Err(error) => break (sessions, error.details),
            }
            assert!(sessions.len() < 100, "conditions without bound");
        }
    };
    let (first, details) = fill(Peer::User(1));
    assert!(first.len() > 10 && details.starts_with("the connections of this client"), "{details}");
    let (second, details) = fill(Peer::User(2));
    assert!(second.len() > 10 && details.starts_with("this database"), "{details}");
    assert!(watch(&of(Peer::Owner)).is_ok(), "a part is kept");

    // A monitor within the usual steps is no way around the bound.
    let sly = of(Peer::User(1));
    things.watch(&sly, request(3, Version::V2, None)).unwrap();
    things.flush_blocking();
    let change = |id: &str| {
        let conditions = parse(&format!(r#"{{"Thing": [{{"where": {conditions}}}]}}"#));
        things.rewatch(&sly, ticket("c"), (ticket("3"), ticket(id)), conditions)
    };
    assert_eq!(change("4").unwrap_err().tag, tag::RESOURCES);
    first.iter().take(5).for_each(|session| world.host.end_session(session));
    things.flush_blocking();
    drop(first);
    change("3").unwrap();
    assert!(watch(&of(Peer::User(1))).is_ok());
}

/// D4: monitors are bounded per connection, per client and per database; each one that ends makes room.
#[test]
fn monitors_are_bounded_d4() {
    let world = World::new("monitors");
    let things = world.open(SCHEMA);
    let of = |peer| world.client_of(peer, Role::Viewer);
    let first = of(Peer::User(1));
    let (count, details) = fill(&things, &first);
    assert_eq!((count, &*details), (MONITORS_MAX, "this connection has too many monitors"));
    things.unwatch(&first, ticket("u"), ticket("7"));
    assert!(things.watch(&first, request(7, Version::V1, None)).is_ok());

    let mut sessions = vec![first];
    let mut total = MONITORS_MAX;
    for (uid, expected) in [(1, "the connections of this client"), (2, "this database")] {
        let mut of_peer = if uid == 1 { MONITORS_MAX } else { 0 };
        let details = loop {
            let session = of(Peer::User(uid));
            let (count, details) = fill(&things, &session);
            sessions.push(session);
            (of_peer, total) = (of_peer + count, total + count);
            assert!(of_peer <= MONITORS_PEER_MAX);
            if count < MONITORS_MAX {
                break details;
            }
        };
        assert!(details.starts_with(expected), "{details}");
    }
    assert_eq!(total, MONITORS_DATABASE_MAX - MONITORS_KEPT);
    // A part is reserved for root and the user who runs the daemon.
    let owner = of(Peer::Owner);
    assert_eq!(fill(&things, &owner).0, MONITORS_MAX);
    things.flush_blocking();
    for session in &sessions {
        world.host.end_session(session);
    }
    things.flush_blocking();
    let again = of(Peer::User(2));
    assert_eq!(fill(&things, &again).0, MONITORS_MAX);
}

/// D1: the memory of monitors and waiting transactions, their ids included, is bounded for all connections of a
/// client together, and others have theirs. All of it is released.
#[test]
fn memory_of_monitors_and_waits_is_bounded_for_a_client_d1() {
    let world = World::new("holdings");
    let things = world.open(SCHEMA);
    let long = |number: usize| ticket(&format!("{number}{}", "x".repeat(4 << 20)));
    let watch = |session: &Arc<Session>, number| {
        let request = WatchRequest { id: long(number), ..request(0, Version::V2, None) };
        things.watch(session, request)
    };
    let wait = |session: &Arc<Session>, number| {
        let wait = r#"[{"op": "wait", "table": "Thing", "where": [], "columns": ["name"],
                        "until": "==", "rows": [{"name": "never"}]}]"#;
        things.transact(session, [(long(number), operations(wait))]);
    };
    let clients: Vec<_> = (0..10).map(|_| world.client_of(Peer::User(1), Role::Viewer)).collect();
    let mut watched = 0;
    for client in &clients {
        watched += (0..2).filter(|number| watch(client, *number).is_ok()).count();
        wait(client, 2);
    }
    let waiting = things.head().waits.all().len();
    assert!((14..=15).contains(&(watched + waiting)), "{watched} monitors, {waiting} waits");
    assert!((1..10).contains(&waiting));
    let refused = watch(&clients[9], 0).unwrap_err();
    assert!(refused.details.contains("connections of this client"), "{}", refused.details);
    let other = world.client_of(Peer::User(2), Role::Viewer);
    assert!(watch(&other, 0).is_ok());
    things.flush_blocking();
    clients.iter().chain([&other]).for_each(|client| world.host.end_session(client));
    drop((clients, other));
    assert!(world.host.memory.holdings.is_empty());
}

/// Inserts `rows` rows in one transaction.
fn insert(database: &Arc<Hosted>, session: &Arc<Session>, rows: usize) {
    let one = r#"{"op": "insert", "table": "Thing", "row": {"name": "x"}}"#;
    transact(database, session, "t", &format!("[{}]", vec![one; rows].join(",")));
    database.flush_blocking();
    assert!(next_error(session).is_none());
}

/// The last transaction, as a client that begins to watch receives it.
fn last_transaction(world: &World, things: &Arc<Hosted>) -> Uuid {
    let client = world.client(Role::Viewer);
    things.watch(&client, request(0, Version::V3, Some(Uuid::ZERO))).unwrap();
    things.flush_blocking();
    match client.outbox.take() {
        Some(Outgoing::Reply(_, Reply::Since { transaction, .. })) => transaction,
        other => panic!("{other:?}"),
    }
}

/// What a returning client missed is computed beside the committer, and the updates that follow stay behind it.
#[test]
fn what_a_client_missed_is_computed_beside_the_committer() {
    let world = World::new("missed");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let transaction = last_transaction(&world, &things);
    for _ in 0..4 {
        insert(&things, &writer, 100);
    }
    // No thread works on it until this test does.
    things.tellers.lane.pause();
    let back = world.client(Role::Viewer);
    things.watch(&back, request(1, Version::V3, Some(transaction))).unwrap();
    things.flush_blocking();
    assert!(back.outbox.take().is_none(), "the committer has computed the answer itself");
    assert!(!back.is_settled(), "what is being read counts against the client");
    insert(&things, &writer, 1);
    assert!(back.outbox.take().is_none(), "an update has overtaken the answer");
    things.run_tellers();
    let Some(Outgoing::Reply(_, Reply::Since { found, content, .. })) = back.outbox.take() else {
        panic!("no answer")
    };
    let Content::Text(text) = content else { panic!("{content:?}") };
    assert!(found);
    assert_eq!(String::from_utf8(text).unwrap().matches("insert").count(), 400);
    assert_eq!(received(&back), ["update"]);
    assert!(back.is_settled());
}

/// D1: updates behind an answer that is not made yet cannot be read, so the client is not disconnected for
/// them. Later updates count as usual.
#[test]
fn updates_behind_an_answer_that_is_not_made_are_excused_d1() {
    let world = World::new("missed-excused");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let transaction = last_transaction(&world, &things);
    (0..4).for_each(|_| insert(&things, &writer, 100));
    things.tellers.lane.pause();
    let back = world.client(Role::Viewer);
    things.watch(&back, request(1, Version::V3, Some(transaction))).unwrap();
    things.flush_blocking();
    let name = "x".repeat(60_000);
    let large = format!(r#"[{{"op": "insert", "table": "Thing", "row": {{"name": "{name}"}}}}]"#);
    let insert_large = || {
        transact(&things, &writer, "t", &large);
        things.flush_blocking();
        // An automatic compaction may have the committer's role.
        while writer.outbox.take().is_none() {
            std::thread::yield_now();
        }
    };
    let all = BACKLOG_BYTES_MAX / name.len() + 20;
    (0..all).for_each(|_| insert_large());
    assert!(back.outbox.closed().is_none(), "it is cut off for what it cannot read");
    things.run_tellers();
    assert!(back.outbox.closed().is_none(), "it is cut off before it can read");
    insert_large();
    assert!(matches!(back.outbox.take(), Some(Outgoing::Reply(..))));
    assert!(received(&back).iter().all(|item| item == "update"));
    assert!(back.outbox.closed().is_none());
    // From now on the client can read, and does not.
    (0..all).for_each(|_| insert_large());
    assert!(back.outbox.closed().is_some());
}

/// A client that missed little is answered at once.
#[test]
fn what_a_client_missed_is_answered_at_once_if_it_is_little() {
    let world = World::new("missed-little");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let transaction = last_transaction(&world, &things);
    insert(&things, &writer, 1);
    things.tellers.lane.pause();
    let back = world.client(Role::Viewer);
    things.watch(&back, request(1, Version::V3, Some(transaction))).unwrap();
    things.flush_blocking();
    assert_eq!(received(&back), ["reply w"]);
}

const TABLES: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {
    "Thing": {"isRoot": true, "columns": {"name": {"type": "string"}}},
    "Other": {"isRoot": true, "columns": {"name": {"type": "string"}}}}}"#;

/// A commit looks only at monitors of a table it changed, and once at monitors that are equal.
#[test]
fn a_commit_looks_at_monitors_of_changed_tables_only() {
    let world = World::new("changed-tables");
    let things = world.open(TABLES);
    let (writer, viewer) = (world.client(Role::Admin), world.client(Role::Viewer));
    let watch = |id: usize, requests: &str| {
        let request = WatchRequest { requests: parse(requests), ..request(id, Version::V2, None) };
        things.watch(&viewer, request).unwrap();
    };
    for id in 0..30 {
        watch(id, &format!(r#"{{"Other": {{"where": [["name", "==", "{id}"]]}}}}"#));
        watch(100 + id, r#"{"Thing": {}}"#);
    }
    watch(200, r#"{"Thing": {}, "Other": {}}"#);
    things.flush_blocking();
    received(&viewer);
    let schema = things.schema();
    let groups = |table: &str| things.watchers().watching(schema.table_id(table).unwrap()).count();
    assert_eq!((groups("Thing"), groups("Other")), (2, 31));
    insert(&things, &writer, 1);
    assert_eq!(received(&viewer).len(), 31);
    for id in 0..30 {
        things.unwatch(&viewer, ticket("u"), ticket(&id.to_string()));
    }
    things.flush_blocking();
    assert_eq!((groups("Thing"), groups("Other")), (2, 1));
    world.host.end_session(&viewer);
    assert_eq!((groups("Thing"), groups("Other")), (0, 0));
}

const THREE_TABLES: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {
    "A": {"isRoot": true, "columns": {"name": {"type": "string"}}},
    "B": {"isRoot": true, "columns": {"name": {"type": "string"}}},
    "C": {"isRoot": true, "columns": {"name": {"type": "string"}}}}}"#;

/// A commit that is told to some clients alone finds their monitors of the changed tables, by client and id, each once.
#[test]
fn the_monitors_of_some_clients_are_found_by_table() {
    let world = World::new("concerned");
    let things = world.open(THREE_TABLES);
    let schema = things.schema();
    let sessions: Vec<_> = (0..8).map(|_| world.client(Role::Viewer)).collect();
    let mut made = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        for id in 0..6 {
            // Every third monitor watches two tables, and some clients watch one table only.
            let first = ["A", "B", "C"][(at * id) % 3];
            let second = ["A", "B", "C"][(at * id + usize::from(id % 3 == 0)) % 3];
            let requests = match first == second {
                true => format!(r#"{{"{first}": {{}}}}"#),
                false => format!(r#"{{"{first}": {{}}, "{second}": {{}}}}"#),
            };
            let asked =
                WatchRequest { requests: parse(&requests), ..request(id, Version::V2, None) };
            things.watch(session, asked).unwrap();
            made.push((at, id, [first, second]));
        }
    }
    things.flush_blocking();
    // Some end again.
    things.unwatch(&sessions[2], ticket("u"), ticket("3"));
    things.flush_blocking();
    world.host.end_session(&sessions[5]);
    made.retain(|(at, id, _)| (*at, *id) != (2, 3) && *at != 5);
    for tables in [&["A"][..], &["B"], &["A", "B"], &["A", "C"], &["A", "B", "C"], &[]] {
        for only in 0..256_usize {
            let is_wanted = |at: usize| only >> at & 1 == 1;
            let wanted = (0..8).filter(|at| is_wanted(*at)).map(|at| sessions[at].id).collect();
            let ids = tables.iter().map(|table| schema.table_id(table).unwrap());
            let watchers = things.watchers();
            let found = watchers.concerned(ids, &wanted);
            let found: Vec<_> = found.into_iter().map(|(of, id, _)| (of, id.clone())).collect();
            let expected: Vec<_> = made
                .iter()
                .filter(|(at, _, of)| is_wanted(*at) && of.iter().any(|of| tables.contains(of)))
                .map(|(at, id, _)| (sessions[*at].id, ticket(&id.to_string())))
                .collect();
            assert_eq!(found, expected, "{tables:?} {only:08b}");
        }
    }
}
