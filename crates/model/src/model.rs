//! All rows together: their configuration.

use crate::error::ModelError;
use crate::figures::Figures;
use crate::ids::Ids;
use crate::reader::Reader;
use crate::restart::{Put, restart};
use crate::{checkpoint, doubt, idle, pool, resource, rule, schema};
use paceline_checkpoints::Spec;
use paceline_claims::{Resource, ResourceId};
use paceline_engine::{Config, Plan, Snapshot};
use paceline_pools::{DEFAULT_NAME, PoolSet, PoolSpec};
use paceline_routing::{Backend, Frontend, SqlTarget};
use paceline_rules::Rule;
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::{Changes, Row, Store};
use paceline_types::{CheckpointId, PoolId, Uuid, UuidSource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The meaning of the database's rows to the engine.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) schema: Arc<Schema>,
    pub(crate) tables: Tables,
    pool_ids: Ids,
    checkpoint_ids: Ids,
    resource_ids: Ids,
    pub(crate) backend_ids: Ids,
    pub(crate) server_ids: Ids,
    /// The last rows found to work at the next start, so that they are not compiled again.
    startable: Option<Left>,
}

/// The rows left after a restart that can be invalid.
#[derive(Clone, Debug, PartialEq)]
struct Left {
    rules: Vec<Rule>,
    checkpoints: Vec<Spec>,
    pools: Vec<PoolSpec>,
    frontends: Vec<Frontend>,
    backends: Vec<Backend>,
    sql_targets: Vec<SqlTarget>,
}

/// The tables that are relevant to the engine or give roles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub pool: TableId,
    pub rule: TableId,
    pub saved_rule: TableId,
    pub checkpoint: TableId,
    pub resource: TableId,
    pub api: TableId,
    pub http: TableId,
    pub frontend: TableId,
    pub backend: TableId,
    pub server: TableId,
    pub sql_target: TableId,
    pub file: TableId,
    pub user: TableId,
    pub sql_password: TableId,
    pub token: TableId,
}

impl Model {
    /// A model of databases with this schema.
    ///
    /// # Errors
    ///
    /// When a table is missing.
    pub fn new(schema: Arc<Schema>) -> Result<Self, ModelError> {
        let table = |name: &str| {
            schema.table_id(name).ok_or_else(|| ModelError {
                table: name.to_owned(),
                row: None,
                column: None,
                message: format!("database {} has no such table", schema.name),
            })
        };
        let tables = Tables {
            pool: table(schema::POOL)?,
            rule: table(schema::RULE)?,
            saved_rule: table(schema::SAVED_RULE)?,
            checkpoint: table(schema::CHECKPOINT)?,
            resource: table(schema::RESOURCE)?,
            api: table(schema::API)?,
            http: table(schema::HTTP)?,
            frontend: table(schema::FRONTEND)?,
            backend: table(schema::BACKEND)?,
            server: table(schema::SERVER)?,
            sql_target: table(schema::SQL_TARGET)?,
            file: table(schema::FILE)?,
            user: table(schema::USER)?,
            sql_password: table(schema::SQL_PASSWORD)?,
            token: table(schema::TOKEN)?,
        };
        Ok(Self {
            schema,
            tables,
            pool_ids: Ids::new(),
            checkpoint_ids: Ids::new(),
            resource_ids: Ids::new(),
            backend_ids: Ids::new(),
            server_ids: Ids::new(),
            startable: None,
        })
    }

    /// The schema of the database.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The changes of a restart: transient rows are deleted, persistent pools are started, and the running list of
    /// rules becomes the saved one.
    #[must_use]
    pub fn restart(&self, store: &Store, uuids: &mut UuidSource) -> Vec<Put> {
        restart(self.tables, store, uuids)
    }

    /// Whether these changes can affect the configuration.
    #[must_use]
    pub fn concerns(&self, changes: &Changes) -> bool {
        let Tables { pool, rule, saved_rule, checkpoint, resource, .. } = self.tables;
        let Tables { frontend, backend, server, sql_target, .. } = self.tables;
        let work = [pool, rule, saved_rule, checkpoint, resource];
        let ours = [&work[..], &[frontend, backend, server, sql_target]].concat();
        let of_ours = |table| ours.contains(&table);
        changes.by_table().filter_map(<[_]>::first).any(|change| of_ours(change.table))
    }

