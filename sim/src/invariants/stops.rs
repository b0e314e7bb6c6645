//! Nothing runs that must not: a stopped pool starts nothing, and a request whose session lost a lock it
//! requires while it waited does not start.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Arrival, Pool, PoolState};
use crate::model::{Effect, Outcome};
use crate::seen::{Answer, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// Remembers which requests wait with which locks.
#[derive(Default)]
pub struct Stops {
    running: BTreeMap<&'static str, u64>,
    waiting: BTreeMap<u64, Arrival>,
    barred: BTreeSet<u64>,
}

impl Invariant for Stops {
    fn name(&self) -> &'static str {
        "nothing runs that could not"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        // Events that were due before an edit are handled before it, in a pool that was not stopped then.
        let edited = matches!(&*seen.step, Step::Configure(..));
        let stopped = |pool: &&Pool| pool.state == PoolState::Stopped && !edited;
        for pool in seen.config.pools.iter().filter(stopped) {
            let running = seen.figures.running.get(pool.name).copied().unwrap_or(0);
            let before = self.running.get(pool.name).copied().unwrap_or(0);
            if running > before {
                return Err(format!("stopped pool {} runs {running}, was {before}", pool.name));
            }
        }
        self.running = seen.figures.running.clone();
        for effect in &seen.effects {
            if let Effect::Start(id) = effect
                && self.barred.contains(id)
            {
                return Err(format!("request {id} starts without a lock it requires"));
            }
        }
        if let Step::LockLost(session, lock) = &*seen.step {
            let bars = |arrival: &Arrival| {
                arrival.session == Some(*session) && arrival.locks.contains(lock)
            };
            let lost = self.waiting.iter().filter(|(_, arrival)| bars(arrival));
            self.barred.extend(lost.map(|(id, _)| *id));
        }
        for effect in &seen.effects {
            if let Effect::Start(id) | Effect::Refuse(id, _) = effect {
                self.waiting.remove(id);
            }
        }
        if let (Step::Submit(arrival), Answer::Submitted(id, Outcome::Waiting)) =
            (&*seen.step, &seen.answer)
        {
            self.waiting.insert(*id, (**arrival).clone());
        }
        Ok(())
    }
}
