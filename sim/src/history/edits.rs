//! Edits of every kind, most of them one at a time.

use super::routes::fit_connections;
use super::{History, MS};
use crate::model::config::{At, Checkpoint, Config, Limit, PoolState, When};
use crate::model::{Model, Stage, is_gate};

pub(super) type Edit = fn(&mut History, &Model, &mut Config) -> Option<String>;

const CHECKPOINT_EDITS: [Edit; 13] = [
    History::edit_number,
    History::edit_watch,
    History::edit_weight,
    History::edit_limit,
    History::edit_limit,
    History::edit_bounds,
    History::edit_when,
    History::edit_key,
    History::edit_keys_max,
    History::edit_kind,
    History::edit_at,
    History::add_checkpoint,
    History::delete_checkpoint,
];

const POOL_EDITS: [Edit; 7] = [
    History::edit_state,
    History::edit_state,
    History::edit_max,
    History::edit_pool_bounds,
    History::edit_range,
    History::add_pool,
    History::delete_pool,
];

const RESOURCE_EDITS: [Edit; 5] = [
    History::add_resource,
    History::delete_resource,
    History::add_edge,
    History::remove_edge,
    History::rename,
];

const OTHER_EDITS: [Edit; 3] = [History::edit_rules, History::edit_slip, History::edit_age];

impl History {
    /// Another configuration that differs in one or a few settings, and a description of the edit.
    pub(super) fn edit(&mut self, model: &Model) -> Option<(Config, String)> {
        let mut config = model.config.clone();
        config.checkpoints.retain(|checkpoint| !is_gate(checkpoint.id));
        if self.profile.wide
            && self.profile.routes
            && self.rng.chance(35)
            && let Some(what) = self.edit_name(model, &mut config)
        {
            fit_connections(&mut config);
            return Some((config, what));
        }
        if let Some(what) = self.edit_routes(&mut config) {
            fit_connections(&mut config);
            return Some((config, what));
        }
        if self.profile.churn
            && self.rng.chance(60)
            && let Some(what) = self.stir(&mut config)
        {
            fit_connections(&mut config);
            return Some((config, what));
        }
        let mut done: Option<String> = None;
        for _ in 0..[1, 2, 4][self.rng.weighted(&[80, 12, 8])] {
            let names = if self.profile.wide { 14 } else { 0 };
            let resources = if self.profile.nests { 30 } else { 6 };
            let edit = match self.rng.weighted(&[10, 8, resources, 3, names]) {
                4 => History::edit_name,
                0 => self.rng.pick(&CHECKPOINT_EDITS),
                1 => self.rng.pick(&POOL_EDITS),
                2 => self.rng.pick(&RESOURCE_EDITS),
                _ => self.rng.pick(&OTHER_EDITS),
            };
            let what = edit(self, model, &mut config);
            done = match (done, what) {
                (Some(done), Some(what)) => Some(format!("{done}; {what}")),
                (done, what) => done.or(what),
            };
        }
        fit_connections(&mut config);
        Some((config, done?))
    }

