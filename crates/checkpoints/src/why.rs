//! Questions that change nothing: counters, a waiter's place, what would happen to a request.

use crate::checkpoint::Terms;
use crate::checkpoints::Checkpoints;
use crate::fair::Ahead;
use crate::hash::KeyHash;
use crate::queue::Queue;
use crate::ticket::{HeldCount, Outlook, Stats, Ticket};
use paceline_types::{CheckpointId, RequestId, Time};

/// The position of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The checkpoint where it waits.
    pub checkpoint: CheckpointId,
    /// The counter it waits for, as [`HeldCount::counter`] returns it.
    pub counter: KeyHash,
    /// How many waiters are served before it.
    pub ahead: usize,
    /// The last of those waiters, nearest first.
    pub nearest: Vec<RequestId>,
    /// When it passes if no request arrives or leaves, if that can be known.
    pub pass_at: Option<Time>,
    /// When it began to wait.
    pub entered: Time,
    /// Its deadline.
    pub deadline: Time,
    /// How many requests passed this counter and are not settled.
    pub held: u32,
    /// The concurrency limit, if that is what it waits for.
    pub limit: Option<u32>,
}

impl Checkpoints {
    /// Arrivals per second at a checkpoint, refused ones included: of one key, or of all.
    #[must_use]
    pub fn rate(&self, now: Time, id: CheckpointId, key: Option<KeyHash>) -> f64 {
        let (now, Some(index)) = (self.at(now), self.open(id)) else { return 0.0 };
        let checkpoint = &self.list[index];
        match key {
            Some(key) => checkpoint.peek_arrival(now, key).meter.per_second(now, checkpoint.period),
            None => checkpoint.total.per_second(now, checkpoint.period),
        }
    }

    /// Requests that passed a checkpoint and are not settled: of one key, or of all.
    #[must_use]
    pub fn inflight(&self, now: Time, id: CheckpointId, key: Option<KeyHash>) -> u64 {
        let (now, Some(index)) = (self.at(now), self.open(id)) else { return 0 };
        let checkpoint = &self.list[index];
        key.map_or(checkpoint.stats.inflight, |key| {
            u64::from(checkpoint.peek_arrival(now, key).inflight)
        })
    }

    /// Requests that wait at a checkpoint: for one key's counter, or for any.
    #[must_use]
    pub fn queued(&self, now: Time, id: CheckpointId, key: Option<KeyHash>) -> u64 {
        let (now, Some(index)) = (self.at(now), self.open(id)) else { return 0 };
        let checkpoint = &self.list[index];
        key.map_or(checkpoint.stats.queued_now, |key| {
            let queue = checkpoint.peek_arrival(now, key).queue();
            queue.and_then(|queue| checkpoint.queues.get(queue)).map_or(0, Queue::len) as u64
        })
    }

    /// Whether a request is in a queue; a request that was handed a count is not.
    #[must_use]
    pub fn waits(&self, request: RequestId) -> bool {
        self.waiting.waiters.contains_key(&request)
    }

    /// The position of a waiter; `None` if it does not wait here.
    ///
    /// In a fair queue this looks at a few waiters of each flow.
    #[must_use]
    pub fn place(&self, now: Time, request: RequestId) -> Option<Standing> {
        let now = self.at(now);
        let waiter = self.waiting.waiters.get(&request)?;
        let checkpoint = &self.list[self.ids.binary_search(&waiter.checkpoint).ok()?];
        let queue = checkpoint.queues.get(waiter.queue)?;
        let counter = checkpoint.peek(queue.counter);
        let Ahead { count: ahead, cost, nearest } = queue.ahead(waiter);
        let (pass_at, limit) = match checkpoint.terms {
            _ if checkpoint.dismisses(waiter.queue) => (Some(now), None),
            Terms::Rate(pace) => {
                let cost = cost + u64::from(waiter.cost);
                (Some(pace.pass_at(counter.tat(), cost).max(now)), None)
            }
            Terms::Concurrency(limit) => (None, Some(limit)),
            Terms::Count => (Some(now), None),
        };
        Some(Standing {
            checkpoint: waiter.checkpoint,
            counter: queue.counter.number(),
            ahead,
            nearest,
            pass_at,
            entered: waiter.entered,
            deadline: waiter.deadline,
            held: counter.inflight,
            limit,
        })
    }

    /// Whether a waiter waits for the counter of this count.
    #[must_use]
    pub fn waits_for(&self, request: RequestId, held: &HeldCount) -> bool {
        let Some(waiter) = self.waiting.waiters.get(&request) else { return false };
        let Ok(index) = self.ids.binary_search(&waiter.checkpoint) else { return false };
        let counter = self.list[index].queues.get(waiter.queue).map(|queue| queue.counter);
        held.checkpoint == waiter.checkpoint
            && held.generation == self.list[index].generation
            && counter.is_some_and(|counter| counter.is_same(held.counter))
    }

    /// What would happen to a request that arrived now if the checkpoint enforced.
    #[must_use]
    pub fn preview(&self, now: Time, id: CheckpointId, ticket: &Ticket) -> Outlook {
        let (now, Some(index)) = (self.at(now), self.open(id)) else { return Outlook::Pass };
        let checkpoint = &self.list[index];
        checkpoint.decide(now, &checkpoint.peek_arrival(now, ticket.key), ticket)
    }

    /// What a checkpoint has done so far, and what it holds.
    #[must_use]
    pub fn stats(&self, id: CheckpointId) -> Option<Stats> {
        let checkpoint = &self.list[self.open(id)?];
        Some(Stats { keys: checkpoint.table.keys() as u64, ..checkpoint.stats })
    }
}
