//! One checkpoint at work: its counters, its meters, its queues.
//!
//! Owns the counters of all keys, and a queue for each counter that requests wait for. Promises that at most
//! the limit passes, where all keys past the maximum are counted as one key (S3), and that a counter is kept
//! only while it differs from a new one.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
use crate::limit::Limit;
use crate::meter::TotalMeter;
use crate::pace::Pace;
use crate::queue::{Queue, Queues, Waiter};
use crate::set::Checked;
use crate::spec::{Mode, QueueSpec};
use crate::table::{Spot, Table};
use crate::ticket::{Arrival, Cause, HeldCount, Outlook, Stats, Ticket, Which};
use crate::timers::{QueueAt, Timers};
use paceline_types::{CheckpointId, RequestId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sweep looks at [`SWEEP_COUNT`] adjacent counters once per this many calls, which is cheaper than
/// looking at a few in every call.
const SWEEP_EVERY: u32 = 8;
const SWEEP_COUNT: usize = 32;
/// When all counters are taken, a new key looks at this many of them for one that can be dropped.
const SWEEP_FULL: usize = 64;

/// The waiters of all checkpoints, and their timers.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) timers: Timers,
    pub(crate) waiters: BTreeMap<RequestId, Waiter>,
}

/// The limit, ready for use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Terms {
    Rate(Pace),
    Concurrency(u32),
    Count,
}

impl Terms {
    pub(crate) fn new(limit: Limit) -> Self {
        match limit {
            Limit::Rate { count, per, burst } => Self::Rate(Pace::new(count, per, burst)),
            Limit::Concurrency(limit) => Self::Concurrency(limit),
            Limit::Count => Self::Count,
        }
    }
}

/// One checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) id: CheckpointId,
    pub(crate) checked: Arc<Checked>,
    pub(crate) terms: Terms,
    pub(crate) period: Span,
    pub(crate) bounds: QueueSpec,
    pub(crate) watch: bool,
    /// The generation of these counters, unique over all checkpoints. Counts from an earlier generation are
    /// void.
    pub(crate) generation: u32,
    /// Counts the edits of fairness. Queues of an earlier order dismiss their waiters.
    pub(crate) order: u32,
    /// Whether the checkpoint was deleted and only dismisses its waiters.
    pub(crate) closing: bool,
    pub(crate) only: Counter,
    pub(crate) overflow: Counter,
    /// How many requests of each key wait or are held at the overflow counter. Such a key gets no counter of
    /// its own, because its limit would then apply twice.
    pub(crate) overflow_users: BTreeMap<KeyHash, u32>,
    pub(crate) table: Table,
    pub(crate) edits: Edits,
    pub(crate) total: TotalMeter,
    pub(crate) queues: Queues,
    pub(crate) stats: Stats,
    /// The mean time that counts were held; each new hold weighs an eighth.
    pub(crate) hold_mean: Option<Span>,
    calls: u32,
}

/// Where a counter is; valid until the next key is added or removed.
#[derive(Clone, Copy)]
enum Seat {
    Only,
    Overflow,
    Key(Spot),
}

impl Checkpoint {
    pub(crate) fn new(checked: Arc<Checked>, generation: u32) -> Self {
        let spec = &checked.spec;
        Self {
            id: spec.id,
            terms: Terms::new(spec.limit),
            period: spec.meter_period(),
            bounds: spec.queue,
            watch: spec.mode == Mode::Watch,
            generation,
            order: 0,
            closing: false,
            only: Counter::default(),
            overflow: Counter::default(),
            overflow_users: BTreeMap::new(),
            table: Table::default(),
            edits: Edits::default(),
            total: TotalMeter::default(),
            queues: Queues::default(),
            stats: Stats::default(),
            hold_mean: None,
            calls: 0,
            checked,
        }
    }

    /// Handles the arrival of a request.
    pub(crate) fn arrive(&mut self, now: Time, ticket: &Ticket, waiting: &mut Waiting) -> Arrival {
        let (which, seat) = self.seat(now, ticket.key);
        if !ticket.kept.is_some_and(|kept| kept.metered) {
            self.meter(now, seat);
        }
        let counter = *self.seated(seat);
        match self.decide(now, &counter, ticket) {
            Outlook::Pass => Arrival::Passed(self.pass(now, which, seat, ticket.cost)),
            Outlook::Queue { .. } if self.watch => {
                self.stats.would_wait += 1;
                Arrival::Passed(self.pass(now, which, seat, ticket.cost))
            }
            Outlook::Refuse(_) if self.watch => {
                self.stats.would_refuse += 1;
                Arrival::Passed(self.let_in(now, which, seat, 0))
            }
            Outlook::Queue { pass_at } => {
                let displaced = self.room(now, &counter, ticket).ok().flatten();
                let displaced = displaced.and_then(|displaced| self.displace(displaced, waiting));
                self.enqueue(now, which, seat, ticket, waiting);
                Arrival::Queued { pass_at, displaced }
            }
            Outlook::Refuse(turned) => {
                self.note(turned.cause);
                Arrival::Refused(turned)
            }
        }
    }