    /// Changes the limit and the key of a checkpoint, or changes them back; or deletes it, and creates another
    /// one of its name.
    fn stir(&mut self, config: &mut Config) -> Option<String> {
        if config.checkpoints.len() < 2 || self.rng.chance(15) {
            let checkpoint = self.checkpoint(config)?;
            let what = format!("new {checkpoint:?}");
            config.checkpoints.push(checkpoint);
            return Some(what);
        }
        let index = self.any_checkpoint(config)?;
        let before = config.checkpoints[index].clone();
        let past: Vec<Checkpoint> =
            self.past.iter().filter(|past| past.id == before.id).cloned().collect();
        let back = self.rng.pick_any(&past).filter(|_| self.rng.chance(50));
        let (key, fair) = (self.attribute(), self.attribute());
        let (limit, has_key) = (self.limit(), self.rng.chance(80));
        let checkpoint = &mut config.checkpoints[index];
        let what = match (back, self.rng.below(8)) {
            (Some(back), _) => {
                (checkpoint.key, checkpoint.limit) = (back.key, back.limit);
                (checkpoint.fair, checkpoint.watch) = (back.fair, back.watch);
                "as it was"
            }
            (None, 0..3) => {
                checkpoint.key = has_key.then_some(key);
                "key"
            }
            (None, 3..6) => {
                let is_same =
                    std::mem::discriminant(&limit) == std::mem::discriminant(&checkpoint.limit);
                if !is_same {
                    return None;
                }
                checkpoint.limit = limit;
                "limit"
            }
            (None, 6) if checkpoint.limit != Limit::Count => {
                checkpoint.fair = has_key.then_some(fair);
                "fair"
            }
            _ => {
                config.checkpoints.remove(index);
                drop_conditions(config, before.name);
                return Some(format!("{} deleted", before.name));
            }
        };
        let now = format!("{:?}", config.checkpoints[index]);
        let name = before.name;
        self.past.push(before);
        drop_conditions(config, name);
        Some(format!("{what}: {now}"))
    }

    fn any_checkpoint(&mut self, config: &Config) -> Option<usize> {
        let count = config.checkpoints.len() as u64;
        (count > 0).then(|| self.rng.below(count) as usize)
    }

    fn edit_limit(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let limit = match config.checkpoints[index].limit {
            Limit::Rate { n, d, burst } => match (self.rng.below(3), self.rate()) {
                (0, Limit::Rate { burst, .. }) => Limit::Rate { n, d, burst },
                (1, Limit::Rate { n, d, .. }) => Limit::Rate { n, d, burst },
                (_, other) => other,
            },
            Limit::Concurrency(_) => Limit::Concurrency(self.rng.pick(&[0, 1, 1, 2, 2, 3, 4, 5])),
            Limit::Count => return None,
        };
        let checkpoint = &mut config.checkpoints[index];
        checkpoint.limit = limit;
        Some(format!("{} limit {limit:?}", checkpoint.name))
    }

    fn edit_bounds(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        config.checkpoints[index].queue = self.bounds();
        let checkpoint = &config.checkpoints[index];
        Some(format!("{} {:?}", checkpoint.name, checkpoint.queue))
    }

    fn edit_when(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let when = self.rng.chance(50).then(|| self.when(config));
        config.checkpoints[index].when = when;
        Some(format!("{} when {when:?}", config.checkpoints[index].name))
    }

    /// Another place in the same list.
    fn edit_number(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let checkpoint = &mut config.checkpoints[index];
        checkpoint.number = self.rng.below(3) as u32;
        Some(format!("{} number {}", checkpoint.name, checkpoint.number))
    }

    /// Another list.
    fn edit_at(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let at = self.at(config);
        let checkpoint = &mut config.checkpoints[index];
        checkpoint.at = at;
        checkpoint.connection &= matches!(at, At::Frontend(_));
        Some(format!("{} at {at:?}", checkpoint.name))
    }

    fn edit_watch(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let checkpoint = &mut config.checkpoints[index];
        checkpoint.watch = !checkpoint.watch;
        Some(format!("{} watch {}", checkpoint.name, checkpoint.watch))
    }

    fn edit_weight(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        config.checkpoints[index].weight = self.weight();
        let checkpoint = &config.checkpoints[index];
        Some(format!("{} weight {:?}", checkpoint.name, checkpoint.weight))
    }

    /// Another key or other flows: the checkpoint starts with new counters.
    fn edit_key(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let attribute = self.rng.chance(60).then(|| self.attribute());
        let checkpoint = &mut config.checkpoints[index];
        let what = if self.rng.chance(50) && checkpoint.limit != Limit::Count {
            checkpoint.fair = attribute;
            "fair"
        } else {
            checkpoint.key = attribute;
            "key"
        };
        let name = checkpoint.name;
        drop_conditions(config, name);
        Some(format!("{name} {what} {attribute:?}"))
    }

