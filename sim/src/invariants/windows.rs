//! Rates hold in every window (S1): counting only requests that were not refunded, at most N/D x (T + slip) + B
//! pass in any window T. Over edits of N, D and B: at most what the rates in force allow, each for its time,
//! plus the burst in force at the last pass, plus slip x the highest rate.
//!
//! A pass is observed when a request is behind a checkpoint after a step and was not before. Only checkpoints
//! are watched that every request on their list must pass: enforced, without a condition, not at a pool, and
//! without a key that depends on where a request is sent, which cannot be observed. An edit of what is counted,
//! or of whether it enforces, begins a new count.

use super::Invariant;
use super::backs::Backs;
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
    /// The burst in force then.
    burst: u64,
}

#[derive(Debug, Default)]
struct Count {
    passes: Vec<Pass>,
    /// The requests behind it that may never have passed it.
    earlier: Vec<u64>,
}

/// Remembers which requests arrived, and which passed what.
#[derive(Default)]
pub struct Windows {
    arrivals: BTreeMap<u64, Arrival>,
    started: Vec<u64>,
    counts: BTreeMap<u32, BTreeMap<Option<&'static str>, Count>>,
    specs: Vec<Checkpoint>,
    /// The rates of each checkpoint, and since when.
    rates: BTreeMap<u32, Vec<(u64, f64)>>,
    /// The longest slip so far.
    slip: u64,
    /// The configuration before the last step.
    old: Vec<Checkpoint>,
    /// Whether the last edit moved no request on its way.
    is_in_place: bool,
    backs: Backs,
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
            // A request at a configured frontend does not choose its destination itself.
            if seen.config.frontends.iter().any(|frontend| frontend.name == arrival.frontend) {
                (arrival.backend, arrival.server) = ("", "");
            }
            self.arrivals.insert(*id, arrival);
        }
        if let (Step::Reroute(id), Answer::Back) = (&*seen.step, &seen.answer) {
            self.started.retain(|other| other != id);
        }
        self.edited(seen.now, &seen.config)?;
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
        for (id, to) in self.backs.look(seen) {
            for checkpoint in seen.config.checkpoints.iter().filter(|c| position(c) > to) {
                let counts = self.counts.entry(checkpoint.id).or_default();
                counts.values_mut().for_each(|count| count.passes.retain(|pass| pass.id != id));
            }
        }
        self.note_passes(seen);
        self.arrivals.retain(|id, _| seen.alive.contains_key(id));
        Ok(())
    }

    fn finish(&mut self, _: &Seen) -> Result<(), String> {
        let specs = std::mem::take(&mut self.specs);
        specs.iter().try_for_each(|checkpoint| self.check(checkpoint.id))
    }
}

impl Windows {
    /// Records changed rates; begins a new count if something else is counted from now on.
    fn edited(&mut self, now: u64, config: &Config) -> Result<(), String> {
        let old = std::mem::replace(&mut self.specs, config.checkpoints.clone());
        self.is_in_place = true;
        for before in &old {
            let after = config.checkpoints.iter().find(|c| c.id == before.id);
            let is_there =
                |after: &Checkpoint| (after.at, after.number) == (before.at, before.number);
            self.is_in_place &= after.is_none_or(is_there);
            if after.is_some_and(|after| counts_as(after, before)) {
                continue;
            }
            self.check(before.id)?;
            self.rates.remove(&before.id);
            for count in self.counts.entry(before.id).or_default().values_mut() {
                let passed = std::mem::take(&mut count.passes);
                count.earlier.extend(passed.iter().map(|pass| pass.id));
            }
        }
        for checkpoint in &config.checkpoints {
            let Limit::Rate { n, d, .. } = checkpoint.limit else { continue };
            let rates = self.rates.entry(checkpoint.id).or_default();
            let rate = n as f64 / d as f64;
            if rates.last().is_none_or(|(_, last)| *last != rate) {
                rates.push((now, rate));
            }
            let known = old.iter().find(|before| before.id == checkpoint.id);
            self.is_in_place &= known.is_some() || old.is_empty();
            if known.is_some_and(|before| counts_as(checkpoint, before)) {
                continue;
            }
            // Requests that are alive may have passed it under another definition, or passed another one of its
            // name.
            for (id, arrival) in &self.arrivals {
                let key = checkpoint.key.map(|attribute| arrival.value(attribute));
                let counts = self.counts.entry(checkpoint.id).or_default();
                counts.entry(key).or_default().earlier.push(*id);
            }
        }
        self.old = old;
        self.slip = self.slip.max(config.slip);
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
                // A request behind a new checkpoint may never have passed it.
                let before = self.old.iter().find(|before| before.id == checkpoint.id);
                let is_same = before.is_some_and(|b| counts_as(checkpoint, b) && b.when.is_none());
                if matches!(&*seen.step, Step::Configure(..)) && !(is_same && self.is_in_place) {
                    count.earlier.push(*id);
                } else {
                    let burst = before.map_or(0, burst).max(burst(checkpoint));
                    let (id, at, cost) = (*id, seen.now, arrival.cost);
                    count.passes.push(Pass { id, at, cost, burst });
                }
            }
        }
    }

    fn refund(&mut self, id: u64) {
        for count in self.counts.values_mut().flat_map(BTreeMap::values_mut) {
            count.passes.retain(|pass| pass.id != id);
        }
    }

    /// Checks every window from one pass to another.
    fn check(&self, checkpoint: u32) -> Result<(), String> {
        let rates = self.rates.get(&checkpoint).map_or(&[][..], Vec::as_slice);
        for (key, count) in self.counts.get(&checkpoint).into_iter().flatten() {
            for (index, first) in count.passes.iter().enumerate() {
                let mut cost = 0;
                for last in &count.passes[index..] {
                    cost += last.cost;
                    let most = given(rates, first.at, last.at, self.slip) + last.burst as f64;
                    if cost as f64 > most + 1e-6 {
                        return Err(format!(
                            "checkpoint {checkpoint} {key:?}: {cost} passed from {} to {}, at most \
                             {most} may",
                            first.at, last.at
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What these rates allow in a window, and in the longest slip.
fn given(rates: &[(u64, f64)], from: u64, until: u64, slip: u64) -> f64 {
    let ends = rates.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
    let mut highest: f64 = 0.0;
    let mut all = 0.0;
    for ((at, rate), end) in rates.iter().zip(ends) {
        if *at <= until && end >= from {
            highest = highest.max(*rate);
            all += rate * end.min(until).saturating_sub((*at).max(from)) as f64;
        }
    }
    all + highest * slip as f64
}

/// Whether both count the same requests, and hold them back.
fn counts_as(one: &Checkpoint, other: &Checkpoint) -> bool {
    std::mem::discriminant(&one.limit) == std::mem::discriminant(&other.limit)
        && one.key == other.key
        && one.watch == other.watch
        && one.connection == other.connection
}

const fn burst(checkpoint: &Checkpoint) -> u64 {
    match checkpoint.limit {
        Limit::Rate { burst, .. } => burst,
        Limit::Concurrency(_) | Limit::Count => 0,
    }
}

/// Whether a request waits further on than this checkpoint.
pub(super) fn is_behind(seen: &Seen, id: u64, checkpoint: &Checkpoint) -> bool {
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
