//! Edits: a new configuration replaces the old one while requests wait and run.
//!
//! A checkpoint keeps its counters as long as its id, its kind, its key and what passes it stay. Promises
//! that an edit takes no longer than a bounded step, however many keys and queues there are: counters are
//! brought up to date when they are next used, queues a few hundred per call, and dropped memory is freed a
//! little per call.

use crate::checkpoint::{Checkpoint, Terms};
use crate::checkpoints::Checkpoints;
use crate::counter::Counter;
use crate::edits::Change;
use crate::meter::TotalMeter;
use crate::set::{Checked, CheckpointSet};
use crate::spec::Mode;
use crate::table::Table;
use crate::ticket::Stats;
use paceline_types::limits::STEP_MAX;
use paceline_types::{CheckpointId, Time};
use std::sync::Arc;

/// Sub-tables of a dropped table freed per call.
const DROP_STEP: usize = 16;

/// Queues that an edit concerns and that were not processed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    checkpoint: CheckpointId,
    next: u32,
}

impl Checkpoints {
    /// Replaces the configuration.
    ///
    /// Waiters of a deleted checkpoint leave as [`Gone`](crate::How::Gone). Waiters of a checkpoint whose
    /// kind, key or fairness changed, or that only watches from now on, leave as
    /// [`Again`](crate::How::Again). All other waiters stay; their pass times follow the new limits.
    ///
    /// Returns the checkpoints whose holders must be counted again with [`count_again`](Self::count_again),
    /// and where: checkpoints with new counters, and deleted checkpoints whose name a new one has.
    pub fn configure(&mut self, now: Time, set: Arc<CheckpointSet>) -> Vec<Renewed> {
        let now = self.turn(now);
        let mut renewed = vec![];
        for checkpoint in &mut self.list {
            if set.checkpoint(checkpoint.id).is_none() && !checkpoint.closing {
                self.generation += 1;
                self.dropped.push(checkpoint.close(self.generation));
                self.backlog.push_back(Backlog { checkpoint: checkpoint.id, next: 0 });
                self.buried.push((checkpoint.checked.spec.name.clone(), checkpoint.id));
            }
        }
        for checked in set.iter() {
            let id = checked.spec.id;
            match self.ids.binary_search(&id) {
                Ok(index) => {
                    let edit = self.list[index].edit(now, checked, self.generation + 1);
                    self.generation += u32::from(edit.dropped.is_some());
                    if edit.dropped.is_some() {
                        renewed.push(Renewed { from: id, to: id });
                        self.buried.retain(|(_, other)| *other != id);
                    }
                    self.dropped.extend(edit.dropped);
                    if edit.queues {
                        self.backlog.push_back(Backlog { checkpoint: id, next: 0 });
                    }
                }
                Err(index) => {
                    self.generation += 1;
                    let new = Checkpoint::new(Arc::clone(checked), self.generation);
                    self.ids.insert(index, id);
                    self.list.insert(index, Box::new(new));
                    let is_it = |one: &mut (Box<str>, _)| one.0 == checked.spec.name || one.1 == id;
                    let from = self.buried.extract_if(.., is_it).map(|(_, from)| from);
                    renewed.extend(from.map(|from| Renewed { from, to: id }));
                }
            }
        }
        self.set = set;
        self.catch_up();
        renewed
    }

    /// How many deleted checkpoints are remembered for the requests that passed them.
    #[must_use]
    pub const fn buried(&self) -> usize {
        self.buried.len()
    }

    /// Forgets the deleted checkpoints that no open request passed.
    pub fn forget_buried(&mut self, has_holders: impl Fn(CheckpointId) -> bool) {
        self.buried.retain(|(_, id)| has_holders(*id));
    }

    /// Sets how many requests may be held at a concurrency checkpoint without keys, whatever its settings
    /// say. Used for the gates of backends. Lowering the limit drains; raising it lets waiters pass.
    pub fn set_limit(&mut self, now: Time, id: CheckpointId, limit: u32) {
        self.turn(now);
        let Some(index) = self.open(id) else { return };
        let checkpoint = &mut self.list[index];
        debug_assert!(matches!(checkpoint.terms, Terms::Concurrency(_)), "a gate is a concurrency");
        if matches!(checkpoint.terms, Terms::Concurrency(old) if old == limit) {
            return;
        }
        checkpoint.terms = Terms::Concurrency(limit);
        if let Some(queue) = checkpoint.only.queue() {
            checkpoint.rearm(queue, &mut self.waiting);
        }
    }