    fn edit_keys_max(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        config.checkpoints[index].keys_max = self.keys_max();
        let checkpoint = &config.checkpoints[index];
        Some(format!("{} keys_max {}", checkpoint.name, checkpoint.keys_max))
    }

    fn edit_kind(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let limit = self.limit();
        let checkpoint = &mut config.checkpoints[index];
        // A `count` checkpoint of a frontend counts before the rules, so it would change its place, not only
        // its kind.
        if checkpoint.limit == Limit::Count || limit == Limit::Count {
            return None;
        }
        checkpoint.limit = limit;
        Some(format!("{} kind {limit:?}", checkpoint.name))
    }

    fn add_checkpoint(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let checkpoint = self.checkpoint(config)?;
        let what = format!("new {checkpoint:?}");
        config.checkpoints.push(checkpoint);
        Some(what)
    }

    fn delete_checkpoint(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.any_checkpoint(config)?;
        let Checkpoint { name, .. } = config.checkpoints.remove(index);
        drop_conditions(config, name);
        Some(format!("{name} deleted"))
    }

    fn edit_state(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let state = self.rng.pick(&[PoolState::Stopped, PoolState::Started, PoolState::Draining]);
        let count = config.pools.len() as u64;
        let index = self.rng.below(count) as usize;
        let pool = &mut config.pools[index];
        if pool.id == 0 || pool.range.is_none() {
            return None;
        }
        pool.state = state;
        Some(format!("{} {state:?}", pool.name))
    }

    fn edit_max(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.pools.len() as u64) as usize;
        let max = self.rng.below(5);
        let pool = &mut config.pools[index];
        pool.max = Some(max);
        Some(format!("{} max {max}", pool.name))
    }

    fn edit_pool_bounds(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.pools.len() as u64) as usize;
        let (max_len, max_delay) = (self.max_len(), self.max_delay());
        let pool = &mut config.pools[index];
        (pool.max_len, pool.max_delay) = (max_len, max_delay);
        Some(format!("{} max_len {max_len} max_delay {max_delay:?}", pool.name))
    }

    fn edit_range(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.pools.len() as u64) as usize;
        let id = config.pools[index].id;
        let range = self.range(config, id)?;
        if id == 0 {
            return None;
        }
        config.pools[index].range = Some(range);
        Some(format!("{} range {range:?}", config.pools[index].name))
    }

    fn add_pool(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let pool = self.pool(config)?;
        let what = format!("new {pool:?}");
        config.pools.push(pool);
        Some(what)
    }

    /// A pool is deleted together with its checkpoints.
    fn delete_pool(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.pools.len() as u64) as usize;
        let name = config.pools[index].name;
        if index == 0 {
            return None;
        }
        let (gone, kept) = std::mem::take(&mut config.checkpoints)
            .into_iter()
            .partition(|checkpoint| checkpoint.at == At::Pool(name));
        config.checkpoints = kept;
        let gone: Vec<Checkpoint> = gone;
        gone.iter().for_each(|checkpoint| drop_conditions(config, checkpoint.name));
        config.pools.remove(index);
        drop_conditions(config, name);
        Some(format!("{name} deleted"))
    }

    fn add_resource(&mut self, model: &Model, config: &mut Config) -> Option<String> {
        let resource = self.resource(config)?;
        if self.still_held(model, resource.name) {
            return None;
        }
        let what = format!("new {resource:?}");
        config.resources.push(resource);
        Some(what)
    }

    fn delete_resource(&mut self, model: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.resources.len() as u64) as usize;
        let gone = config.resources.get(index)?.clone();
        // Holders know it by the name it had before this edit, which another resource may have now.
        let known = model.config.resources.iter().find(|r| r.id == gone.id).map(|r| r.name);
        let taken = config.resources.iter().any(|r| Some(r.name) == known && r.id != gone.id);
        if taken || made_by_waiter(model, gone.name) {
            return None;
        }
        config.resources.remove(index);
        self.deleted.push((gone.id, known.unwrap_or(gone.name)));
        for resource in &mut config.resources {
            resource.parents.retain(|parent| *parent != gone.id);
        }
        Some(format!("{} ({}) deleted", gone.name, gone.id))
    }

    /// A further parent for a resource; an edge that closes a cycle is not a valid graph.
    fn add_edge(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let parent = self.rng.pick_any(&config.resources)?.id;
        let index = self.rng.below(config.resources.len() as u64) as usize;
        let child = config.resources[index].id;
        if config.resources[index].parents.contains(&parent) || is_below(parent, child, config) {
            return None;
        }
        let child = &mut config.resources[index];
        child.parents.push(parent);
        Some(format!("{parent} above {}", child.id))
    }

    fn remove_edge(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.resources.len() as u64) as usize;
        let child = config.resources.get_mut(index)?;
        let parent = self.rng.pick_any(&child.parents)?;
        child.parents.retain(|other| *other != parent);
        Some(format!("{parent} no more above {}", child.id))
    }

    fn rename(&mut self, model: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.resources.len() as u64) as usize;
        let name = self.rng.pick(&crate::words::RESOURCES);
        let taken = config.resources.iter().any(|resource| resource.name == name);
        if taken || self.still_held(model, name) {
            return None;
        }
        let resource = config.resources.get_mut(index)?;
        if made_by_waiter(model, resource.name) {
            return None;
        }
        let what = format!("{} ({}) renamed {name}", resource.name, resource.id);
        resource.name = name;
        Some(what)
    }

    /// Whether a resource of this name can be renamed.
    pub(super) fn may_rename(&self, model: &Model, name: &str) -> bool {
        !self.still_held(model, name) && !made_by_waiter(model, name)
    }

    /// Whether a request still holds a deleted resource of this name: with a new one the name would be
    /// ambiguous.
    fn still_held(&self, model: &Model, name: &str) -> bool {
        self.deleted.iter().filter(|(_, deleted)| *deleted == name).any(|(id, _)| {
            let holders = model.requests.values().filter(|r| r.stage == Stage::Running);
            holders.flat_map(|r| &r.claims).any(|claim| claim.granted & (1 << id) != 0)
        })
    }

    fn edit_rules(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        config.rules = self.rules(config);
        Some(format!("rules {:?}", config.rules))
    }

    fn edit_slip(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        config.slip = self.rng.pick(&[0, MS, 5 * MS, 50 * MS]);
        Some(format!("slip {}", config.slip))
    }

    fn edit_age(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        config.age_step = self.rng.pick(&[0, MS, 10 * MS, 1_000 * MS]);
        Some(format!("age_step {}", config.age_step))
    }
}

