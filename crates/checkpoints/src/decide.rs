//! The decision at a checkpoint: a request passes, waits or is refused. Changes nothing.

use crate::checkpoint::{Checkpoint, Terms};
use crate::counter::Counter;
use crate::pace::Pace;
use crate::queue::{Before, Queue};
use crate::spec::QueueSpec;
use crate::ticket::{Cause, Outlook, Ticket, Turned};
use paceline_types::{Rank, Span, Time};

impl Checkpoint {
    /// What an enforcing checkpoint does with a request that arrives now.
    pub(crate) fn decide(&self, now: Time, counter: &Counter, ticket: &Ticket) -> Outlook {
        match self.terms {
            Terms::Rate(pace) => self.decide_rate(now, &pace, counter, ticket),
            Terms::Concurrency(limit) if counter.queue().is_none() && counter.inflight < limit => {
                Outlook::Pass
            }
            Terms::Concurrency(_) => self.decide_wait(now, counter, ticket),
            Terms::Count => Outlook::Pass,
        }
    }

    /// The deadline of a newcomer: the one it kept, or the earlier of the queue's and its own.
    pub(crate) fn deadline(&self, now: Time, ticket: &Ticket) -> Time {
        match ticket.kept {
            Some(kept) => kept.deadline,
            None => {
                let last = now.plus(self.bounds.delay_max);
                ticket.deadline.map_or(last, |own| own.min(last))
            }
        }
    }

    /// When a retry has a chance: when the head passes, or after the mean time of a hold.
    pub(crate) fn retry_at(&self, now: Time, counter: &Counter, cost: u32) -> Option<Time> {
        match self.terms {
            Terms::Rate(pace) => {
                let head = counter.queue().and_then(|queue| self.queues.get(queue)?.first());
                let cost = head.map_or(u64::from(cost), |(_, cost)| cost);
                Some(pace.pass_at(counter.tat(), cost).max(now))
            }
            Terms::Concurrency(_) => self.hold_mean.map(|mean| now.plus(mean)),
            Terms::Count => None,
        }
    }

    fn decide_rate(&self, now: Time, pace: &Pace, counter: &Counter, ticket: &Ticket) -> Outlook {
        if ticket.cost > pace.burst {
            let cause = Cause::CostTooHigh { burst: pace.burst };
            return Outlook::Refuse(Turned { cause, retry_at: None });
        }
        let queue = counter.queue().and_then(|queue| self.queues.get(queue));
        if queue.is_none() && pace.conforms(counter.tat(), now, ticket.cost) {
            return Outlook::Pass;
        }
        let displaced = match self.room(now, counter, ticket) {
            Ok(displaced) => displaced.map(|displaced| (displaced.rank, displaced.cost)),
            Err(full) => return Outlook::Refuse(full),
        };
        let wait_max = self.deadline(now, ticket).since(now);
        let fits = |pass_at: Time| pass_at.since(now) <= wait_max;
        match predict(now, pace, counter, queue, ticket, displaced, fits) {
            Wait::Until(pass_at) if ticket.kept.is_none() && !fits(pass_at) => {
                let wait = pass_at.since(now);
                let cause = Cause::TooLong { wait, max: wait_max };
                let retry_at = Some(now.plus(Span(wait.0 - wait_max.0)));
                Outlook::Refuse(Turned { cause, retry_at })
            }
            Wait::Until(pass_at) => Outlook::Queue { pass_at: Some(pass_at) },
            Wait::Within => Outlook::Queue { pass_at: None },
        }
    }

    /// Decides for a request that cannot pass at once. The wait cannot be predicted, so only a maximum wait
    /// of zero is refused at once.
    fn decide_wait(&self, now: Time, counter: &Counter, ticket: &Ticket) -> Outlook {
        if let Err(full) = self.room(now, counter, ticket) {
            return Outlook::Refuse(full);
        }
        if ticket.kept.is_none() && self.deadline(now, ticket) <= now {
            let cause = Cause::Expired { waited: Span::ZERO };
            return Outlook::Refuse(Turned {
                cause,
                retry_at: self.retry_at(now, counter, ticket.cost),
            });
        }
        Outlook::Queue { pass_at: None }
    }

    /// Whether there is room for a newcomer in its queue, and the waiter that it displaces there. Otherwise,
    /// why there is none.
    pub(crate) fn room(
        &self,
        now: Time,
        counter: &Counter,
        ticket: &Ticket,
    ) -> Result<Option<Displaced>, Turned> {
        if ticket.kept.is_some() {
            return Ok(None);
        }
        let queue = counter.queue().and_then(|queue| self.queues.get(queue));
        let (len, total) = (queue.map_or(0, Queue::len) as u64, self.stats.queued_now);
        let QueueSpec { len_max, total_max, .. } = self.bounds;
        let max = if len >= len_max {
            len_max
        } else if total >= total_max {
            total_max
        } else {
            return Ok(None);
        };
        let retry_at = self.retry_at(now, counter, ticket.cost);
        let turned = Turned { cause: Cause::Full { max }, retry_at };
        let is_exceeded = len > len_max || total > total_max;
        let is_let_out = counter.queue().is_some_and(|queue| self.dismisses(queue));
        let queue = queue.filter(|_| !is_exceeded && !is_let_out);
        match queue.and_then(|queue| queue.displaced_by(ticket)) {
            Some((rank, cost)) => Ok(Some(Displaced { rank, cost, turned })),
            None => Err(turned),
        }
    }
}

/// The waiter whose place in a full queue a newcomer takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Displaced {
    pub(crate) rank: Rank,
    pub(crate) cost: u64,
    pub(crate) turned: Turned,
}

enum Wait {
    Until(Time),
    /// Not computed, and not known to exceed the bound.
    Within,
}

/// When a newcomer that takes the place of `displaced` would pass, not earlier than now.
fn predict(
    now: Time,
    pace: &Pace,
    counter: &Counter,
    queue: Option<&Queue>,
    ticket: &Ticket,
    displaced: Option<(Rank, u64)>,
    fits: impl Fn(Time) -> bool,
) -> Wait {
    let cost = u64::from(ticket.cost);
    let pass_at = |before: u64| pace.pass_at(counter.tat(), before + cost).max(now);
    let Some(queue) = queue else { return Wait::Until(pass_at(0)) };
    match queue.cost_before_newcomer(ticket, displaced, |before| fits(pass_at(before))) {
        Before::Exactly(before) | Before::AtLeast(before) => Wait::Until(pass_at(before)),
        Before::Enough => Wait::Within,
    }
}
