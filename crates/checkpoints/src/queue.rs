//! The queue of one counter: its waiters, their order, and their deadlines.
//!
//! Exists only while a request waits. Promises that joining, leaving, and finding the head or the
//! earliest deadline cost about the same for ten waiters and for a hundred thousand. Never decides
//! which waiter may pass; it only knows which is next.

use crate::fair::{Ahead, Fair, FlowKey, SHARE};
use crate::segments::Segments;
use crate::ticket::{Ticket, Which};
use crate::timers::Due;
use paceline_types::limits::AHEAD_MAX;
use paceline_types::{CheckpointId, Line, Rank, Time, Toll};
use std::collections::BTreeSet;

/// Up to this many flows, the wait of a newcomer is computed exactly. Beyond that it would take too long, and
/// only a lower bound is computed.
const FLOWS_EXACT: usize = 64;

/// The state of a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) queue: u32,
    /// The counter it waits for.
    pub(crate) counter: Which,
    pub(crate) rank: Rank,
    pub(crate) flow: FlowKey,
    pub(crate) cost: u32,
    pub(crate) entered: Time,
    pub(crate) deadline: Time,
}

/// The queue of one counter.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) counter: Which,
    /// The generation of the counters it belongs to; counters of an earlier one no longer exist.
    pub(crate) generation: u32,
    /// The edit of fairness that its order belongs to.
    pub(crate) ordered: u32,
    order: Order,
    deadlines: BTreeSet<(Time, Rank)>,
    /// Its entry among the timers.
    pub(crate) due: Option<Due>,
}

#[derive(Debug)]
enum Order {
    Rank(Line),
    Fair(Fair),
}

impl Queue {
    pub(crate) fn new(counter: Which, generation: u32, ordered: u32, fair: bool) -> Self {
        let order = if fair { Order::Fair(Fair::default()) } else { Order::Rank(Line::default()) };
        Self { counter, generation, ordered, order, deadlines: BTreeSet::new(), due: None }
    }

    /// Adds a waiter; returns the flow it is in.
    pub(crate) fn join(&mut self, ticket: &Ticket, deadline: Time) -> FlowKey {
        self.deadlines.insert((deadline, ticket.rank));
        match &mut self.order {
            Order::Rank(line) => {
                line.join(ticket.rank, toll(ticket));
                FlowKey::shared(ticket.flow)
            }
            Order::Fair(fair) => fair.join(ticket.flow, ticket.rank, toll(ticket), weight(ticket)),
        }
    }

    /// Removes a waiter unserved.
    pub(crate) fn leave(&mut self, waiter: &Waiter) {
        let toll = match &mut self.order {
            Order::Rank(line) => line.leave(waiter.rank),
            Order::Fair(fair) => fair.leave(waiter.flow, waiter.rank),
        };
        debug_assert!(toll.is_some(), "a waiter stands in its queue");
        self.deadlines.remove(&(waiter.deadline, waiter.rank));
    }

    /// Serves the head, which is `waiter`.
    pub(crate) fn serve(&mut self, waiter: &Waiter) {
        let served = match &mut self.order {
            Order::Rank(line) => line.leave(waiter.rank).map(|toll| (waiter.rank, toll)),
            Order::Fair(fair) => fair.serve(),
        };
        debug_assert!(served.is_some_and(|(rank, _)| rank == waiter.rank), "the head is served");
        self.deadlines.remove(&(waiter.deadline, waiter.rank));
    }

    /// The next waiter, and its cost.
    pub(crate) fn first(&self) -> Option<(Rank, u64)> {
        let first = match &self.order {
            Order::Rank(line) => line.first(),
            Order::Fair(fair) => fair.first(),
        };
        first.map(|(rank, toll)| (rank, toll.cost))
    }

    /// The waiter that expires first, and when.
    pub(crate) fn first_deadline(&self) -> Option<(Time, Rank)> {
        self.deadlines.first().copied()
    }

    pub(crate) const fn len(&self) -> usize {
        match &self.order {
            Order::Rank(line) => line.len(),
            Order::Fair(fair) => fair.len(),
        }
    }

