//! No key has more than its limit past a concurrency checkpoint (P1), whatever keys were changed and changed
//! back, and whatever checkpoints were deleted and created again under their names: a request that passes one
//! finds fewer than the limit of its key there.
//!
//! Keeps its own records: which request passed which checkpoint, observed as in `Windows`, and only for
//! checkpoints where every request on the list must stop.

use super::Invariant;
use super::backs::Backs;
use super::windows::is_behind;
use crate::history::Step;
use crate::model::config::{Arrival, At, Attribute, Checkpoint, Limit};
use crate::model::{Outcome, Spot, position};
use crate::seen::{Answer, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// Remembers which request passed what.
#[derive(Default)]
pub struct Holders {
    arrivals: BTreeMap<u64, Arrival>,
    /// For each checkpoint, the requests that certainly stopped there.
    past: BTreeMap<u32, BTreeSet<u64>>,
    /// The requests that are behind it, but may not have stopped.
    unsure: BTreeMap<u32, BTreeSet<u64>>,
    specs: Vec<Checkpoint>,
    /// The same for deleted checkpoints, by name.
    buried: BTreeMap<&'static str, BTreeSet<u64>>,
    backs: Backs,
}

impl Invariant for Holders {
    fn name(&self) -> &'static str {
        "no key has too many"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (Step::Submit(arrival), Answer::Submitted(id, outcome)) = (&*seen.step, &seen.answer)
            && !matches!(outcome, Outcome::Refused(_))
            && !seen.config.frontends.iter().any(|frontend| frontend.name == arrival.frontend)
        {
            self.arrivals.insert(*id, (**arrival).clone());
        }
        self.arrivals.retain(|id, _| seen.alive.contains_key(id));
        let sets = self.past.values_mut().chain(self.buried.values_mut());
        sets.for_each(|set| set.retain(|id| seen.alive.contains_key(id)));
        let is_edit = matches!(&*seen.step, Step::Configure(..));
        if is_edit {
            self.edited(&seen.config.checkpoints);
        }
        for (id, to) in self.backs.look(seen) {
            let behind = seen.config.checkpoints.iter().filter(|c| position(c) > to);
            for checkpoint in behind {
                let sets = [self.past.get_mut(&checkpoint.id), self.unsure.get_mut(&checkpoint.id)];
                for set in sets.into_iter().flatten() {
                    set.remove(&id);
                }
            }
        }
        let all = seen.config.checkpoints.iter();
        for checkpoint in all.filter(|c| stops_everybody(c)) {
            let Limit::Concurrency(limit) = checkpoint.limit else { continue };
            for (id, arrival) in &self.arrivals {
                let (past, unsure) = (
                    self.past.entry(checkpoint.id).or_default(),
                    self.unsure.entry(checkpoint.id).or_default(),
                );
                let runs = seen.alive.get(id).is_some_and(|sight| sight.spot == Spot::Running);
                let behind = runs || is_behind(seen, *id, checkpoint);
                if !is_on_list(arrival, checkpoint)
                    || !behind
                    || past.contains(id)
                    || unsure.contains(id)
                {
                    continue;
                }
                // A request behind a checkpoint that an edit put there may never have passed it.
                if is_edit {
                    unsure.insert(*id);
                    continue;
                }
                past.insert(*id);
                let key = |arrival: &Arrival| checkpoint.key.map(|of| arrival.value(of));
                let same = |other: &&u64| {
                    self.arrivals.get(other).is_some_and(|other| key(other) == key(arrival))
                };
                let held = past.iter().filter(same).count() as u64;
                if held > limit {
                    let name = checkpoint.name;
                    return Err(format!("{held} are past {name} {:?}, of {limit}", key(arrival)));
                }
            }
        }
        // A request that passes while the checkpoint does not stop every request may not have stopped.
        for checkpoint in seen.config.checkpoints.iter().filter(|c| !stops_everybody(c)) {
            for id in self.arrivals.keys().filter(|id| is_behind(seen, **id, checkpoint)) {
                if !self.past.get(&checkpoint.id).is_some_and(|past| past.contains(id)) {
                    self.unsure.entry(checkpoint.id).or_default().insert(*id);
                }
            }
        }
        Ok(())
    }
}

impl Holders {
    fn edited(&mut self, new: &[Checkpoint]) {
        let old = std::mem::replace(&mut self.specs, new.to_vec());
        for before in &old {
            if new.iter().all(|after| after.id != before.id)
                && let Some(past) = self.past.remove(&before.id)
            {
                self.buried.entry(before.name).or_default().extend(past);
            }
        }
        for after in new {
            if old.iter().all(|before| before.id != after.id)
                && let Some(past) = self.buried.remove(after.name)
            {
                self.past.insert(after.id, past);
            }
        }
    }
}

/// Whether every request must stop there, at a counter that can be determined here.
fn stops_everybody(checkpoint: &Checkpoint) -> bool {
    !checkpoint.watch
        && !checkpoint.connection
        && checkpoint.when.is_none()
        && !matches!(checkpoint.at, At::Pool(_))
        && !matches!(checkpoint.key, Some(Attribute::Backend | Attribute::Server))
}

fn is_on_list(arrival: &Arrival, checkpoint: &Checkpoint) -> bool {
    !arrival.connection
        && match checkpoint.at {
            At::Frontend(name) => arrival.frontend == name,
            At::Backend(name) => arrival.backend == name,
            At::Server(name) => arrival.server == name,
            At::Pool(_) => false,
        }
}