    /// Counts a request without holding it back, whatever the limit.
    pub(crate) fn count(&mut self, now: Time, key: KeyHash) -> HeldCount {
        let (which, seat) = self.seat(now, key);
        self.meter(now, seat);
        self.let_in(now, which, seat, 0)
    }

    /// Counts a request that passed in an earlier run. It is not counted as an arrival.
    pub(crate) fn restore(&mut self, now: Time, key: KeyHash) -> HeldCount {
        let (which, seat) = self.seat(now, key);
        self.let_in(now, which, seat, 0)
    }

    /// Counts a request that passed under other counters in these counters, whatever the limit. It is not
    /// counted as passing again, and what it spent is not refunded.
    pub(crate) fn count_again(&mut self, now: Time, key: KeyHash, since: Time) -> HeldCount {
        let (which, seat) = self.seat(now, key);
        let passed = self.stats.passed;
        let held = self.let_in(now, which, seat, 0);
        self.stats.passed = passed;
        HeldCount { since, ..held }
    }

    /// The counter that `which` names; `None` if it is no longer kept.
    pub(crate) fn counter(&mut self, which: Which) -> Option<&mut Counter> {
        match which {
            Which::Only => Some(&mut self.only),
            Which::Overflow(_) => Some(&mut self.overflow),
            Which::Key(key) => {
                let spot = self.table.find(key, &self.edits)?;
                self.table.at(spot)
            }
        }
    }

    /// The state of a counter, without changing it; a new one if it is not kept.
    pub(crate) fn peek(&self, which: Which) -> Counter {
        match which {
            Which::Only => self.only,
            Which::Overflow(_) => self.overflow,
            Which::Key(key) => self.table.peek(key, &self.edits).unwrap_or_default(),
        }
    }

    /// The counter that an arrival with this key would use, without changing it.
    pub(crate) fn peek_arrival(&self, now: Time, key: KeyHash) -> Counter {
        if !self.is_keyed() {
            return self.only;
        }
        let (keys, keys_max) = (self.table.keys(), self.checked.spec.keys_max);
        match self.table.peek(key, &self.edits) {
            Some(counter) if !counter.is_fresh(now, self.period) => counter,
            Some(_) if keys <= keys_max => self.new_counter(),
            _ if self.overflow_users.contains_key(&key) => self.overflow,
            _ if keys - self.fresh_keys(now) >= keys_max => self.overflow,
            _ if !self.table.has_place(key) => self.overflow,
            _ => self.new_counter(),
        }
    }

    /// How many of the next counters could be dropped for a new key. Looks at a bounded number of them.
    fn fresh_keys(&self, now: Time) -> usize {
        match self.table.keys() < self.checked.spec.keys_max {
            true => 0,
            false => self.table.count_fresh(SWEEP_FULL, now, self.period, &self.edits),
        }
    }

    /// Counts why a request was refused.
    pub(crate) const fn note(&mut self, cause: Cause) {
        match cause {
            Cause::Full { .. } => self.stats.refused_full += 1,
            Cause::TooLong { .. } => self.stats.refused_too_long += 1,
            Cause::CostTooHigh { .. } => self.stats.refused_cost += 1,
            Cause::Expired { .. } => self.stats.expired += 1,
        }
    }

    /// Counts a request and returns what it must give back.
    pub(crate) fn hold(&mut self, now: Time, which: Which, cost: u32) -> HeldCount {
        self.stats.inflight += 1;
        self.stats.passed += 1;
        let (checkpoint, generation, edit) = (self.id, self.generation, self.edits.last());
        let limited = matches!(self.terms, Terms::Concurrency(_));
        HeldCount { checkpoint, generation, counter: which, cost, edit, since: now, limited }
    }

    /// Called when a request of this counter begins to wait, or is held without having waited.
    pub(crate) fn use_counter(&mut self, which: Which) {
        if let Which::Overflow(key) = which {
            *self.overflow_users.entry(key).or_default() += 1;
        }
    }

    /// Called when a request of this counter neither waits nor is held any more.
    pub(crate) fn unuse_counter(&mut self, which: Which) {
        let Which::Overflow(key) = which else { return };
        if let Some(users) = self.overflow_users.get_mut(&key) {
            *users -= 1;
            if *users == 0 {
                self.overflow_users.remove(&key);
            }
        }
    }

