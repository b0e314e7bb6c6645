//! The settings of an administrator, and the plan that makes the engine use them.
//!
//! A [`Config`] is plain values. A [`Plan`] is a checked and compiled one: every error (in patterns,
//! expressions, ranges, cycles, duplicates) is found while it is made, outside the engine's lock, and says
//! where it is. Using a plan cannot fail.

use crate::gate;
use crate::reads::Reads;
use crate::snapshot::{CheckpointLists, Snapshot};
use paceline_checkpoints::{At, CheckpointSet, Field, Limit, Problem, Spec, SpecError};
use paceline_claims::{Graph, GraphError, Resource};
use paceline_expr::Scope;
use paceline_pools::PoolSet;
use paceline_routing::{
    Backend, Frontend, RESERVED, Routing, RoutingError, SqlTarget, Switch, check_targets,
};
use paceline_rules::{CompileRuleError, Rule, Ruleset};
use paceline_types::{CheckpointId, On, PoolId, Span, limits};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Everything an administrator can set.
#[derive(Clone, Debug)]
pub struct Config {
    /// The head start in time that one step of priority gives.
    pub age_step: Span,
    /// How late a wake may be without costing throughput.
    pub slip: Span,
    /// How many requests one call may move; the next call continues with the rest. From 1 to
    /// [`limits::STEP_MAX_MAX`]; a value outside counts as the nearest of these.
    pub step_max: usize,
    /// How many requests may wait or run at one time.
    pub requests_max: usize,
    /// How many bytes the attributes of all these requests may have together.
    pub requests_bytes_max: usize,
    /// The running list of rules.
    pub rules: Vec<Rule>,
    /// All checkpoints.
    pub checkpoints: Vec<Spec>,
    /// All pools.
    pub pools: PoolSet,
    /// All resources.
    pub resources: Vec<Resource>,
    /// All frontends of the HTTP door.
    pub frontends: Vec<Frontend>,
    /// All backends, in the order of their numbers.
    pub backends: Vec<Backend>,
    /// All targets of the SQL door.
    pub sql_targets: Vec<SqlTarget>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            age_step: Span::from_secs(1),
            slip: Span::from_ms(5),
            step_max: limits::STEP_MAX,
            requests_max: limits::REQUESTS_MAX,
            requests_bytes_max: limits::REQUESTS_BYTES_MAX,
            rules: vec![],
            checkpoints: vec![],
            pools: PoolSet::new(),
            resources: vec![],
            frontends: vec![],
            backends: vec![],
            sql_targets: vec![],
        }
    }
}

/// A valid configuration, ready to be used.
#[derive(Debug)]
pub struct Plan {
    snapshot: Arc<Snapshot>,
    warnings: Vec<String>,
}

impl Plan {
    /// Checks and compiles `config`. Parts that did not change since `current` are reused.
    ///
    /// # Errors
    ///
    /// When a part of it is invalid; the error says which and where.
    pub fn new(current: &Snapshot, config: Config) -> Result<Self, PlanError> {
        check_connections(&config.checkpoints)?;
        let routing = plan_routing(current, config.frontends, config.backends)?;
        let sql_targets = plan_targets(current, config.sql_targets)?;
        let gates: Vec<Spec> = routing.backends().iter().filter_map(gate::spec).collect();
        let names = Names::of(&config.pools, &config.checkpoints, &gates)?;
        let same_names = names == *current.names;
        let same_specs = *config.checkpoints == *current.specs && *gates == *current.gates;
        let checkpoints = if same_names && same_specs {
            Arc::clone(&current.checkpoints)
        } else {
            let specs = config.checkpoints.clone();
            Arc::new(CheckpointSet::compile_with(specs, gates.clone(), &names)?)
        };
        let switch = if same_names && Arc::ptr_eq(&routing, &current.routing) {
            Arc::clone(&current.switch)
        } else {
            Arc::new(Switch::compile(&routing, &names)?)
        };
        let rules = if same_names && config.rules == current.rules.rules() {
            Arc::clone(&current.rules)
        } else {
            Arc::new(Ruleset::compile(&config.rules, &names)?)
        };
        let graph = if *config.resources == *current.resources {
            Arc::clone(&current.graph)
        } else {
            Arc::new(Graph::build(Some(&current.graph), config.resources.clone())?)
        };
        let warnings = checkpoints.warnings().iter().map(ToString::to_string);
        let warnings = warnings.chain(unread_keys(current, &checkpoints)).collect();
        let reads = if Arc::ptr_eq(&rules, &current.rules)
            && Arc::ptr_eq(&checkpoints, &current.checkpoints)
            && Arc::ptr_eq(&switch, &current.switch)
        {
            Arc::clone(&current.reads)
        } else {
            Arc::new(Reads::of(&rules, &checkpoints, &switch))
        };
        let lists = Arc::new(CheckpointLists::new(&checkpoints));
        let snapshot = Snapshot {
            generation: current.generation,
            rules_since: current.rules_since,
            age_step: config.age_step,
            slip: config.slip,
            step_max: config.step_max.clamp(1, limits::STEP_MAX_MAX),
            requests_max: config.requests_max,
            requests_bytes_max: config.requests_bytes_max,
            rules,
            checkpoints,
            specs: config.checkpoints.into(),
            gates: gates.into(),
            lists,
            routing,
            sql_targets,
            switch,
            reads,
            pools: config.pools,
            resources: config.resources.into(),
            graph,
            hasher: current.hasher,
            names: Arc::new(names),
            renames: Arc::clone(&current.renames),
        };
        Ok(Self { snapshot: Arc::new(snapshot), warnings })
    }