    /// The waiter that a newcomer of a shorter flow displaces if the queue is full, and its cost.
    pub(crate) fn displaced_by(&self, ticket: &Ticket) -> Option<(Rank, u64)> {
        let displaced = match &self.order {
            Order::Rank(_) => None,
            Order::Fair(fair) => fair.displaced_by(ticket.flow),
        };
        displaced.map(|(rank, toll)| (rank, toll.cost))
    }

    /// The cost that is served before a newcomer that takes the place of `displaced`. `fits` says whether a
    /// cost is within the newcomer's bounds.
    pub(crate) fn cost_before_newcomer(
        &self,
        ticket: &Ticket,
        displaced: Option<(Rank, u64)>,
        fits: impl Fn(u64) -> bool,
    ) -> Before {
        let fair = match &self.order {
            Order::Rank(line) => return Before::Exactly(line.before(ticket.rank).1.cost),
            Order::Fair(fair) => fair,
        };
        let (flow, share) = (fair.flow_of(ticket.flow), toll(ticket).share);
        if fair.flows_waiting() <= FLOWS_EXACT {
            let without = displaced.map(|(rank, _)| rank);
            return Before::Exactly(fair.cost_before(flow, ticket.rank, share, without));
        }
        let displaced = displaced.map_or(0, |(_, cost)| cost);
        let least = fair.cost_before_min(flow, ticket.rank, share).saturating_sub(displaced);
        if fits(least) { Before::Enough } else { Before::AtLeast(least) }
    }

    /// The waiters that are served before this one, and their cost.
    pub(crate) fn ahead(&self, waiter: &Waiter) -> Ahead {
        match &self.order {
            Order::Rank(line) => {
                let (count, toll) = line.before(waiter.rank);
                let nearest = line.nearest_before(waiter.rank, AHEAD_MAX);
                Ahead { count, cost: toll.cost, nearest }
            }
            Order::Fair(fair) => fair.ahead(waiter.flow, waiter.rank, AHEAD_MAX),
        }
    }
}

/// The cost that is served before a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Exactly(u64),
    /// Not computed; the lower bound is within the newcomer's bounds.
    Enough,
    /// A lower bound, which exceeds the newcomer's bounds.
    AtLeast(u64),
}

fn toll(ticket: &Ticket) -> Toll {
    let cost = u64::from(ticket.cost);
    Toll { cost, share: (cost * SHARE / u64::from(weight(ticket))).max(1) }
}

fn weight(ticket: &Ticket) -> u32 {
    ticket.weight.max(1)
}

/// The queues of one checkpoint, by number.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    slots: Segments<Option<Box<Queue>>>,
    free: Vec<u32>,
}

/// When no request waits, slots beyond this number are freed.
const SLOTS_KEPT: usize = 256;

impl Queues {
    pub(crate) fn insert(&mut self, queue: Queue) -> u32 {
        let queue = Some(Box::new(queue));
        match self.free.pop() {
            Some(number) => {
                if let Some(slot) = self.slots.get_mut(number as usize) {
                    *slot = queue;
                }
                number
            }
            None => {
                self.slots.push(queue);
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize)
            && slot.take().is_some()
        {
            self.free.push(number);
        }
        if self.free.len() == self.slots.len() && self.free.len() > SLOTS_KEPT {
            *self = Self::default();
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Queue> {
        self.slots.get(number as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Queue> {
        self.slots.get_mut(number as usize)?.as_deref_mut()
    }

    /// One more than the highest number in use.
    pub(crate) const fn end(&self) -> u32 {
        self.slots.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Queues, SLOTS_KEPT};
    use crate::ticket::Which;

    #[test]
    fn numbers_are_used_again_and_slots_given_back() {
        let mut queues = Queues::default();
        let all: Vec<_> = (0..3 * SLOTS_KEPT)
            .map(|n| queues.insert(Queue::new(Which::Only, n as u32, 0, false)))
            .collect();
        assert_eq!(queues.end() as usize, 3 * SLOTS_KEPT);
        queues.remove(all[7]);
        queues.remove(all[7]);
        assert!(queues.get(all[7]).is_none());
        assert_eq!(queues.insert(Queue::new(Which::Only, 99, 0, false)), all[7]);
        assert_eq!(queues.get(all[7]).unwrap().generation, 99);
        assert_eq!(queues.get(all[8]).unwrap().generation, 8);
        for number in all {
            queues.remove(number);
        }
        assert_eq!(queues.end(), 0);
    }
}
