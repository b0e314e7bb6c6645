//! No limit is ever exceeded: no more than the limit are past a concurrency checkpoint or run in a pool (P1),
//! even if the pool was deleted and created again. Lowering a limit drains: the excess may only decrease.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Config, Limit, Pool};
use crate::seen::{Figures, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Remembers the last figures, and their configuration: events that were due before an edit are handled before
/// it.
#[derive(Default)]
pub struct Limits {
    before: Figures,
    config: Option<Rc<Config>>,
    /// The pool of each request that ran after the last step.
    ran: BTreeMap<u64, u32>,
    /// The requests that ran in deleted pools, by the names of the pools.
    gone: BTreeMap<&'static str, BTreeSet<u64>>,
}

impl Invariant for Limits {
    fn name(&self) -> &'static str {
        "no limit is exceeded"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let Some(config) = self.config.as_ref().filter(|old| !Rc::ptr_eq(old, &seen.config)) {
            self.before = self.before.renamed(config, &seen.config);
            for pool in config.pools.iter().filter(|pool| !has(&seen.config, pool.id)) {
                let ran = self.ran.iter().filter(|(_, its)| **its == pool.id);
                self.gone.entry(pool.name).or_default().extend(ran.map(|(id, _)| *id));
            }
        }
        for pool in &seen.config.pools {
            let running = seen.figures.running.get(pool.name).copied().unwrap_or(0);
            let before = self.before.running.get(pool.name).copied().unwrap_or(0);
            let before = before.max(self.adopted(pool, seen));
            let most = self.old_max(pool.id).max(pool.max.unwrap_or(u64::MAX)).max(before);
            if running > most {
                return Err(format!("{running} run in {}, at most {most} may", pool.name));
            }
        }
        // An edit may count holders by other keys; `Holders` checks later arrivals.
        let is_edit = matches!(&*seen.step, Step::Configure(..));
        for checkpoint in seen.config.checkpoints.iter().filter(|c| !c.watch && !is_edit) {
            let Limit::Concurrency(limit) = checkpoint.limit else { continue };
            let keys = checkpoint.key.map_or(vec![None], |attribute| {
                attribute.values().iter().map(|value| Some(*value)).collect()
            });
            let keys_len = keys.len() as u64;
            for key in keys {
                let place = (checkpoint.name, key);
                let held = seen.figures.inflight.get(&place).copied().unwrap_or(0);
                // A key without a counter of its own reads the shared one, which may change from one step to
                // the next.
                let its = |(name, _): &(&str, Option<&str>)| *name == checkpoint.name;
                let mut figures = self.before.inflight.iter().filter(|(place, _)| its(place));
                let before = match checkpoint.keys_max < keys_len {
                    true => figures.filter(|((_, key), _)| key.is_some()).map(|(_, n)| *n).max(),
                    false => figures.find(|(other, _)| **other == place).map(|(_, n)| *n),
                };
                let before = before.unwrap_or(0);
                let most = self.old_limit(checkpoint.id).max(limit).max(before);
                if held > most {
                    return Err(format!("{held} are past {place:?}, at most {most} may"));
                }
            }
        }
        let runs = seen.alive.iter().filter_map(|(id, sight)| Some((*id, sight.grant?.pool)));
        self.ran = runs.collect();
        self.before = seen.figures.clone();
        self.config = Some(Rc::clone(&seen.config));
        Ok(())
    }
}

/// Whether a pool of this number is configured.
fn has(config: &Config, id: u32) -> bool {
    config.pools.iter().any(|pool| pool.id == id)
}

impl Limits {
    /// How many requests of deleted pools a new pool of their name begins with.
    fn adopted(&mut self, pool: &Pool, seen: &Seen) -> u64 {
        if self.config.as_ref().is_none_or(|config| has(config, pool.id)) {
            return 0;
        }
        let ran = self.gone.remove(pool.name).unwrap_or_default();
        let is_running = |id: &&u64| seen.alive.get(id).is_some_and(|sight| sight.grant.is_some());
        ran.iter().filter(is_running).count() as u64
    }

    fn old_max(&self, id: u32) -> u64 {
        let mut all = self.config.iter().flat_map(|config| &config.pools);
        all.find(|pool| pool.id == id).map_or(0, |pool| pool.max.unwrap_or(u64::MAX))
    }

    fn old_limit(&self, id: u32) -> u64 {
        let mut all = self.config.iter().flat_map(|config| &config.checkpoints);
        match all.find(|c| c.id == id).map(|c| (c.watch, c.limit)) {
            Some((false, Limit::Concurrency(limit))) => limit,
            Some((true, _)) => u64::MAX,
            _ => 0,
        }
    }
}
