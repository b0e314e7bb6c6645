//! Rates hold in every window (S1): counting only requests that were not refunded, at most
//! N/D x (T + slip) + B pass in any window T.
//!
//! A pass is seen as a request that is behind a checkpoint after a step and was not before. Only
//! checkpoints are watched that every request on their list must pass: enforced, without a condition,
//! and not at a pool or with a key that says where a request goes, which cannot be seen. An edit begins a new count; a refund of what was spent
//! before the edit, at another price, spoils the count until the next one.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Arrival, At, Attribute, Checkpoint, Config, Limit};
use crate::model::{Effect, Outcome, Spot, position};
use crate::seen::{Answer, Seen};
use crate::words::GATES;
use std::collections::BTreeMap;

/// One request that passed.
#[derive(Clone, Copy, Debug)]
struct Pass {
    id: u64,
    at: u64,
    cost: u64,
}

#[derive(Debug, Default)]
struct Count {
    passes: Vec<Pass>,
    /// Who passed before the last edit.
    earlier: Vec<u64>,
    spoiled: bool,
}

/// Remembers who came, and who passed what.
#[derive(Default)]
pub struct Windows {
    arrivals: BTreeMap<u64, Arrival>,
    started: Vec<u64>,
    counts: BTreeMap<u32, BTreeMap<Option<&'static str>, Count>>,
    specs: Vec<Checkpoint>,
    slip: u64,
}

impl Invariant for Windows {
    fn name(&self) -> &'static str {
        "rates hold in every window"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (Step::Submit(arrival), Answer::Submitted(id, outcome)) = (&*seen.step, &seen.answer)
            && !matches!(outcome, Outcome::Refused(_))
        {
            let mut arrival = (**arrival).clone();
            // Where one goes that comes to a configured frontend, it does not say itself.
            if seen.config.frontends.iter().any(|frontend| frontend.name == arrival.frontend) {
                (arrival.backend, arrival.server) = ("", "");
            }
            self.arrivals.insert(*id, arrival);
        }
        self.edited(&seen.config)?;
        for effect in &seen.effects {
            match effect {
                Effect::Start(id) => self.started.push(*id),
                Effect::Refuse(id, _) => self.refund(*id),
                Effect::End(..) | Effect::Log(..) => {}
            }
        }
        if let Answer::Submitted(id, Outcome::Started) = seen.answer {
            self.started.push(id);
        }
        let gone: Vec<u64> = {
            let left = |id: &&u64| !seen.alive.contains_key(id) && !self.started.contains(id);
            self.arrivals.keys().filter(left).copied().collect()
        };
        for id in gone {
            self.refund(id);
        }
        if let (Step::Withdraw(id), Answer::Done(true)) = (&*seen.step, &seen.answer) {
            self.refund(*id);
            self.arrivals.remove(id);
        }
        self.note_passes(seen);
        self.arrivals.retain(|id, _| seen.alive.contains_key(id));
        Ok(())
    }

    fn finish(&mut self, _: &Seen) -> Result<(), String> {
        let specs = std::mem::take(&mut self.specs);
        specs.iter().try_for_each(|checkpoint| self.check(checkpoint))
    }
}

impl Windows {
    /// Begins a new count at each checkpoint that changed, after a look at the old one.
    fn edited(&mut self, config: &Config) -> Result<(), String> {
        let slip_changed = self.slip != config.slip;
        let old = std::mem::replace(&mut self.specs, config.checkpoints.clone());
        for before in &old {
            let now = config.checkpoints.iter().find(|c| c.id == before.id);
            let same = now.is_some_and(|now| {
                now.limit == before.limit
                    && now.key == before.key
                    && now.fair == before.fair
                    && now.when == before.when
                    && now.watch == before.watch
                    && now.connection == before.connection
            });
            if same && !slip_changed {
                continue;
            }
            self.check(before)?;
            for count in self.counts.entry(before.id).or_default().values_mut() {
                let passed = std::mem::take(&mut count.passes);
                count.earlier.extend(passed.iter().map(|pass| pass.id));
                count.spoiled = false;
            }
        }
        self.slip = config.slip;
        Ok(())
    }

    fn note_passes(&mut self, seen: &Seen) {
        let watched = seen
            .config
            .checkpoints
            .iter()
            .filter(|c| matches!(c.limit, Limit::Rate { .. }) && !c.watch && c.when.is_none())
            .filter(|c| !matches!(c.key, Some(Attribute::Backend | Attribute::Server)));
        for checkpoint in watched {
            for (id, arrival) in &self.arrivals {
                let on_list = match checkpoint.at {
                    At::Frontend(name) => arrival.frontend == name,
                    At::Backend(name) => arrival.backend == name,
                    At::Server(name) => arrival.server == name,
                    At::Pool(_) => false,
                };
                let behind = self.started.contains(id) || is_behind(seen, *id, checkpoint);
                if !on_list || !behind || checkpoint.connection != arrival.connection {
                    continue;
                }
                let key = checkpoint.key.map(|attribute| arrival.value(attribute));
                let count = self.counts.entry(checkpoint.id).or_default().entry(key).or_default();
                let known = count.passes.iter().any(|pass| pass.id == *id);
                if known || count.earlier.contains(id) {
                    continue;
                }
                // Who is behind a checkpoint that is new may never have come by it.
                if matches!(&*seen.step, Step::Configure(..)) {
                    count.earlier.push(*id);
                } else {
                    count.passes.push(Pass { id: *id, at: seen.now, cost: arrival.cost });
                }
            }
        }
    }

    fn refund(&mut self, id: u64) {
        for count in self.counts.values_mut().flat_map(BTreeMap::values_mut) {
            count.passes.retain(|pass| pass.id != id);
            count.spoiled |= count.earlier.contains(&id);
        }
    }

    /// Every window from one pass to another.
    fn check(&self, checkpoint: &Checkpoint) -> Result<(), String> {
        let Limit::Rate { n, d, burst } = checkpoint.limit else { return Ok(()) };
        let (n, d, burst) = (u128::from(n), u128::from(d), u128::from(burst));
        for (key, count) in self.counts.get(&checkpoint.id).into_iter().flatten() {
            if count.spoiled {
                continue;
            }
            for (index, first) in count.passes.iter().enumerate() {
                let mut cost = 0;
                for last in &count.passes[index..] {
                    cost += u128::from(last.cost);
                    let window = u128::from(last.at - first.at + self.slip);
                    if cost * d > n * window + burst * d {
                        return Err(format!(
                            "{} {key:?}: {cost} passed from {} to {}",
                            checkpoint.name, first.at, last.at
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a request waits further on than this checkpoint.
fn is_behind(seen: &Seen, id: u64, checkpoint: &Checkpoint) -> bool {
    match seen.alive.get(&id).map(|sight| &sight.spot) {
        None => false,
        // A gate is behind all checkpoints of its backend.
        Some(Spot::Checkpoint(name, _)) if GATES.contains(name) => position(checkpoint).0 < 2,
        Some(Spot::Checkpoint(name, _)) => {
            let at = seen.config.checkpoints.iter().find(|c| c.name == *name);
            at.is_some_and(|at| position(at) > position(checkpoint))
        }
        Some(_) => true,
    }
}
