//! Random configurations.

use super::routes::fit_connections;
use super::{History, MS};
use crate::model::NUMBERS;
use crate::model::config::{
    At, Attribute, Bounds, Checkpoint, Config, Limit, Pattern, Pool, PoolState, Resource, Rule,
    Verdict, Weight, When,
};
use crate::words::{
    BACKEND_NAMES, BACKENDS, CHECKPOINTS, FLEET, FRONTENDS, POOLS, RESOURCES, SERVER_NAMES,
    SERVERS, USERS,
};

/// A delay that no history reaches.
const FOREVER: u64 = 400 * 86_400_000 * MS;

const ATTRIBUTES: [Attribute; 4] =
    [Attribute::User, Attribute::Host, Attribute::Task, Attribute::Text];

impl History {
    /// The configuration at the start.
    pub(super) fn config(&mut self) -> Config {
        let mut config = Config::empty();
        config.step_max = self.profile.step_max;
        config.requests_max = self.profile.requests_max;
        config.slip = self.rng.pick(&[0, 5 * MS, 5 * MS, 5 * MS, 50 * MS]);
        config.age_step = self.rng.pick(&[0, MS, 10 * MS, 1_000 * MS]);
        for _ in 0..self.rng.below(self.profile.pools + 1) {
            let pool = self.pool(&config);
            config.pools.extend(pool);
        }
        if self.rng.chance(self.profile.full) {
            config.pools[0].max = Some(self.rng.below(4));
            config.pools[0].max_len = self.max_len();
            config.pools[0].max_delay = self.max_delay();
        }
        for _ in 0..self.rng.below(self.profile.resources + 1) {
            let resource = self.resource(&config);
            config.resources.extend(resource);
        }
        let least = u64::from(self.profile.checkpoints > 0);
        for _ in 0..self.rng.between(least, self.profile.checkpoints.max(least)) {
            let checkpoint = self.checkpoint(&config);
            config.checkpoints.extend(checkpoint);
        }
        config.rules = self.rules(&config);
        self.routes(&mut config);
        fit_connections(&mut config);
        config
    }

    /// A place for a checkpoint.
    pub(super) fn at(&mut self, config: &Config) -> At {
        match self.rng.below(10) {
            5 | 6 if self.profile.wide => At::Backend(self.rng.pick(&BACKEND_NAMES[..4])),
            7 if self.profile.wide => At::Server(self.rng.pick(&SERVER_NAMES[..12])),
            0..5 => At::Frontend(FRONTENDS[self.rng.weighted(&[3, 1])]),
            5 | 6 => At::Backend(BACKENDS[self.rng.weighted(&[3, 1])]),
            7 if self.profile.routes => At::Server(self.rng.pick(&FLEET)),
            7 => At::Server(self.rng.pick(&SERVERS)),
            _ => At::Pool(self.rng.pick(&config.pools).name),
        }
    }

    /// A new checkpoint, if a name is free.
    pub(super) fn checkpoint(&mut self, config: &Config) -> Option<Checkpoint> {
        let free = |name: &&&str| config.checkpoints.iter().all(|c| c.name != **name);
        let name = CHECKPOINTS.iter().find(free).copied()?;
        let id = self.next_checkpoint;
        self.next_checkpoint += 1;
        let at = self.at(config);
        let key = self.rng.chance(self.profile.keyed).then(|| self.attribute());
        let fair = self.rng.chance(self.profile.fair).then(|| self.attribute());
        let limit = self.limit();
        let when = self.rng.chance(self.profile.when).then(|| self.when(config));
        Some(Checkpoint {
            id,
            name,
            at,
            number: self.rng.below(3) as u32,
            connection: false,
            when,
            key,
            fair: fair.filter(|_| limit != Limit::Count),
            limit,
            weight: self.weight(),
            queue: self.bounds(),
            keys_max: self.keys_max(),
            watch: self.rng.chance(self.profile.watch),
        })
    }

