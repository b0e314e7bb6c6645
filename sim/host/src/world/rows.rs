//! The content of the database.

use super::World;
use crate::model::Graph;
use paceline_host::own;
use paceline_tables::value::Atom;
use paceline_tables::{Row, Snapshot, row_uuid};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// The rows as they are written.
    fn rows(&self) -> Result<Snapshot, String> {
        // The committer must have finished, because this waits for it.
        self.daemon()?.executor.run_jobs();
        self.daemon()?.own.written().map_err(|error| error.to_string())
    }

    /// The resources, the limit and the roles.
    pub(super) fn configured(&self) -> Result<(Graph, u64, BTreeMap<String, String>), String> {
        let rows = self.rows()?;
        let mut graph = Graph::default();
        for row in table(&rows, own::RESOURCE_TABLE) {
            let parents = cell(&rows, own::RESOURCE_TABLE, row, "parents");
            let parents: BTreeSet<String> =
                parents.iter().filter_map(|atom| Some(atom.as_uuid()?.to_string())).collect();
            let name = text(&rows, own::RESOURCE_TABLE, row, "name");
            graph.0.insert(row_uuid(row).to_string(), (name, parents));
        }
        let limit = table(&rows, "Checkpoint").next().and_then(|row| {
            cell(&rows, "Checkpoint", row, "concurrency").first().and_then(Atom::as_integer)
        });
        let roles = table(&rows, "User")
            .map(|row| (text(&rows, "User", row, "name"), text(&rows, "User", row, "role")));
        let roles = roles.collect();
        Ok((graph, limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(0), roles))
    }

    /// The existing tokens.
    pub(super) fn token_rows(&self) -> Result<BTreeSet<String>, String> {
        let rows = self.rows()?;
        Ok(table(&rows, own::TOKEN_TABLE)
            .map(|row| text(&rows, own::TOKEN_TABLE, row, "name"))
            .collect())
    }

    /// The names of sessions, locks and permits that are kept, and waiters of the last run.
    pub(super) fn held_rows(&self) -> Result<Vec<String>, String> {
        let rows = self.rows()?;
        let tables = [own::SESSION_TABLE, own::LEASED_LOCK_TABLE, own::PERMIT_TABLE];
        let waiters = table(&rows, own::WAITER_TABLE).map(|_| "a waiter".to_owned());
        let names = tables
            .into_iter()
            .flat_map(|name| table(&rows, name).map(move |row| (name, row)).collect::<Vec<_>>());
        let names = names.map(|(name, row)| format!("{name} {}", text(&rows, name, row, "name")));
        Ok(names.chain(waiters).collect())
    }
}

fn table<'a>(rows: &'a Snapshot, name: &str) -> Box<dyn Iterator<Item = &'a Row> + 'a> {
    match rows.schema().table_id(name) {
        Some(id) => Box::new(rows.rows(id)),
        None => Box::new(std::iter::empty()),
    }
}

fn cell<'a>(rows: &Snapshot, table: &str, row: &'a Row, column: &str) -> &'a [Atom] {
    let id = rows.schema().table_id(table);
    let column = id.and_then(|id| rows.schema().table(id).column_id(column));
    column.map_or(&[], |column| row[column.index()].atoms())
}

fn text(rows: &Snapshot, table: &str, row: &Row, column: &str) -> String {
    cell(rows, table, row, column).first().and_then(Atom::as_str).unwrap_or_default().to_owned()
}
