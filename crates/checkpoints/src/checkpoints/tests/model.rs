//! A second, naive room, written from the engine note: plain lists, everything computed anew.

mod room;

use crate::limit::Limit;
use crate::spec::{Mode, Spec};
use crate::ticket::Kept;
use crate::timers::DueKind;
use paceline_types::{CheckpointId, Rank, Span, Time};
use room::Room;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Ticket {
    pub rank: Rank,
    pub key: u64,
    pub flow: u64,
    pub weight: u32,
    pub cost: u32,
    pub own: Option<Time>,
    pub kept: Option<Kept>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    Passed { cost: u32 },
    Queued { pass_at: Option<Time> },
    Full { max: u64, retry_at: Option<Time> },
    TooLong { wait: Span, max: Span, retry_at: Option<Time> },
    Expired { waited: Span, retry_at: Option<Time> },
    CostTooHigh { burst: u32 },
    Again(Kept),
    Gone,
}

#[derive(Clone, Debug)]
struct Waiter {
    ticket: Ticket,
    entered: Time,
    deadline: Time,
}

impl Waiter {
    fn share(&self) -> u128 {
        (u128::from(self.ticket.cost) * (1 << 20) / u128::from(self.ticket.weight)).max(1)
    }
}

/// One counter. `tat` is in units of 1/N ns.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    tat: i128,
    pub inflight: u32,
    arrivals: Vec<Time>,
    queue: Vec<Waiter>,
    virtual_time: u128,
    /// Served cost, times 2^20, by which the virtual time has not risen yet.
    unspent: u128,
    /// The flow that was served last, and the weight that it had then.
    served: Option<(u64, u128)>,
    /// The weight of the latest request of each flow.
    weights: BTreeMap<u64, u128>,
    starts: BTreeMap<u64, u128>,
    finishes: BTreeMap<u64, u128>,
}

impl Counter {
    /// The waiter that is served next.
    fn head(&self, fair: bool) -> Option<usize> {
        let of_rank = |i: &usize| self.queue[*i].ticket.rank;
        if !fair {
            return (0..self.queue.len()).min_by_key(of_rank);
        }
        let heads = self.starts.iter().filter_map(|(flow, start)| {
            let mine = (0..self.queue.len()).filter(|i| self.queue[*i].ticket.flow == *flow);
            let head = mine.min_by_key(of_rank);
            head.map(|i| (start + self.queue[i].share(), self.queue[i].ticket.rank, i))
        });
        heads.min().map(|(_, _, i)| i)
    }

    fn join(&mut self, waiter: Waiter) {
        let flow = waiter.ticket.flow;
        if self.queue.iter().all(|other| other.ticket.flow != flow) {
            let finish = self.finishes.get(&flow).copied().unwrap_or(0);
            self.starts.insert(flow, self.virtual_time.max(finish));
        }
        self.weights.insert(flow, waiter.ticket.weight.into());
        self.queue.push(waiter);
    }

    fn leave(&mut self, index: usize) -> Waiter {
        let waiter = self.queue.remove(index);
        self.tidy(waiter.ticket.flow);
        waiter
    }

    fn serve(&mut self, fair: bool) -> Option<Waiter> {
        let index = self.head(fair)?;
        let flows = self.queue.iter().map(|waiter| waiter.ticket.flow);
        let flows = flows.collect::<BTreeSet<_>>();
        let served = self.served.filter(|(flow, _)| !flows.contains(flow));
        let weights = flows.iter().map(|flow| self.weights[flow]);
        let weights: u128 = weights.chain(served.map(|(_, weight)| weight)).sum();
        let waiter = self.queue.remove(index);
        let flow = waiter.ticket.flow;
        if fair {
            let finish = self.starts[&flow] + waiter.share();
            let risen = self.virtual_time + self.unspent / weights;
            let left = if risen > finish { 0 } else { self.unspent % weights };
            self.unspent = left + u128::from(waiter.ticket.cost) * (1 << 20);
            let least = self.starts.values().min().copied().unwrap_or(0);
            self.virtual_time = self.virtual_time.max(least).max(risen.min(finish));
            self.served = Some((flow, self.weights[&flow]));
            self.finishes.insert(flow, finish);
            self.starts.insert(flow, finish);
        }
        self.tidy(flow);
        Some(waiter)
    }

