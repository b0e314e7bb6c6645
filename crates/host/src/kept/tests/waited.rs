//! Waiters that ask again: after an orderly shutdown they count as having waited, once.

use super::{World, claiming_new, leased};
use crate::{Admission, PlaceHash, Terms, Waiting};
use paceline_types::{Reason, Request, RequestId, Span};

fn place(number: u8) -> Option<PlaceHash> {
    Some(PlaceHash([number; 32]))
}

/// Asks for what another permit holds.
fn wait(world: &World, place: Option<PlaceHash>) -> Waiting {
    let terms = Terms { place, ..leased() };
    match world.host().control().admit_kept(claiming_new("r"), terms).unwrap() {
        Admission::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

/// How long a waiter had waited in the last run.
fn before(world: &World, waiting: &Waiting) -> Span {
    world.host().control().why(waiting.id()).unwrap().waited_before
}

/// The waiters in line, the first one first.
fn line(world: &World, last: &Waiting) -> Vec<RequestId> {
    let mut ahead = world.host().control().why(last.id()).unwrap().ahead;
    // The holder is nearest, then the waiters, from the back.
    ahead.remove(0);
    ahead.reverse();
    ahead
}

fn rows(world: &World) -> usize {
    let own = &world.host().keeper().unwrap().own;
    own.own_rows(crate::own::WAITER_TABLE, |_, _| Some(())).len()
}

/// The holders that each waiter of the last run may wait for.
fn rows_beside(world: &World) -> Vec<Vec<u64>> {
    let own = &world.host().keeper().unwrap().own;
    own.own_rows(crate::own::WAITER_TABLE, |table, row| {
        let waiter = crate::kept::LeftWaiter::read(table, row)?;
        Some(waiter.beside.iter().map(|id| id.0).collect())
    })
}

/// A run whose holder stays, and that shut down in order while these places waited.
fn ended(name: &str, places: &[u8]) -> World {
    let mut world = World::new(name);
    let held = world.admit(claiming_new("r"), leased());
    let waiting: Vec<Waiting> = places.iter().map(|number| wait(&world, place(*number))).collect();
    world.written();
    world.host().retire();
    std::mem::forget(held);
    world.host().shut_down();
    drop(waiting);
    world.kill();
    world
}

#[test]
fn those_that_ask_again_stand_as_they_stood() {
    let world = ended("again", &[1, 2, 3]);
    assert_eq!(rows(&world), 3, "they are there until the doors open");
    world.restore();
    assert_eq!(rows(&world), 0);
    let stranger = wait(&world, place(9));
    let plain = wait(&world, None);
    let [third, first, second] = [3, 1, 2].map(|number| wait(&world, place(number)));
    let again = wait(&world, place(1));
    let last = wait(&world, None);
    let ids = [&first, &second, &third, &stranger, &plain, &again].map(Waiting::id);
    assert_eq!(line(&world, &last), ids);
    assert!(before(&world, &first) > before(&world, &second));
    for new in [&stranger, &plain, &again] {
        assert_eq!(before(&world, new), Span::ZERO);
    }
}

#[test]
fn a_start_that_fails_leaves_them_and_a_crash_does_not() {
    let mut world = ended("crash", &[1]);
    // The doors did not open.
    world.kill();
    assert_eq!(rows(&world), 1);
    world.restore();
    // Another record is written after the deletion.
    std::mem::forget(world.admit(claiming_new("s"), leased()));
    world.written();
    let waiting = wait(&world, place(1));
    assert!(before(&world, &waiting) > Span::ZERO);
    std::mem::forget(waiting);
    world.kill();
    assert_eq!(rows(&world), 0, "it was killed while they waited");
    world.restore();
    assert_eq!(before(&world, &wait(&world, place(1))), Span::ZERO);
}

/// J5: rows that cannot be deleted are not used, and the next orderly shutdown replaces them.
#[test]
fn places_that_cannot_be_deleted_are_not_used_j5() {
    let world = ended("full", &[1]);
    world.inject("full-after=0");
    world.restore();
    // Another thread may be the committer, which reports the failure after it has undone the deletion.
    let keeper = world.host().keeper().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !crate::sync::lock(&keeper.ledger.awaited).is_empty() {
        assert!(std::time::Instant::now() < deadline, "the failure is not reported");
        std::thread::yield_now();
    }
    let own = world.host().database("Paceline").unwrap();
    own.flush_blocking();
    own.wait_for_committer();
    assert_eq!(rows(&world), 1);
    assert_eq!(before(&world, &wait(&world, place(1))), Span::ZERO);
    world.inject("");
    world.host().shut_down();
    assert_eq!(rows(&world), 0);
}

/// A request of a session was submitted before another one of that session was granted what both want. It waits for
/// that holder, before and after an orderly shutdown.
#[test]
fn a_waiter_that_came_before_its_own_session_held_waits_on() {
    let mut world = World::new("beside");
    let mut session = super::session(world.host(), Some(Span::from_secs(30)), vec![]).0.id;
    let mut held = world.admit(claiming_new("r"), leased());
    let ask = |world: &World, session, resource: &str, number| {
        let request = Request { session: Some(session), ..claiming_new(resource) };
        let terms = Terms { place: place(number), ..leased() };
        world.host().control().admit_kept(request, terms).unwrap()
    };
    let waits = |admission| match admission {
        Admission::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    };
    let first = waits(ask(&world, session, "r", 1));
    let mut second = waits(ask(&world, session, "r", 2));
    held.settle();
    held = world.runtime().block_on(first).unwrap().unwrap();
    // The relation outlives any number of shutdowns.
    for _ in 0..2 {
        world.written();
        world.host().retire();
        let held_id = held.id();
        std::mem::forget(held);
        world.host().shut_down();
        drop(second);
        world.kill();
        assert_eq!(rows_beside(&world), [[held_id.0]]);
        session = super::session(world.host(), Some(Span::from_secs(30)), vec![]).0.id;
        held = world.restore_one(session);
        world.host().open_for_service();
        // A new request of the session would wait for itself.
        let Admission::Refused(_, refusal) = ask(&world, session, "r", 3) else { panic!() };
        assert!(matches!(refusal.reason, Reason::BlocksItself { .. }), "{refusal}");
        second = waits(ask(&world, session, "r", 2));
        assert!(before(&world, &second) > Span::ZERO);
        world.host().control().wake();
        assert!(world.host().control().why(second.id()).is_some(), "no circle is found later");
    }
    held.settle();
    assert!(world.runtime().block_on(second).unwrap().is_ok());
}

/// A waiter that was granted its other claim after it was submitted is nested in the holder as before: a circle with
/// another session is found.
#[test]
fn a_waiter_that_came_after_its_own_session_held_is_nested_as_before_c2() {
    let mut world = World::new("nested");
    let begin =
        |world: &World| super::session(world.host(), Some(Span::from_secs(30)), vec![]).0.id;
    let ask = |world: &World, session, resource: &str, number| {
        let request = Request { session: Some(session), ..claiming_new(resource) };
        let terms = Terms { place: place(number), ..leased() };
        world.host().control().admit_kept(request, terms).unwrap()
    };
    let (own, other) = (begin(&world), begin(&world));
    let Admission::Started(a) = ask(&world, own, "a", 1) else { panic!() };
    let Admission::Started(b) = ask(&world, other, "b", 2) else { panic!() };
    let Admission::Waiting(waiting) = ask(&world, own, "b", 3) else { panic!() };
    world.written();
    world.host().retire();
    std::mem::forget((a, b));
    world.host().shut_down();
    drop(waiting);
    world.kill();
    let (own, other) = (begin(&world), begin(&world));
    let keeper = world.host().keeper().unwrap();
    let permits = keeper.take_over().unwrap().permits;
    let restored = permits.iter().zip([own, other]);
    let held: Vec<_> =
        restored.map(|(permit, session)| keeper.restore_permit(permit, Some(session))).collect();
    world.host().open_for_service();
    let Admission::Waiting(waiting) = ask(&world, own, "b", 3) else { panic!() };
    assert!(before(&world, &waiting) > Span::ZERO);
    let Admission::Refused(_, refusal) = ask(&world, other, "a", 4) else { panic!() };
    assert!(matches!(refusal.reason, Reason::Deadlock { .. }), "{refusal}");
    drop(held);
}

/// A request that is refused as it is submitted keeps its place for another attempt.
#[test]
fn a_refusal_does_not_use_the_place() {
    let world = ended("refused", &[1]);
    world.restore();
    let mut request = claiming_new("r");
    request.locks = vec!["leader".into()];
    request.session = Some(super::session(world.host(), None, vec![]).0.id);
    let terms = Terms { place: place(1), ..leased() };
    let admission = world.host().control().admit_kept(request, terms).unwrap();
    assert!(matches!(admission, Admission::Refused(..)), "{admission:?}");
    assert!(before(&world, &wait(&world, place(1))) > Span::ZERO);
}

/// Waiters for a lock, and a place that belongs to a waiter for another lock.
#[test]
fn waits_for_locks_are_left_too() {
    use crate::LockOperation::Lock;
    let mut world = World::new("lines");
    let host = std::sync::Arc::clone(world.host());
    let lease = Some(Span::from_secs(30));
    let begin = |host: &crate::Host| super::session(host, lease, vec![]).0;
    let owner = begin(&host);
    host.locking().operate(&owner, Lock, "leader").unwrap();
    let waiters = [1, 2].map(|number| (begin(&host), place(number)));
    for (session, place) in &waiters {
        host.locking().operate_in_place(session, Lock, "leader", *place).unwrap();
    }
    // Sessions that have left the line, or own the lock, leave nothing.
    let gone = begin(&host);
    host.locking().operate_in_place(&gone, Lock, "leader", place(3)).unwrap();
    host.end_session(&gone);
    host.locking().operate_in_place(&gone, Lock, "leader", place(3)).unwrap_err();
    let owns = begin(&host);
    host.locking().operate_in_place(&owns, Lock, "other", place(4)).unwrap();
    world.written();
    host.retire();
    host.shut_down();
    world.kill();
    assert_eq!(rows(&world), 2);
    world.host().open_for_service();
    let host = std::sync::Arc::clone(world.host());
    let sessions = [None, place(2), place(1), place(2)].map(|place| (begin(&host), place));
    host.locking().operate(&begin(&host), Lock, "leader").unwrap();
    for (session, place) in &sessions {
        host.locking().operate_in_place(session, Lock, "leader", *place).unwrap();
    }
    let [new, second, first, used] = sessions.map(|(session, _)| session.name.clone());
    let shown = host.locking().shown("leader").unwrap().waiters;
    assert_eq!(shown, [first, second, new, used]);
}
