//! The memory that the locks of connections may take, and that locks are granted while there are numbers.

use super::{Bound, LockOperation, RELEASED_MAX, Shares};
use crate::kept::tests::World;
use crate::places::Peer;
use crate::{Host, Hosted, Outgoing, Session, WatchRequest};
use paceline_locks::{LockError, cost};
use paceline_tables::json;
use paceline_tables::monitor::Version;
use paceline_types::Role;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// D1: the locks of all connections of one user are bounded together, including those that it waits for, and
/// other users get theirs. A lock that is refused, released, or left behind by a connection that ends stops
/// counting.
#[test]
fn the_locks_of_one_user_leave_room_for_others_d1() {
    use LockOperation::{Lock, Steal, Unlock};
    let world = World::new("lock-shares");
    let host = world.host();
    let one = cost("l0") as u64;
    let bound = Bound { connection: u64::MAX, peer: 3 * one, all: 6 * one, kept: one };
    host.locking().state().shares = Shares::new(bound);
    let connect = |peer| host.begin_session_of(peer, Some(Role::Client), |id| id.0.to_string());
    let operate =
        |session: &_, operation, name| host.locking().operate(session, operation, name).map(drop);
    let full = |which| Err(LockError::TooManyTogether(which));
    let of_one = full("the locks of all connections of one client");
    let (a, b) = (connect(Peer::User(1)), connect(Peer::User(1)));
    for _ in 0..10 {
        assert_eq!(operate(&a, Lock, "l0"), Ok(()));
        assert_eq!(operate(&a, Lock, "l0"), Err(LockError::MustUnlock));
        assert_eq!(operate(&b, Lock, "l0"), Ok(()), "it waits");
        assert_eq!(operate(&b, Steal, "l1"), Ok(()));
        assert_eq!(operate(&a, Lock, "l2"), of_one);
        assert_eq!(operate(&a, Steal, "l1"), of_one);
        assert_eq!(operate(&a, Lock, "l0"), Err(LockError::MustUnlock), "it is counted already");
        for (session, name) in [(&a, "l0"), (&b, "l0"), (&b, "l1")] {
            assert_eq!(operate(session, Unlock, name), Ok(()));
            assert_eq!(operate(session, Unlock, name), Err(LockError::NotLocked));
        }
    }
    ["l0", "l1", "l2"].iter().for_each(|name| operate(&b, Lock, name).unwrap());
    let (other, root) = (connect(Peer::User(2)), connect(Peer::Owner));
    ["l3", "l4"].iter().for_each(|name| operate(&other, Lock, name).unwrap());
    assert_eq!(operate(&other, Lock, "l5"), full("the locks of all connections"));
    assert_eq!(operate(&root, Lock, "l5"), Ok(()));
    assert_eq!(operate(&root, Lock, "l6"), full("the locks of all connections"));
    host.end_session(&b);
    ["l0", "l1"].iter().for_each(|name| operate(&a, Lock, name).unwrap());
    // Without numbers nothing is granted, and nothing is counted.
    [&a, &other, &root].iter().for_each(|session| host.end_session(session));
    host.locking().stop();
    let c = connect(Peer::User(1));
    for _ in 0..10 {
        assert_eq!(operate(&c, Lock, "l0"), Err(LockError::Exhausted));
    }
    assert!(host.locking().state().shares.is_empty());
}

/// J5: fencing numbers run out while the disk is full. When it has room again, the session that waits for a
/// lock without an owner gets it, and free locks are granted, without any action of a client.
#[test]
fn locks_are_granted_again_when_a_full_disk_has_room_j5() {
    use LockOperation::{Lock, Unlock};
    let world = World::new("lock-room");
    let host = world.host();
    let connect = || host.begin_session(Some(Role::Client), |id| id.0.to_string());
    let operate =
        |session: &_, operation, name| host.locking().operate(session, operation, name).map(drop);
    let (owner, waiter, other) = (connect(), connect(), connect());
    operate(&owner, Lock, "held").unwrap();
    operate(&waiter, Lock, "held").unwrap();
    world.inject("full-after=0");
    while operate(&other, Lock, "free").is_ok() {
        operate(&other, Unlock, "free").unwrap();
        while other.outbox.take().is_some() {}
    }
    assert_eq!(operate(&other, Lock, "free"), Err(LockError::Exhausted));
    host.end_session(&owner);
    assert_eq!(host.locking().fencing(waiter.id, "held"), None);
    // Every attempt so far has ended, so only another one can succeed.
    let _ = host.database("Paceline").unwrap().copy();
    world.inject("");
    world.runtime().block_on(async {
        let locked = tokio::time::timeout(Duration::from_secs(60), hear_locked(&waiter));
        assert_eq!(&*locked.await.expect("it waits for ever"), "held");
    });
    assert!(host.locking().fencing(waiter.id, "held").is_some());
    assert_eq!(operate(&other, Lock, "free"), Ok(()));
}