    /// The counter that a key starts with. It owes what the overflow counter owes, because the key may have
    /// spent that there.
    fn new_counter(&self) -> Counter {
        let mut counter = Counter::default();
        counter.set_tat(self.overflow.tat());
        counter
    }

    pub(crate) const fn at(&self, queue: u32) -> QueueAt {
        QueueAt { checkpoint: self.id, queue }
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.checked.spec.key.is_some()
    }

    fn meter(&mut self, now: Time, seat: Seat) {
        let period = self.period;
        self.seated(seat).meter.count(now, period);
        self.total.count(now, period);
        self.stats.arrivals += 1;
    }

    /// Finds or creates the counter of a key.
    fn seat(&mut self, now: Time, key: KeyHash) -> (Which, Seat) {
        if !self.is_keyed() {
            return (Which::Only, Seat::Only);
        }
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(SWEEP_EVERY) {
            self.table.sweep(SWEEP_COUNT, now, self.period, &self.edits);
        }
        if let Some(spot) = self.table.find(key, &self.edits) {
            if self.is_seat_kept(now, spot) {
                return (Which::Key(key), Seat::Key(spot));
            }
            self.table.remove(spot, &self.edits);
        }
        match self.take_place(now, key) {
            Some(spot) => (Which::Key(key), Seat::Key(spot)),
            None => {
                self.stats.overflowed += 1;
                (Which::Overflow(key), Seat::Overflow)
            }
        }
    }

    /// Creates a counter for a key that has none, if the key does not use the overflow counter and there is
    /// room.
    fn take_place(&mut self, now: Time, key: KeyHash) -> Option<Spot> {
        if self.overflow_users.contains_key(&key) {
            return None;
        }
        let keys_max = self.checked.spec.keys_max;
        if self.table.keys() >= keys_max {
            self.table.sweep(SWEEP_FULL, now, self.period, &self.edits);
        }
        if self.table.keys() >= keys_max {
            return None;
        }
        self.table.insert(key, self.new_counter(), &self.edits)
    }

    /// Whether the key keeps its counter. A counter that equals a new one counts as none, whether or not the
    /// sweep has reached it. Otherwise the sweep would decide what the key starts with, and whether it shares
    /// a counter.
    fn is_seat_kept(&mut self, now: Time, spot: Spot) -> bool {
        let (period, new) = (self.period, self.new_counter());
        let has_room = self.table.keys() <= self.checked.spec.keys_max;
        match self.table.at(spot) {
            Some(counter) if counter.is_fresh(now, period) => {
                *counter = new;
                has_room
            }
            _ => true,
        }
    }

    fn seated(&mut self, seat: Seat) -> &mut Counter {
        match seat {
            Seat::Only => &mut self.only,
            Seat::Overflow => &mut self.overflow,
            // A seat is used before the next key is added or removed, so the counter exists.
            Seat::Key(spot) => self.table.at(spot).unwrap_or(&mut self.overflow),
        }
    }

    /// Spends the cost and counts the request.
    fn pass(&mut self, now: Time, which: Which, seat: Seat, cost: u32) -> HeldCount {
        let Terms::Rate(pace) = self.terms else { return self.let_in(now, which, seat, 0) };
        let counter = self.seated(seat);
        counter.set_tat(pace.spend(counter.tat(), now, cost));
        self.let_in(now, which, seat, cost)
    }

    fn let_in(&mut self, now: Time, which: Which, seat: Seat, cost: u32) -> HeldCount {
        self.seated(seat).inflight += 1;
        self.use_counter(which);
        self.hold(now, which, cost)
    }

    fn enqueue(
        &mut self,
        now: Time,
        which: Which,
        seat: Seat,
        ticket: &Ticket,
        waiting: &mut Waiting,
    ) {
        let queue = match self.seated(seat).queue() {
            Some(queue) => queue,
            None => {
                let fair = self.checked.spec.fair.is_some();
                let queue = Queue::new(which, self.generation, self.order, fair);
                let queue = self.queues.insert(queue);
                self.seated(seat).set_queue(Some(queue));
                queue
            }
        };
        let deadline = self.deadline(now, ticket);
        let Some(place) = self.queues.get_mut(queue) else { return };
        let waiter = Waiter {
            checkpoint: self.id,
            queue,
            counter: which,
            rank: ticket.rank,
            flow: place.join(ticket, deadline),
            cost: ticket.cost,
            entered: ticket.kept.map_or(now, |kept| kept.entered),
            deadline,
        };
        waiting.waiters.insert(ticket.rank.id, waiter);
        self.use_counter(which);
        self.stats.queued += 1;
        self.stats.queued_now += 1;
        self.rearm(queue, waiting);
    }
}
