//! The configuration in use: compiled, immutable, shared, so that requests are prepared against it
//! without the engine's lock.

use crate::config::{Config, Names};
use crate::reads::Reads;
use crate::renames::Renames;
use paceline_checkpoints::{At, Checked, CheckpointSet, KeyHasher, Spec};
use paceline_claims::{Graph, Resource};
use paceline_pools::{PoolSet, PoolSpec};
use paceline_routing::{Routing, SqlTarget, Switch};
use paceline_rules::Ruleset;
use paceline_types::{PoolId, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A compiled configuration. Copying one is cheap: the parts are shared.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Grows with every plan. A request that was prepared for another generation is prepared again.
    pub(crate) generation: u64,
    /// The generation that brought the rules: their decision for a request that was prepared since then is
    /// still valid.
    pub(crate) rules_since: u64,
    pub(crate) age_step: Span,
    pub(crate) slip: Span,
    pub(crate) step_max: usize,
    pub(crate) requests_max: usize,
    pub(crate) requests_bytes_max: usize,
    pub(crate) rules: Arc<Ruleset>,
    pub(crate) checkpoints: Arc<CheckpointSet>,
    pub(crate) specs: Arc<[Spec]>,
    /// The gates: hidden checkpoints of backends with a maximum.
    pub(crate) gates: Arc<[Spec]>,
    pub(crate) lists: Arc<CheckpointLists>,
    pub(crate) routing: Arc<Routing>,
    /// By name.
    pub(crate) sql_targets: Arc<[Arc<SqlTarget>]>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) pools: PoolSet,
    pub(crate) resources: Arc<[Resource]>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) hasher: KeyHasher,
    pub(crate) names: Arc<Names>,
    /// The renames of the last edits.
    pub(crate) renames: Arc<[Renames]>,
}

impl Snapshot {
    /// The configuration of a new engine: no rules, no checkpoints, and only the default pool. `seed` keys the hashes
    /// of keys.
    pub(crate) fn first(seed: u128, graph: Arc<Graph>) -> Self {
        let config = Config::default();
        Self {
            generation: 0,
            rules_since: 0,
            age_step: config.age_step,
            slip: config.slip,
            step_max: config.step_max,
            requests_max: config.requests_max,
            requests_bytes_max: config.requests_bytes_max,
            rules: Arc::default(),
            checkpoints: Arc::default(),
            specs: [].into(),
            gates: [].into(),
            lists: Arc::new(CheckpointLists { is_empty: true, ..CheckpointLists::default() }),
            routing: Arc::default(),
            sql_targets: [].into(),
            switch: Arc::default(),
            reads: Arc::default(),
            pools: config.pools,
            resources: [].into(),
            graph,
            hasher: KeyHasher::new(seed),
            names: Arc::new(Names::default()),
            renames: [].into(),
        }
    }

    /// The number of the configuration; it grows with every edit.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The rules in use.
    #[must_use]
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// The checkpoints in use.
    #[must_use]
    pub fn checkpoints(&self) -> &CheckpointSet {
        &self.checkpoints
    }

    /// The pools in use.
    #[must_use]
    pub const fn pools(&self) -> &PoolSet {
        &self.pools
    }

    /// The frontends and backends in use; the same as before if an edit did not change them.
    #[must_use]
    pub const fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    /// The targets of the SQL door in use, by name. The list, and each target in it, is the same as before if an edit
    /// did not change it.
    #[must_use]
    pub const fn sql_targets(&self) -> &Arc<[Arc<SqlTarget>]> {
        &self.sql_targets
    }

    /// The target of this name.
    #[must_use]
    pub fn sql_target(&self, name: &str) -> Option<&Arc<SqlTarget>> {
        let found = self.sql_targets.binary_search_by(|target| (*target.name).cmp(name));
        found.ok().and_then(|at| self.sql_targets.get(at))
    }

    /// Which attributes are read.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The resources in use.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The resources in use, as they were configured.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The checkpoints that have another name in `new`: the old name, and the new one.
    pub fn renamed_checkpoints<'a>(
        &'a self,
        new: &'a Self,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_edited = !Arc::ptr_eq(&self.checkpoints, &new.checkpoints);
        let all = is_edited.then(|| new.checkpoints.iter()).into_iter().flatten();
        let names = all.filter_map(|now| {
            let before = self.checkpoints.checkpoint(now.spec.id)?;
            Some((&*before.spec.name, &*now.spec.name))
        });
        names.filter(|(old, new)| old != new)
    }

    /// The frontends that the edit to this configuration gave other names: the old name, and the new one.
    pub fn renamed_frontends(&self) -> impl Iterator<Item = (&str, &str)> {
        self.renames
            .last()
            .filter(|edit| edit.is_of(self.generation))
            .into_iter()
            .flat_map(|e| e.names())
    }

    pub(crate) fn pool_name(&self, id: PoolId) -> Box<str> {
        self.pools.by_id(id).map_or_else(|| "deleted".into(), |pool: &PoolSpec| pool.name.clone())
    }
}

/// The checkpoints of each place, found by the names that requests carry.
#[derive(Debug, Default)]
pub(crate) struct CheckpointLists {
    pub frontends: ListsByName,
    pub backends: ListsByName,
    /// By `BACKEND/NAME`.
    pub servers: ListsByName,
    pub pools: ListsByName,
    /// Whether there is no checkpoint at all.
    pub is_empty: bool,
}

/// The checkpoints of the places of one kind.
#[derive(Debug, Default)]
pub(crate) struct ListsByName(BTreeMap<Box<str>, Vec<Arc<Checked>>>);

impl ListsByName {
    /// The checkpoints of the place of this name, in order.
    pub fn list(&self, name: &str) -> &[Arc<Checked>] {
        if self.0.is_empty() {
            return &[];
        }
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

impl CheckpointLists {
    pub fn new(set: &CheckpointSet) -> Self {
        let mut lists = Self { is_empty: set.iter().next().is_none(), ..Self::default() };
        for checked in set.iter() {
            let (list, name) = match &checked.spec.at {
                At::Frontend(name) => (&mut lists.frontends, name.clone()),
                At::Backend(name) => (&mut lists.backends, name.clone()),
                At::Server { backend, name } => {
                    (&mut lists.servers, format!("{backend}/{name}").into())
                }
                At::Pool(name) => (&mut lists.pools, name.clone()),
            };
            list.0.entry(name).or_insert_with(|| set.list(&checked.spec.at).to_vec());
        }
        lists
    }
}