    /// The plan that brings the engine from `current` to the configuration of the rows.
    ///
    /// # Errors
    ///
    /// When the rows are not a valid configuration: the first reason found, and its place.
    pub fn plan(&mut self, current: &Snapshot, store: &Store) -> Result<Plan, ModelError> {
        let config = self.config(store)?;
        let restart = self.check_restart(current, store, &config);
        // Current errors are reported before errors at the next start.
        let mut plan = Plan::new(current, config)?;
        plan.warn(idle::settings(&self.schema, store));
        let doubts = doubt::doubts(&self.schema, store, plan.snapshot());
        plan.warn(doubts);
        restart.map(|()| plan)
    }

    /// Checks whether the daemon could start with the rows that would be left: saved rules and persistent rows. An
    /// edit after which it could not start is refused when it is written, not discovered at the next start.
    fn check_restart(
        &mut self,
        current: &Snapshot,
        store: &Store,
        now: &Config,
    ) -> Result<(), ModelError> {
        let table = self.tables.saved_rule;
        let rules = self.rules(store, table)?;
        let checkpoints = self.persistent_checkpoints(store)?;
        let pools: Vec<PoolSpec> =
            now.pools.list().iter().filter(|pool| pool.persistent).cloned().collect();
        let (frontends, backends) =
            (self.frontends(store, is_kept)?, self.backends(store, is_kept).map_err(at_start)?);
        let all_persistent =
            checkpoints.len() == now.checkpoints.len() && pools.len() == now.pools.list().len();
        let sql_targets = self.sql_targets(store, is_kept)?;
        let all_persistent =
            all_persistent && frontends == now.frontends && backends == now.backends;
        let all_persistent = all_persistent && sql_targets == now.sql_targets;
        let left = Left { rules, checkpoints, pools, frontends, backends, sql_targets };
        if (all_persistent && left.rules == now.rules) || self.startable.as_ref() == Some(&left) {
            return Ok(());
        }
        let config = Config {
            rules: left.rules.clone(),
            checkpoints: left.checkpoints.clone(),
            pools: PoolSet::of(left.pools.clone())?,
            // The graph is checked as it is; a part of it has no cycle either.
            resources: current.resources().to_vec(),
            frontends: left.frontends.clone(),
            backends: left.backends.clone(),
            sql_targets: left.sql_targets.clone(),
            ..Config::default()
        };
        self.startable = Some(left);
        Plan::new(current, config).map(drop).map_err(|error| {
            self.startable = None;
            let mut error = ModelError::from(error);
            if error.table == schema::RULE {
                schema::SAVED_RULE.clone_into(&mut error.table);
            }
            at_start(error)
        })
    }

