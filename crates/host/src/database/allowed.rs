//! Whether a client or caller may read or change what it asks for.
//!
//! Promises that a refusal is the same whatever else is wrong with the request, and that a client whose role can never
//! make a change does not delay others with changes that are undone.

use super::asker::Who;
use super::{CHANGES_NEED, Head, Hosted};
use crate::control::{Consequence, Planned};
use crate::own::LOCK_TABLE;
use paceline_tables::{Changes, Error, Estimate, OpResult, Operations, Transaction};
use paceline_types::Role;
use std::sync::Arc;

/// Why changes of the head are undone.
pub(super) enum Unkept {
    /// The journal's file is broken.
    Broken(Error),
    /// The caller may not make them, or they lead to an invalid configuration.
    Refused(Error),
}

/// What a scan of all operations of a transaction found. A message may have millions of them, so the scan is
/// done before the head is locked.
pub(super) struct Glance {
    operations: usize,
    /// Of the tables that not every viewer may read, the one that the fewest roles may read.
    hidden: Option<(&'static str, Role)>,
    /// Whether the operations name the table of locks.
    pub(super) looks_at_locks: bool,
    /// Whether a client whose role may not change anything inserts a row that no later operation deletes.
    is_refused: bool,
}

impl Unkept {
    pub(super) fn into_error(self) -> Error {
        let (Self::Broken(error) | Self::Refused(error)) = self;
        error
    }
}

impl Hosted {
    /// Checks whether changes of the head can be kept, and adds what they do to claims and to the engine. If
    /// they cannot, they are undone.
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
                // Every refused change triggers another try to replace the broken file.
                self.repair_later();
            }
        })?;
        Ok((self.with_claims(head, changes, (graphs, renamed)), consequence))
    }

    /// Checks whether the caller may change the head like this, and plans what the changes lead to.
    fn judge(&self, head: &Head, who: Who<'_>, changes: &Arc<Changes>) -> Result<Planned, Error> {
        let Some(planner) = self.planner.get() else {
            return self.check_changes(who).map(|()| Planned::default());
        };
        let (need, what) = planner.least_role(changes);
        let checked = self.check_who(who, need, || what);
        checked.map_err(|error| planner.refusal(changes, error))?;
        planner.plan(&head.database, changes, who.name)
    }

    /// Checks that the caller has the role.
    fn check_who(
        &self,
        who: Who<'_>,
        need: Role,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        self.access.check_role(who.name, who.role, need, what)
    }

    /// Scans all operations of a transaction. The head must not be locked.
    pub(super) fn glance(&self, who: Who<'_>, operations: &Transaction) -> Glance {
        let tables = || Operations::from(operations).tables();
        let may_not_change = who.role < Some(CHANGES_NEED) && self.is_writable(who);
        Glance {
            operations: operations.len(),
            hidden: self.most_hidden(tables()),
            looks_at_locks: self.lock_table.is_some() && tables().any(|name| name == LOCK_TABLE),
            is_refused: may_not_change
                && Estimate::surely_changes(operations, &self.schema(), &self.maintained),
        }
    }

    /// Checks that the caller may try these operations; returns the answer if not. A client whose changes would
    /// be refused in any case is refused before it makes them, so that it does not delay others.
    pub(super) fn check_transact(
        &self,
        who: Who<'_>,
        glance: &Glance,
    ) -> Result<(), Vec<OpResult>> {
        self.check_hidden(who, "transact", glance.hidden)
            .map_err(|error| vec![OpResult::Error(error)])?;
        if glance.is_refused {
            self.check_changes(who).map_err(|error| {
                // The error has the position that it would have after the operations.
                vec![OpResult::Nulls(glance.operations), OpResult::Error(error)]
            })?;
        }
        Ok(())
    }

    /// Checks that the role may change anything at all.
    pub(super) fn check_changes(&self, who: Who<'_>) -> Result<(), Error> {
        self.check_who(who, CHANGES_NEED, || format!("transact {}", self.name))
    }

    /// Whether the database can be changed, apart from the caller's role. If not, that is reported before a
    /// missing role.
    pub(super) fn is_writable(&self, who: Who<'_>) -> bool {
        !self.policy.read_only && !who.read_only && !self.name.starts_with('_')
    }

    /// Checks that the caller may read these tables.
    pub(super) fn check_read<'a>(
        &self,
        who: Who<'_>,
        what: &str,
        tables: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        self.check_hidden(who, what, self.most_hidden(tables))
    }

    /// Of the tables that not every viewer may read, the one that the fewest roles may read.
    fn most_hidden<'a>(
        &self,
        tables: impl Iterator<Item = &'a str>,
    ) -> Option<(&'static str, Role)> {
        let hidden = |table: &str| self.hidden.iter().find(|(hidden, _)| table == *hidden);
        tables.filter_map(hidden).max_by_key(|(_, need)| *need).copied()
    }

    /// Checks that the caller may read tables, of which `hidden` is the one that the fewest roles may read.
    fn check_hidden(
        &self,
        who: Who<'_>,
        what: &str,
        hidden: Option<(&'static str, Role)>,
    ) -> Result<(), Error> {
        match hidden {
            Some((table, need)) => self.check_who(who, need, || format!("{what} {table}")),
            None => self.check_who(who, Role::Viewer, || what.to_owned()),
        }
    }
}
