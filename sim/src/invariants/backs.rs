//! Which requests moved back: after an edit a request may have to wait before the checkpoint where it waited
//! last, and then releases what it held behind that.
//!
//! For invariants that record which request passed what. Sees only where requests wait.

use crate::model::{Position, Spot, position};
use crate::seen::Seen;
use std::collections::BTreeMap;

/// Remembers where each request waited last.
#[derive(Debug, Default)]
pub struct Backs {
    last: BTreeMap<u64, u32>,
    /// The position of each checkpoint, or its last one if it was deleted.
    positions: BTreeMap<u32, Position>,
}

impl Backs {
    /// The requests that moved back in this step, and to where.
    pub fn look(&mut self, seen: &Seen) -> Vec<(u64, Position)> {
        let all = &seen.config.checkpoints;
        self.positions.extend(all.iter().map(|checkpoint| (checkpoint.id, position(checkpoint))));
        self.last.retain(|id, _| seen.alive.contains_key(id));
        let mut back = vec![];
        for (id, sight) in &seen.alive {
            let Spot::Checkpoint(name, _) = sight.spot else { continue };
            let Some(at) = all.iter().find(|checkpoint| checkpoint.name == name) else { continue };
            let was = self.last.insert(*id, at.id).and_then(|was| self.positions.get(&was));
            if was.is_some_and(|was| position(at) < *was) {
                back.push((*id, position(at)));
            }
        }
        back
    }
}