    pub(super) fn attribute(&mut self) -> Attribute {
        if self.profile.wide && self.rng.chance(30) {
            return self.rng.pick(&[Attribute::Backend, Attribute::Server]);
        }
        ATTRIBUTES[self.rng.weighted(&[6, 2, 1, 1])]
    }

    pub(super) fn limit(&mut self) -> Limit {
        match self.rng.weighted(&self.profile.kinds) {
            0 => self.rate(),
            1 => Limit::Concurrency(self.rng.pick(&[0, 1, 1, 2, 2, 3, 4, 5])),
            _ => Limit::Count,
        }
    }

    /// A rate whose requests are some microseconds to some hundred milliseconds apart.
    pub(super) fn rate(&mut self) -> Limit {
        let n = self.rng.pick(&NUMBERS);
        let apart = self.rng.pick(&[7_001, 300_000, 2 * MS, 9_999_999, 60 * MS, 200 * MS]);
        let d = (apart * n + self.rng.below(n)).max(1);
        Limit::Rate { n, d, burst: self.rng.pick(&[1, 1, 2, 3, 5, 8]) }
    }

    pub(super) fn weight(&mut self) -> Weight {
        if self.rng.chance(60) {
            return Weight::Same;
        }
        Weight::Of(self.rng.pick(&USERS), self.rng.pick(&[0, 2, 3, 7, 1_000, 3_000_000]))
    }

    pub(super) fn bounds(&mut self) -> Bounds {
        let tight = self.rng.chance(self.profile.tight);
        let max_total = if tight && self.rng.chance(50) { self.rng.below(5) } else { 100_000 };
        let max_len = if tight { self.max_len() } else { 1_000 };
        let max_delay = if self.rng.chance(60) { self.max_delay() } else { None };
        Bounds { max_len, max_total, max_delay: max_delay.unwrap_or(FOREVER) }
    }

    /// Often fewer than there are keys.
    pub(super) fn keys_max(&mut self) -> u64 {
        self.rng.pick(&[1, 1, 2, 2, 3, 1_000, 1_000, 1_000])
    }

    pub(super) fn max_len(&mut self) -> u64 {
        self.rng.pick(&[0, 1, 2, 3, 5, 1_000, 1_000])
    }

    pub(super) fn max_delay(&mut self) -> Option<u64> {
        match self.rng.below(8) {
            0 => Some(0),
            1 | 2 => Some(self.rng.below(30 * MS)),
            3 | 4 => Some(self.rng.below(400 * MS)),
            5 => Some(30_000 * MS),
            _ => None,
        }
    }

    /// A condition on what is configured.
    pub(super) fn when(&mut self, config: &Config) -> When {
        let checkpoint = self.rng.pick_any(&config.checkpoints);
        let pool = self.rng.pick(&config.pools).name;
        let n = self.rng.below(4);
        let keyed = self.rng.chance(50);
        match (self.rng.below(9), checkpoint) {
            (0 | 1, Some(c)) => When::Inflight(c.name, c.key.filter(|_| keyed), n),
            (2 | 3, Some(c)) => When::Queued(c.name, c.key.filter(|_| keyed), n),
            (8, Some(c)) => {
                // Slightly above a whole number, so that it is never met exactly.
                let per_period = n * 100 + 37;
                let n = (u128::from(per_period) * 1_000_000_000 / u128::from(c.period())) as u64;
                When::Rate(c.name, c.key.filter(|_| keyed), n)
            }
            (4, _) => When::Running(pool, n),
            (5, _) => When::Waiting(pool, n),
            (6, _) => When::PriorityOver(self.rng.below(9) as i8 - 4),
            _ => {
                let attribute = self.attribute();
                When::Is(attribute, self.value(attribute))
            }
        }
    }

