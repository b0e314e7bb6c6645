//! Whether a client may read or change what it asks for.
//!
//! Promises that a client which may not is refused the same way whatever else is wrong with its request, and
//! that one whose role can never make a change keeps nobody waiting for changes that are undone.

use super::{CHANGES_NEED, Head, Hosted};
use crate::control::Planned;
use crate::session::Session;
use paceline_tables::json::Json;
use paceline_tables::{Changes, Error, Estimate, OpResult};
use paceline_types::Role;
use std::sync::Arc;

/// The tables that operations name.
fn tables_of(operations: &[Json]) -> impl Iterator<Item = &str> {
    operations.iter().filter_map(|operation| operation.as_object()?.get("table")?.as_str())
}

impl Hosted {
    /// Whether a session may change the head like this, and what the changes lead to.
    pub(super) fn judge(
        &self,
        head: &Head,
        session: &Session,
        changes: &Arc<Changes>,
    ) -> Result<Planned, Error> {
        let Some(planner) = self.planner.get() else {
            return self.check_changes(session).map(|()| Planned::default());
        };
        let (need, what) = planner.least_role(changes);
        let checked = self.access.check(session, need, || what);
        checked.map_err(|error| planner.refusal(changes, error))?;
        planner.plan(&head.database, changes, &session.name)
    }

    /// That a session may try these operations; the answer, if not. A client whose changes would be refused in
    /// any case is refused before it makes them, so that it keeps nobody waiting.
    pub(super) fn check_transact(
        &self,
        head: &Head,
        session: &Session,
        operations: &[Json],
    ) -> Result<(), Vec<OpResult>> {
        self.check_read(session, "transact", tables_of(operations))
            .map_err(|error| vec![OpResult::Error(error)])?;
        let schema = head.database.schema();
        if session.role() < Some(CHANGES_NEED)
            && self.is_writable(session)
            && Estimate::surely_changes(operations, schema, &self.maintained)
        {
            self.check_changes(session).map_err(|error| {
                // The error stands where it would after the operations.
                let nothing = operations.iter().map(|_| OpResult::Null);
                nothing.chain([OpResult::Error(error)]).collect::<Vec<_>>()
            })?;
        }
        Ok(())
    }

    /// That the role of a session may change anything at all.
    pub(super) fn check_changes(&self, session: &Session) -> Result<(), Error> {
        self.access.check(session, CHANGES_NEED, || format!("transact {}", self.name))
    }

    /// Whether a session could change this database, if its role may. If not, that is what it hears first.
    pub(super) fn is_writable(&self, session: &Session) -> bool {
        !self.policy.read_only && !session.read_only && !self.name.starts_with('_')
    }

    /// That a session may look at these tables.
    pub(super) fn check_read<'a>(
        &self,
        session: &Session,
        what: &str,
        tables: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let hidden = |table: &str| self.hidden.iter().find(|(hidden, _)| table == *hidden);
        match tables.filter_map(hidden).max_by_key(|(_, need)| *need) {
            Some((table, need)) => self.access.check(session, *need, || format!("{what} {table}")),
            None => self.access.check(session, Role::Viewer, || what.to_owned()),
        }
    }
}