    fn tidy(&mut self, flow: u64) {
        if self.queue.iter().all(|other| other.ticket.flow != flow) {
            self.starts.remove(&flow);
        }
        if self.queue.is_empty() {
            self.finishes.clear();
            self.weights.clear();
            (self.virtual_time, self.unspent, self.served) = (0, 0, None);
        }
    }

    /// The waiters that are served before a request, in order, if no other request arrives.
    pub fn before(&self, rank: Rank, fair: bool) -> Vec<(u64, u32)> {
        let mut copy = self.clone();
        let mut all = vec![];
        while let Some(waiter) = copy.serve(fair)
            && waiter.ticket.rank != rank
        {
            all.push((waiter.ticket.rank.id.0, waiter.ticket.cost));
        }
        all
    }
}

#[derive(Debug)]
struct Old {
    counter: Counter,
    fair: bool,
    /// Whether its meters are still in use.
    metered: bool,
}

#[derive(Debug)]
pub struct Checkpoint {
    pub spec: Spec,
    pub generation: u32,
    /// Counts the edits of limit and period.
    edits: u32,
    pub closing: bool,
    pub counters: BTreeMap<u64, Counter>,
    /// Counters of an earlier generation or of another order, kept only for their waiters.
    old: Vec<Old>,
    arrivals: Vec<Time>,
    mean: Option<u64>,
}

impl Checkpoint {
    fn fair(&self) -> bool {
        self.spec.fair.is_some()
    }

    fn key(&self, key: u64) -> u64 {
        if self.spec.key.is_some() { key } else { 0 }
    }

    /// N, D and B.
    fn pace(&self) -> Option<(i128, i128, i128)> {
        match self.spec.limit {
            Limit::Rate { count, per, burst } => Some((count.into(), per.0.into(), burst.into())),
            _ => None,
        }
    }

    pub fn inflight_at(&self, key: u64) -> u64 {
        self.counters.get(&self.key(key)).map_or(0, |c| u64::from(c.inflight))
    }

    pub fn rate(&self, now: Time, key: Option<u64>) -> f64 {
        let none = vec![];
        let arrivals = match key {
            None => &self.arrivals,
            Some(key) => self.counters.get(&self.key(key)).map_or(&none, |c| &c.arrivals),
        };
        let period = self.spec.meter_period();
        let tick = now.0 / period.0;
        let count = |tick: u64| arrivals.iter().filter(|at| at.0 / period.0 == tick).count() as f64;
        let left = (period.0 - now.0 % period.0) as f64 / period.0 as f64;
        let before = if tick == 0 { 0.0 } else { count(tick - 1) };
        (count(tick) + before * left) / period.as_secs()
    }

    /// `tat + (cost - B)T`, rounded up to a whole nanosecond.
    fn pass_at(&self, tat: i128, cost: i128) -> Time {
        let (n, d, b) = self.pace().unwrap();
        let at = (tat + (cost - b) * d).max(0);
        Time(u64::try_from((at + n - 1) / n).unwrap())
    }

    fn retry_at(&self, now: Time, counter: &Counter, cost: u32) -> Option<Time> {
        match self.spec.limit {
            Limit::Rate { .. } => {
                let head = counter.head(self.fair()).map(|i| counter.queue[i].ticket.cost);
                Some(self.pass_at(counter.tat, head.unwrap_or(cost).into()).max(now))
            }
            Limit::Concurrency(_) => self.mean.map(|mean| now.plus(Span(mean))),
            Limit::Count => None,
        }
    }

