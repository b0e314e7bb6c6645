//! The decision at a checkpoint: pass, wait, or be turned away. Changes nothing.

use crate::checkpoint::{Checkpoint, Terms};
use crate::counter::Counter;
use crate::pace::Pace;
use crate::queue::{Before, Queue};
use crate::ticket::{Cause, Outlook, Ticket, Turned};
use paceline_types::{Span, Time};

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

    /// The end of a newcomer's wait: what it kept, or the earlier of the queue's and its own.
    pub(crate) fn deadline(&self, now: Time, ticket: &Ticket) -> Time {
        match ticket.kept {
            Some(kept) => kept.deadline,
            None => {
                let last = now.plus(self.bounds.delay_max);
                ticket.deadline.map_or(last, |own| own.min(last))
            }
        }
    }

    /// When another try has a chance: when the head passes, or after the mean time of a hold.
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
        if let Some(full) = self.full(now, counter, ticket) {
            return Outlook::Refuse(full);
        }
        let wait_max = self.deadline(now, ticket).since(now);
        match predict(now, pace, counter, queue, ticket, wait_max) {
            Wait::Until(pass_at) if ticket.kept.is_none() && pass_at.since(now) > wait_max => {
                let wait = pass_at.since(now);
                let cause = Cause::TooLong { wait, max: wait_max };
                let retry_at = Some(now.plus(Span(wait.0 - wait_max.0)));
                Outlook::Refuse(Turned { cause, retry_at })
            }
            Wait::Until(pass_at) => Outlook::Queue { pass_at: Some(pass_at) },
            Wait::Within => Outlook::Queue { pass_at: None },
        }
    }

    /// No wait can be predicted, so only a wait of nothing is refused at once.
    fn decide_wait(&self, now: Time, counter: &Counter, ticket: &Ticket) -> Outlook {
        if let Some(full) = self.full(now, counter, ticket) {
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

    fn full(&self, now: Time, counter: &Counter, ticket: &Ticket) -> Option<Turned> {
        if ticket.kept.is_some() {
            return None;
        }
        let queue = counter.queue().and_then(|queue| self.queues.get(queue));
        let len = queue.map_or(0, Queue::len) as u64;
        let max = if len >= self.bounds.len_max {
            self.bounds.len_max
        } else if self.stats.queued_now >= self.bounds.total_max {
            self.bounds.total_max
        } else {
            return None;
        };
        let retry_at = self.retry_at(now, counter, ticket.cost);
        Some(Turned { cause: Cause::Full { max }, retry_at })
    }
}

enum Wait {
    Until(Time),
    /// Not worked out, and not known to be longer than it may be.
    Within,
}

/// When a newcomer would pass, not earlier than now.
fn predict(
    now: Time,
    pace: &Pace,
    counter: &Counter,
    queue: Option<&Queue>,
    ticket: &Ticket,
    wait_max: Span,
) -> Wait {
    let cost = u64::from(ticket.cost);
    let pass_at = |before: u64| pace.pass_at(counter.tat(), before + cost).max(now);
    let Some(queue) = queue else { return Wait::Until(pass_at(0)) };
    match queue.cost_before_newcomer(ticket, |before| pass_at(before).since(now) <= wait_max) {
        Before::Exactly(before) | Before::AtLeast(before) => Wait::Until(pass_at(before)),
        Before::Enough => Wait::Within,
    }
}
