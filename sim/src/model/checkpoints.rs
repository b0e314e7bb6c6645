//! The checkpoints: the walk, the counters and their queues.
//!
//! Times are counted in ticks. A nanosecond has so many that D/N is a whole number of ticks for every N that
//! histories use, so nothing is ever rounded.

use super::config::{At, Checkpoint, Limit, Weight};
use super::flows::Flow;
use super::seats::GONE;
use super::servers::{BEHIND_BACKEND, is_gate};
use super::{Event, Model, Passed, Place, Position, Queued, Rank, Reason, Seat, Stage};

/// Ticks in a nanosecond: divisible by every N in [`NUMBERS`].
pub const TICKS: i128 = 1_000 * 3 * 7 * 13 * 997;

/// The N that rates may have.
pub const NUMBERS: [u64; 14] = [1, 2, 3, 5, 7, 10, 13, 20, 40, 50, 100, 200, 997, 1_000];

/// The highest weight.
const WEIGHT_MAX: u64 = 10_000;

/// A share of one cost at weight one.
pub(super) const SHARE: u64 = 1 << 20;

/// The numbers of one counter. Waiters and holders are counted from the requests.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its checkpoint.
    pub checkpoint: u32,
    /// Its key, or the shared counter.
    pub key: Option<&'static str>,
    /// The time up to which the rate is spent, in ticks.
    pub tat: i128,
    /// The fair order's virtual time.
    pub(super) now_virtual: u64,
    /// Served cost, times [`SHARE`], by which the virtual time has not risen yet.
    pub(super) unspent: u64,
    /// The flow that was served last, and the weight that it had then.
    pub(super) served: Option<(&'static str, u64)>,
    pub(super) flows: Vec<Flow>,
}

/// What happens to a request that reaches a checkpoint.
pub(super) enum Step {
    Pass,
    Wait,
    Refuse(Reason),
}

impl Model {
    /// Takes a request past every checkpoint after `after`, as far as it gets. If there was an edit since it
    /// last checked its way, also past every other one that it has not passed.
    pub(super) fn walk(&mut self, id: u64, after: Option<Position>) {
        self.walk_with(id, after, None);
    }

    /// The same for a request that has to arrive once more at a checkpoint on its way.
    fn walk_with(&mut self, id: u64, mut after: Option<Position>, again: Option<&Queued>) {
        self.leave_gone_pool(id);
        self.learn_names(id);
        self.leave_lost_server(id, &mut after);
        let behind = after;
        let mut looks_back = self.requests[&id].looked_after != self.edits;
        if looks_back && again.is_none() {
            (after, looks_back) = (None, false);
            self.has_looked(id);
        }
        loop {
            let next = self.next_checkpoint(id, after, behind);
            if self.wants_server(id, next.as_ref()) {
                match self.find_server(id) {
                    Step::Pass => after = Some(BEHIND_BACKEND),
                    Step::Wait => return self.give_back_later(),
                    Step::Refuse(reason) => return self.refuse(id, reason),
                }
                continue;
            }
            let Some(checkpoint) = next else {
                if !looks_back {
                    break;
                }
                (after, looks_back) = (None, false);
                self.has_looked(id);
                continue;
            };
            if is_gate(checkpoint.id)
                && let Some(reason) = self.no_server(id)
            {
                return self.refuse(id, reason);
            }
            after = Some(position(&checkpoint));
            let was = again.filter(|was| was.checkpoint == checkpoint.id);
            match self.arrive(id, &checkpoint, was) {
                Step::Pass if looks_back && was.is_some() => {
                    (after, looks_back) = (None, false);
                    self.has_looked(id);
                }
                Step::Pass => {}
                Step::Wait => {
                    if was.is_none() && after <= behind {
                        self.leave_behind(id, &checkpoint);
                    }
                    self.refuse_displaced();
                    return self.give_back_later();
                }
                Step::Refuse(reason) => return self.refuse(id, reason),
            }
        }
        self.enter(id);
        self.give_back_later();
    }

    /// Notes that a request has checked its whole way as the last edit made it.
    pub(super) fn has_looked(&mut self, id: u64) {
        let edits = self.edits;
        if let Some(request) = self.requests.get_mut(&id) {
            request.looked_after = edits;
        }
    }