    fn deadline(&self, now: Time, ticket: &Ticket) -> Time {
        let last = now.plus(self.spec.queue.delay_max);
        match (ticket.kept, ticket.own) {
            (Some(kept), _) => kept.deadline,
            (None, Some(own)) => own.min(last),
            (None, None) => last,
        }
    }

    /// What an enforcing checkpoint would do.
    fn decide(&self, now: Time, ticket: &Ticket) -> Came {
        let fresh = Counter::default();
        let counter = self.counters.get(&self.key(ticket.key)).unwrap_or(&fresh);
        let passes = match self.spec.limit {
            Limit::Count => true,
            Limit::Concurrency(limit) => counter.queue.is_empty() && counter.inflight < limit,
            Limit::Rate { burst, .. } if ticket.cost > burst => {
                return Came::CostTooHigh { burst };
            }
            Limit::Rate { .. } => {
                let (n, d, b) = self.pace().unwrap();
                let t = i128::from(now.0) * n;
                let conforms = counter.tat.max(t) + i128::from(ticket.cost) * d - t <= b * d;
                counter.queue.is_empty() && conforms
            }
        };
        if passes {
            return Came::Passed { cost: ticket.cost };
        }
        let bound = ticket.kept.is_none();
        let retry_at = self.retry_at(now, counter, ticket.cost);
        let displaced = match self.room(counter, ticket) {
            Room::Free => None,
            Room::Displaces(index, _) => Some(index),
            Room::Full(max) => return Came::Full { max, retry_at },
        };
        let max = self.deadline(now, ticket).since(now);
        if self.pace().is_none() {
            if bound && max == Span::ZERO {
                return Came::Expired { waited: Span::ZERO, retry_at };
            }
            return Came::Queued { pass_at: None };
        }
        let mut with = counter.clone();
        displaced.map(|index| with.leave(index));
        with.join(Waiter { ticket: ticket.clone(), entered: now, deadline: now });
        let before: u32 = with.before(ticket.rank, self.fair()).iter().map(|(_, cost)| cost).sum();
        let pass_at = self.pass_at(counter.tat, i128::from(before + ticket.cost)).max(now);
        let wait = pass_at.since(now);
        if bound && wait > max {
            return Came::TooLong { wait, max, retry_at: Some(now.plus(Span(wait.0 - max.0))) };
        }
        Came::Queued { pass_at: Some(pass_at) }
    }

    fn spend(&mut self, key: u64, from: Time, cost: u32) {
        if let Some((n, d, _)) = self.pace() {
            let counter = self.counters.get_mut(&key).unwrap();
            let from = i128::from(from.0) * n;
            counter.tat = counter.tat.max(from) + i128::from(cost) * d;
        }
    }

