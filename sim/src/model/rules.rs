//! The rules, evaluated one by one, and the conditions.

use super::config::{Arrival, Checkpoint, Pattern, Pool, Rule, Verdict, When};
use super::{Effect, Model, Queued, Request, Stage};

impl Model {
    /// The priority that the rules give, or the number of the rule that rejected. A rejected request
    /// keeps the priority it had, which later rules still see.
    pub(super) fn verdict(&mut self, id: u64) -> Result<i8, u32> {
        let (mut priority, mut rejected) = (0i8, None);
        for rule in self.config.rules.clone() {
            if rule.disabled || !self.matches(id, &rule, priority) {
                continue;
            }
            if rule.log {
                self.effects.push(Effect::Log(id, rule.number));
            }
            match rule.verdict {
                Verdict::Set(number) => (priority, rejected) = (number, None),
                Verdict::Reject => rejected = Some(rule.number),
                Verdict::Raise(n) if rejected.is_none() => {
                    priority = limited(i32::from(priority) + i32::from(n));
                }
                Verdict::Lower(n) if rejected.is_none() => {
                    priority = limited(i32::from(priority) - i32::from(n));
                }
                Verdict::Nothing | Verdict::Raise(_) | Verdict::Lower(_) => {}
            }
            if rule.stop {
                break;
            }
        }
        rejected.map_or(Ok(priority), Err)
    }

    /// The pool of a priority.
    pub(super) fn pool_for(&self, priority: i8) -> &Pool {
        let holds = |pool: &&Pool| pool.range.is_some_and(|(a, b)| a <= priority && priority <= b);
        let pools = &self.config.pools;
        let found = if priority == 0 { None } else { pools.iter().find(holds) };
        found.unwrap_or(&pools[0])
    }

    /// Whether a condition holds for a request that has these attributes and this priority.
    pub(super) fn holds(&self, arrival: &Arrival, when: When, priority: i8) -> bool {
        match when {
            When::Inflight(name, None, n) => self.inflight(name, None) > n,
            When::Inflight(name, Some(a), n) => self.inflight(name, Some(arrival.value(a))) > n,
            When::Queued(name, None, n) => self.queued(name, None) > n,
            When::Queued(name, Some(a), n) => self.queued(name, Some(arrival.value(a))) > n,
            When::Rate(name, None, n) => self.rate_over(name, None, n),
            When::Rate(name, Some(a), n) => self.rate_over(name, Some(arrival.value(a)), n),
            When::Running(pool, n) => self.running(pool) > n,
            When::Waiting(pool, n) => self.waiting(pool) > n,
            When::Is(attribute, text) => arrival.value(attribute) == text,
            When::PriorityOver(number) => priority > number,
        }
    }

    fn matches(&self, id: u64, rule: &Rule, priority: i8) -> bool {
        let arrival = &self.requests[&id].arrival;
        let fits = |(attribute, pattern): &(_, Pattern)| match pattern {
            Pattern::Exact(text) => arrival.value(*attribute) == *text,
            Pattern::Prefix(text) => arrival.value(*attribute).starts_with(text),
        };
        rule.criteria.iter().all(fits)
            && rule.when.is_none_or(|when| self.holds(arrival, when, priority))
    }

    /// Requests that passed the checkpoint of this name and are not settled, of one key or of all.
    #[must_use]
    pub fn inflight(&self, name: &str, key: Option<&str>) -> u64 {
        let Some(at) = self.named(name) else { return 0 };
        let counter = self.counter_of(at, key);
        let its = |held: Option<&str>| key.is_none() || held == counter;
        let passes = self.requests.values().flat_map(|request| &request.walk);
        let held = passes.filter(|passed| passed.checkpoint == at.id && its(passed.seat.counter));
        held.count() as u64
    }

    /// Requests that wait at the checkpoint of this name, of one key or of all.
    #[must_use]
    pub fn queued(&self, name: &str, key: Option<&str>) -> u64 {
        let Some(at) = self.named(name) else { return 0 };
        let counter = self.counter_of(at, key);
        let its = |queued: &Queued| {
            queued.checkpoint == at.id && (key.is_none() || queued.seat.counter == counter)
        };
        let waits = |request: &&Request| match &request.stage {
            Stage::Queued(queued) => its(queued),
            _ => false,
        };
        let again = self.again.iter().filter(|queued| its(queued));
        (self.requests.values().filter(waits).count() + again.count()) as u64
    }

    /// Whether more than this many hundredths arrive per second: the arrivals of the running period, and of the
    /// previous one weighted by the part of it still in the window.
    fn rate_over(&self, name: &str, key: Option<&str>, hundredths: u64) -> bool {
        let Some(at) = self.named(name) else { return false };
        let counter = self.counter_of(at, key);
        let period = at.period();
        let came = |number: u64| {
            let its = |met: &&(u32, Option<&str>, u64)| {
                met.0 == at.id && (key.is_none() || met.1 == counter) && met.2 / period == number
            };
            self.met.iter().filter(its).count() as u128
        };
        let number = self.now / period;
        let left = u128::from(period - self.now % period);
        let period = u128::from(period);
        let before = number.checked_sub(1).map_or(0, came);
        let weighted = came(number) * period + before * left;
        weighted * 100 * 1_000_000_000 > u128::from(hundredths) * period * period
    }

    /// Requests that run in the pool of this name.
    #[must_use]
    pub fn running(&self, pool: &str) -> u64 {
        let Some(id) = self.pool_id(pool) else { return 0 };
        let runs = |request: &&Request| {
            let runs = request.pool == id && request.stage == Stage::Running;
            runs && !request.arrival.connection
        };
        self.requests.values().filter(runs).count() as u64
    }

    /// Requests that wait for the pool of this name.
    #[must_use]
    pub fn waiting(&self, pool: &str) -> u64 {
        let Some(id) = self.pool_id(pool) else { return 0 };
        let waits = |r: &&Request| r.pool == id && matches!(r.stage, Stage::InPool(..));
        self.requests.values().filter(waits).count() as u64
    }

    fn named(&self, name: &str) -> Option<&Checkpoint> {
        self.config.checkpoints.iter().find(|c| c.name == name)
    }

    fn pool_id(&self, name: &str) -> Option<u32> {
        self.config.pools.iter().find(|pool| pool.name == name).map(|pool| pool.id)
    }
}

/// Raising and lowering saturate.
fn limited(number: i32) -> i8 {
    number.clamp(-127, 127) as i8
}