    /// Lets a waiter of a checkpoint that has new counters arrive there again, past the bounds.
    pub(super) fn walk_again(&mut self, id: u64, checkpoint: &Checkpoint, was: &Queued) {
        self.leave_gone_pool(id);
        self.learn_names(id);
        if !self.is_on_the_way(id, checkpoint) {
            return self.walk(id, Some(position(checkpoint)));
        }
        if position(checkpoint).0 > 2 && self.has_lost_server(id) {
            return self.walk_with(id, Some(position(checkpoint)), Some(was));
        }
        match self.arrive(id, checkpoint, Some(was)) {
            Step::Pass => self.walk(id, Some(position(checkpoint))),
            Step::Wait => {}
            Step::Refuse(reason) => self.refuse(id, reason),
        }
    }

    /// The `count` checkpoints of a request's frontend, which count before the rules.
    pub(super) fn frontend_counts(&self, id: u64) -> Vec<Checkpoint> {
        let arrival = &self.requests[&id].arrival;
        let at = At::Frontend(arrival.frontend);
        let all = self.config.checkpoints.iter().filter(|c| c.connection == arrival.connection);
        let mut found: Vec<_> =
            all.filter(|c| c.at == at && c.limit == Limit::Count).cloned().collect();
        found.sort_by_key(position);
        found
    }

    /// The next checkpoint after `after`. A gate that is not after `behind` as well was passed, or is never
    /// reached.
    fn next_checkpoint(
        &self,
        id: u64,
        after: Option<Position>,
        behind: Option<Position>,
    ) -> Option<Checkpoint> {
        let request = &self.requests[&id];
        let is_gone_by = |c: &Checkpoint| is_gate(c.id) && Some(position(c)) <= behind;
        let on_the_way = |checkpoint: &&Checkpoint| self.is_on_the_way(id, checkpoint);
        let ahead = |checkpoint: &&Checkpoint| after.is_none_or(|at| position(checkpoint) > at);
        // An edit may have moved a checkpoint that it passed already.
        let passed = |checkpoint: &Checkpoint| {
            let its = request.walk.iter().filter(|passed| passed.checkpoint == checkpoint.id);
            its.count() > self.given_up(id, checkpoint.id)
        };
        let all = self.config.checkpoints.iter().filter(|c| !passed(c) && !is_gone_by(c));
        all.filter(on_the_way).filter(ahead).min_by_key(|c| position(c)).cloned()
    }

    fn is_on_the_way(&self, id: u64, checkpoint: &Checkpoint) -> bool {
        let request = &self.requests[&id];
        if request.arrival.connection != checkpoint.connection {
            return false;
        }
        match checkpoint.at {
            _ if is_gate(checkpoint.id) && request.backend.is_none() => false,
            _ if is_gate(checkpoint.id) && request.seat.is_some() => false,
            At::Frontend(name) => {
                request.arrival.frontend == name && checkpoint.limit != Limit::Count
            }
            At::Backend(name) => request.arrival.backend == name,
            At::Server(name) => request.arrival.server == name,
            At::Pool(name) => self.pool_of(id).map(|pool| pool.name) == Some(name),
        }
    }

    /// Handles a request that reaches a checkpoint; `was` is its old place if it arrives there again.
    pub(super) fn arrive(&mut self, id: u64, at: &Checkpoint, was: Option<&Queued>) -> Step {
        let priority = self.requests[&id].priority;
        let arrival = self.as_seen_at(id, at);
        if at.when.is_some_and(|when| !self.holds(&arrival, when, priority)) {
            return Step::Pass;
        }
        let key = at.key.map(|attribute| arrival.value(attribute));
        let cost = self.requests[&id].arrival.cost;
        let seat = self.take_seat(at, key);
        // A request that arrives again was metered before, unless those meters no longer exist.
        if was.is_none_or(|was| was.seat.counter == Some(GONE)) {
            self.met.push((at.id, seat.counter, self.now));
        }
        match at.limit {
            Limit::Count => self.pass(id, at, seat, None),
            Limit::Concurrency(_) => {
                let limit = self.limit(at);
                let free = self.held(at.id, seat.counter) < limit
                    && self.order(at.id, seat.counter).is_empty();
                if free || at.watch {
                    return self.pass(id, at, seat, None);
                }
                self.queue(id, at, seat, was, None)
            }
            Limit::Rate { n, d, burst } => {
                if cost > burst {
                    if at.watch {
                        return self.pass(id, at, seat, None);
                    }
                    return Step::Refuse(Reason::CostTooHigh(Place::Checkpoint(at.name, key)));
                }
                let t = i128::from(d) * TICKS / i128::from(n);
                let now = i128::from(self.now) * TICKS;
                let tat = self.counter(at.id, seat.counter).tat;
                let after = tat.max(now) + i128::from(cost) * t;
                let conforms = after - now <= i128::from(burst) * t;
                if conforms && self.order(at.id, seat.counter).is_empty() {
                    self.counter(at.id, seat.counter).tat = after;
                    return self.pass(id, at, seat, Some(self.now));
                }
                let wait = self.predicted_wait(id, at, seat);
                if !at.watch {
                    return self.queue(id, at, seat, was, Some(wait));
                }
                let spends = self.bound_reached(id, at, seat, Some(wait), None).is_none();
                if spends {
                    self.counter(at.id, seat.counter).tat = after;
                }
                self.pass(id, at, seat, spends.then_some(self.now))
            }
        }
    }

