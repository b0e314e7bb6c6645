//! The pools and rules of a script, edited as an administrator does: by name and by number.

use crate::commands::{Answer, number, pairs, span};
use crate::world::World;
use paceline_pools::{PoolError, PoolSet, PoolSpec, PoolState, Range};
use paceline_rules::{Rule, RuleCounts};
use paceline_types::{PoolId, Priority};

impl World {
    pub fn pool(&mut self, name: &str, rest: &[&str]) -> Answer {
        if !self.pools.iter().any(|pool| *pool.name == *name) {
            self.edit_pool("create", name, &[])?;
        }
        self.edit_pool("configure", name, rest)?;
        if rest.contains(&"stopped") || name == "default" {
            return Ok(vec![]);
        }
        self.edit_pool("start", name, &[])
    }

    pub fn edit_pool(&mut self, command: &str, name: &str, rest: &[&str]) -> Answer {
        if command == "create" {
            self.next_pool += 1;
            self.pools.push(PoolSpec::new(PoolId(self.next_pool), name));
            return self.edited();
        }
        let found = self.pools.iter().position(|pool| *pool.name == *name);
        let place = found.ok_or_else(|| format!("no pool \"{name}\""))?;
        let pool = &mut self.pools[place];
        match command {
            "start" => pool.state = PoolState::Started,
            "stop" => pool.state = PoolState::Stopped,
            "drain" => pool.state = PoolState::Draining,
            "persist" | "unpersist" => {
                let persistent = command == "persist";
                if pool.persistent == persistent {
                    return Err(format!("pool \"{name}\" is already {}", kind(pool)));
                }
                pool.persistent = persistent;
            }
            "configure" => set(pool, rest)?,
            _ if pool.id == PoolId::DEFAULT => {
                return Err(PoolError::DefaultPool { what: "deleted" }.to_string());
            }
            _ => drop(self.pools.remove(place)),
        }
        self.edited()
    }

    fn edited(&mut self) -> Answer {
        PoolSet::of(self.pools.clone()).map_err(|error| error.to_string())?;
        self.configure()
    }

    pub fn list_pools(&self) -> Vec<String> {
        let line = |pool: &PoolSpec| {
            let range = pool.range.map_or_else(|| "no range".into(), |range| range.to_string());
            let max = pool.threads_max.map_or_else(|| "unlimited".into(), |max| max.to_string());
            let (name, state, min) = (&pool.name, pool.state, pool.threads_min);
            format!("{name}: {state}, {range}, threads {min} to {max}, {}", kind(pool))
        };
        self.pools.iter().map(line).collect()
    }

    /// Persistent pools are started again if they can be, and rules are as they were saved.
    pub fn restart(&mut self) -> Answer {
        self.pools.retain(|pool| pool.persistent);
        for pool in &mut self.pools {
            let can_start = pool.range.is_some() || pool.id == PoolId::DEFAULT;
            pool.state = if can_start { PoolState::Started } else { PoolState::Stopped };
        }
        self.rules.clone_from(&self.saved_rules);
        self.engine = paceline_engine::Engine::new(2);
        self.configure()
    }

    /// Adds a rule: at its number, or after the last one.
    pub fn rule(&mut self, text: &str) -> Answer {
        let new = Rule::parse_new(text).map_err(|error| error.to_string())?;
        let behind = self.rules.last().map_or(0, |rule| rule.number) + 10;
        let number = new.number.unwrap_or(behind);
        match self.rules.binary_search_by_key(&number, |rule| rule.number) {
            Ok(_) => return Err(format!("there is a rule {number} already")),
            Err(place) => self.rules.insert(place, new.numbered(number)),
        }
        self.configure()
    }

    pub fn rule_counts(&self) -> Vec<String> {
        let counts = self.engine.rule_counts().read();
        let snapshot = self.engine.snapshot();
        let line = |(rule, count): (&Rule, &RuleCounts)| {
            let RuleCounts { evaluations, matches, errors } = count;
            format!(
                "rule {}: evaluated {evaluations}, matched {matches}, failed {errors}",
                rule.number
            )
        };
        snapshot.rules().rules().iter().zip(&counts).map(line).collect()
    }
}

fn kind(pool: &PoolSpec) -> &'static str {
    if pool.persistent { "persistent" } else { "transient" }
}

/// Applies the settings in the words.
fn set(pool: &mut PoolSpec, rest: &[&str]) -> Result<(), String> {
    for (key, value) in pairs(rest)? {
        match key {
            "range" => {
                let (low, high) = value.split_once("..").ok_or("range is LOW..HIGH")?;
                let priority = |text: &str| {
                    let number = text.parse().ok().and_then(Priority::new);
                    number.ok_or(format!("no priority: {text}"))
                };
                let range = Range::new(priority(low)?, priority(high)?);
                pool.range = Some(range.ok_or("a range goes from low to high")?);
            }
            "min" => pool.threads_min = number(value)?,
            "max" if value == "none" => pool.threads_max = None,
            "max" => pool.threads_max = Some(number(value)?),
            "len" => pool.queue.len_max = number(value)?,
            "delay" => pool.queue.delay_max = Some(span(value)?),
            _ => return Err(format!("pool: no setting {key}")),
        }
    }
    Ok(())
}