    /// A new pool, if a name is free. Each has three or four priorities of its own.
    pub(super) fn pool(&mut self, config: &Config) -> Option<Pool> {
        let free = |name: &&&str| config.pools.iter().all(|pool| pool.name != **name);
        let name = POOLS.iter().find(free).copied()?;
        let id = self.next_pool;
        self.next_pool += 1;
        let range = self.range(config, id);
        let state = match self.rng.weighted(&[2, 7, 1]) {
            1 if range.is_some() => PoolState::Started,
            2 if range.is_some() => PoolState::Draining,
            _ => PoolState::Stopped,
        };
        let tight = self.rng.chance(self.profile.tight);
        Some(Pool {
            id,
            name,
            range,
            max: Some(self.rng.below(5)),
            max_len: if tight { self.max_len() } else { 1_000 },
            max_delay: if tight { self.max_delay() } else { None },
            state,
        })
    }

    /// Priorities that no other pool has; sometimes none.
    pub(super) fn range(&mut self, config: &Config, id: u32) -> Option<(i8, i8)> {
        let low = self.rng.below(24) as i8 - 12;
        let high = low + self.rng.below(9) as i8;
        let overlaps =
            |pool: &Pool| pool.id != id && pool.range.is_some_and(|(a, b)| a <= high && low <= b);
        (!config.pools.iter().any(overlaps)).then_some((low, high))
    }

    /// A new resource below some of the others, if a name is free.
    pub(super) fn resource(&mut self, config: &Config) -> Option<Resource> {
        let free = |name: &&&str| config.resources.iter().all(|r| r.name != **name);
        let names: Vec<&str> = RESOURCES.iter().filter(free).copied().collect();
        let name = self.rng.pick_any(&names)?;
        if self.next_resource >= 100 {
            return None;
        }
        let id = self.next_resource;
        self.next_resource += 1;
        let mut parents = vec![];
        // With fewer edges, more requests hold claims at a time.
        let parents_of = if self.profile.nests { [6, 3, 1, 0] } else { [3, 5, 3, 1] };
        for _ in 0..self.rng.weighted(&parents_of) {
            let parent = self.rng.pick_any(&config.resources).map(|resource| resource.id);
            parents.extend(parent.filter(|parent| !parents.contains(parent)));
        }
        Some(Resource { id, name, parents })
    }

    /// A new list of rules.
    pub(super) fn rules(&mut self, config: &Config) -> Vec<Rule> {
        let count = self.rng.below(self.profile.rules + 1);
        (0..count).map(|at| self.rule(config, (at as u32 + 1) * 10)).collect()
    }

    fn rule(&mut self, config: &Config, number: u32) -> Rule {
        let mut criteria = vec![];
        for _ in 0..self.rng.weighted(&[2, 6, 2]) {
            let attribute = self.attribute();
            let value = self.value(attribute);
            let exact = value.is_empty() || self.rng.chance(60);
            let pattern = if exact { Pattern::Exact(value) } else { Pattern::Prefix(&value[..2]) };
            criteria.push((attribute, pattern));
        }
        let verdict = match self.rng.weighted(&[1, 7, 3, 3, 1]) {
            0 => Verdict::Nothing,
            1 => Verdict::Set(self.rng.below(25) as i8 - 12),
            2 => Verdict::Raise(self.rng.pick(&[1, 2, 5, 100, 254])),
            3 => Verdict::Lower(self.rng.pick(&[1, 2, 5, 100, 254])),
            _ => Verdict::Reject,
        };
        Rule {
            number,
            criteria,
            when: self.rng.chance(self.profile.when).then(|| self.when(config)),
            verdict,
            stop: self.rng.chance(25),
            disabled: self.rng.chance(8),
            log: self.rng.chance(10),
        }
    }

    fn value(&mut self, attribute: Attribute) -> &'static str {
        // Most of these names belong to no backend, and most requests name none.
        match attribute {
            Attribute::Backend if self.rng.chance(70) => self.rng.pick(&["db", "app", ""]),
            Attribute::Server if self.rng.chance(70) => {
                self.rng.pick(&["db/one", "db/two", "app/one", ""])
            }
            _ => self.rng.pick(attribute.values()),
        }
    }
}