    fn pass(&mut self, id: u64, at: &Checkpoint, seat: Seat, spent: Option<u64>) -> Step {
        if let Some(request) = self.requests.get_mut(&id) {
            request.walk.push(Passed { checkpoint: at.id, seat, spent });
            request.stage = Stage::Moving;
        }
        Step::Pass
    }

    /// Joins the queue, unless a bound is reached. `wait` is the predicted wait, if there is one.
    fn queue(
        &mut self,
        id: u64,
        at: &Checkpoint,
        seat: Seat,
        was: Option<&Queued>,
        wait: Option<u64>,
    ) -> Step {
        if was.is_none() {
            let displaced = self.displaced_by(id, at, seat);
            if let Some(reason) = self.bound_reached(id, at, seat, wait, displaced) {
                return Step::Refuse(reason);
            }
            self.displace(at, seat, displaced);
        }
        let request = &self.requests[&id];
        let flow = self.flow_of(id, at);
        let (cost, weight) = (request.arrival.cost, weight(at.weight, request.arrival.user));
        let share = (cost * SHARE / weight).max(1);
        let longest = self.now.saturating_add(at.queue.max_delay);
        let deadline = match was {
            Some(was) => was.deadline,
            None => [longest].into_iter().chain(request.own_deadline()).min(),
        };
        let since = was.map_or(self.now, |was| was.since);
        let alone = self.flow_line(at.id, seat.counter, flow).is_empty();
        let counter = self.counter(at.id, seat.counter);
        if alone {
            let now_virtual = counter.now_virtual;
            let tags = counter.flow(flow);
            tags.start = now_virtual.max(tags.finish);
        }
        counter.flow(flow).weight = weight;
        let queued = Queued { checkpoint: at.id, seat, flow, cost, share, since, deadline };
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = Stage::Queued(queued);
        }
        Step::Wait
    }

    /// Why a request may not join a queue, if it would take the place of `displaced`.
    fn bound_reached(
        &self,
        id: u64,
        at: &Checkpoint,
        seat: Seat,
        wait: Option<u64>,
        displaced: Option<u64>,
    ) -> Option<Reason> {
        let place = Place::Checkpoint(at.name, seat.key);
        if displaced.is_none()
            && let Some(max) = self.full(at, seat)
        {
            return Some(Reason::QueueFull(place, max));
        }
        let left = self.requests[&id].own_deadline().map(|end| end.saturating_sub(self.now));
        let longest = left.map_or(at.queue.max_delay, |left| left.min(at.queue.max_delay));
        match wait {
            Some(wait) if wait > longest => Some(Reason::TooLong(place, wait)),
            None if longest == 0 => Some(Reason::Expired(place)),
            _ => None,
        }
    }

    /// Passes the head of a rate queue, which is due, and lets it walk on.
    pub(super) fn pass_head(&mut self, id: u64) {
        let Some(Stage::Queued(queued)) = self.stage(id).cloned() else { return };
        let Some(at) = self.checkpoint(queued.checkpoint).cloned() else { return };
        let Limit::Rate { n, d, .. } = at.limit else { return self.hand_over_next(&at) };
        if self.costs_too_much(id, &at) {
            let place = Place::Checkpoint(at.name, queued.seat.key);
            return self.refuse(id, Reason::CostTooHigh(place));
        }
        let t = i128::from(d) * TICKS / i128::from(n);
        let cost = i128::from(self.requests[&id].arrival.cost);
        let earliest = (i128::from(self.now) - i128::from(self.config.slip)) * TICKS;
        let counter = self.counter(at.id, queued.seat.counter);
        counter.tat = counter.tat.max(earliest) + cost * t;
        self.serve(id, &at, &queued, Some(self.now));
        self.walk(id, Some(position(&at)));
    }

    /// Removes a request from its queue and takes it past the checkpoint.
    fn serve(&mut self, id: u64, at: &Checkpoint, queued: &Queued, spent: Option<u64>) {
        self.serve_flow(at.id, queued);
        self.leave_gate(id, queued);
        self.pass(id, at, queued.seat, spent);
        self.forget_tags_if_empty(at.id, queued.seat.counter);
    }

    /// Releases what a request holds at one checkpoint, and refunds `refund` of a rate, as far as time has not
    /// repaid it yet.
    pub(super) fn give_back(&mut self, passed: &Passed, refund: u64) {
        let Some(at) = self.checkpoint(passed.checkpoint).cloned() else { return };
        match (at.limit, passed.spent) {
            (Limit::Rate { n, d, .. }, Some(spent)) => {
                let t = i128::from(d) * TICKS / i128::from(n);
                // Time has repaid the rest already.
                let age = i128::from(self.now - spent) * TICKS;
                let back = (i128::from(refund) * t - age).max(0);
                self.counter(at.id, passed.seat.counter).tat -= back;
            }
            (Limit::Concurrency(_), _) => self.hand_over(&at, passed.seat.counter),
            (Limit::Rate { .. } | Limit::Count, _) => {}
        }
    }

    /// Hands a released count to the next waiter, if fewer than the limit are held. It walks on later.
    fn hand_over(&mut self, at: &Checkpoint, key: Option<&'static str>) {
        let Limit::Concurrency(_) = at.limit else { return };
        if self.held(at.id, key) < self.limit(at)
            && let Some(next) = self.order(at.id, key).first().copied()
            && let Some(Stage::Queued(queued)) = self.stage(next).cloned()
        {
            self.serve(next, at, &queued, None);
            self.handed.push((next, position(at)));
        }
    }

    /// The next waiter to find room at a concurrency checkpoint: the lowest rank of all counters.
    pub(super) fn next_handed(&self, at: &Checkpoint) -> Option<(u64, Queued)> {
        let Limit::Concurrency(_) = at.limit else { return None };
        let limit = self.limit(at);
        let heads = self.heads(at).into_iter();
        let free = heads.filter(|(_, queued)| self.held(at.id, queued.seat.counter) < limit);
        free.min_by_key(|(id, _)| self.requests[id].rank)
    }

    /// Lets the next waiter pass.
    pub(super) fn hand_over_next(&mut self, at: &Checkpoint) {
        if let Some((next, queued)) = self.next_handed(at) {
            self.serve(next, at, &queued, None);
            self.walk(next, Some(position(at)));
        }
    }

    /// The passes that will be due: the head of each rate queue.
    pub(super) fn pass_events(&self) -> impl Iterator<Item = Event> {
        let rates = self.config.checkpoints.iter();
        // A waiter that finds room at a gate precedes all other due events.
        let gates = self.config.checkpoints.iter().filter(|c| is_gate(c.id));
        let gates = gates.filter_map(|at| self.next_handed(at)).map(|(id, _)| {
            let rank = self.requests[&id].rank;
            Event { at: 0, expiry: false, rank, id }
        });
        let rates = rates.filter(|c| matches!(c.limit, Limit::Rate { .. })).flat_map(|at| {
            self.heads(at).into_iter().map(|(id, queued)| {
                let time = nanoseconds(self.pass_ticks(id, at, queued.seat.counter));
                let rank = self.requests[&id].rank;
                // A head that costs more than a new burst is refused at once, before all other due events.
                let at = if self.costs_too_much(id, at) { 0 } else { time };
                Event { at, expiry: false, rank, id }
            })
        });
        gates.chain(rates)
    }

    fn costs_too_much(&self, id: u64, at: &Checkpoint) -> bool {
        matches!(at.limit, Limit::Rate { burst, .. } if self.requests[&id].arrival.cost > burst)
    }

    /// When a waiter will pass if nothing else changes, never before now.
    pub(super) fn predicted_pass(&self, id: u64, at: &Checkpoint, key: Option<&str>) -> u64 {
        nanoseconds(self.pass_ticks(id, at, key)).max(self.now)
    }

    /// tat + (costs before it + c - B)T.
    fn pass_ticks(&self, id: u64, at: &Checkpoint, key: Option<&str>) -> i128 {
        let Limit::Rate { n, d, burst } = at.limit else { return 0 };
        let t = i128::from(d) * TICKS / i128::from(n);
        let order = self.order(at.id, key);
        let up_to = order.iter().position(|other| *other == id).map_or(order.len(), |at| at + 1);
        let costs: u64 = order[..up_to].iter().map(|id| self.requests[id].arrival.cost).sum();
        let tat = self.known_counter(at.id, key).map_or(0, |counter| counter.tat);
        tat + (i128::from(costs) - i128::from(burst)) * t
    }

    /// How long a newcomer would wait if it joined now.
    fn predicted_wait(&self, id: u64, at: &Checkpoint, seat: Seat) -> u64 {
        let mut tried = self.clone();
        if let Some(displaced) = self.displaced_by(id, at, seat) {
            tried.displace(at, seat, Some(displaced));
        }
        let (checkpoint, since) = (at.id, self.now);
        let unbounded =
            Queued { checkpoint, seat, flow: "", cost: 1, share: 1, since, deadline: None };
        tried.queue(id, at, seat, Some(&unbounded), None);
        tried.predicted_pass(id, at, seat.counter) - self.now
    }

    /// The waiters at a counter, in the order in which they will be served.
    pub(super) fn order(&self, checkpoint: u32, key: Option<&str>) -> Vec<u64> {
        let fair = self.checkpoint(checkpoint).is_some_and(|at| at.fair.is_some());
        self.order_of(checkpoint, key, fair)
    }

    /// The same for a checkpoint that may just have been edited.
    pub(super) fn order_of(&self, checkpoint: u32, key: Option<&str>, fair: bool) -> Vec<u64> {
        let ids = self.requests.iter().filter_map(|(id, request)| match &request.stage {
            Stage::Queued(queued)
                if queued.checkpoint == checkpoint && queued.seat.counter == key =>
            {
                Some(*id)
            }
            _ => None,
        });
        let order = self.by_rank(ids.collect());
        if !fair {
            return order;
        }
        let tags = self.tags(checkpoint, key, &order);
        let mut fair: Vec<(u64, Rank)> =
            tags.into_iter().zip(order).map(|(tag, id)| (tag, self.requests[&id].rank)).collect();
        fair.sort_unstable();
        fair.into_iter().map(|(_, (_, id))| id).collect()
    }

    /// The head of each queue of a checkpoint.
    fn heads(&self, at: &Checkpoint) -> Vec<(u64, Queued)> {
        let waiters = self.requests.iter().filter_map(|(id, request)| match &request.stage {
            Stage::Queued(queued) if queued.checkpoint == at.id => Some((*id, queued.clone())),
            _ => None,
        });
        waiters
            .filter(|(id, queued)| self.order(at.id, queued.seat.counter).first() == Some(id))
            .collect()
    }

    /// How many counts of a counter are held.
    pub(super) fn held(&self, checkpoint: u32, key: Option<&str>) -> u64 {
        let holds = |passed: &Passed| passed.checkpoint == checkpoint && passed.seat.counter == key;
        self.requests.values().flat_map(|r| &r.walk).filter(|passed| holds(passed)).count() as u64
    }

    pub(super) fn known_counter(&self, checkpoint: u32, key: Option<&str>) -> Option<&Counter> {
        self.counters.iter().find(|c| c.checkpoint == checkpoint && c.key == key)
    }

    pub(super) fn counter(&mut self, checkpoint: u32, key: Option<&'static str>) -> &mut Counter {
        let found = self.counters.iter().position(|c| c.checkpoint == checkpoint && c.key == key);
        let index = found.unwrap_or_else(|| {
            let new = Counter {
                checkpoint,
                key,
                tat: 0,
                now_virtual: 0,
                unspent: 0,
                served: None,
                flows: vec![],
            };
            self.counters.push(new);
            self.counters.len() - 1
        });
        &mut self.counters[index]
    }
}

/// The position of a checkpoint in the walk.
pub fn position(checkpoint: &Checkpoint) -> Position {
    let list = match checkpoint.at {
        At::Frontend(_) => 0,
        At::Backend(_) => 1,
        At::Server(_) => 2,
        At::Pool(_) => 3,
    };
    (list, checkpoint.number, checkpoint.id)
}

/// The weight of a user's requests; a value out of range counts as the nearer end.
fn weight(weight: Weight, user: &str) -> u64 {
    match weight {
        Weight::Of(heavy, weight) if heavy == user => weight.clamp(1, WEIGHT_MAX),
        Weight::Of(..) | Weight::Same => 1,
    }
}

/// The first whole nanosecond at or after these ticks.
fn nanoseconds(ticks: i128) -> u64 {
    let whole = ticks.div_euclid(TICKS) + i128::from(ticks.rem_euclid(TICKS) != 0);
    u64::try_from(whole).unwrap_or(0)
}
