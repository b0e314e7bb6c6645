//! `why` is never empty for a waiter: it names an object, and a request ahead or a limit or a time.

use super::Invariant;
use crate::model::Spot;
use crate::model::config::{Limit, PoolState};
use crate::model::{Effect, Outcome};
use crate::seen::{Answer, Seen, Sight};
use std::collections::BTreeSet;

/// Remembers which requests wait, from the effects, not from what `why` shows.
#[derive(Default)]
pub struct Why {
    waiting: BTreeSet<u64>,
}

impl Invariant for Why {
    fn name(&self) -> &'static str {
        "why is answered for every waiter"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (crate::history::Step::Reroute(id), Answer::Back) = (&*seen.step, &seen.answer) {
            self.waiting.insert(*id);
        }
        for effect in &seen.effects {
            if let Effect::Start(id) | Effect::Refuse(id, _) = effect {
                self.waiting.remove(id);
            }
        }
        match (&*seen.step, &seen.answer) {
            (_, Answer::Submitted(id, Outcome::Waiting)) => drop(self.waiting.insert(*id)),
            (crate::history::Step::Cancel(id), Answer::Done(true)) => {
                self.waiting.remove(id);
            }
            (crate::history::Step::End(id), Answer::Ended(Some(_))) => {
                self.waiting.remove(id);
            }
            (crate::history::Step::EndSession(_), _) => {
                self.waiting.retain(|id| seen.alive.contains_key(id));
            }
            _ => {}
        }
        for id in &self.waiting {
            let Some(sight) = seen.alive.get(id) else {
                return Err(format!("request {id} waits, and nobody knows why"));
            };
            explains(seen, sight).map_err(|text| format!("request {id}: {text}, {sight:?}"))?;
        }
        Ok(())
    }
}

fn explains(seen: &Seen, sight: &Sight) -> Result<(), &'static str> {
    if sight.ahead.iter().any(|other| !seen.alive.contains_key(other)) {
        return Err("somebody ahead of it is not alive");
    }
    if sight.ahead.len() > sight.ahead_total {
        return Err("more are named than are ahead");
    }
    let nobody = sight.ahead_total == 0;
    match sight.spot {
        Spot::Running => Err("it waits, but is said to run"),
        // Requests that have a server from before its backend had a gate are not named.
        Spot::Checkpoint(name, _) if crate::words::GATES.contains(&name) => Ok(()),
        Spot::Checkpoint(name, _) => {
            let limit = seen.config.checkpoints.iter().find(|c| c.name == name).map(|c| c.limit);
            match limit {
                Some(Limit::Rate { .. }) if sight.until.is_none() => Err("until when is not said"),
                // Only a limit of 0 can hold a request back with none ahead.
                Some(Limit::Concurrency(limit)) if limit > 0 && nobody => {
                    Err("nobody is ahead of it")
                }
                Some(Limit::Count) | None => Err("nothing is limited there"),
                Some(_) => Ok(()),
            }
        }
        Spot::Claims if nobody => Err("nobody is in its way"),
        Spot::Slot(name) => {
            let pool = seen.config.pools.iter().find(|pool| pool.name == name);
            match pool {
                Some(pool) if nobody && pool.max != Some(0) => Err("nobody has its slot"),
                Some(_) => Ok(()),
                None => Err("its pool does not exist"),
            }
        }
        Spot::Stopped(name) => {
            let stopped = |pool: &crate::model::config::Pool| {
                pool.name == name && pool.state == PoolState::Stopped
            };
            if seen.config.pools.iter().any(stopped) { Ok(()) } else { Err("it is not stopped") }
        }
        Spot::Claims | Spot::Unknown => Ok(()),
    }
}
