//! Locks among more and more others, and queues of more and more waiters.

use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_locks::{Locks, SessionId};
use std::time::Duration;

const SIZES: [usize; 3] = [1, 1_000, 100_000];

/// Pairs in one round.
const PAIRS: usize = 2_000;

const HELD: Load = Load {
    name: "lock pair, locks",
    operation: "lock and unlock of a free name while others are held",
    of: "locks",
    unit: Unit::Nanoseconds,
};
const LEAVE: Load = Load {
    name: "lock pair, waiters",
    operation: "a session joins the end of one lock's line and leaves it",
    of: "waiters",
    unit: Unit::Nanoseconds,
};
const HAND_OVER: Load = Load {
    name: "lock hand-over",
    operation: "the owner unlocks, the next waiter is told, the old owner joins the end",
    of: "waiters",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[HELD, LEAVE, HAND_OVER]) {
        return Ok(());
    }
    for size in SIZES {
        let mut locks = Locks::new(1, u64::MAX, 1 << 30);
        for at in 0..size {
            locks.lock(SessionId(1 + at as u64 % 100), &format!("held-{at:06}"))?;
        }
        bench.run(HELD, size, || held(&mut locks))?;
        let mut locks = Locks::new(1, u64::MAX, 1 << 30);
        for at in 0..=size {
            locks.lock(SessionId(at as u64), "line")?;
        }
        bench.run(LEAVE, size, || leave(&mut locks))?;
        bench.run(HAND_OVER, size, || hand_over(&mut locks))?;
    }
    Ok(())
}

fn held(locks: &mut Locks) -> Outcome<(Duration, usize)> {
    let names: Vec<String> = (0..PAIRS).map(|at| format!("held-{:06}x", at * 20)).collect();
    let (taken, done) = time(|| -> Outcome<()> {
        for name in &names {
            locks.lock(SessionId(0), name)?;
            locks.unlock(SessionId(0), name)?;
            locks.take_changed("");
        }
        Ok(())
    });
    done?;
    Ok((taken, PAIRS))
}

fn leave(locks: &mut Locks) -> Outcome<(Duration, usize)> {
    let session = SessionId(u64::MAX);
    let (taken, done) = time(|| -> Outcome<()> {
        for _ in 0..PAIRS {
            locks.lock(session, "line")?;
            locks.unlock(session, "line")?;
            locks.take_changed("");
        }
        Ok(())
    });
    done?;
    Ok((taken, PAIRS))
}

fn hand_over(locks: &mut Locks) -> Outcome<(Duration, usize)> {
    let (taken, done) = time(|| -> Outcome<()> {
        for _ in 0..PAIRS {
            let (owner, _) = locks.owner("line").ok_or("the lock has no owner")?;
            locks.unlock(owner, "line")?;
            locks.poll_effect().ok_or("nobody was told")?;
            locks.lock(owner, "line")?;
            locks.take_changed("");
        }
        Ok(())
    });
    done?;
    Ok((taken, PAIRS))
}