/// J5: the first client that asks for a lock when a full disk has room again is granted it, though the last reservation
/// of numbers failed and the next one is not due.
#[test]
fn the_first_lock_is_granted_when_a_full_disk_has_room_j5() {
    let world = World::new("lock-first");
    let host = world.host();
    let client = host.begin_session(Some(Role::Client), |id| id.0.to_string());
    let operate = |operation| {
        while client.outbox.take().is_some() {}
        host.locking().operate(&client, operation, "l").map(drop)
    };
    for wanted in [LockOperation::Lock, LockOperation::Steal] {
        world.inject("full-after=0");
        while operate(LockOperation::Lock).is_ok() {
            operate(LockOperation::Unlock).unwrap();
        }
        // Every attempt so far has ended.
        let _ = host.database("Paceline").unwrap().copy();
        assert_eq!(operate(wanted), Err(LockError::Exhausted));
        world.inject("");
        assert_eq!(operate(wanted), Ok(()));
        operate(LockOperation::Unlock).unwrap();
    }
}

/// The next lock that a session is notified to own.
async fn hear_locked(session: &Session) -> Arc<str> {
    std::future::poll_fn(|context| {
        loop {
            match session.outbox.take() {
                Some(Outgoing::Lock(notice)) => return Poll::Ready(notice.lock),
                Some(_) => {}
                None if session.outbox.register(context.waker(), crate::Interest::Items) => {}
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// J5: a daemon that starts on a full disk serves everything except locks, which are granted when there is
/// room.
#[test]
fn a_start_on_a_full_disk_serves_j5() {
    let mut world = World::new("lock-start");
    world.inject("full-after=0");
    world.kill();
    world.host().open_for_service();
    let host = world.host();
    let session = host.begin_session(Some(Role::Client), |id| id.0.to_string());
    let lock = || {
        let operation = LockOperation::Lock;
        host.locking().operate(&session, operation, "l").map(drop)
    };
    assert_eq!(lock(), Err(LockError::Exhausted));
    world.inject("");
    world.runtime().block_on(async {
        let granted = async {
            while lock() == Err(LockError::Exhausted) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), granted).await.expect("it is never granted");
    });
    assert!(host.locking().fencing(session.id, "l").is_some());
}

fn ask(host: &Host, session: &Session, operation: LockOperation, name: &str) {
    host.locking().operate(session, operation, name).unwrap();
}

fn connected(host: &Arc<Host>) -> Arc<Session> {
    host.begin_session(Some(Role::Client), |id| format!("c{:04}", id.0))
}

fn watch_locks(own: &Arc<Hosted>, session: &Arc<Session>) {
    let requests = json::parse(br#"{"Lock": {}}"#, 128).unwrap();
    let (ticket, id) = (Arc::from(&b"0"[..]), Arc::from(&b"1"[..]));
    let request = WatchRequest { ticket, id, requests, version: Version::V1, since: None };
    own.watch(session, request).unwrap();
    own.flush_blocking();
}

/// How many updates a client has been sent since the last call.
fn updates(session: &Session) -> usize {
    let items = std::iter::from_fn(|| session.outbox.take());
    items.filter(|item| matches!(item, Outgoing::Update(_))).count()
}

/// How many sessions wait for the first lock, and how many of them the table names.
fn shown_waiters(own: &Hosted) -> Option<(i64, usize)> {
    let rows = own.own_rows("Lock", |table, row| {
        let column = |name: &str| Some(&row[table.column_id(name)?.index()]);
        Some((column("waiting")?.single()?.as_integer()?, column("waiters")?.len()))
    });
    rows.first().copied()
}

/// D4: while a client watches the table of locks, the cost of a lock operation does not depend on the number of
/// waiters. The table is updated beside the operations: clients that leave one after the other while nothing
/// else runs make it change a few times, not each time. In the end it is up to date.
#[test]
fn the_table_of_locks_follows_many_changes_in_few_steps_d4() {
    let world = World::new("lock-shown");
    let (host, own) = (world.host(), world.host().database("Paceline").unwrap());
    let clients: Vec<_> = (0..300).map(|_| connected(host)).collect();
    for client in &clients {
        ["l0", "l1", "l2"].iter().for_each(|name| ask(host, client, LockOperation::Lock, name));
    }
    let watcher = connected(host);
    watch_locks(&own, &watcher);
    assert_eq!(shown_waiters(&own), Some((299, 100)));
    updates(&watcher);
    let mut told = 0;
    for client in clients.iter().take(200) {
        host.end_session(client);
        told += updates(&watcher);
    }
    assert!(told <= 2, "the table was changed {told} times for 200 clients that left");
    world.runtime().block_on(async {
        let shown = async {
            while shown_waiters(&own) != Some((99, 99)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), shown).await.expect("it is never shown");
    });
}

/// D4: of many waiters, lists name the first hundred and give the number of all.
#[test]
fn lists_name_the_first_of_many_that_wait_d4() {
    let world = World::new("lock-lists");
    let host = world.host();
    let clients: Vec<_> = (0..1_500).map(|_| connected(host)).collect();
    for (at, client) in clients.iter().enumerate() {
        ask(host, client, LockOperation::Lock, "hot");
        ask(host, client, LockOperation::Lock, &format!("own-{at:04}"));
    }
    let shown = host.locking().shown("hot").unwrap();
    assert_eq!((shown.waiting, shown.waiters.len()), (1_499, 100));
    assert_eq!(shown.waiters.first(), Some(&clients.get(1).unwrap().name));
    let names = |first: &str, count| -> Vec<String> {
        let list = host.locking().shown_from(first, count);
        list.into_iter().map(|lock| lock.name.to_string()).collect()
    };
    let own = |from: usize| (from..1_500).map(|at| format!("own-{at:04}"));
    let all: Vec<String> = std::iter::once("hot".to_owned()).chain(own(0)).collect();
    assert_eq!(names("", usize::MAX), all, "a list that is made in pieces has each lock once");
    assert_eq!(names("own-0200", usize::MAX), own(200).collect::<Vec<_>>());
    assert_eq!(names("own-0200", 1_200), own(200).take(1_200).collect::<Vec<_>>());
    assert_eq!(names("own-0200", 0), [""; 0]);
}

/// D4: the table of locks is updated only as long as a monitor or a waiting transaction reads it.
#[test]
fn the_table_of_locks_is_left_alone_when_nobody_watches_d4() {
    let world = World::new("lock-watched");
    let (host, own) = (world.host(), world.host().database("Paceline").unwrap());
    let is_watched = || host.locking().is_watched();
    let (watcher, waiter, client) = (connected(host), connected(host), connected(host));
    assert!(!is_watched());
    watch_locks(&own, &watcher);
    assert!(is_watched());
    host.end_session(&watcher);
    assert!(!is_watched(), "the monitor is gone");
    let wait =
        br#"[{"op": "wait", "table": "Lock", "where": [], "columns": ["name"], "until": "!=",
        "rows": []}]"#;
    let wait = json::parse(wait, 128).unwrap().as_array().unwrap().to_vec();
    let ticket: Arc<[u8]> = Arc::from(&b"7"[..]);
    own.transact(&waiter, [(ticket.clone(), wait.clone())]);
    assert!(is_watched());
    assert!(own.cancel(&waiter, &ticket));
    assert!(!is_watched(), "the transaction is gone");
    own.transact(&waiter, [(ticket, wait)]);
    while waiter.outbox.take().is_some() {}
    ask(host, &client, LockOperation::Lock, "l");
    world.runtime().block_on(async {
        let answered = std::future::poll_fn(|context| {
            loop {
                match waiter.outbox.take() {
                    Some(Outgoing::Reply(..)) => return Poll::Ready(()),
                    Some(_) => {}
                    None if waiter.outbox.register(context.waker(), crate::Interest::Items) => {}
                    None => return Poll::Pending,
                }
            }
        });
        tokio::time::timeout(Duration::from_secs(60), answered).await.expect("it waits for ever");
    });
    assert!(!is_watched(), "it waits no more");
}

/// D4: a connection with very many locks releases them in pieces: all of them, and their memory.
#[test]
fn a_connection_with_many_locks_gives_all_back_d4() {
    let world = World::new("lock-pieces");
    let host = world.host();
    let (client, waiter) = (connected(host), connected(host));
    let names: Vec<String> = (0..2 * RELEASED_MAX + 1).map(|at| format!("l{at}")).collect();
    names.iter().for_each(|name| ask(host, &client, LockOperation::Lock, name));
    names.iter().for_each(|name| ask(host, &waiter, LockOperation::Lock, name));
    host.end_session(&client);
    assert_eq!(host.locking().owned(waiter.id).len(), names.len());
    assert!(host.locking().owned(client.id).is_empty());
    host.end_session(&waiter);
    assert!(host.locking().shown_from("", 1).is_empty());
    assert!(host.locking().state().shares.is_empty());
}
