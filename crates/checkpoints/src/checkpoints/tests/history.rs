//! Random histories: the room is compared with the naive model, event by event.

use super::model::{self, Model};
use super::{Random, set};
use crate::at::At;
use crate::checkpoints::Checkpoints;
use crate::hash::KeyHash;
use crate::limit::Limit;
use crate::spec::{Mode, QueueSpec, Spec};
use crate::ticket::{Arrival, Cause, HeldCount, How, Moved, Outlook, Ticket, Turned};
use paceline_types::{CheckpointId, Priority, Rank, RequestId, Span, Time};
use std::collections::BTreeMap;

const SEEDS: u64 = 3_000;
const STEPS: u64 = 150;

#[test]
fn every_history_equals_the_naive_one() {
    for seed in 0..SEEDS {
        let mut pair = Pair::new(seed);
        for step in 0..STEPS {
            pair.step(step);
        }
        pair.finish();
    }
}

struct Pair {
    seed: u64,
    random: Random,
    room: Checkpoints,
    model: Model,
    specs: Vec<Spec>,
    now: Time,
    held: BTreeMap<u64, HeldCount>,
    tickets: BTreeMap<u64, model::Ticket>,
    requests: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let slip = Span([0, 0, 3, 40][random.below(4) as usize]);
        let room = Checkpoints::new(u128::from(seed), slip);
        let model = Model { slip, ..Model::default() };
        let (held, tickets) = (BTreeMap::new(), BTreeMap::new());
        let now = Time(random.below(1_000));
        let mut pair =
            Self { seed, random, room, model, specs: vec![], now, held, tickets, requests: 0 };
        for id in 0..1 + pair.random.below(3) as u32 {
            let spec = pair.spec(id);
            pair.specs.push(spec);
        }
        pair.configure();
        pair
    }

    fn spec(&mut self, id: u32) -> Spec {
        let random = &mut self.random;
        let (per_max, delay_max) =
            ([60, 600][random.below(2) as usize], [120, 5_000][random.below(2) as usize]);
        let limit = match random.below(7) {
            0..4 => Limit::Rate {
                count: 1 + random.below(7) as u32,
                per: Span(1 + random.below(per_max)),
                burst: 1 + random.below(5) as u32,
            },
            4..6 => Limit::Concurrency(1 + random.below(4) as u32),
            _ => Limit::Count,
        };
        let name = format!("checkpoint {id}");
        let mut spec = Spec::new(CheckpointId(id), &name, At::Frontend("api".into()), limit);
        spec.key = [None, Some("user"), Some("task")][random.below(3) as usize].map(str::to_owned);
        spec.period = Span(1 + random.below(80));
        let fair = [None, Some("host")][random.below(2) as usize].map(str::to_owned);
        let queue = QueueSpec {
            len_max: random.below(25),
            total_max: random.below(50),
            delay_max: Span(random.below(delay_max)),
        };
        if limit != Limit::Count {
            (spec.fair, spec.queue) = (fair, queue);
        }
        spec.mode = if random.chance(12) { Mode::Watch } else { Mode::Enforce };
        spec
    }

    fn step(&mut self, step: u64) {
        self.advance();
        // Most of the time everything due is handled first, as the engine does.
        if self.random.chance(90) {
            self.drain(step);
        }
        match self.random.below(100) {
            0..55 => self.arrive(step),
            55..75 => self.give_back(step),
            75..82 => self.leave(step),
            82..89 => self.edit(),
            _ => {}
        }
        if self.random.chance(80) {
            self.drain(step);
        }
        self.compare(step);
    }

    fn advance(&mut self) {
        let due = self.room.poll_timeout();
        match (self.random.below(10), due) {
            (0..2, Some(due)) => self.now = self.now.max(due),
            (4..9, _) => self.now = Time(self.now.0 + self.random.below(12)),
            (9, _) if self.random.chance(50) => {
                self.now = Time(self.now.0 + self.random.below(300))
            }
            _ => {}
        }
    }

    /// The time to pass in. Now and then the clock runs backwards, which must not matter.
    fn told(&mut self) -> Time {
        let back = if self.random.chance(5) { self.random.below(50) } else { 0 };
        Time(self.now.0.saturating_sub(back))
    }

    fn arrive(&mut self, step: u64) {
        let id = CheckpointId(self.random.below(4) as u32);
        self.requests += 1;
        let priority = Priority::new(self.random.below(5) as i64 - 2).unwrap();
        let rank = Rank::new(self.now, priority, Span(10), RequestId(self.requests));
        let own = self.random.chance(30).then(|| self.now.plus(Span(self.random.below(60))));
        let ticket = model::Ticket {
            rank,
            key: self.random.below(4),
            flow: self.random.below(4),
            weight: 1 + self.random.below(3) as u32,
            cost: [1, 1, 1, 0, 2, 3, 6][self.random.below(7) as usize],
            own,
            kept: None,
        };
        self.arrive_as(step, id, ticket);
    }

    fn arrive_as(&mut self, step: u64, id: CheckpointId, ticket: model::Ticket) {
        let request = ticket.rank.id.0;
        let real = real(&ticket);
        // No request has this id: the room only learns the time, and keeps to it from then on.
        self.room.leave(self.now, RequestId(0));
        let (now, told) = (self.now, self.told());
        let preview = self.room.preview(told, id, &real);
        assert_eq!(
            outlook(preview),
            plain(self.model.preview(now, id, &ticket)),
            "{}",
            self.at(step)
        );
        let mut displaced = None;
        let came = match self.room.arrive(told, id, &real) {
            Arrival::Passed(held) => {
                let cost = held.cost();
                self.held.insert(request, held);
                model::Came::Passed { cost }
            }
            Arrival::Queued { pass_at, displaced: left } => {
                displaced = left.map(|moved| (moved.request.0, refused(moved.how)));
                model::Came::Queued { pass_at }
            }
            Arrival::Refused(turned) => refusal(turned),
        };
        let expected = self.model.arrive(now, id, &ticket);
        assert_eq!(displaced, self.model.displaced.take(), "{}: {ticket:?}", self.at(step));
        assert_eq!(came, expected, "{}: {ticket:?}", self.at(step));
        self.tickets.insert(request, ticket);
        if matches!(came, model::Came::Passed { .. }) {
            self.check_pass(step, id, request);
        }
    }

    fn give_back(&mut self, step: u64) {
        let count = self.held.len() as u64;
        if count == 0 {
            return;
        }
        let nth = self.random.below(count) as usize;
        let request = *self.held.keys().nth(nth).unwrap();
        let held = self.held.remove(&request).unwrap();
        let refund = self.random.chance(25);
        if refund {
            self.room.refund(self.now, held);
        } else {
            self.room.settle(self.now, held);
        }
        let expected = self.model.give_back(self.now, request, refund);
        let got = self.room.handed();
        assert_eq!(got.as_ref().map(|moved| moved.request.0), expected, "{}", self.at(step));
        if let Some(Moved { how: How::Passed(held), request, checkpoint: id }) = got {
            self.held.insert(request.0, held);
            self.check_pass(step, id, request.0);
        }
        assert!(self.room.handed().is_none());
    }

    fn leave(&mut self, step: u64) {
        if self.requests == 0 {
            return;
        }
        let request = 1 + self.random.below(self.requests);
        let told = self.told();
        let left = self.room.leave(told, RequestId(request));
        assert_eq!(left, self.model.leave(request), "{}", self.at(step));
    }

    fn edit(&mut self) {
        let id = self.random.below(4) as u32;
        let index = self.specs.iter().position(|spec| spec.id.0 == id);
        let new = self.spec(id);
        match (index, self.random.below(10)) {
            (Some(index), 0..2) => {
                self.specs.remove(index);
            }
            (Some(index), 2) => self.specs[index] = new,
            (Some(index), 3) => self.specs[index].mode = new.mode,
            // Only the numbers of the limit change, so that counters and waiters stay.
            (Some(index), _) if self.specs[index].limit.is_same_kind(&new.limit) => {
                self.specs[index].limit = new.limit;
                self.specs[index].queue = new.queue;
                self.specs[index].period = new.period;
            }
            (Some(_), _) => {}
            (None, _) => self.specs.push(new),
        }
        self.configure();
    }

    fn configure(&mut self) {
        self.room.configure(self.now, set(self.specs.clone()));
        self.model.configure(self.now, &self.specs);
    }

    /// Handles everything that is due. A request that must arrive again does so at once.
    fn drain(&mut self, step: u64) {
        loop {
            let real = self.room.next(self.now);
            let naive = self.model.next(self.now);
            let Some(moved) = real else {
                assert_eq!(naive, None, "{}", self.at(step));
                return;
            };
            let (request, id) = (moved.request.0, moved.checkpoint);
            let came = match moved.how {
                How::Passed(held) => {
                    let cost = held.cost();
                    self.held.insert(request, held);
                    model::Came::Passed { cost }
                }
                How::Refused(turned) => refusal(turned),
                How::Again(kept) => model::Came::Again(kept),
                How::Gone { .. } => model::Came::Gone,
            };
            assert_eq!(Some((request, id, came.clone())), naive, "{}", self.at(step));
            if matches!(came, model::Came::Passed { .. }) {
                self.check_pass(step, id, request);
            }
            if let model::Came::Again(kept) = came {
                let kept = Some(kept);
                let ticket = model::Ticket { kept, ..self.tickets[&request].clone() };
                self.arrive_as(step, id, ticket);
            }
        }
    }

    fn compare(&mut self, step: u64) {
        let due = self.room.next_due().map(|due| (due.at, due.kind, due.rank));
        assert_eq!(due, self.model.next_due(), "{}", self.at(step));
        let queues: usize = self.model.checkpoints.values().map(|c| c.queues()).sum();
        assert_eq!(self.room.waiting.timers.len(), queues, "{}: a timer per queue", self.at(step));
        for spec in &self.specs {
            let naive = &self.model.checkpoints[&spec.id];
            let key = self.random.below(4);
            let hash = Some(KeyHash([key, key]));
            let at = || format!("seed {}, step {step}", self.seed);
            assert_eq!(self.room.queued(self.now, spec.id, None), naive.queued(), "{}", at());
            assert_eq!(self.room.queued(self.now, spec.id, hash), naive.queued_at(key), "{}", at());
            assert_eq!(
                self.room.inflight(self.now, spec.id, hash),
                naive.inflight_at(key),
                "{}",
                at()
            );
            let total: u64 = naive.counters.values().map(|c| u64::from(c.inflight)).sum();
            assert_eq!(self.room.inflight(self.now, spec.id, None), total, "{}", at());
            for (key, hash) in [(None, None), (Some(key), hash)] {
                let (real, naive) =
                    (self.room.rate(self.now, spec.id, hash), naive.rate(self.now, key));
                assert!((real - naive).abs() <= naive * 1e-12, "{}: {real} {naive}", at());
            }
            self.check_places(spec, step);
        }
    }

    /// P1: after a request is let in, the limit still holds.
    fn check_pass(&self, step: u64, id: CheckpointId, request: u64) {
        let Some(spec) = self.specs.iter().find(|spec| spec.id == id) else { return };
        if let (Limit::Concurrency(limit), Mode::Enforce) = (spec.limit, spec.mode) {
            let key = self.tickets[&request].key;
            let inflight = self.room.inflight(self.now, id, Some(KeyHash([key, key])));
            assert!(inflight <= u64::from(limit), "{}: {inflight} held", self.at(step));
        }
    }

    fn check_places(&self, spec: &Spec, step: u64) {
        let naive = &self.model.checkpoints[&spec.id];
        if naive.spec.mode == Mode::Watch {
            return;
        }
        for counter in naive.counters.values() {
            for (request, ..) in counter.before(last_rank(), spec.fair.is_some()) {
                let rank = self.tickets[&request].rank;
                let before: Vec<u64> =
                    counter.before(rank, spec.fair.is_some()).iter().map(|(id, _)| *id).collect();
                let place = self.room.place(self.now, RequestId(request)).unwrap();
                assert_eq!(place.ahead, before.len(), "{}, {request}", self.at(step));
                let nearest: Vec<u64> = place.nearest.iter().map(|id| id.0).collect();
                let expected: Vec<u64> = before.into_iter().rev().take(16).collect();
                assert_eq!(nearest, expected, "{}, {request}", self.at(step));
                assert_eq!(place.pass_at.is_some(), matches!(spec.limit, Limit::Rate { .. }));
                assert_eq!(place.held, counter.inflight);
            }
        }
    }

    /// All requests leave, all counts are given back, and after a while nothing is left.
    fn finish(&mut self) {
        self.now = self.now.plus(Span(100_000));
        self.drain(STEPS);
        while !self.held.is_empty() {
            self.give_back(STEPS);
            self.drain(STEPS);
        }
        for request in 1..=self.requests {
            assert_eq!(self.room.leave(self.now, RequestId(request)), self.model.leave(request));
        }
        assert_eq!(self.room.poll_timeout(), None, "{}", self.at(STEPS));
        for checkpoint in &mut self.room.list {
            assert_eq!(checkpoint.stats.inflight, 0, "seed {}", self.seed);
            let now = self.now.plus(Span(100_000));
            for _ in 0..4 {
                checkpoint.table.sweep(100, now, checkpoint.period, &checkpoint.edits);
            }
            assert_eq!(checkpoint.table.keys(), 0, "seed {}", self.seed);
            assert!(checkpoint.only.is_fresh(now, checkpoint.period), "seed {}", self.seed);
        }
    }

    fn at(&self, step: u64) -> String {
        format!("seed {}, step {step}, now {}", self.seed, self.now.0)
    }
}

