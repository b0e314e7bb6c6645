//! Requests that are deferred during a conversion can be changed and cancelled like others.

use super::*;
use crate::WatchRequest;
use crate::database::Converted;
use paceline_tables::monitor::Version;
use std::sync::atomic::AtomicBool;

fn watch(things: &Arc<Hosted>, session: &Arc<Session>, request: &str, id: &str) {
    let requests = parse(r#"{"Thing": [{"columns": ["name"]}]}"#);
    let (ticket, id) = (ticket(request), ticket(id));
    let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
    things.watch(session, request).unwrap();
}

/// A conversion that has begun and waits for its turn, and a client that follows it.
fn converting(world: &World) -> (Arc<Hosted>, Arc<Session>) {
    let things = world.open(SCHEMA);
    let admin = world.client(Role::Admin);
    let client = world.client_of(Peer::User(1), Role::Admin);
    client.set_change_aware(true);
    hold_back(&things);
    let schema = parse(&SCHEMA.replace("1.0.0", "2.0.0"));
    things.convert(&admin, ticket("0"), &schema, world.host.on_converted()).unwrap();
    (things, client)
}

/// A client that connects after the answer to a conversion is not disconnected by it: the clients that do not
/// follow such changes are picked before the answer leaves.
#[test]
fn clients_to_disconnect_are_picked_before_the_answer() {
    let world = World::new("picked");
    let things = world.open(SCHEMA);
    let admin = world.client(Role::Admin);
    admin.set_change_aware(true);
    let old = world.client(Role::Viewer);
    let (asked, host) = (admin.clone(), world.host.clone());
    let picked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&picked);
    let Converted { announce, unaware } = world.host.on_converted();
    let unaware = Box::new(move || {
        noted.store(asked.outbox.take().is_none(), Ordering::Release);
        let sessions = unaware();
        host.begin_session(Some(Role::Viewer), |_| "late".to_owned());
        sessions
    });
    let schema = parse(&SCHEMA.replace("1.0.0", "2.0.0"));
    let converted = Converted { announce, unaware };
    things.convert(&admin, ticket("0"), &schema, converted).unwrap();
    things.flush_blocking();
    assert_eq!(received(&admin), ["reply 0"]);
    assert!(picked.load(Ordering::Acquire), "before the answer");
    assert!(old.outbox.finishing().is_some());
}

#[test]
fn a_held_transaction_can_be_cancelled() {
    let world = World::new("held-transact");
    let (things, client) = converting(&world);
    let insert = r#"[{"op": "insert", "table": "Thing", "row": {"name": "one"}}]"#;
    transact(&things, &client, "1", insert);
    transact(&things, &client, "2", insert);
    assert!(things.cancel(&client, &ticket("1")));
    assert!(!things.cancel(&client, &ticket("1")), "it is cancelled already");
    publish(&things);
    assert_eq!(received(&client), ["reply 1", "reply 2"]);
    let head = things.head();
    let thing = head.database.schema().table_id("Thing").unwrap();
    assert_eq!(head.database.store().row_count(thing), 1);
    drop(head);
    assert!(client.is_settled());
}

#[test]
fn a_held_monitor_can_be_renamed_and_cancelled() {
    let world = World::new("held-monitor");
    let (things, client) = converting(&world);
    watch(&things, &client, "1", "a");
    assert!(things.holds_monitor(&client, &ticket("a")));
    let ids = (ticket("a"), ticket("b"));
    things.rewatch(&client, ticket("2"), ids, parse("{}")).unwrap();
    assert!(things.holds_monitor(&client, &ticket("b")));
    things.unwatch(&client, ticket("3"), ticket("b"));
    things.unwatch(&client, ticket("4"), ticket("b"));
    publish(&things);
    let words = received(&client);
    let replies: Vec<_> = words.iter().filter(|word| word.starts_with("reply")).collect();
    // The last one is refused at once, the others are answered in order.
    assert_eq!(replies, ["reply 4", "reply 1", "reply 2", "reply 3"], "{words:?}");
    assert!(things.watchers().is_idle() && client.monitor(&ticket("b")).is_none());
}

#[test]
fn two_held_monitors_of_one_id_are_one() {
    let world = World::new("held-twice");
    let (things, client) = converting(&world);
    watch(&things, &client, "1", "a");
    watch(&things, &client, "2", "a");
    publish(&things);
    assert_eq!(received(&client), ["reply 2", "reply 1"], "the second is refused");
    things.unwatch(&client, ticket("3"), ticket("a"));
    things.flush_blocking();
    assert!(things.watchers().is_idle(), "one was left behind");
}

/// Of several waits under one id only the first waits, and it is removed when its client leaves.
#[test]
fn waits_of_one_id_that_were_held_leave_nothing_behind_d4() {
    let world = World::new("held-waits");
    let (things, client) = converting(&world);
    let wait = r#"[{"op": "wait", "table": "Thing", "where": [], "columns": ["name"],
                    "until": "==", "rows": [{"name": "never"}]}]"#;
    for _ in 0..3 {
        transact(&things, &client, "1", wait);
    }
    publish(&things);
    assert_eq!(received(&client), ["reply 1", "reply 1"], "two are refused");
    assert_eq!(things.head().waits.all().len(), 1);
    things.end_session(&client);
    assert_eq!(things.head().waits.all().len(), 0);
}

/// D1: whatever is deferred during a conversion counts for its size, ids included, until it has run; and a
/// deferred monitor counts among the monitors.
#[test]
fn what_is_held_counts_d1() {
    const LONG: usize = 60_000;
    let world = World::new("held-counts");
    let (things, client) = converting(&world);
    let used = client.outbox.budget().used();
    let long = |name: &str| format!("{name}{}", "x".repeat(LONG));
    let mut longs = 0;
    let mut check = |count: usize, what: &str| {
        longs += count;
        let (charged, kept) = (client.waiting_bytes(), client.outbox.budget().used() - used);
        assert!(charged >= longs * LONG && kept >= longs * LONG, "{charged}, {kept} with {what}");
    };
    watch(&things, &client, &long("1"), &long("a"));
    check(2, "a monitor");
    let ids = (ticket(&long("a")), ticket(&long("b")));
    things.rewatch(&client, ticket(&long("2")), ids, parse("{}")).unwrap();
    check(3, "changed conditions");
    things.unwatch(&client, ticket(&long("3")), ticket(&long("b")));
    check(2, "the end of a monitor");
    transact(&things, &client, &long("4"), r#"[{"op": "comment", "comment": "nothing"}]"#);
    check(1, "a transaction");
    let schema = parse(&SCHEMA.replace("1.0.0", "3.0.0"));
    things.convert(&client, ticket(&long("5")), &schema, world.host.on_converted()).unwrap();
    check(1, "another conversion");

    let request = |number: usize| {
        let (ticket, id) = (ticket(&format!("w{number}")), ticket(&format!("m{number}")));
        let requests = parse("{}");
        things.watch(
            &client,
            WatchRequest { ticket, id, requests, version: Version::V2, since: None },
        )
    };
    let held = (0..200).filter(|number| request(*number).is_ok()).count();
    assert_eq!(held, 99, "beside the first one");
    publish(&things);
    until_rewritten(&things);
    publish_again(&things, &client);
    assert!(client.is_settled());
    received(&client);
    assert_eq!(client.outbox.budget().used(), used);
}

/// Publishes what the second conversion leaves, until the client is settled.
fn publish_again(things: &Arc<Hosted>, client: &Session) {
    while !client.is_settled() {
        things.flush_blocking();
        std::thread::yield_now();
    }
}
