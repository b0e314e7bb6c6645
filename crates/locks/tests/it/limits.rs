//! Many waiters, many names, and the bounds that the scripts are too small to reach.

use paceline_locks::{Effect, Locks, SessionId, Standing};

use crate::model::SplitMix;

/// A hundred thousand waiters leave in random order, by unlock and by end. Searching a list would
/// take ten thousand million steps.
#[test]
fn many_waiters_leave_in_any_order() {
    const WAITERS: u64 = 100_000;
    let mut locks = Locks::new(1, u64::MAX, usize::MAX);
    assert_eq!(locks.lock(SessionId(0), "x"), Ok(true));
    for id in 1..=WAITERS {
        assert_eq!(locks.lock(SessionId(id), "x"), Ok(false));
    }
    let mut leaving: Vec<u64> = (1..=WAITERS).collect();
    let mut random = SplitMix(7);
    for last in (1..leaving.len()).rev() {
        leaving.swap(last, random.below(last as u64 + 1) as usize);
    }
    let stays = leaving.pop().unwrap();
    for (turn, id) in leaving.into_iter().enumerate() {
        if turn % 2 == 0 {
            locks.unlock(SessionId(id), "x").unwrap();
        } else {
            locks.release_all(SessionId(id));
        }
    }
    assert_eq!(locks.poll_effect(), None, "the owner is unchanged and hears nothing");
    assert_eq!(locks.waiters("x").collect::<Vec<_>>(), [SessionId(stays)]);
    locks.release_all(SessionId(0));
    let told = Effect::Locked { session: SessionId(stays), name: "x".into(), fencing: 2 };
    assert_eq!(locks.poll_effect(), Some(told));
}

/// L1: ten thousand owners in turn, each served in order of arrival.
#[test]
fn many_waiters_are_served_in_order() {
    let mut locks = Locks::new(1, u64::MAX, usize::MAX);
    for id in 0..10_000 {
        assert_eq!(locks.lock(SessionId(id), "x"), Ok(id == 0));
    }
    for id in 1..10_000 {
        locks.release_all(SessionId(id - 1));
        assert_eq!(locks.owner("x"), Some((SessionId(id), id + 1)));
    }
}

/// The names of all locks that changed since they were last taken.
fn changed(locks: &mut Locks) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    while let Some(name) = locks.take_changed(names.last().map_or("", String::as_str)) {
        names.push(name.to_string());
    }
    names
}

/// D1: the names that wait to be looked at are no more than locks that exist and locks that were
/// seen, however many locks appear and disappear.
#[test]
fn changes_are_told_by_name_and_what_nobody_saw_is_forgotten_d1() {
    let mut locks = Locks::new(1, u64::MAX, usize::MAX);
    assert_eq!(changed(&mut locks), [""; 0]);
    for id in 0..100 {
        locks.lock(SessionId(1), &format!("n{id:02}")).unwrap();
    }
    locks.lock(SessionId(2), "n00").unwrap();
    assert_eq!(locks.take_changed("n97").as_deref(), Some("n98"));
    assert_eq!(changed(&mut locks).len(), 99, "each is returned once");
    assert!(!locks.has_changed());
    for id in 0..10_000 {
        let name = format!("passing{id}");
        locks.lock(SessionId(3), &name).unwrap();
        locks.unlock(SessionId(3), &name).unwrap();
        assert!(!locks.has_changed(), "it came and went");
    }
    locks.release_all(SessionId(1));
    assert_eq!(changed(&mut locks).len(), 100, "what was seen and is gone must be looked at");
    locks.release_all(SessionId(2));
    locks.lock(SessionId(4), "n00").unwrap();
    locks.lock(SessionId(4), "n01").unwrap();
    locks.unlock(SessionId(4), "n01").unwrap();
    assert_eq!(changed(&mut locks), ["n00"]);
    // The host loses what it saw.
    locks.show_again("n00");
    locks.show_again("n01");
    assert_eq!(changed(&mut locks), ["n00", "n01"]);
    assert_eq!(changed(&mut locks), [""; 0]);
}

/// A session with many locks can be ended in pieces; the remaining part is unchanged.
#[test]
fn a_session_can_be_released_in_pieces() {
    let mut locks = Locks::new(1, u64::MAX, usize::MAX);
    let (ann, bob) = (SessionId(1), SessionId(2));
    ["b", "d"].iter().for_each(|name| assert_eq!(locks.lock(bob, name), Ok(true)));
    for name in ["a", "b", "c", "d", "e"] {
        locks.lock(ann, name).unwrap();
    }
    assert_eq!(locks.release_some(ann, 2), ["a".into()], "it waits for b");
    assert_eq!((locks.owner("a"), locks.waiters("b").count()), (None, 0));
    assert!(locks.is_owner(ann, "c") && locks.waiters("d").eq([ann]));
    assert!(locks.session_bytes(ann) > 0);
    assert_eq!(locks.release_some(ann, 9), ["c".into(), "e".into()]);
    assert_eq!(locks.session_bytes(ann), 0);
    assert!(locks.release_some(ann, 9).is_empty());
}

#[test]
fn a_robbed_stealer_leaves_unseen() {
    let mut locks = Locks::new(1, 100, usize::MAX);
    locks.steal(SessionId(1), "x").unwrap();
    locks.steal(SessionId(2), "x").unwrap();
    assert_eq!(locks.standing(SessionId(1), "x"), Some(Standing::Robbed));
    let generation = locks.generation();
    changed(&mut locks);
    locks.unlock(SessionId(1), "x").unwrap();
    assert_eq!(locks.standing(SessionId(1), "x"), None);
    assert_eq!(locks.generation(), generation);
    assert!(!locks.has_changed());
}

/// L2 at the very end of the numbers.
#[test]
fn the_last_number_is_granted_once() {
    let mut locks = Locks::new(u64::MAX - 1, u64::MAX, usize::MAX);
    assert_eq!(locks.lock(SessionId(1), "x"), Ok(true));
    assert_eq!(locks.fencing("x"), Some(u64::MAX - 1));
    assert_eq!(locks.fencing_left(), 0);
    assert!(locks.lock(SessionId(1), "y").is_err());
}