/// Whether a request that creates what it does not find still waits for this resource: only names that are
/// never configured can be created.
fn made_by_waiter(model: &Model, name: &str) -> bool {
    model.requests.values().any(|request| {
        request.arrival.unknown == paceline_types::Unknown::Create
            && request.stage != Stage::Running
            && request.claims.iter().any(|claim| claim.name == name)
    })
}

/// Whether one resource is another or is below it.
fn is_below(node: u32, root: u32, config: &Config) -> bool {
    let parents = |node: u32| config.resources.iter().filter(move |r| r.id == node);
    node == root
        || parents(node).flat_map(|r| &r.parents).any(|parent| is_below(*parent, root, config))
}

/// Conditions may only name existing objects, and keys only where there are keys.
pub(super) fn drop_conditions(config: &mut Config, name: &str) {
    let speaks = |when: &When| match when {
        When::Inflight(of, ..) | When::Queued(of, ..) | When::Rate(of, ..) => *of == name,
        When::Running(of, _) | When::Waiting(of, _) => *of == name,
        When::Is(..) | When::PriorityOver(_) => false,
    };
    let rules = config.rules.iter_mut().map(|rule| &mut rule.when);
    let checkpoints = config.checkpoints.iter_mut().map(|checkpoint| &mut checkpoint.when);
    for frontend in &mut config.frontends {
        frontend.lines.retain(|(when, _)| !speaks(when));
    }
    for when in rules.chain(checkpoints) {
        *when = when.filter(|when| !speaks(when));
    }
}
