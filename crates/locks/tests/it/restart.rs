//! Locks that are kept across restarts.

use paceline_locks::{Effect, Locks, SessionId};

const ANN: SessionId = SessionId(1);
const BOB: SessionId = SessionId(2);

#[test]
fn an_owner_of_the_last_run_owns_again_by_the_same_grant_l5() {
    let mut locks = Locks::new(100, 200, 1 << 16);
    assert!(locks.restore(ANN, "leader", 7));
    assert!(!locks.restore(BOB, "leader", 5), "the last grant is restored first");
    assert_eq!(locks.owner("leader"), Some((ANN, 7)));
    assert_eq!(locks.poll_effect(), None, "nobody is told what they know");
    assert_eq!(locks.lock(BOB, "leader"), Ok(false));
    let owned: Vec<_> = locks.owned(ANN).map(|(name, fencing)| (&**name, fencing)).collect();
    assert_eq!(owned, [("leader", 7)]);
    assert_eq!(locks.owned(BOB).count(), 0, "who waits owns nothing");
    locks.unlock(ANN, "leader").unwrap();
    let told = Effect::Locked { session: BOB, name: "leader".into(), fencing: 100 };
    assert_eq!(locks.poll_effect(), Some(told), "numbers go on behind those of the last run");
}