    /// The configuration of the rows.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn config(&mut self, store: &Store) -> Result<Config, ModelError> {
        Ok(Config {
            rules: self.rules(store, self.tables.rule)?,
            checkpoints: self.checkpoints(store)?,
            pools: PoolSet::of(self.pools(store)?)?,
            resources: self.resources(store),
            frontends: self.frontends(store, |_| true)?,
            backends: self.backends(store, |_| true)?,
            sql_targets: self.sql_targets(store, |_| true)?,
            ..Config::default()
        })
    }

    /// Forgets the ids of rows that were deleted long ago, except for resources that are `known` elsewhere: the edit
    /// that deleted them may still be undone.
    pub fn forget_gone(&mut self, store: &Store, known: impl Fn(ResourceId) -> bool) {
        let Tables { pool, checkpoint, resource, backend, server, .. } = self.tables;
        let is_there = |table| move |row: Uuid| store.row(table, row).is_some();
        self.pool_ids.prune(store.row_count(pool), is_there(pool));
        self.checkpoint_ids.prune(store.row_count(checkpoint), is_there(checkpoint));
        let numbers = &self.resource_ids;
        let is_known = |row| numbers.known(row).is_some_and(|number| known(ResourceId(number)));
        let gone: BTreeSet<Uuid> = numbers
            .rows()
            .filter(|row| store.row(resource, *row).is_none() && !is_known(*row))
            .collect();
        self.resource_ids.prune(store.row_count(resource), |row| !gone.contains(&row));
        self.backend_ids.prune(store.row_count(backend), is_there(backend));
        self.server_ids.prune(store.row_count(server), is_there(server));
    }

    /// The rows whose figures differ from the engine's, with the engine's figures.
    #[must_use]
    pub fn figures(&self, figures: &Figures, store: &Store) -> Vec<Put> {
        figures.puts(self.tables, store, |table, row| self.number_of(table, row))
    }

    /// Whether a table has figures.
    #[must_use]
    pub fn has_figures(&self, table: TableId) -> bool {
        let Tables { pool, rule, checkpoint, resource, frontend, backend, server, .. } =
            self.tables;
        [pool, rule, checkpoint, resource, frontend, backend, server].contains(&table)
    }

    /// The engine's id of a row.
    fn number_of(&self, table: TableId, row: Reader<'_>) -> Option<u64> {
        if table == self.tables.rule {
            return row.integer("number").and_then(|number| u64::try_from(number).ok());
        }
        if table == self.tables.pool && row.text("name") == DEFAULT_NAME {
            return Some(u64::from(PoolId::DEFAULT.0));
        }
        let ids = match table {
            _ if table == self.tables.pool => &self.pool_ids,
            _ if table == self.tables.checkpoint => &self.checkpoint_ids,
            _ if table == self.tables.backend => &self.backend_ids,
            _ if table == self.tables.server => &self.server_ids,
            _ => &self.resource_ids,
        };
        ids.known(row.uuid())
    }

    /// The resource of a row.
    #[must_use]
    pub fn resource_of(&self, row: Uuid) -> Option<ResourceId> {
        self.resource_ids.known(row).map(ResourceId)
    }

    /// The row of a resource.
    #[must_use]
    pub fn row_of(&self, resource: ResourceId) -> Option<Uuid> {
        self.resource_ids.row(resource.0)
    }

    fn pools(&mut self, store: &Store) -> Result<Vec<PoolSpec>, ModelError> {
        let ids = &mut self.pool_ids;
        let read = |row: Reader<'_>| pool::read(row, PoolId(ids.of(row.uuid()) as u32));
        let mut pools: Vec<PoolSpec> =
            readers(&self.schema, store, self.tables.pool).map(read).collect::<Result<_, _>>()?;
        pools.sort_by_key(|pool| pool.id);
        Ok(pools)
    }

    fn rules(&self, store: &Store, table: TableId) -> Result<Vec<Rule>, ModelError> {
        let rules = readers(&self.schema, store, table).map(rule::read);
        let mut rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        rules.sort_by_key(|rule| rule.number);
        Ok(rules)
    }

    fn checkpoints(&mut self, store: &Store) -> Result<Vec<Spec>, ModelError> {
        let ids = &mut self.checkpoint_ids;
        let read = |row: Reader<'_>| checkpoint::read(row, CheckpointId(ids.of(row.uuid()) as u32));
        let rows = readers(&self.schema, store, self.tables.checkpoint);
        let mut checkpoints: Vec<Spec> = rows.map(read).collect::<Result<_, _>>()?;
        checkpoints.sort_by_key(|checkpoint| checkpoint.id);
        Ok(checkpoints)
    }

    fn persistent_checkpoints(&mut self, store: &Store) -> Result<Vec<Spec>, ModelError> {
        let rows = readers(&self.schema, store, self.tables.checkpoint);
        let kept: Vec<Reader<'_>> = rows.filter(|row| row.flag("persistent")).collect();
        let ids = &mut self.checkpoint_ids;
        let read = |row: Reader<'_>| checkpoint::read(row, CheckpointId(ids.of(row.uuid()) as u32));
        kept.into_iter().map(read).collect()
    }

    /// The resources of the rows.
    pub fn resources(&mut self, store: &Store) -> Vec<Resource> {
        let rows = || readers(&self.schema, store, self.tables.resource);
        for row in rows() {
            self.resource_ids.of(row.uuid());
        }
        let read = |row| resource::read(row, &self.resource_ids);
        let mut resources: Vec<Resource> = rows().filter_map(read).collect();
        resources.sort_by_key(|resource| resource.id);
        resources
    }
}

/// Whether a row is kept across restarts.
fn is_kept(row: Reader<'_>) -> bool {
    row.flag("persistent")
}

/// An error that would occur only at the next start.
fn at_start(mut error: ModelError) -> ModelError {
    error.message.push_str(" (at the next start, when only what is persistent is left)");
    error
}

pub(crate) fn readers<'a>(
    schema: &'a Schema,
    store: &'a Store,
    table: TableId,
) -> impl Iterator<Item = Reader<'a>> {
    let columns = schema.table(table);
    store.rows(table).map(move |row: &Row| Reader::new(columns, row))
}

#[cfg(test)]
mod tests;