    /// Processes some of the queues that edits concern; removes deleted checkpoints without waiters.
    pub(crate) fn catch_up(&mut self) {
        let mut left = STEP_MAX;
        while let Some(backlog) = self.backlog.front_mut() {
            let Ok(index) = self.ids.binary_search(&backlog.checkpoint) else {
                self.backlog.pop_front();
                continue;
            };
            let checkpoint = &mut self.list[index];
            while backlog.next < checkpoint.queues.end() {
                if left == 0 {
                    return;
                }
                left -= 1;
                checkpoint.detach(backlog.next);
                checkpoint.rearm(backlog.next, &mut self.waiting);
                backlog.next += 1;
            }
            self.backlog.pop_front();
            self.remove_if_done(index);
        }
    }

    /// Removes a deleted checkpoint without waiters.
    pub(crate) fn remove_if_done(&mut self, index: usize) {
        if self.list[index].closing && self.list[index].stats.queued_now == 0 {
            self.ids.remove(index);
            self.list.remove(index);
        }
    }

    /// Frees some memory of dropped counters.
    pub(crate) fn drop_some(&mut self) {
        for _ in 0..DROP_STEP {
            let Some(table) = self.dropped.last_mut() else { return };
            if !table.drop_one() {
                self.dropped.pop();
            }
        }
    }
}

/// Requests that passed checkpoint `from` are to be counted at checkpoint `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The checkpoint that was passed.
    pub from: CheckpointId,
    /// The same checkpoint with new counters, or the checkpoint that has its name now.
    pub to: CheckpointId,
}

/// What is left to do after an edit.
struct Edit {
    /// Counters that were dropped.
    dropped: Option<Table>,
    /// Whether every queue must be processed again.
    queues: bool,
}

impl Checkpoint {
    /// Applies new settings. `generation` is for new counters, if these settings need them.
    fn edit(&mut self, now: Time, checked: &Arc<Checked>, generation: u32) -> Edit {
        if Arc::ptr_eq(&self.checked, checked) && !self.closing {
            return Edit { dropped: None, queues: false };
        }
        let (old, new) = (&self.checked.spec, &checked.spec);
        let counts_other = old.key != new.key || old.on != new.on;
        let anew = self.closing || !old.limit.is_same_kind(&new.limit) || counts_other;
        let reordered = old.fair != new.fair;
        let (before, watched) = (self.terms, self.watch);
        let limited = old.limit != new.limit || old.mode != new.mode;
        let metered = old.meter_period() != new.meter_period();
        // The limit of a gate is the one that was set last.
        if anew || old.limit != new.limit {
            self.terms = Terms::new(new.limit);
        }
        self.checked = Arc::clone(checked);
        self.period = new.meter_period();
        self.bounds = new.queue;
        self.watch = new.mode == Mode::Watch;
        if anew {
            self.closing = false;
            return Edit { dropped: Some(self.renew(generation)), queues: true };
        }
        if limited || metered {
            self.bring_counters(now, before, watched, (limited, metered));
        }
        self.order += u32::from(reordered);
        Edit { dropped: None, queues: limited || reordered }
    }

    /// Detaches a queue whose waiters are dismissed because of a new order, so that newcomers do not join it.
    fn detach(&mut self, number: u32) {
        let Some(queue) = self.queues.get(number) else { return };
        if queue.generation == self.generation
            && queue.ordered != self.order
            && let Some(counter) = self.counter(queue.counter)
            && counter.queue() == Some(number)
        {
            counter.set_queue(None);
        }
    }

    /// Deletes the checkpoint except for its waiters. Returns its counters.
    fn close(&mut self, generation: u32) -> Table {
        self.closing = true;
        self.renew(generation)
    }

    /// Starts with new counters. Queues stay until their waiters are dismissed.
    fn renew(&mut self, generation: u32) -> Table {
        self.generation = generation;
        self.only = Counter::default();
        self.overflow = Counter::default();
        self.overflow_users.clear();
        self.total = TotalMeter::default();
        self.hold_mean = None;
        self.stats = Stats { inflight: 0, ..self.stats };
        std::mem::take(&mut self.table)
    }

    /// An edit of a rate keeps the debt; an edit of the period resets the meters.
    fn bring_counters(
        &mut self,
        now: Time,
        before: Terms,
        watched: bool,
        (limited, metered): (bool, bool),
    ) {
        let paces = match (before, self.terms) {
            (Terms::Rate(from), Terms::Rate(to)) if limited => {
                Some(Change { at: now, from, to, watched })
            }
            _ => None,
        };
        let seen = self.edits.last();
        self.edits.push(paces, metered);
        self.edits.bring(seen, &mut self.only);
        self.edits.bring(seen, &mut self.overflow);
        if metered {
            self.total = TotalMeter::default();
        }
    }
}
