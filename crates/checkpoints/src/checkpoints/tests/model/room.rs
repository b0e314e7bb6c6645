//! Room in a full queue: the waiter that a newcomer displaces when flows share the queue.

use super::{Came, Checkpoint, Counter, Ticket};
use crate::spec::Mode;
use paceline_types::Time;

/// Room for a newcomer.
pub enum Room {
    Free,
    /// The place of this waiter, because this many wait.
    Displaces(usize, u64),
    /// No room, because this many wait.
    Full(u64),
}

impl Checkpoint {
    pub fn queued(&self) -> u64 {
        let current = self.counters.values().map(|c| c.queue.len());
        current.chain(self.old.iter().map(|old| old.counter.queue.len())).sum::<usize>() as u64
    }

    pub fn queues(&self) -> usize {
        let current = self.counters.values().filter(|c| !c.queue.is_empty()).count();
        current + self.old.iter().filter(|old| !old.counter.queue.is_empty()).count()
    }

    pub fn queued_at(&self, key: u64) -> u64 {
        self.counters.get(&self.key(key)).map_or(0, |c| c.queue.len() as u64)
    }

    pub fn room(&self, counter: &Counter, ticket: &Ticket) -> Room {
        let (len, total) = (counter.queue.len() as u64, self.queued());
        let (len_max, total_max) = (self.spec.queue.len_max, self.spec.queue.total_max);
        let max = match (len >= len_max, total >= total_max) {
            _ if ticket.kept.is_some() => return Room::Free,
            (true, _) => len_max,
            (false, true) => total_max,
            (false, false) => return Room::Free,
        };
        let shares = self.fair() && self.spec.mode == Mode::Enforce;
        if !shares || len > len_max || total > total_max {
            return Room::Full(max);
        }
        let of_flow = |flow| counter.queue.iter().filter(move |w| w.ticket.flow == flow).count();
        let places = 0..counter.queue.len();
        let last = places.max_by_key(|index| {
            let ticket = &counter.queue[*index].ticket;
            (of_flow(ticket.flow), ticket.rank)
        });
        match last {
            Some(i) if of_flow(counter.queue[i].ticket.flow) >= of_flow(ticket.flow) + 2 => {
                Room::Displaces(i, max)
            }
            _ => Room::Full(max),
        }
    }

    /// Removes the waiter that makes room, if one must leave.
    pub fn displace(&mut self, now: Time, key: u64, ticket: &Ticket) -> Option<(u64, Came)> {
        let Room::Displaces(index, max) = self.room(&self.counters[&key], ticket) else {
            return None;
        };
        let retry_at = self.retry_at(now, &self.counters[&key], ticket.cost);
        let waiter = self.counters.get_mut(&key)?.leave(index);
        Some((waiter.ticket.rank.id.0, Came::Full { max, retry_at }))
    }
}
