//! Edits of names: the name of an object changes, its number stays.
//!
//! Two objects may exchange names in one edit. A reference by name (a condition, a list) follows the object, or
//! afterwards refers to the object that has the name then. If no object has the name, a reference that must be
//! valid is removed.

use super::History;
use super::edits::{Edit, drop_conditions};
use crate::model::Model;
use crate::model::config::{At, Config, When};
use crate::words::{
    BACKEND_NAMES, CHECKPOINTS, POOLS, RESOURCES, SERVER_NAMES, gate_of, server_of,
};

const RENAMES: [Edit; 6] = [
    History::rename_checkpoint,
    History::rename_checkpoint,
    History::rename_pool,
    History::rename_backend,
    History::rename_server,
    History::swap_resources,
];

/// A name and the name that replaces it.
type Change = (&'static str, &'static str);

impl History {
    /// Renames an object.
    pub(super) fn edit_name(&mut self, model: &Model, config: &mut Config) -> Option<String> {
        // Servers and backends more often, if there are any.
        let from = if self.profile.routes && self.rng.chance(50) { 3 } else { 0 };
        let to = if from > 0 { 5 } else { RENAMES.len() };
        let edit = self.rng.pick(&RENAMES[from..to]);
        edit(self, model, config)
    }

    fn rename_checkpoint(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let names: Vec<&str> = config.checkpoints.iter().map(|c| c.name).collect();
        let changes = self.changes(&names, &CHECKPOINTS)?;
        for checkpoint in &mut config.checkpoints {
            checkpoint.name = changed(&changes, checkpoint.name);
        }
        self.follow_in_conditions(config, &changes);
        Some(format!("checkpoints renamed {changes:?}"))
    }

    /// All pools except the default pool, whose name is fixed.
    fn rename_pool(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let names: Vec<&str> = config.pools.iter().skip(1).map(|pool| pool.name).collect();
        let changes = self.changes(&names, &POOLS[1..])?;
        for pool in &mut config.pools {
            pool.name = changed(&changes, pool.name);
        }
        // A list of a pool that does not exist is invalid.
        let follows = changes.len() == 1 || self.rng.chance(50);
        for checkpoint in &mut config.checkpoints {
            if let (At::Pool(name), true) = (&mut checkpoint.at, follows) {
                *name = changed(&changes, name);
            }
        }
        self.follow_in_conditions(config, &changes);
        Some(format!("pools renamed {changes:?}, checkpoints too {follows}"))
    }

    /// The frontend keeps its address; its checkpoints follow it, or belong to no frontend.
    pub(super) fn rename_frontend(&mut self, config: &mut Config) -> Option<String> {
        let frontend = config.frontends.first_mut()?;
        let new = if frontend.name == "web" { "site" } else { "web" };
        let old = std::mem::replace(&mut frontend.name, new);
        let follows = self.rng.chance(85);
        for checkpoint in config.checkpoints.iter_mut().filter(|_| follows) {
            if let At::Frontend(name) = &mut checkpoint.at
                && *name == old
            {
                *name = new;
            }
        }
        Some(format!("frontend renamed {new}, checkpoints too {follows}"))
    }

    fn rename_backend(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let names: Vec<&str> = config.backends.iter().map(|backend| backend.name).collect();
        let changes = self.changes(&names, &BACKEND_NAMES[..4])?;
        for backend in &mut config.backends {
            backend.name = changed(&changes, backend.name);
            for server in &mut backend.servers {
                server.name = server_of(backend.name, server.name);
            }
        }
        for frontend in &mut config.frontends {
            let lines = frontend.lines.iter_mut().map(|(_, backend)| backend);
            for backend in lines.chain(&mut frontend.backend) {
                *backend = changed(&changes, backend);
            }
        }
        let follows = self.rng.chance(60);
        for checkpoint in config.checkpoints.iter_mut().filter(|_| follows) {
            match &mut checkpoint.at {
                At::Backend(name) => *name = changed(&changes, name),
                At::Server(name) => {
                    let (backend, _) = name.split_once('/').unwrap_or_default();
                    *name = server_of(changed_any(&changes, backend), name);
                }
                At::Frontend(_) | At::Pool(_) => {}
            }
        }
        let gates: Vec<Change> =
            changes.iter().map(|(old, new)| (gate_of(old), gate_of(new))).collect();
        self.follow_in_conditions(config, &gates);
        for backend in config.backends.clone().iter().filter(|backend| !backend.is_gated()) {
            drop_conditions(config, backend.gate());
        }
        Some(format!("backends renamed {changes:?}, checkpoints too {follows}"))
    }