    /// The configuration of this plan, to make the next plan against before this one is used.
    #[must_use]
    pub const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Adds warnings: settings that work but are hardly intended.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Settings that work but are hardly intended.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The frontends and backends, reused if they did not change.
fn plan_routing(
    current: &Snapshot,
    frontends: Vec<Frontend>,
    backends: Vec<Backend>,
) -> Result<Arc<Routing>, RoutingError> {
    let routing = &current.routing;
    if *frontends == *routing.frontends() && *backends == *routing.backends() {
        return Ok(Arc::clone(routing));
    }
    Ok(Arc::new(Routing::check(frontends, backends)?))
}

/// The targets by name; those that did not change are shared with the configuration in use.
fn plan_targets(
    current: &Snapshot,
    mut targets: Vec<SqlTarget>,
) -> Result<Arc<[Arc<SqlTarget>]>, RoutingError> {
    let old = &current.sql_targets;
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    if old.iter().map(|target| &**target).eq(&targets) {
        return Ok(Arc::clone(old));
    }
    check_targets(&targets)?;
    let known = |target: &SqlTarget| {
        let known = current.sql_target(&target.name).filter(|known| ***known == *target);
        known.map(Arc::clone)
    };
    let each = targets.into_iter().map(|target| known(&target).unwrap_or_else(|| Arc::new(target)));
    Ok(each.collect())
}

/// Doors that are frontends of their own submit no connections.
fn check_connections(specs: &[Spec]) -> Result<(), SpecError> {
    for spec in specs.iter().filter(|spec| spec.on == On::Connection) {
        if let At::Frontend(name) = &spec.at
            && RESERVED.contains(&&**name)
        {
            let problem = Problem::NoConnections(name.clone());
            return Err(SpecError { name: spec.name.clone(), field: Field::On, problem });
        }
    }
    Ok(())
}

/// Checkpoints whose key is edited to read a header or cookie that nothing read before. Doors collect only what
/// is read, so requests that arrived before the edit have no such attribute, and hold the count of the empty
/// key.
fn unread_keys<'a>(
    current: &'a Snapshot,
    checkpoints: &'a CheckpointSet,
) -> impl Iterator<Item = String> + 'a {
    checkpoints.iter().filter_map(|checkpoint| {
        let spec = &checkpoint.spec;
        let old = current.checkpoints.checkpoint(spec.id)?;
        let is_edited = old.spec.key != spec.key && matches!(spec.limit, Limit::Concurrency(_));
        let key = checkpoint.key.as_ref().filter(|_| is_edited)?;
        let (kind, name) = current.reads.unread(key)?;
        Some(format!(
            "checkpoint \"{}\": key: nothing has read the {kind} \"{name}\" before; requests that came \
             before this edit hold a count of the key \"\" until they end",
            spec.name
        ))
    })
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanError {
    /// A rule.
    Rule(CompileRuleError),
    /// A checkpoint.
    Checkpoint(SpecError),
    /// A resource.
    Resource(GraphError),
    /// A frontend, a backend, a server or a target of the SQL door.
    Routing(RoutingError),
    /// A checkpoint is at a pool that does not exist.
    NoSuchPool {
        /// The checkpoint.
        checkpoint: Box<str>,
        /// The pool.
        pool: Box<str>,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
            Self::Resource(error) => error.fmt(f),
            Self::Routing(error) => error.fmt(f),
            Self::NoSuchPool { checkpoint, pool } => {
                write!(f, "checkpoint \"{checkpoint}\": at: no pool \"{pool}\"")
            }
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rule(error) => Some(error),
            Self::Checkpoint(error) => Some(error),
            Self::Resource(error) => Some(error),
            Self::Routing(error) => Some(error),
            Self::NoSuchPool { .. } => None,
        }
    }
}

impl From<CompileRuleError> for PlanError {
    fn from(error: CompileRuleError) -> Self {
        Self::Rule(error)
    }
}

impl From<SpecError> for PlanError {
    fn from(error: SpecError) -> Self {
        Self::Checkpoint(error)
    }
}

impl From<GraphError> for PlanError {
    fn from(error: GraphError) -> Self {
        Self::Resource(error)
    }
}

impl From<RoutingError> for PlanError {
    fn from(error: RoutingError) -> Self {
        Self::Routing(error)
    }
}

/// The names that expressions may use, with their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    checkpoints: BTreeMap<Box<str>, CheckpointId>,
    pools: BTreeMap<Box<str>, PoolId>,
}

impl Names {
    fn of(pools: &PoolSet, specs: &[Spec], gates: &[Spec]) -> Result<Self, PlanError> {
        let pools: BTreeMap<_, _> =
            pools.list().iter().map(|pool| (pool.name.clone(), pool.id)).collect();
        let gates = gates.iter().map(|gate| (gate.name.clone(), gate.id));
        let mut checkpoints: BTreeMap<_, _> = gates.collect();
        for spec in specs {
            if let At::Pool(pool) = &spec.at
                && !pools.contains_key(pool)
            {
                let (checkpoint, pool) = (spec.name.clone(), pool.clone());
                return Err(PlanError::NoSuchPool { checkpoint, pool });
            }
            checkpoints.insert(spec.name.clone(), spec.id);
        }
        Ok(Self { checkpoints, pools })
    }
}

impl Scope for Names {
    fn checkpoint(&self, name: &str) -> Option<CheckpointId> {
        self.checkpoints.get(name).copied()
    }

    fn pool(&self, name: &str) -> Option<PoolId> {
        self.pools.get(name).copied()
    }

    fn names(&self) -> Vec<&str> {
        self.checkpoints.keys().chain(self.pools.keys()).map(AsRef::as_ref).collect()
    }
}
