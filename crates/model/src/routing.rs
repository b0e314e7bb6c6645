//! The meaning of the rows to the doors: frontends, backends with their servers, and threads for the HTTP door; targets
//! for the SQL door; what viewers see for the API.

use crate::backend;
use crate::error::ModelError;
use crate::frontend;
use crate::ids::Ids;
use crate::model::{Model, readers};
use crate::reader::Reader;
use crate::sql_target;
use paceline_routing::{Backend, Frontend, Server, SqlTarget};
use paceline_tables::Store;
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Model {
    /// The number of threads of the HTTP door, if a row sets it; it does not change while the daemon runs.
    ///
    /// # Errors
    ///
    /// When the row cannot be read.
    pub fn http_threads(&self, store: &Store) -> Result<Option<u32>, ModelError> {
        let row = readers(&self.schema, store, self.tables.http).next();
        row.map_or(Ok(None), |row| row.number("threads"))
    }

    /// Whether viewers see the whole text of requests.
    #[must_use]
    pub fn shows_text(&self, store: &Store) -> bool {
        readers(&self.schema, store, self.tables.api)
            .next()
            .is_some_and(|row| row.flag("show_text"))
    }

    /// The frontends of these rows, by name.
    pub(crate) fn frontends(
        &self,
        store: &Store,
        is_meant: impl Fn(Reader<'_>) -> bool,
    ) -> Result<Vec<Frontend>, ModelError> {
        let rows = readers(&self.schema, store, self.tables.frontend);
        let rows = rows.filter(|row| is_meant(*row));
        let mut frontends: Vec<Frontend> = rows.map(frontend::read).collect::<Result<_, _>>()?;
        frontends.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(frontends)
    }

    /// The targets of the SQL door of these rows, by name.
    pub(crate) fn sql_targets(
        &self,
        store: &Store,
        is_meant: impl Fn(Reader<'_>) -> bool,
    ) -> Result<Vec<SqlTarget>, ModelError> {
        let rows = readers(&self.schema, store, self.tables.sql_target);
        let rows = rows.filter(|row| is_meant(*row));
        let mut targets: Vec<SqlTarget> = rows.map(sql_target::read).collect::<Result<_, _>>()?;
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    /// The backends of these rows, each with its servers.
    pub(crate) fn backends(
        &mut self,
        store: &Store,
        is_meant: impl Fn(Reader<'_>) -> bool,
    ) -> Result<Vec<Backend>, ModelError> {
        let schema = Arc::clone(&self.schema);
        let rows = |table| readers(&schema, store, table).filter(|row| is_meant(*row));
        let mut servers = servers(rows(self.tables.server), &mut self.server_ids)?;
        let mut backends = vec![];
        for row in rows(self.tables.backend) {
            let id = BackendId(self.backend_ids.of(row.uuid()) as u32);
            let mut backend = backend::read(row, id)?;
            let own = servers.remove(&*backend.name).unwrap_or_default();
            backend.servers = own.into_iter().map(|(_, server)| server).collect();
            backend.servers.sort_by_key(|server| server.id);
            backends.push(backend);
        }
        if let Some((row, _)) = servers.values().flatten().next() {
            let message = format!("there is no backend {:?}", row.text("backend"));
            return Err(row.error("backend", message));
        }
        backends.sort_by_key(|backend| backend.id);
        Ok(backends)
    }
}

/// Servers with their rows, by backend.
type ByBackend<'s> = BTreeMap<&'s str, Vec<(Reader<'s>, Server)>>;

fn servers<'s>(
    rows: impl Iterator<Item = Reader<'s>>,
    ids: &mut Ids,
) -> Result<ByBackend<'s>, ModelError> {
    let mut servers = ByBackend::new();
    for row in rows {
        let server = backend::read_server(row, ServerId(ids.of(row.uuid()) as u32))?;
        servers.entry(row.text("backend")).or_default().push((row, server));
    }
    Ok(servers)
}

#[cfg(test)]
mod tests;
