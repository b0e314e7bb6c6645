//! Whether a client or caller may read or change what it asks for.
//!
//! Promises that a refusal is the same whatever else is wrong with the request, and that a client whose role can never
//! make a change does not delay others with changes that are undone.

use super::asker::Who;
use super::{CHANGES_NEED, Head, Hosted};
use crate::control::{Consequence, Planned};
use paceline_tables::{Changes, Error, Estimate, OpResult, Operations, Transaction};
use paceline_types::Role;
use std::sync::Arc;

/// Why changes of the head cannot be kept. They are undone.
pub(super) enum Unkept {
    /// The journal's file is broken.
    Broken(Error),
    /// They may not be made, or mean what cannot work.
    Refused(Error),
}

impl Unkept {
    pub(super) fn into_error(self) -> Error {
        let (Self::Broken(error) | Self::Refused(error)) = self;
        error
    }
}

impl Hosted {
    /// Whether changes of the head can be kept: with what they do to claims, and what they lead to. If not, they are
    /// undone.
    pub(super) fn keep(
        self: &Arc<Self>,
        head: &mut Head,
        who: Who<'_>,
        changes: Arc<Changes>,
    ) -> Result<(Arc<Changes>, Option<Consequence>), Unkept> {
        let judged = match head.broken.clone() {
            Some(error) => Err(Unkept::Broken(error)),
            None => self.judge(head, who, &changes).map_err(Unkept::Refused),
        };
        let Planned { consequence, graphs, renamed } = judged.inspect_err(|unkept| {
            head.undo(&changes);
            if matches!(unkept, Unkept::Broken(_)) {
                // Every refused change is a reason to try again to replace the broken file.
                self.repair_later();
            }
        })?;
        Ok((self.with_claims(head, changes, (graphs, renamed)), consequence))
    }

    /// Whether the caller may change the head like this, and what the changes lead to.
    fn judge(&self, head: &Head, who: Who<'_>, changes: &Arc<Changes>) -> Result<Planned, Error> {
        let Some(planner) = self.planner.get() else {
            return self.check_changes(who).map(|()| Planned::default());
        };
        let (need, what) = planner.least_role(changes);
        let checked = self.check_who(who, need, || what);
        checked.map_err(|error| planner.refusal(changes, error))?;
        planner.plan(&head.database, changes, who.name)
    }

    /// That the caller has the role.
    fn check_who(
        &self,
        who: Who<'_>,
        need: Role,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        self.access.check_role(who.name, who.role, need, what)
    }

    /// That the caller may try these operations; the answer, if not. A client whose changes would be refused in
    /// any case is refused before it makes them, so that it does not delay others.
    pub(super) fn check_transact(
        &self,
        head: &Head,
        who: Who<'_>,
        operations: &Transaction,
    ) -> Result<(), Vec<OpResult>> {
        self.check_read(who, "transact", Operations::from(operations).tables())
            .map_err(|error| vec![OpResult::Error(error)])?;
        let schema = head.database.schema();
        if who.role < Some(CHANGES_NEED)
            && self.is_writable(who)
            && Estimate::surely_changes(operations, schema, &self.maintained)
        {
            self.check_changes(who).map_err(|error| {
                // The error stands where it would after the operations.
                let nothing = (0..operations.len()).map(|_| OpResult::Null);
                nothing.chain([OpResult::Error(error)]).collect::<Vec<_>>()
            })?;
        }
        Ok(())
    }

    /// That the role may change anything at all.
    pub(super) fn check_changes(&self, who: Who<'_>) -> Result<(), Error> {
        self.check_who(who, CHANGES_NEED, || format!("transact {}", self.name))
    }

    /// Whether the caller could change this database if its role may. If not, that is the error it gets first.
    pub(super) fn is_writable(&self, who: Who<'_>) -> bool {
        !self.policy.read_only && !who.read_only && !self.name.starts_with('_')
    }

    /// That the caller may read these tables.
    pub(super) fn check_read<'a>(
        &self,
        who: Who<'_>,
        what: &str,
        tables: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let hidden = |table: &str| self.hidden.iter().find(|(hidden, _)| table == *hidden);
        match tables.filter_map(hidden).max_by_key(|(_, need)| *need) {
            Some((table, need)) => self.check_who(who, *need, || format!("{what} {table}")),
            None => self.check_who(who, Role::Viewer, || what.to_owned()),
        }
    }
}
