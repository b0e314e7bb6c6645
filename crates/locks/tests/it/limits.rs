//! Many waiters, many names, and the bounds that the scripts are too small to reach.

use paceline_locks::{CHANGED_NAMES_MAX, Changed, Effect, Locks, SessionId, Standing};

use crate::model::SplitMix;

/// A hundred thousand waiters leave in random order, by unlock and by end. With a list to search
/// this would be ten thousand million steps.
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

/// L1: ten thousand owners in turn, each served in the order it came.
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

#[test]
fn changes_are_told_by_name_up_to_a_bound() {
    let mut locks = Locks::new(1, u64::MAX, usize::MAX);
    let names = |locks: &mut Locks| match locks.take_changed() {
        Changed::Names(names) => names.len(),
        Changed::All => usize::MAX,
    };
    assert_eq!(names(&mut locks), 0);
    for id in 0..CHANGED_NAMES_MAX {
        locks.lock(SessionId(1), &format!("n{id}")).unwrap();
    }
    locks.lock(SessionId(2), "n0").unwrap();
    assert_eq!(names(&mut locks), CHANGED_NAMES_MAX);
    assert_eq!(names(&mut locks), 0);
    locks.release_all(SessionId(1));
    assert_eq!(names(&mut locks), CHANGED_NAMES_MAX);
    for id in 0..=CHANGED_NAMES_MAX {
        locks.steal(SessionId(3), &format!("n{id}")).unwrap();
    }
    assert_eq!(locks.take_changed(), Changed::All);
    assert_eq!(names(&mut locks), 0, "and names are kept again");
    locks.lock(SessionId(4), "n5").unwrap();
    assert_eq!(locks.take_changed(), Changed::Names(["n5".into()].into()));
}

#[test]
fn a_robbed_stealer_leaves_unseen() {
    let mut locks = Locks::new(1, 100, usize::MAX);
    locks.steal(SessionId(1), "x").unwrap();
    locks.steal(SessionId(2), "x").unwrap();
    assert_eq!(locks.standing(SessionId(1), "x"), Some(Standing::Robbed));
    let generation = locks.generation();
    locks.take_changed();
    locks.unlock(SessionId(1), "x").unwrap();
    assert_eq!(locks.standing(SessionId(1), "x"), None);
    assert_eq!(locks.generation(), generation);
    assert_eq!(locks.take_changed(), Changed::Names([].into()));
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
