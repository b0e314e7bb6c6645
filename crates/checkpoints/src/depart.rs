//! How waiters leave their queue and counts are given back.
//!
//! Promises that a queue exists exactly while a request waits in it, that it has exactly one timer,
//! and that a count given back goes to the next waiter in the same step (P1).

use crate::checkpoint::{Checkpoint, Terms, Waiting};
use crate::decide::Displaced;
use crate::queue::{Queue, Waiter};
use crate::ticket::{Cause, HeldCount, How, Kept, Moved, Turned};
use crate::timers::{Due, DueKind};
use paceline_types::{Rank, Span, Time};

impl Checkpoint {
    /// The head of a queue leaves because its time has come.
    pub(crate) fn pass_head(
        &mut self,
        now: Time,
        slip: Span,
        number: u32,
        waiting: &mut Waiting,
    ) -> Option<Moved> {
        let queue = self.queues.get_mut(number)?;
        let (rank, cost) = queue.first()?;
        let which = queue.counter;
        if self.dismisses(number) {
            return self.dismiss(rank, waiting);
        }
        let terms = self.terms;
        if let Terms::Rate(pace) = terms
            && cost > u64::from(pace.burst)
        {
            return self.refuse_cost(rank, pace.burst, waiting);
        }
        let counter = self.counter(which)?;
        if let Terms::Concurrency(limit) = terms
            && counter.inflight >= limit
        {
            self.rearm(number, waiting);
            return None;
        }
        counter.inflight += 1;
        let waiter = waiting.waiters.remove(&rank.id)?;
        let mut spent = 0;
        if let Terms::Rate(pace) = terms {
            let from = Time(now.0.saturating_sub(slip.0));
            counter.set_tat(pace.spend(counter.tat(), from, waiter.cost));
            spent = waiter.cost;
        }
        self.queues.get_mut(number)?.serve(&waiter);
        let held = self.hold(now, waiter.counter, spent);
        self.vacate(number, waiting);
        Some(self.moved(&waiter, How::Passed(held)))
    }

    /// An edit took the burst below the cost of a waiter, which can never pass now.
    fn refuse_cost(&mut self, rank: Rank, burst: u32, waiting: &mut Waiting) -> Option<Moved> {
        let waiter = waiting.waiters.remove(&rank.id)?;
        self.depart(&waiter, waiting);
        let cause = Cause::CostTooHigh { burst };
        self.note(cause);
        Some(self.moved(&waiter, How::Refused(Turned { cause, retry_at: None })))
    }

    /// A waiter has reached its deadline.
    pub(crate) fn expire(&mut self, now: Time, rank: Rank, waiting: &mut Waiting) -> Option<Moved> {
        let waiter = waiting.waiters.remove(&rank.id)?;
        let which = self.queues.get(waiter.queue)?.counter;
        self.depart(&waiter, waiting);
        let cause = Cause::Expired { waited: now.since(waiter.entered) };
        let retry_at = self.retry_at(now, &self.peek(which), waiter.cost);
        self.note(cause);
        Some(self.moved(&waiter, How::Refused(Turned { cause, retry_at })))
    }

    /// A waiter makes room for a newcomer of a shorter flow.
    pub(crate) fn displace(
        &mut self,
        displaced: Displaced,
        waiting: &mut Waiting,
    ) -> Option<Moved> {
        let waiter = waiting.waiters.remove(&displaced.rank.id)?;
        self.depart(&waiter, waiting);
        self.note(displaced.turned.cause);
        Some(self.moved(&waiter, How::Refused(displaced.turned)))
    }

    /// A waiter leaves by itself. It spent nothing.
    pub(crate) fn leave(&mut self, waiter: &Waiter, waiting: &mut Waiting) {
        self.stats.left += 1;
        self.depart(waiter, waiting);
    }

    /// A count is given back. The next waiter gets it, if the limit allows.
    pub(crate) fn settle(
        &mut self,
        now: Time,
        held: &HeldCount,
        waiting: &mut Waiting,
    ) -> Option<(Rank, Moved)> {
        if held.generation != self.generation {
            return None;
        }
        let hold = now.since(held.since);
        let mean = self.hold_mean.map_or(hold.0, |mean| mean.0 - mean.0 / 8 + hold.0 / 8);
        self.hold_mean = Some(Span(mean));
        self.give_back(now, held, waiting)
    }

    /// A request ended before it ran: its cost is refunded and its count given back.
    pub(crate) fn refund(
        &mut self,
        now: Time,
        held: &HeldCount,
        waiting: &mut Waiting,
    ) -> Option<(Rank, Moved)> {
        if held.generation != self.generation {
            return None;
        }
        let terms = self.terms;
        // Cost that was spent at another rate says nothing about this one.
        if let Terms::Rate(pace) = terms
            && held.edit == self.edits.last()
            && let Some(counter) = self.counter(held.counter)
        {
            counter.set_tat(pace.refund(counter.tat(), held.cost, now.since(held.since)));
            if let Some(queue) = counter.queue() {
                self.rearm(queue, waiting);
            }
        }
        self.give_back(now, held, waiting)
    }