    /// The earliest event of each queue, with the queue's number; old queues come first.
    fn events(&self) -> Vec<((Time, DueKind, Rank), Where)> {
        let mut all = vec![];
        let old = self.old.iter().enumerate();
        let old = old.map(|(i, old)| (Where::Old(i), &old.counter, old.fair));
        let current = self.counters.iter().map(|(key, c)| (Where::Key(*key), c, self.fair()));
        for (place, counter, fair) in old.chain(current) {
            let Some(head) = counter.head(fair) else { continue };
            let ticket = &counter.queue[head].ticket;
            let out =
                self.closing || self.spec.mode == Mode::Watch || matches!(place, Where::Old(_));
            let pass_at = match self.spec.limit {
                _ if out => Some(Time(0)),
                Limit::Rate { burst, .. } if ticket.cost > burst => Some(Time(0)),
                Limit::Rate { .. } => Some(self.pass_at(counter.tat, ticket.cost.into())),
                Limit::Concurrency(limit) if counter.inflight < limit => Some(Time(0)),
                _ => None,
            };
            all.extend(pass_at.map(|at| ((at, DueKind::Pass, ticket.rank), place)));
            for waiter in &counter.queue {
                all.push(((waiter.deadline, DueKind::Expire, waiter.ticket.rank), place));
            }
        }
        all
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Old(usize),
    Key(u64),
}

/// What a request holds.
#[derive(Clone, Debug)]
pub struct HeldCount {
    pub checkpoint: CheckpointId,
    generation: u32,
    edits: u32,
    key: u64,
    cost: u32,
    since: Time,
}

#[derive(Debug, Default)]
pub struct Model {
    pub checkpoints: BTreeMap<CheckpointId, Checkpoint>,
    pub held: BTreeMap<u64, HeldCount>,
    /// The waiter whose place the last arrival took, and its result.
    pub displaced: Option<(u64, Came)>,
    pub generation: u32,
    pub slip: Span,
}

impl Model {
    pub fn preview(&self, now: Time, id: CheckpointId, ticket: &Ticket) -> Came {
        match self.checkpoints.get(&id) {
            Some(checkpoint) if !checkpoint.closing => checkpoint.decide(now, ticket),
            _ => Came::Passed { cost: 0 },
        }
    }

    pub fn arrive(&mut self, now: Time, id: CheckpointId, ticket: &Ticket) -> Came {
        let Some(checkpoint) = self.checkpoints.get_mut(&id).filter(|c| !c.closing) else {
            return Came::Passed { cost: 0 };
        };
        let key = checkpoint.key(ticket.key);
        let came = checkpoint.decide(now, ticket);
        let counter = checkpoint.counters.entry(key).or_default();
        // An arrival is metered once, even if the request must arrive again.
        if !ticket.kept.is_some_and(|kept| kept.metered) {
            counter.arrivals.push(now);
            checkpoint.arrivals.push(now);
        }
        let watch = checkpoint.spec.mode == Mode::Watch;
        let came = match came {
            Came::Queued { .. } if watch => Came::Passed { cost: ticket.cost },
            Came::Passed { .. } | Came::Queued { .. } => came,
            _ if watch => Came::Passed { cost: 0 },
            refused => return refused,
        };
        match came {
            Came::Passed { cost } => {
                checkpoint.spend(key, now, cost);
                let cost = if checkpoint.pace().is_some() { cost } else { 0 };
                self.hold(now, id, key, ticket.rank.id.0, cost);
                Came::Passed { cost }
            }
            came => {
                let entered = ticket.kept.map_or(now, |kept| kept.entered);
                let deadline = checkpoint.deadline(now, ticket);
                let waiter = Waiter { ticket: ticket.clone(), entered, deadline };
                self.displaced = checkpoint.displace(now, key, ticket);
                checkpoint.counters.get_mut(&key).unwrap().join(waiter);
                came
            }
        }
    }

    fn hold(&mut self, now: Time, id: CheckpointId, key: u64, request: u64, cost: u32) {
        let checkpoint = self.checkpoints.get_mut(&id).unwrap();
        checkpoint.counters.get_mut(&key).unwrap().inflight += 1;
        let (generation, edits) = (checkpoint.generation, checkpoint.edits);
        let held = HeldCount { checkpoint: id, generation, edits, key, cost, since: now };
        assert!(self.held.insert(request, held).is_none(), "passed twice");
    }