    fn rename_server(&mut self, _: &Model, config: &mut Config) -> Option<String> {
        let index = self.rng.below(config.backends.len().max(1) as u64) as usize;
        let backend = config.backends.get(index)?;
        let names: Vec<&str> = backend.servers.iter().map(|server| server.name).collect();
        let prefix = format!("{}/", backend.name);
        let all: Vec<&str> =
            SERVER_NAMES.iter().copied().filter(|name| name.starts_with(&prefix)).collect();
        let changes = self.changes(&names, &all)?;
        for server in &mut config.backends[index].servers {
            server.name = changed(&changes, server.name);
        }
        let follows = self.rng.chance(60);
        for checkpoint in config.checkpoints.iter_mut().filter(|_| follows) {
            if let At::Server(name) = &mut checkpoint.at {
                *name = changed(&changes, name);
            }
        }
        Some(format!("servers renamed {changes:?}, checkpoints too {follows}"))
    }

    /// Two resources exchange their names.
    fn swap_resources(&mut self, model: &Model, config: &mut Config) -> Option<String> {
        let names: Vec<&str> = config.resources.iter().map(|resource| resource.name).collect();
        let (one, other) = (self.rng.pick_any(&names)?, self.rng.pick_any(&names)?);
        if one == other || [one, other].iter().any(|name| !self.may_rename(model, name)) {
            return None;
        }
        debug_assert!(RESOURCES.contains(&one));
        let changes = [(one, other), (other, one)];
        for resource in &mut config.resources {
            resource.name = changed(&changes, resource.name);
        }
        Some(format!("resources renamed {changes:?}"))
    }

    /// One of these gets a name of the alphabet that none of them has, or two exchange theirs.
    fn changes(&mut self, names: &[&'static str], all: &[&'static str]) -> Option<Vec<Change>> {
        let one = self.rng.pick_any(names)?;
        let free: Vec<&str> = all.iter().copied().filter(|name| !names.contains(name)).collect();
        match self.rng.pick_any(&free).filter(|_| self.rng.chance(55)) {
            Some(name) => Some(vec![(one, name)]),
            None => {
                let other = self.rng.pick_any(names).filter(|other| *other != one)?;
                Some(vec![(one, other), (other, one)])
            }
        }
    }

    /// Conditions follow what was renamed; or else they refer to the object that has the name now.
    fn follow_in_conditions(&mut self, config: &mut Config, changes: &[Change]) {
        if self.rng.chance(35) {
            let rules = config.rules.iter_mut().map(|rule| &mut rule.when);
            let checkpoints = config.checkpoints.iter_mut().map(|checkpoint| &mut checkpoint.when);
            let lines = config.frontends.iter_mut().flat_map(|frontend| &mut frontend.lines);
            let whens = rules.chain(checkpoints).flatten();
            whens.chain(lines.map(|(when, _)| when)).for_each(|when| rename_in(when, changes));
        } else if changes.len() == 1 {
            changes.iter().for_each(|(old, _)| drop_conditions(config, old));
        } else {
            drop_misfits(config, changes);
        }
    }
}

/// When two objects exchanged names, a condition that reads a key fits only if the other has the same key.
fn drop_misfits(config: &mut Config, changes: &[Change]) {
    let key = |name: &str| config.checkpoints.iter().find(|c| c.name == name).map(|c| c.key);
    let differ = changes.iter().any(|(old, new)| key(old) != key(new));
    if differ {
        changes.iter().for_each(|(old, _)| drop_conditions(config, old));
    }
}

fn rename_in(when: &mut When, changes: &[Change]) {
    match when {
        When::Inflight(name, ..) | When::Queued(name, ..) | When::Rate(name, ..) => {
            *name = changed(changes, name);
        }
        When::Running(name, _) | When::Waiting(name, _) => *name = changed(changes, name),
        When::Is(..) | When::PriorityOver(_) => {}
    }
}

fn changed(changes: &[Change], name: &'static str) -> &'static str {
    changes.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

fn changed_any<'a>(changes: &[Change], name: &'a str) -> &'a str {
    changes.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}