/// A rank after all others.
fn last_rank() -> Rank {
    Rank::new(Time(u64::MAX), Priority::MIN, Span(0), RequestId(u64::MAX))
}

fn real(ticket: &model::Ticket) -> Ticket {
    Ticket {
        rank: ticket.rank,
        key: KeyHash([ticket.key, ticket.key]),
        flow: KeyHash([ticket.flow, 0]),
        weight: ticket.weight,
        cost: ticket.cost,
        deadline: ticket.own,
        kept: ticket.kept,
    }
}

fn refused(how: How) -> model::Came {
    match how {
        How::Refused(turned) => refusal(turned),
        other => panic!("a displaced waiter is refused, not {other:?}"),
    }
}

fn refusal(turned: Turned) -> model::Came {
    let retry_at = turned.retry_at;
    match turned.cause {
        Cause::Full { max } => model::Came::Full { max, retry_at },
        Cause::TooLong { wait, max } => model::Came::TooLong { wait, max, retry_at },
        Cause::Expired { waited } => model::Came::Expired { waited, retry_at },
        Cause::CostTooHigh { burst } => model::Came::CostTooHigh { burst },
    }
}

fn outlook(outlook: Outlook) -> model::Came {
    match outlook {
        Outlook::Pass => model::Came::Passed { cost: 0 },
        Outlook::Queue { pass_at } => model::Came::Queued { pass_at },
        Outlook::Refuse(turned) => refusal(turned),
    }
}

/// The result without the parts that a preview does not have.
fn plain(came: model::Came) -> model::Came {
    match came {
        model::Came::Passed { .. } => model::Came::Passed { cost: 0 },
        came => came,
    }
}