    fn give_back(
        &mut self,
        now: Time,
        held: &HeldCount,
        waiting: &mut Waiting,
    ) -> Option<(Rank, Moved)> {
        let terms = self.terms;
        let counter = self.counter(held.counter)?;
        debug_assert!(counter.inflight > 0, "a count is given back once");
        counter.inflight = counter.inflight.saturating_sub(1);
        let (inflight, queue) = (counter.inflight, counter.queue());
        self.unuse_counter(held.counter);
        self.stats.inflight = self.stats.inflight.saturating_sub(1);
        match terms {
            Terms::Concurrency(limit) if inflight < limit && !self.watch => {
                // Dismissed waiters arrive again, and may pass then.
                if self.dismisses(queue?) {
                    return None;
                }
                let (rank, _) = self.queues.get(queue?)?.first()?;
                Some((rank, self.pass_head(now, Span::ZERO, queue?, waiting)?))
            }
            _ => None,
        }
    }

    /// Updates the timer of the queue to its next event.
    pub(crate) fn rearm(&mut self, number: u32, waiting: &mut Waiting) {
        let due = self.queues.get(number).and_then(|queue| self.due(number, queue));
        let at = self.at(number);
        if let Some(queue) = self.queues.get_mut(number) {
            waiting.timers.replace(queue.due, due, at);
            queue.due = due;
        }
    }

    /// Whether the waiters of a queue are dismissed: its counters or the checkpoint no longer exist, or the
    /// checkpoint holds back no request any more.
    pub(crate) fn dismisses(&self, number: u32) -> bool {
        self.closing
            || self.watch
            || self.queues.get(number).is_some_and(|queue| {
                queue.generation != self.generation || queue.ordered != self.order
            })
    }

    /// Dismisses a waiter. Dismissed waiters leave in the order in which they would have passed.
    fn dismiss(&mut self, rank: Rank, waiting: &mut Waiting) -> Option<Moved> {
        let waiter = waiting.waiters.remove(&rank.id)?;
        let queue = self.queues.get_mut(waiter.queue)?;
        let metered = queue.generation == self.generation;
        queue.serve(&waiter);
        self.stop_waiting(&waiter);
        self.vacate(waiter.queue, waiting);
        let how = if self.closing {
            How::Gone { at: self.checked.spec.at.clone(), number: self.checked.spec.number }
        } else {
            How::Again(Kept { entered: waiter.entered, deadline: waiter.deadline, metered })
        };
        Some(self.moved(&waiter, how))
    }

    fn depart(&mut self, waiter: &Waiter, waiting: &mut Waiting) {
        if let Some(queue) = self.queues.get_mut(waiter.queue) {
            queue.leave(waiter);
            self.stop_waiting(waiter);
            self.vacate(waiter.queue, waiting);
        }
    }

    /// A waiter left without a count. Waiters of replaced counters are not counted.
    fn stop_waiting(&mut self, waiter: &Waiter) {
        let queue = self.queues.get(waiter.queue);
        if queue.is_some_and(|queue| queue.generation == self.generation) {
            self.unuse_counter(waiter.counter);
        }
    }

    /// After a waiter left a queue: sets a new timer, or removes the queue.
    fn vacate(&mut self, number: u32, waiting: &mut Waiting) {
        self.stats.queued_now = self.stats.queued_now.saturating_sub(1);
        let at = self.at(number);
        let Some(queue) = self.queues.get(number) else { return };
        if queue.len() > 0 {
            self.rearm(number, waiting);
            return;
        }
        waiting.timers.replace(queue.due, None, at);
        let (which, generation) = (queue.counter, queue.generation);
        self.queues.remove(number);
        if generation == self.generation
            && let Some(counter) = self.counter(which)
            && counter.queue() == Some(number)
        {
            counter.set_queue(None);
        }
    }

    /// The next event in a queue: its head passes, or a waiter reaches its deadline.
    fn due(&self, number: u32, queue: &Queue) -> Option<Due> {
        let (rank, cost) = queue.first()?;
        let pass_at = if self.dismisses(number) {
            Some(Time(0))
        } else {
            let counter = self.peek(queue.counter);
            match self.terms {
                Terms::Rate(pace) if cost > u64::from(pace.burst) => Some(Time(0)),
                Terms::Rate(pace) => pace.head_at(counter.tat(), cost),
                Terms::Concurrency(limit) => (counter.inflight < limit).then_some(Time(0)),
                Terms::Count => Some(Time(0)),
            }
        };
        let pass = pass_at.map(|at| Due { at, kind: DueKind::Pass, rank });
        let expire =
            queue.first_deadline().map(|(at, rank)| Due { at, kind: DueKind::Expire, rank });
        pass.into_iter().chain(expire).min()
    }

    const fn moved(&self, waiter: &Waiter, how: How) -> Moved {
        Moved { request: waiter.rank.id, checkpoint: self.id, how }
    }
}
