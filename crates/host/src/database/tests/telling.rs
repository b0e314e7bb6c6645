//! Long updates: the committer leaves them to other threads, and nothing overtakes them.

use super::*;
use crate::WatchRequest;
use crate::outbox::UpdateText;
use crate::places::Peer;
use paceline_tables::monitor::Version;

/// Conditions that take some 2,000 steps to test on a row, and hold for none.
fn long_conditions(from: usize) -> String {
    let clause = |n| format!(r#"["tags", "includes", ["set", [{n}, {}]]]"#, n + 1);
    let clauses: Vec<String> = (from..from + 600).map(clause).collect();
    format!("[{}]", clauses.join(","))
}

fn watch(database: &Arc<Hosted>, session: &Arc<Session>, id: &str, conditions: &str) {
    let requests = format!(
        r#"{{"Thing": {{"columns": ["name"], "where": {conditions}, "select": {{"initial": false}}}}}}"#
    );
    let (ticket, id, requests) = (ticket("0"), ticket(id), parse(&requests));
    let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
    database.watch(session, request).unwrap();
    database.flush_blocking();
    assert_eq!(received(session), ["reply 0"]);
}

fn inserts(rows: usize) -> String {
    let one = r#"{"op": "insert", "table": "Thing", "row": {"name": "x"}}"#;
    format!("[{}]", vec![one; rows].join(","))
}

fn insert(database: &Arc<Hosted>, session: &Arc<Session>, rows: usize) {
    transact(database, session, "t", &inserts(rows));
    database.flush_blocking();
    assert!(next_error(session).is_none());
}

/// The number of rows in each update that a client received.
fn told(session: &Session) -> Vec<usize> {
    let rows = |item: Outgoing| match item {
        Outgoing::Update(update) => match update.into_text() {
            UpdateText::Nothing => 0,
            UpdateText::Ready(text) => {
                String::from_utf8_lossy(text.as_ref()).matches("insert").count()
            }
            UpdateText::Long(_) => panic!("not made yet"),
        },
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| session.outbox.take()).map(rows).collect()
}

/// D1: a client that reads slowly gets its updates combined, even while the monitors of another client use up
/// the steps of the committer, and whether or not the threads that make updates keep up.
#[test]
fn updates_that_are_made_late_are_combined_for_who_is_behind_d1() {
    for keeps_up in [true, false] {
        let world = World::new("telling-behind");
        let things = world.open(SCHEMA);
        let (writer, greedy) = (world.client(Role::Admin), world.client(Role::Viewer));
        let slow = world.client(Role::Viewer);
        let text = "x".repeat(400_000);
        let row = format!(r#""row": {{"name": "{text}", "tags": 0}}"#);
        let insert = format!(r#"[{{"op": "insert", "table": "Thing", {row}}}]"#);
        super::backlog::change(&things, &writer, &insert);
        // Each takes half of the steps for a commit, and shows nothing.
        for id in ["1", "2", "3"] {
            watch(&things, &greedy, id, &format!(r#"[["tags", "==", -{id}]]"#));
        }
        // An update of the first version has the whole row.
        let shown = r#"{"Thing": {"columns": ["name", "tags"], "select": {"initial": false}}}"#;
        let (id, requests, version) = (ticket("1"), parse(shown), Version::V1);
        let request = WatchRequest { ticket: ticket("0"), id, requests, version, since: None };
        things.watch(&slow, request).unwrap();
        things.flush_blocking();
        assert_eq!(received(&slow), ["reply 0"]);
        things.tellers.lane.pause();
        for number in 1..=100 {
            let update = format!(
                r#"[{{"op": "update", "table": "Thing", "where": [], "row": {{"tags": {number}}}}}]"#
            );
            super::backlog::change(&things, &writer, &update);
            if keeps_up {
                things.run_tellers();
                things.tellers.lane.pause();
            }
            while greedy.outbox.take().is_some() {}
        }
        things.run_tellers();
        assert_eq!(slow.outbox.closed(), None, "{keeps_up}");
        let (mut updates, mut last) = (0, String::new());
        while let Some(item) = slow.outbox.take() {
            let Outgoing::Update(update) = item else { panic!("{item:?}") };
            last = match update.into_text() {
                UpdateText::Nothing => continue,
                UpdateText::Ready(text) => String::from_utf8_lossy(text.as_ref()).into_owned(),
                UpdateText::Long(mut telling) => {
                    while telling.go_on(usize::MAX) {}
                    String::from_utf8(telling.into_text().unwrap()).unwrap()
                }
            };
            updates += 1;
        }
        assert!(last.contains(r#""tags":100"#), "{} bytes", last.len());
        assert!(updates < 30, "{updates} updates");
    }
}

/// D4: the committer does not test long conditions. Other clients get their updates at once, and the client
/// itself gets later items after the long update.
#[test]
fn long_conditions_are_tested_beside_the_committer_d4() {
    let world = World::new("telling");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let (slow, quick) = (world.client(Role::Viewer), world.client(Role::Viewer));
    watch(&things, &slow, "1", &format!(r#"[["name", "==", "x"], {}"#, &long_conditions(0)[1..]));
    watch(&things, &quick, "1", "[]");
    things.tellers.lane.pause();
    insert(&things, &writer, 100);
    assert_eq!(told(&quick), [100]);
    assert!(slow.outbox.take().is_none(), "the committer has tested long conditions on 100 rows");
    assert!(!slow.is_settled());
    things.answer(&slow, ticket("e"), Reply::Text(b"[]".to_vec()));
    insert(&things, &writer, 1);
    assert!(slow.outbox.take().is_none(), "an answer or an update has overtaken");
    things.run_tellers();
    let Some(Outgoing::Update(first)) = slow.outbox.take() else { panic!("no update") };
    let UpdateText::Ready(text) = first.into_text() else { panic!("no text") };
    assert_eq!(String::from_utf8_lossy(text.as_ref()).matches("insert").count(), 100);
    assert!(matches!(slow.outbox.take(), Some(Outgoing::Reply(..))));
    assert_eq!(told(&slow), [1]);
    assert!(slow.is_settled());
    assert_eq!(slow.waiting_bytes(), 0);
}

/// The answer to a transaction leaves after the update that shows its change to the same client, even if that
/// takes long; and each change between two answers is sent between them.
#[test]
fn an_answer_stays_behind_a_long_update_of_its_own_change() {
    let world = World::new("telling-own");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    watch(&things, &writer, "1", &long_conditions(0));
    things.tellers.lane.pause();
    hold_back(&things);
    transact(&things, &writer, "a", &inserts(100));
    transact(&things, &writer, "b", &inserts(100));
    publish(&things);
    assert!(writer.outbox.take().is_none());
    things.run_tellers();
    assert_eq!(received(&writer), ["update", "reply a", "update", "reply b"]);
}

/// D4: however many monitors there are, the committer takes a bounded number of steps for all of them together.
#[test]
fn many_monitors_take_a_bounded_number_of_steps_d4() {
    let world = World::new("telling-many");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let viewers: Vec<_> = (0..4).map(|_| world.client(Role::Viewer)).collect();
    for (at, viewer) in viewers.iter().enumerate() {
        for id in 0..100 {
            let conditions = format!(r#"[["name", "!=", "{at}.{id}"]]"#);
            watch(&things, viewer, &id.to_string(), &conditions);
        }
    }
    things.tellers.lane.pause();
    const ROWS: usize = 200;
    insert(&things, &writer, ROWS);
    let at_once: Vec<_> = viewers.iter().map(|viewer| told(viewer)).collect();
    let at_once: usize = at_once.iter().map(Vec::len).sum();
    // A row takes five steps at least: two tests of two, and a column.
    assert!((1..=100_000 / ROWS / 5).contains(&at_once), "{at_once} updates of 400 at once");
    things.run_tellers();
    let later: Vec<usize> = viewers.iter().flat_map(|viewer| told(viewer)).collect();
    assert_eq!(later, vec![ROWS; 400 - at_once]);
}

/// D4: monitors of a disconnected client take none of the shared steps.
#[test]
fn nothing_is_tested_for_clients_that_are_cut_off_d4() {
    let world = World::new("telling-cut");
    let things = world.open(SCHEMA);
    let (writer, gone) = (world.client(Role::Admin), world.client(Role::Viewer));
    for id in 0..100 {
        watch(&things, &gone, &id.to_string(), &format!(r#"[["name", "!=", "{id}"]]"#));
    }
    let other = world.client(Role::Viewer);
    watch(&things, &other, "1", "[]");
    things.tellers.lane.pause();
    gone.outbox.close("it does not read");
    insert(&things, &writer, 200);
    assert_eq!(told(&other), [200]);
    assert!(things.tellers.lane.next().is_none(), "something is to be made");
}

/// D1: changes that wait to be sent are bounded; only the client that is furthest behind is disconnected.
#[test]
fn changes_that_wait_to_be_told_are_bounded_d1() {
    let world = World::new("telling-kept");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let [slow, other] = [1, 2].map(|uid| world.client_of(Peer::User(uid), Role::Viewer));
    // The thread that makes these does the first piece of each before it checks what they keep.
    things.tellers.lane.pause();
    things.tellers.kept_max.store(1 << 20, Ordering::Relaxed);
    watch(&things, &slow, "1", &long_conditions(0));
    let text = "x".repeat(10_000);
    let one = format!(r#"{{"op": "insert", "table": "Thing", "row": {{"name": "{text}"}}}}"#);
    let inserts = format!("[{}]", vec![&*one; 40].join(","));
    for at in 0..4 {
        if at == 3 {
            watch(&things, &other, "1", &long_conditions(1));
        }
        transact(&things, &writer, "t", &inserts);
        things.flush_blocking();
        assert!(next_error(&writer).is_none());
    }
    things.run_tellers();
    assert!(slow.outbox.closed().is_some(), "1.6 MB wait for one client");
    assert!(other.outbox.closed().is_none());
    assert_eq!(told(&other), [0]);
    assert_eq!((slow.waiting_bytes(), other.waiting_bytes()), (0, 0));
    assert_eq!(things.tellers.kept(), 0);
}

/// L3: a client can leave while updates are sent to the watchers; its monitors are removed afterwards.
#[test]
fn a_client_leaves_while_watchers_are_told_l3() {
    let world = World::new("telling-leaves");
    let things = world.open(SCHEMA);
    let (writer, viewer) = (world.client(Role::Admin), world.client(Role::Viewer));
    watch(&things, &viewer, "1", "[]");
    let watchers = things.watchers();
    world.host.end_session(&viewer);
    assert!(!watchers.is_idle());
    drop(watchers);
    insert(&things, &writer, 1);
    assert!(things.watchers().is_idle(), "a monitor is left behind");
}
