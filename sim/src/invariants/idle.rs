//! Nothing idles that could run (work conservation): every waiter waits for something that is used up.
//!
//! A request that waits for a slot finds all of them taken; at a concurrency checkpoint it finds the limit
//! held; at a rate its time is in the future, and the timer is set for it.

use super::Invariant;
use crate::model::Spot;
use crate::model::config::{Limit, PoolState};
use crate::seen::Seen;

/// Needs no memory.
#[derive(Default)]
pub struct Idle;

impl Invariant for Idle {
    fn name(&self) -> &'static str {
        "nothing idles that could run"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if seen.timeout.is_some_and(|at| at <= seen.now) {
            return Err(format!("something is due at {:?} and was not done", seen.timeout));
        }
        for (id, sight) in &seen.alive {
            match sight.spot {
                Spot::Slot(pool) => slot_is_taken(seen, *id, pool)?,
                Spot::Checkpoint(name, key) => counter_is_used_up(seen, *id, name, key)?,
                Spot::Stopped(_) | Spot::Claims | Spot::Unknown | Spot::Running => {}
            }
        }
        Ok(())
    }
}

fn slot_is_taken(seen: &Seen, id: u64, name: &str) -> Result<(), String> {
    let pool = seen.config.pools.iter().find(|pool| pool.name == name);
    let running = seen.figures.running.get(name).copied().unwrap_or(0);
    let free = |max: Option<u64>| max.is_none_or(|max| running < max);
    match pool {
        Some(pool) if pool.state == PoolState::Stopped => {
            Err(format!("request {id} waits for a slot of {name}, which is stopped"))
        }
        Some(pool) if free(pool.max) => {
            Err(format!("request {id} waits for a slot of {name}, where only {running} run"))
        }
        Some(_) => Ok(()),
        None => Err(format!("request {id} waits for a slot of {name}, which does not exist")),
    }
}

fn counter_is_used_up(
    seen: &Seen,
    id: u64,
    name: &str,
    key: Option<&'static str>,
) -> Result<(), String> {
    // Room at servers is checked elsewhere.
    if crate::words::GATES.contains(&name) {
        return Ok(());
    }
    let Some(checkpoint) = seen.config.checkpoints.iter().find(|c| c.name == name) else {
        return Err(format!("request {id} waits at {name}, which does not exist"));
    };
    match checkpoint.limit {
        Limit::Concurrency(limit) => {
            let held = seen.figures.inflight.get(&(checkpoint.name, key)).copied().unwrap_or(0);
            if held < limit {
                return Err(format!("request {id} waits at {name}, where only {held} are held"));
            }
        }
        Limit::Rate { .. } => {
            let until = seen.alive[&id].until;
            let known = seen.timeout.is_some_and(|at| until.is_none_or(|until| at <= until));
            if until.is_none_or(|until| until <= seen.now) || !known {
                return Err(format!(
                    "request {id} waits at {name} until {until:?}, the timer is {:?}",
                    seen.timeout
                ));
            }
        }
        Limit::Count => return Err(format!("request {id} waits at {name}, which limits nothing")),
    }
    Ok(())
}