    /// Gives back a count; returns the request that got it.
    pub fn give_back(&mut self, now: Time, request: u64, refund: bool) -> Option<u64> {
        let held = self.held.remove(&request)?;
        let checkpoint = self.checkpoints.get_mut(&held.checkpoint)?;
        let edits = checkpoint.edits;
        if checkpoint.generation != held.generation {
            return None;
        }
        let pace = checkpoint.pace();
        if !refund {
            let hold = now.since(held.since).0;
            checkpoint.mean = Some(checkpoint.mean.map_or(hold, |m| m - m / 8 + hold / 8));
        }
        let (fair, watch) = (checkpoint.fair(), checkpoint.spec.mode == Mode::Watch);
        let limit = checkpoint.spec.limit;
        let counter = checkpoint.counters.get_mut(&held.key).unwrap();
        if let (true, Some((n, d, _))) = (refund && held.edits == edits, pace) {
            let since = i128::from(now.since(held.since).0) * n;
            counter.tat = (counter.tat - (i128::from(held.cost) * d - since).max(0)).max(0);
        }
        counter.inflight -= 1;
        match limit {
            Limit::Concurrency(limit) if counter.inflight < limit && !watch => {
                let next = counter.serve(fair)?;
                let id = next.ticket.rank.id.0;
                self.hold(now, held.checkpoint, held.key, id, 0);
                Some(id)
            }
            _ => None,
        }
    }

    pub fn leave(&mut self, request: u64) -> bool {
        let mut found = false;
        for checkpoint in self.checkpoints.values_mut() {
            let old = checkpoint.old.iter_mut().map(|old| &mut old.counter);
            for counter in checkpoint.counters.values_mut().chain(old) {
                if let Some(i) = counter.queue.iter().position(|w| w.ticket.rank.id.0 == request) {
                    counter.leave(i);
                    found = true;
                }
            }
        }
        self.tidy();
        found
    }

    /// The earliest event.
    pub fn next_due(&self) -> Option<(Time, DueKind, Rank)> {
        self.checkpoints.values().flat_map(Checkpoint::events).map(|(due, _)| due).min()
    }

    /// Handles the earliest event that is due.
    pub fn next(&mut self, now: Time) -> Option<(u64, CheckpointId, Came)> {
        let events = self.checkpoints.iter().flat_map(|(id, checkpoint)| {
            checkpoint.events().into_iter().map(|(due, place)| (due, *id, place))
        });
        let (due, id, place) = events.min_by_key(|(due, ..)| *due)?;
        if due.0 > now {
            return None;
        }
        let came = self.handle(now, due, id, place);
        self.tidy();
        Some((due.2.id.0, id, came))
    }

    fn handle(
        &mut self,
        now: Time,
        (_, kind, rank): (Time, DueKind, Rank),
        id: CheckpointId,
        place: Where,
    ) -> Came {
        let checkpoint = self.checkpoints.get_mut(&id).unwrap();
        let watch = checkpoint.spec.mode == Mode::Watch;
        let (closing, mut fair, mut metered) = (checkpoint.closing, checkpoint.fair(), true);
        let counter = match place {
            Where::Key(key) => checkpoint.counters.get_mut(&key).unwrap(),
            Where::Old(old) => {
                fair = checkpoint.old[old].fair;
                metered = checkpoint.old[old].metered;
                &mut checkpoint.old[old].counter
            }
        };
        if kind == DueKind::Expire {
            let index = counter.queue.iter().position(|w| w.ticket.rank == rank).unwrap();
            let waiter = counter.leave(index);
            let waited = now.since(waiter.entered);
            let fresh = Counter::default();
            let counter = match place {
                Where::Key(key) => &checkpoint.counters[&key],
                Where::Old(_) => &fresh,
            };
            let retry_at = checkpoint.retry_at(now, counter, waiter.ticket.cost);
            return Came::Expired { waited, retry_at };
        }
        if let (Limit::Rate { burst, .. }, Where::Key(_)) = (checkpoint.spec.limit, place)
            && !closing
            && !watch
            && let Some(index) = counter.queue.iter().position(|w| w.ticket.rank == rank)
            && counter.queue[index].ticket.cost > burst
        {
            counter.leave(index);
            return Came::CostTooHigh { burst };
        }
        let waiter = counter.serve(fair).unwrap();
        match place {
            _ if closing => Came::Gone,
            Where::Key(key) if !watch => {
                let slipped = Time(now.0.saturating_sub(self.slip.0));
                checkpoint.spend(key, slipped, waiter.ticket.cost);
                let cost = if checkpoint.pace().is_some() { waiter.ticket.cost } else { 0 };
                self.hold(now, id, key, rank.id.0, cost);
                Came::Passed { cost }
            }
            _ => {
                let Waiter { entered, deadline, .. } = waiter;
                Came::Again(Kept { entered, deadline, metered })
            }
        }
    }

