//! The memory that a client which does not read keeps, and how it counts.

use super::*;
use crate::{Interest, Part, WatchRequest};
use paceline_tables::Row;
use paceline_tables::monitor::Version;
use paceline_types::limits::{REPLY_BYTES_MAX, SHARE_BYTES_MIN, UNREAD_BYTES_TOGETHER_MAX};
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

fn watch(database: &Arc<Hosted>, session: &Arc<Session>, column: &str) {
    let requests = parse(&format!(r#"{{"Thing": {{"columns": ["{column}"]}}}}"#));
    let (ticket, id) = (ticket("0"), ticket("\"m\""));
    let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
    database.watch(session, request).unwrap();
    database.flush_blocking();
    assert_eq!(received(session), ["reply 0"]);
}

pub(super) fn change(database: &Arc<Hosted>, session: &Arc<Session>, text: &str) {
    transact(database, session, "1", text);
    database.flush_blocking();
    // Another thread writes to a disk that was slow a moment ago.
    while !session.is_settled() {
        std::thread::yield_now();
    }
    assert!(next_error(session).is_none());
}

fn only_row(database: &Hosted) -> Row {
    let head = database.head();
    let table = head.database.schema().table_id("Thing").unwrap();
    head.database.store().rows(table).next().unwrap().clone()
}

/// D1: updates that a client does not read keep no row of the database in memory, neither before nor after the
/// client has fallen behind; and updates that pile up arrive as one.
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

/// D1: a client that has several monitors of a table gets the updates of each of them combined. An answer in between keeps
/// its place.
#[test]
fn unread_updates_of_several_monitors_are_combined_d1() {
    let world = World::new("unread-several");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    for number in 0..3 {
        ask(&things, &reader, number);
    }
    assert_eq!(received(&reader).len(), 3);
    let text = "x".repeat(20_000);
    let change_often = || {
        for at in 0..400 {
            set_name(&things, &writer, &format!("{at}{text}"));
        }
    };
    change_often();
    assert!(reader.outbox.closed().is_none(), "24 MB are kept for one client");
    things.answer(&reader, ticket("between"), Reply::Text(b"[]".to_vec()));
    change_often();
    assert!(reader.outbox.closed().is_none(), "24 MB are kept for one client");
    let told = received(&reader);
    let answer = told.iter().position(|item| item == "reply between").unwrap();
    assert!(answer >= 6 && told.len() - answer > 3, "{told:?}");
    assert!(told.len() < 30, "{} items", told.len());
}

/// D1: the values that several unread updates to one client keep count, not only their text.
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

fn ask(database: &Arc<Hosted>, session: &Arc<Session>, number: usize) {
    let requests = parse(r#"{"Thing": {"columns": ["name"]}}"#);
    let (ticket, id) = (ticket(&number.to_string()), ticket(&format!("\"m{number}\"")));
    let request = WatchRequest { ticket, id, requests, version: Version::V2, since: None };
    database.watch(session, request).unwrap();
    database.flush_blocking();
}

fn cancel(database: &Arc<Hosted>, session: &Arc<Session>, number: usize) {
    database.unwatch(session, ticket("\"c\""), ticket(&format!("\"m{number}\"")));
    database.flush_blocking();
}

fn set_name(database: &Arc<Hosted>, session: &Arc<Session>, name: &str) {
    let update = format!(
        r#"[{{"op": "update", "table": "Thing", "where": [], "row": {{"name": "{name}"}}}}]"#
    );
    change(database, session, &update);
}

/// D1: a client that leaves a few dumps or changes of conditions unread is served no further request, whether
/// or not it has cancelled their monitors; and it is not disconnected for that.
#[test]
fn unread_dumps_stop_further_requests_d1() {
    let world = World::new("unread-dumps");
    let things = world.open(SCHEMA);
    let reader = world.client(Role::Viewer);
    let is_full = |session: &Session| session.waiting_bytes() > REPLY_BYTES_MAX;
    let mut asked = 0;
    while !is_full(&reader) {
        ask(&things, &reader, asked);
        cancel(&things, &reader, asked);
        asked += 1;
        assert!(asked < 20, "a dump counts for {} bytes", reader.waiting_bytes() / asked);
    }
    assert_eq!(received(&reader).len(), 2 * asked);
    assert_eq!(reader.waiting_bytes(), 0);

    ask(&things, &reader, 0);
    assert_eq!(received(&reader), ["reply 0"]);
    let mut changed = 0;
    while !is_full(&reader) {
        let (id, conditions) = (ticket("\"m0\""), parse("{}"));
        things.rewatch(&reader, ticket("1"), (id.clone(), id), conditions).unwrap();
        things.flush_blocking();
        changed += 1;
        assert!(changed < 20, "a change counts for {} bytes", reader.waiting_bytes() / changed);
    }
    assert!(reader.outbox.closed().is_none());
}

/// D1: a request counts already while it waits for the disk.
#[test]
fn dumps_that_wait_to_be_written_stop_further_requests_d1() {
    let world = World::new("queued-dumps");
    let things = world.open(SCHEMA);
    let reader = world.client(Role::Viewer);
    hold_back(&things);
    (0..20).for_each(|number| ask(&things, &reader, number));
    assert!(reader.waiting_bytes() > REPLY_BYTES_MAX);
    publish(&things);
    assert_eq!(received(&reader).len(), 20);
    assert_eq!(reader.waiting_bytes(), 0);
}

/// D1: if all unread dumps together keep too much while the database changes, the clients with the oldest dumps
/// are disconnected; the others are not.
#[test]
fn dumps_that_are_too_old_are_dropped_d1() {
    let world = World::new("old-dumps");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    things.head().pins.bytes_max = 1 << 20;
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    let text = "x".repeat(100_000);
    let readers: Vec<_> = (0..30).map(|_| world.client(Role::Viewer)).collect();
    let mut rows = Vec::new();
    for (at, reader) in readers.iter().enumerate() {
        ask(&things, reader, 0);
        cancel(&things, reader, 0);
        rows.push(Arc::downgrade(&only_row(&things)));
        set_name(&things, &writer, &format!("{at}{text}"));
    }
    // Each keeps a row of its own of some 100 KB. They are weighed, newest first, on another thread.
    while readers[0].outbox.closed().is_none() {
        std::thread::yield_now();
    }
    let open: Vec<bool> = readers.iter().map(|reader| reader.outbox.closed().is_none()).collect();
    let first = open.iter().position(|is_open| *is_open).unwrap();
    assert!(open[first..].iter().all(|is_open| *is_open), "{open:?}");
    assert!((8..=20).contains(&first), "{open:?}");
    let kept = rows.iter().filter(|row| row.upgrade().is_some()).count();
    assert!(
        kept <= open.len() - first + 1,
        "{kept} rows are kept for {} clients",
        open.len() - first
    );
    assert_eq!(received(&readers[29]), ["reply 0", "reply \"c\""]);
}

/// D1: rows that a client has selected and does not read are weighed with the dumps.
#[test]
fn selected_rows_that_are_too_old_are_dropped_d1() {
    let world = World::new("old-selects");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    things.head().pins.bytes_max = 1 << 20;
    let insert = r#"{"op": "insert", "table": "Thing", "row": {}}"#;
    change(&things, &writer, &format!("[{}]", vec![insert; 2_000].join(",")));
    let readers: Vec<_> = (0..10).map(|_| world.client(Role::Viewer)).collect();
    for (at, reader) in readers.iter().enumerate() {
        transact(&things, reader, "1", r#"[{"op": "select", "table": "Thing", "where": []}]"#);
        set_name(&things, &writer, &at.to_string());
    }
    let (weighing, now) = {
        let mut head = things.head();
        head.pins.note_all();
        (head.pins.take_due().unwrap(), head.database.snapshot())
    };
    weighing.run(now);
    let open = readers.iter().filter(|reader| reader.outbox.closed().is_none()).count();
    // The rows of each are some 200 KB.
    assert!((1..=6).contains(&open), "{open} clients keep rows");
    assert!(readers[9].outbox.closed().is_none());
}

/// D1: an old dump is kept while it needs few rows, however often they change and whatever other clients read
/// meanwhile.
#[test]
fn an_old_dump_that_keeps_little_is_not_dropped_d1() {
    let world = World::new("old-small-dump");
    let things = world.open(SCHEMA);
    let (slow, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    things.head().pins.bytes_max = 1 << 20;
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    ask(&things, &slow, 0);
    cancel(&things, &slow, 0);
    let text = "x".repeat(100_000);
    let quick = world.client(Role::Viewer);
    for at in 0..100 {
        ask(&things, &quick, 0);
        cancel(&things, &quick, 0);
        assert_eq!(received(&quick).len(), 2);
        set_name(&things, &writer, &format!("{at}{text}"));
    }
    // Another thread weighs these; here they are weighed once more.
    let (weighing, now) = {
        let mut head = things.head();
        head.pins.note_all();
        (head.pins.take_due().unwrap(), head.database.snapshot())
    };
    assert_eq!(weighing.run(now), 0);
    assert!(slow.outbox.closed().is_none());
    assert_eq!(received(&slow), ["reply 0", "reply \"c\""]);
}

/// Inserts small rows, and then one with `tags` tags.
fn fill_with_tags(things: &Arc<Hosted>, writer: &Arc<Session>, tags: usize) {
    let small = r#"{"op": "insert", "table": "Thing", "row": {}}"#;
    change(things, writer, &format!("[{}]", vec![small; 40].join(",")));
    let tags: Vec<String> = (0..tags).map(|tag| tag.to_string()).collect();
    let large = format!(
        r#"[{{"op": "insert", "table": "Thing", "row": {{"name": "large", "tags": ["set", [{}]]}}}}]"#,
        tags.join(",")
    );
    change(things, writer, &large);
}

/// Adds a tag to the row with many tags, which copies them all.
fn tag(number: usize) -> String {
    format!(
        r#"{{"op": "mutate", "table": "Thing", "where": [["name", "==", "large"]],
            "mutations": [["tags", "insert", {}]]}}"#,
        number + 1_000_000
    )
}

const SELECT: &str = r#"{"op": "select", "table": "Thing", "where": []}"#;

/// The row with many tags.
fn large_row(things: &Hosted) -> Row {
    let head = things.head();
    let table = head.database.schema().table_id("Thing").unwrap();
    let mut rows = head.database.store().rows(table);
    rows.find(|row| row.iter().any(|value| value.len() > 1_000)).unwrap().clone()
}

/// D1: each row of an answer counts for its size, also a large one after many small ones.
#[test]
fn a_large_row_behind_small_ones_counts_d1() {
    const TAGS: usize = 50_000;
    let world = World::new("large-row");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    fill_with_tags(&things, &writer, TAGS);
    let mut versions = Vec::new();
    for at in 0..100 {
        if reader.is_full() {
            break;
        }
        transact(&things, &reader, "1", &format!("[{SELECT}]"));
        versions.push(Arc::downgrade(&large_row(&things)));
        change(&things, &writer, &format!("[{}]", tag(at)));
    }
    let kept = versions.iter().filter(|row| row.strong_count() > 0).count();
    let bytes = kept * TAGS * 16;
    assert!(
        bytes <= REPLY_BYTES_MAX + 2 * TAGS * 32,
        "{bytes} bytes are kept and count for little"
    );
}

/// D1: rows that a transaction has selected and then changed again, or that were undone, count too: no snapshot
/// has them.
#[test]
fn selected_rows_that_no_snapshot_has_count_d1() {
    const TAGS: usize = 50_000;
    let world = World::new("own-rows");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    fill_with_tags(&things, &writer, TAGS);
    let steps: Vec<String> = (0..10).map(|at| format!("{},{SELECT}", tag(at))).collect();
    for end in [r#"{"op": "abort"}"#, r#"{"op": "comment", "comment": "done"}"#] {
        let before = writer.outbox.budget().used();
        transact(&things, &writer, "1", &format!("[{},{end}]", steps.join(",")));
        things.flush_blocking();
        let used = writer.outbox.budget().used() - before;
        assert!(used >= 9 * TAGS * 16, "{used} bytes count with {end}");
        assert_eq!(received(&writer), ["reply 1"]);
        assert_eq!(writer.outbox.budget().used(), before);
    }
}

/// D1: changes that are refused and undone, and that an answer shows, are weighed with the snapshots.
#[test]
fn selected_rows_of_refused_changes_are_weighed_d1() {
    let world = World::new("refused-rows");
    let things = world.open(SCHEMA);
    let (refused, writer) = (world.client(Role::Admin), world.client(Role::Admin));
    fill_with_tags(&things, &writer, 50_000);
    things.head().pins.bytes_max = 8 << 20;
    // Nothing can be written, and the task that replaces the file does not run.
    things.head().broken = Some(Error::new(paceline_tables::tag::IO, "the disk is gone"));
    for at in 0..20 {
        transact(&things, &refused, "1", &format!("[{},{SELECT}]", tag(at)));
    }
    let (weighing, now) = {
        let mut head = things.head();
        (head.pins.take_due().expect("they are due"), head.database.snapshot())
    };
    assert_eq!(weighing.run(now), 1);
    assert!(refused.outbox.closed().is_some());
}

/// What all peers except root may leave unread together.
const OPEN: usize = UNREAD_BYTES_TOGETHER_MAX - UNREAD_BYTES_TOGETHER_MAX / 10;

/// Counts unread bytes of others, so that `left` bytes of the budget are left.
fn leave_of_budget(session: &Session, left: usize) -> Part {
    let mut others = session.outbox.budget().part();
    others.set(OPEN - left);
    others
}

/// D1: the more all clients leave unread, the less one client may leave unread before its requests wait. When
/// the others have read, it may leave more again.
#[test]
fn answers_that_others_leave_unread_leave_less_for_one_d1() {
    let world = World::new("budget-replies");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    let insert = format!(
        r#"[{{"op": "insert", "table": "Thing", "row": {{"name": "{}"}}}}]"#,
        "x".repeat(100_000)
    );
    change(&things, &writer, &insert);
    let select = r#"[{"op": "select", "table": "Thing", "where": []}]"#;
    (0..10).for_each(|_| transact(&things, &reader, "1", select));
    things.flush_blocking();
    assert!(!reader.is_full(), "1 MB of a client that is alone");
    let others = leave_of_budget(&reader, 1 << 20);
    assert!(reader.is_full(), "a quarter of 1 MiB is left to each");
    assert!(reader.outbox.closed().is_none());
    drop(others);
    assert!(!reader.is_full());
}

/// D1: the same for notifications, except that the client is disconnected.
#[test]
fn notifications_that_others_leave_unread_leave_less_for_one_d1() {
    let world = World::new("budget-notices");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    watch(&things, &reader, "name");
    let text = "x".repeat(400_000);
    set_name(&things, &writer, &text);
    assert_eq!(received(&reader).len(), 1);
    let _others = leave_of_budget(&reader, 2 << 20);
    set_name(&things, &writer, &text[1..]);
    assert_eq!(received(&reader).len(), 1, "it reads, and has its share");
    let _more = leave_of_budget(&reader, OPEN - (1 << 20));
    set_name(&things, &writer, &text);
    assert!(reader.outbox.closed().is_none(), "it had read everything");
    set_name(&things, &writer, &text[1..]);
    assert!(reader.outbox.closed().is_some(), "a quarter of 1 MiB is left to each");
}

/// D1: updates that are combined into the only waiting item are bounded too.
#[test]
fn combined_updates_alone_are_bounded_d1() {
    let world = World::new("combined");
    let things = world.open(SCHEMA);
    let (reader, writer) = (world.client(Role::Viewer), world.client(Role::Admin));
    watch(&things, &reader, "name");
    let insert = format!(
        r#"[{{"op": "insert", "table": "Thing", "row": {{"name": "{}"}}}}]"#,
        "x".repeat(400_000)
    );
    change(&things, &writer, &insert);
    change(&things, &writer, &insert);
    assert!(matches!(reader.outbox.take(), Some(Outgoing::Update(_))));
    for _ in 0..50 {
        change(&things, &writer, &insert);
    }
    assert!(reader.outbox.closed().is_some());
}

/// Sends answers to new connections of `peer`, which read nothing, for as long as these may get more.
fn leave_unread(world: &World, things: &Arc<Hosted>, peer: Peer) -> Vec<Arc<Session>> {
    let greedy = |_| {
        let session = world.client_of(peer, Role::Viewer);
        while !session.is_full() && session.outbox.closed().is_none() {
            things.answer(&session, ticket("1"), Reply::Text(vec![0; 60_000]));
        }
        session
    };
    (0..100).map(greedy).collect()
}

/// D1: what one user or address leaves unread takes nothing from others, including root: they get long updates
/// and long answers, even a few before they read.
#[test]
fn what_one_peer_leaves_unread_cuts_no_other_d1() {
    let world = World::new("budget-peers");
    let things = world.open(SCHEMA);
    let writer = world.client_of(Peer::Owner, Role::Admin);
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    let text = "x".repeat(300_000);
    for greedy in [Peer::Stranger(65_534), Peer::User(7)] {
        let unread = leave_unread(&world, &things, greedy);
        for honest in [Peer::Owner, Peer::User(8)] {
            let honest = world.client_of(honest, Role::Viewer);
            watch(&things, &honest, "name");
            for at in 0..3 {
                set_name(&things, &writer, &text[at..]);
                transact(&things, &honest, "2", &format!("[{SELECT}]"));
                things.answer(&honest, ticket("3"), Reply::Text(vec![0; 300_000]));
            }
            assert_eq!(honest.outbox.closed(), None, "beside {greedy:?}");
            assert!(!honest.is_full());
            assert_eq!(received(&honest).len(), 9);
        }
        drop(unread);
    }
}

/// D1: a user without a role may leave next to nothing unread, whatever is left.
#[test]
fn without_a_role_little_is_kept_d1() {
    let world = World::new("budget-stranger");
    let things = world.open(SCHEMA);
    let stranger = world.client_of(Peer::Stranger(65_534), Role::Viewer);
    let unread = leave_unread(&world, &things, Peer::Stranger(65_534));
    assert!(stranger.outbox.budget().used() < 100 * (SHARE_BYTES_MIN + 70_000));
    assert!(unread.iter().all(|session| session.waiting_bytes() < SHARE_BYTES_MIN + 70_000));
}

/// D1: if others have used up the budget, a client that has read everything gets one more item, and is
/// disconnected at the next one only if it leaves the first unread. If twice the budget is used, it gets not
/// even one.
#[test]
fn who_has_read_everything_gets_one_item_d1() {
    let world = World::new("budget-first");
    let things = world.open(SCHEMA);
    let (honest, late) = (
        world.client_of(Peer::User(1), Role::Viewer),
        world.client_of(Peer::User(2), Role::Viewer),
    );
    let fill = |users: std::ops::Range<u32>| -> Vec<Part> {
        let fill = |user| {
            let mut part = world.client_of(Peer::User(user), Role::Viewer).outbox.budget().part();
            part.set(UNREAD_BYTES_TOGETHER_MAX / 4);
            part
        };
        users.map(fill).collect()
    };
    let answer = |session: &Arc<Session>| {
        things.answer(session, ticket("1"), Reply::Text(vec![0; 1 << 20]));
    };
    let _all = fill(10..14);
    for _ in 0..10 {
        answer(&honest);
        assert_eq!(received(&honest), ["reply 1"]);
    }
    answer(&honest);
    assert_eq!(honest.outbox.closed(), None);
    answer(&honest);
    assert!(honest.outbox.closed().is_some());
    let _twice = fill(20..24);
    answer(&late);
    assert!(late.outbox.closed().is_some());
}

/// D1: an update to many clients is in memory once and counts once: however many clients there are, none is
/// disconnected for a long update. An item stops counting when it is taken, or when its client leaves.
#[test]
fn an_update_to_many_counts_once_d1() {
    let world = World::new("budget-shared");
    let things = world.open(SCHEMA);
    let writer = world.client(Role::Admin);
    let readers: Vec<_> = (0..200).map(|_| world.client(Role::Viewer)).collect();
    change(&things, &writer, r#"[{"op": "insert", "table": "Thing", "row": {}}]"#);
    readers.iter().for_each(|reader| watch(&things, reader, "name"));
    let budget = writer.outbox.budget();
    assert_eq!(budget.used(), 0);
    let _others = leave_of_budget(&writer, 8 << 20);
    let before = budget.used();
    set_name(&things, &writer, &"x".repeat(1 << 20));
    assert!(readers.iter().all(|reader| reader.outbox.closed().is_none()));
    let used = budget.used() - before;
    assert!((1 << 20..2 << 20).contains(&used), "{used} bytes count");
    let (some, others) = readers.split_at(100);
    some.iter().for_each(|reader| assert_eq!(received(reader).len(), 1));
    others.iter().for_each(|reader| world.host.end_session(reader));
    assert_eq!(budget.used(), before);
}

/// D1: an answer that exceeds the budget is dropped, and its client is disconnected; other clients are not
/// affected.
#[test]
fn an_answer_beyond_the_budget_is_not_kept_d1() {
    let world = World::new("budget-spent");
    let things = world.open(SCHEMA);
    let (small, large) = (world.client(Role::Viewer), world.client(Role::Viewer));
    let others = leave_of_budget(&small, 1 << 20);
    let before = small.outbox.budget().used();
    let answer = |session: &Arc<Session>, bytes: usize| {
        things.answer(session, ticket("1"), Reply::Text(vec![b'x'; bytes]));
        things.flush_blocking();
    };
    answer(&small, 10_000);
    answer(&large, 10_000);
    answer(&large, 2 << 20);
    assert!(large.outbox.closed().is_some());
    assert!(small.outbox.closed().is_none());
    assert!(small.outbox.budget().used() < before + 20_000);
    drop(others);
}

/// A connection that has sent all answers and waits only for its requests to stop counting is woken for that:
/// it may have looked between an answer and the end of the count.
#[test]
fn a_client_whose_requests_count_no_more_is_looked_at_again() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let world = World::new("settled");
    let client = world.client(Role::Viewer);
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    for (bytes, rest) in [(1_000, 0), (REPLY_BYTES_MAX, 1_000)] {
        let before = woken.0.load(Ordering::Relaxed);
        client.charge(bytes + rest);
        assert!(!client.outbox.register(&waker, Interest::Items));
        client.discharge(bytes);
        assert_eq!(woken.0.load(Ordering::Relaxed), before + 1, "{bytes} of {}", bytes + rest);
        client.discharge(rest);
    }
}
