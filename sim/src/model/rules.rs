//! The rules, evaluated one by one, and the conditions.

use super::config::{Pattern, Pool, Rule, Verdict, When};
use super::{Effect, Model, Request, State};

impl Model {
    /// The priority that the rules give, or the number of the rule that rejected.
    pub(super) fn verdict(&mut self, id: u64) -> Result<i8, u32> {
        let mut priority = Ok(0i8);
        for rule in self.config.rules.clone() {
            if rule.disabled || !self.matches(id, &rule, priority.unwrap_or(-128)) {
                continue;
            }
            if rule.log {
                self.effects.push(Effect::Log(id, rule.number));
            }
            priority = match (rule.verdict, priority) {
                (Verdict::Set(number), _) => Ok(number),
                (Verdict::Reject, _) => Err(rule.number),
                (Verdict::Raise(n), Ok(old)) => Ok(limited(i32::from(old) + i32::from(n))),
                (Verdict::Lower(n), Ok(old)) => Ok(limited(i32::from(old) - i32::from(n))),
                (_, unchanged) => unchanged,
            };
            if rule.stop {
                break;
            }
        }
        priority
    }

    /// The pool of a priority.
    pub(super) fn pool_for(&self, priority: i8) -> &Pool {
        let holds = |pool: &&Pool| pool.range.is_some_and(|(a, b)| a <= priority && priority <= b);
        let pools = &self.config.pools;
        let found = if priority == 0 { None } else { pools.iter().find(holds) };
        found.unwrap_or(&pools[0])
    }

    /// Whether a condition holds for a request that has this priority.
    pub(super) fn holds(&self, id: u64, when: When, priority: i8) -> bool {
        let arrival = &self.requests[&id].arrival;
        match when {
            When::Inflight(name, None, n) => self.inflight(name, None) > n,
            When::Inflight(name, Some(a), n) => self.inflight(name, Some(arrival.value(a))) > n,
            When::Queued(name, None, n) => self.queued(name, None) > n,
            When::Queued(name, Some(a), n) => self.queued(name, Some(arrival.value(a))) > n,
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
            && rule.when.is_none_or(|when| self.holds(id, when, priority))
    }

    /// Requests that passed the checkpoint of this name and are not settled, of one key or of all.
    #[must_use]
    pub fn inflight(&self, name: &str, key: Option<&str>) -> u64 {
        let Some(id) = self.id_of(name) else { return 0 };
        let counts = |request: &&Request| {
            let its = |key_held: Option<&str>| key.is_none() || key_held == key;
            request.walk.iter().any(|passed| passed.checkpoint == id && its(passed.key))
        };
        self.requests.values().filter(counts).count() as u64
    }

    /// Requests that wait at the checkpoint of this name, of one key or of all.
    #[must_use]
    pub fn queued(&self, name: &str, key: Option<&str>) -> u64 {
        let Some(id) = self.id_of(name) else { return 0 };
        let waits = |request: &&Request| match &request.state {
            State::Queued(queued) => {
                queued.checkpoint == id && (key.is_none() || queued.key == key)
            }
            _ => false,
        };
        self.requests.values().filter(waits).count() as u64
    }

    /// Requests that run in the pool of this name.
    #[must_use]
    pub fn running(&self, pool: &str) -> u64 {
        let Some(id) = self.pool_id(pool) else { return 0 };
        let runs = |request: &&Request| request.pool == id && request.state == State::Running;
        self.requests.values().filter(runs).count() as u64
    }

    /// Requests that wait for the pool of this name.
    #[must_use]
    pub fn waiting(&self, pool: &str) -> u64 {
        let Some(id) = self.pool_id(pool) else { return 0 };
        let waits = |r: &&Request| r.pool == id && matches!(r.state, State::InPool(..));
        self.requests.values().filter(waits).count() as u64
    }

    fn id_of(&self, name: &str) -> Option<u32> {
        self.config.checkpoints.iter().find(|c| c.name == name).map(|c| c.id)
    }

    fn pool_id(&self, name: &str) -> Option<u32> {
        self.config.pools.iter().find(|pool| pool.name == name).map(|pool| pool.id)
    }
}

/// Raising and lowering saturate.
fn limited(number: i32) -> i8 {
    number.clamp(-127, 127) as i8
}