    pub fn configure(&mut self, now: Time, specs: &[Spec]) {
        for (id, checkpoint) in &mut self.checkpoints {
            if !checkpoint.closing && specs.iter().all(|spec| spec.id != *id) {
                checkpoint.closing = true;
                self.generation += 1;
                checkpoint.renew(self.generation);
            }
        }
        for spec in specs {
            self.generation += 1;
            let generation = self.generation;
            self.checkpoints
                .entry(spec.id)
                .and_modify(|checkpoint| checkpoint.edit(now, spec, generation))
                .or_insert_with(|| Checkpoint {
                    spec: spec.clone(),
                    generation,
                    edits: 0,
                    closing: false,
                    counters: BTreeMap::new(),
                    old: vec![],
                    arrivals: vec![],
                    mean: None,
                });
        }
        self.tidy();
    }

    /// Drops what no request waits for any more.
    fn tidy(&mut self) {
        for checkpoint in self.checkpoints.values_mut() {
            checkpoint.old.retain(|old| !old.counter.queue.is_empty());
        }
        self.checkpoints.retain(|_, checkpoint| !checkpoint.closing || checkpoint.queued() > 0);
    }
}

impl Checkpoint {
    fn renew(&mut self, generation: u32) {
        let fair = self.fair();
        self.generation = generation;
        let counters = std::mem::take(&mut self.counters);
        self.old.iter_mut().for_each(|old| old.metered = false);
        let metered = false;
        self.old.extend(counters.into_values().map(|counter| Old { counter, fair, metered }));
        self.arrivals.clear();
        self.mean = None;
    }

    fn edit(&mut self, now: Time, spec: &Spec, generation: u32) {
        let same =
            self.spec.limit.is_same_kind(&spec.limit) && self.spec.key == spec.key && !self.closing;
        if !same {
            self.renew(generation);
            self.spec = spec.clone();
            self.closing = false;
            return;
        }
        if self.spec.fair != spec.fair {
            // Only the order of the queue changed: waiters arrive again, counters stay.
            let fair = self.fair();
            for counter in self.counters.values_mut() {
                let kept = Counter {
                    tat: counter.tat,
                    inflight: counter.inflight,
                    arrivals: counter.arrivals.clone(),
                    ..Counter::default()
                };
                let counter = std::mem::replace(counter, kept);
                self.old.push(Old { counter, fair, metered: true });
            }
        }
        let before = self.pace();
        let watched = self.spec.mode == Mode::Watch;
        let edited = self.spec.limit != spec.limit || self.spec.mode != spec.mode;
        let metered = self.spec.meter_period() != spec.meter_period();
        self.edits += u32::from(edited || metered);
        if metered {
            self.arrivals.clear();
            self.counters.values_mut().for_each(|counter| counter.arrivals.clear());
        }
        self.spec = spec.clone();
        if let (true, Some((old, old_d, _)), Some((n, d, b))) = (edited, before, self.pace()) {
            for counter in self.counters.values_mut() {
                // The debt stays, in units of cost; the time it takes is rounded up.
                let at = i128::from(now.0);
                let last = at + (b * d + n - 1) / n;
                let whole = if counter.tat <= at * old {
                    (counter.tat + old - 1) / old
                } else {
                    let owed = (counter.tat - at * old) * d;
                    at + (owed + old_d * n - 1) / (old_d * n)
                };
                counter.tat = if watched { whole.min(last) } else { whole } * n;
            }
        }
    }
}
