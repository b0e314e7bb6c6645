//! What the locks of connections may take, and that they are granted while there are numbers.

use super::{Bound, LockOperation, Shares, StealReply};
use crate::kept::tests::World;
use crate::places::Peer;
use crate::{Outgoing, Session};
use paceline_locks::{LockError, cost};
use paceline_types::Role;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// D1: the locks of all connections of one user are bounded together, those that it waits for included, and others
/// get theirs. What is refused, given back or left behind by a connection that ends counts no longer.
#[test]
fn the_locks_of_one_user_leave_room_for_others_d1() {
    use LockOperation::{Lock, Steal, Unlock};
    let world = World::new("lock-shares");
    let host = world.host();
    let one = cost("l0") as u64;
    let bound = Bound { connection: u64::MAX, peer: 3 * one, all: 6 * one, kept: one };
    host.locking().state().shares = Shares::new(bound);
    let connect = |peer| host.begin_session_of(peer, Some(Role::Client), |id| id.0.to_string());
    let operate = |session: &_, operation, name| {
        let ticket = Arc::from(&b"1"[..]);
        host.locking().operate(session, ticket, operation, name, StealReply::AtOnce)
    };
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

/// J5: fencing numbers run out while the disk is full. When it has room again, the session that waits for a lock
/// without an owner gets it, and free locks are granted, though no client does anything for that.
#[test]
fn locks_are_granted_again_when_a_full_disk_has_room_j5() {
    use LockOperation::{Lock, Unlock};
    let world = World::new("lock-room");
    let host = world.host();
    let connect = || host.begin_session(Some(Role::Client), |id| id.0.to_string());
    let operate = |session: &_, operation, name| {
        let ticket = Arc::from(&b"1"[..]);
        host.locking().operate(session, ticket, operation, name, StealReply::AtOnce)
    };
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
    // Every attempt so far is over, so that only another one can succeed.
    let _ = host.database("Paceline").unwrap().copy();
    world.inject("");
    world.runtime().block_on(async {
        let locked = tokio::time::timeout(Duration::from_secs(60), hear_locked(&waiter));
        assert_eq!(&*locked.await.expect("it waits for ever"), "held");
    });
    assert!(host.locking().fencing(waiter.id, "held").is_some());
    assert_eq!(operate(&other, Lock, "free"), Ok(()));
}

/// The next lock that a session is told it owns.
async fn hear_locked(session: &Session) -> Arc<str> {
    std::future::poll_fn(|context| {
        loop {
            match session.outbox.take() {
                Some(Outgoing::Locked(name)) => return Poll::Ready(name),
                Some(_) => {}
                None if session.outbox.register(context.waker(), crate::Interest::Items) => {}
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// J5: a start on a full disk serves everything but locks, which are granted when there is room.
#[test]
fn a_start_on_a_full_disk_serves_j5() {
    let mut world = World::new("lock-start");
    world.inject("full-after=0");
    world.kill();
    world.host().open_for_service();
    let host = world.host();
    let session = host.begin_session(Some(Role::Client), |id| id.0.to_string());
    let lock = || {
        let ticket = Arc::from(&b"1"[..]);
        let operation = LockOperation::Lock;
        host.locking().operate(&session, ticket, operation, "l", StealReply::AtOnce)
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
