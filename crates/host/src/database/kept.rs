//! Rows of what clients hold: written from what is held, and updated with edits of the resources.
//!
//! A permit's row names its claims by the UUIDs of the resources, and by name where there is no resource. When an edit
//! changes the resources, a holder keeps what it held and gains what its sub-trees gained (C1): its row changes in the
//! record of the edit itself, by the same function that the engine uses. A permit that the engine granted under an
//! earlier graph than the head's is updated in the same way before its row is written.

use super::{Head, Hosted};
use crate::control::{Control, Graphs, Renamed};
use crate::kept::{Keeper, KeptPermit, PermitRow};
use crate::own;
use paceline_claims::{Claimed, Graph, follow};
use paceline_model::{Model, Put};
use paceline_tables::monitor::merge;
use paceline_tables::schema::{ColumnId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Error, Row, Store, row_uuid};
use paceline_types::{Claim, Mode, RequestId, Uuid};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

impl Hosted {
    /// Sets the keeper whose rows are written here.
    pub(crate) fn keep_for(&self, keeper: &Arc<Keeper>) {
        let _ = self.keeper.set(Arc::downgrade(keeper));
    }

    /// Queues outdated rows of what clients hold.
    pub(crate) fn write_kept(self: &Arc<Self>) {
        self.put_kept(&mut self.head());
    }

    /// The same with the head locked. The committer calls it whenever its queue is empty.
    pub(super) fn put_kept(self: &Arc<Self>, head: &mut Head) {
        let Some(keeper) = self.keeper.get().and_then(Weak::upgrade) else { return };
        // If nothing differs, the batch is finished at once, and the next one is taken.
        while let Some(rows) = keeper.take_rows() {
            let schema = Arc::clone(head.database.schema());
            let put = |(table, row)| {
                let table = schema.table_id(table)?;
                let key = if *schema.table(table).name == *own::PERMIT_TABLE {
                    "request"
                } else {
                    "name"
                };
                head.own_put(table, key, row)
            };
            let puts: Vec<Put> = rows.rows.into_iter().filter_map(put).collect();
            let keeper = Arc::clone(&keeper);
            let reserved = rows.reserved;
            let done =
                Box::new(move |outcome: Result<(), Error>| keeper.finish(&outcome, reserved));
            self.put_rows(head, puts, rows.durable, Some(done));
        }
        #[cfg(debug_assertions)]
        if head.queue.is_empty() {
            self.check_kept(head, &keeper);
        }
    }

    /// Asserts that the rows match what is held, if there are few.
    #[cfg(debug_assertions)]
    fn check_kept(&self, head: &Head, keeper: &Keeper) {
        const CHECKED_MAX: usize = 256;
        let schema = head.database.schema();
        let tables = [own::SESSION_TABLE, own::LEASED_LOCK_TABLE, own::PERMIT_TABLE];
        let [Some(sessions), Some(locks), Some(permits)] = tables.map(|t| schema.table_id(t))
        else {
            return;
        };
        let store = head.database.store();
        if [sessions, locks, permits].iter().any(|table| store.row_count(*table) > CHECKED_MAX) {
            return;
        }
        let text = |table, row: &Row, name: &str| {
            let column = schema.table(table).column_id(name);
            let atom = column.and_then(|column| row[column.index()].single());
            atom.and_then(Atom::as_str).unwrap_or_default().to_owned()
        };
        let number = |table, row: &Row, name: &str| {
            let column = schema.table(table).column_id(name);
            let atom = column.and_then(|column| row[column.index()].single());
            atom.and_then(Atom::as_integer).and_then(|n| u64::try_from(n).ok()).unwrap_or_default()
        };
        let lock = |row: &Row| {
            let owner = (text(locks, row, "session"), number(locks, row, "fencing"));
            (text(locks, row, "name"), owner)
        };
        keeper.check(&crate::kept::Held {
            sessions: store.rows(sessions).map(|row| text(sessions, row, "name")).collect(),
            locks: store.rows(locks).map(lock).collect(),
            permits: store.rows(permits).map(|row| number(permits, row, "request")).collect(),
        });
    }

    /// The rows of permits as they are held now; `None` for a permit that is not held.
    pub(crate) fn kept_permits(
        &self,
        control: &Control,
        ids: &[RequestId],
    ) -> Vec<(RequestId, Option<PermitRow>)> {
        match self.planner.get() {
            Some(planner) if !ids.is_empty() => planner.kept_permits(control, ids),
            _ => ids.iter().map(|id| (*id, None)).collect(),
        }
    }

    /// What a permit of an earlier run claims, by the names that resources have now.
    pub(crate) fn claims_of(&self, permit: &KeptPermit) -> Vec<Claim> {
        self.planner.get().map(|planner| planner.claims_of(permit)).unwrap_or_default()
    }

    /// The changes of an edit together with what it does to claims: applied to the head, to be written as one
    /// record.
    pub(super) fn with_claims(
        &self,
        head: &mut Head,
        changes: Arc<Changes>,
        (graphs, renamed): (Option<Graphs>, Renamed),
    ) -> Arc<Changes> {
        let Some(planner) = self.planner.get() else { return changes };
        let puts = planner.rename(head.database.store(), &renamed);
        let changes = with_puts(head, changes, puts);
        let Some(graphs) = graphs else { return changes };
        let puts = planner.follow(head.database.store(), &graphs);
        with_puts(head, changes, puts)
    }
}

/// Applies `puts` to the head, and returns the changes together with theirs.
fn with_puts(head: &mut Head, changes: Arc<Changes>, puts: Vec<Put>) -> Arc<Changes> {
    if puts.is_empty() {
        return changes;
    }
    match head.database.maintain(puts) {
        Ok(claims) => Arc::new(merge([&*changes, &claims])),
        Err(error) => {
            debug_assert!(false, "claims cannot be brought along: {error}");
            tracing::error!(%error, "cannot update the claims of permits after an edit of the resources");
            changes
        }
    }
}

/// The rows of permits that a renamed checkpoint counts, with its new name.
pub(crate) fn renamed_places(model: &Model, store: &Store, renamed: &Renamed) -> Vec<Put> {
    let schema = model.schema();
    let Some(permits) = schema.table_id(own::PERMIT_TABLE) else { return vec![] };
    let Some(column) = schema.table(permits).column_id("checkpoints") else { return vec![] };
    let put = |row: &Row| {
        let names: Vec<&str> = row[column.index()].keys().filter_map(Atom::as_str).collect();
        if !names.iter().any(|name| renamed.contains_key(*name)) {
            return None;
        }
        let now = names.iter().map(|name| renamed.get(*name).map_or(*name, |new| &**new));
        let now: BTreeSet<&str> = now.collect();
        let mut values = row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
        let value = values.get_mut(column.index() - ColumnId::FIRST)?;
        *value = Datum::from_sorted(now.into_iter().map(Atom::string).collect());
        Some((permits, row_uuid(row), Some(values)))
    };
    store.rows(permits).filter_map(put).collect()
}

/// The rows of permits whose claims an edit changes, as they are after the edit.
pub(crate) fn followed(model: &Model, store: &Store, (old, new): &Graphs) -> Vec<Put> {
    let schema = model.schema();
    let Some(permits) = schema.table_id(own::PERMIT_TABLE) else { return vec![] };
    let table = schema.table(permits);
    let put = |row: &Row| {
        let claims = Claims::of(table, row)?;
        let holding: Vec<(Claimed, Mode)> = claims.holding(model);
        if holding.is_empty() {
            return None;
        }
        let after = Claims::from_holding(model, Some(new), &follow((old, new), &holding));
        let mut values = row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
        let is_changed = after.write(table, &mut values)?;
        is_changed.then(|| (permits, row_uuid(row), Some(values)))
    };
    store.rows(permits).filter_map(put).collect()
}

/// The claims of a permit, as in its row.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Resources by their rows.
    pub(crate) resources: Vec<(Uuid, Mode)>,
    /// Names that no resource has.
    pub(crate) names: Vec<(Box<str>, Mode)>,
}

impl Claims {
    pub(crate) fn of(table: &TableSchema, row: &Row) -> Option<Self> {
        let (resources, names) = (table.column_id("resources")?, table.column_id("claims")?);
        Some(crate::kept::read_claims(&row[resources.index()], &row[names.index()]))
    }

    /// The same in the types of the claims crate.
    pub(crate) fn holding(&self, model: &Model) -> Vec<(Claimed, Mode)> {
        let resources = self.resources.iter().map(|(row, mode)| {
            let claimed = match model.resource_of(*row) {
                Some(id) => Claimed::Resource(id),
                // The UUID of an unknown row is a name that no request can claim.
                None => Claimed::Name(row.to_string().into()),
            };
            (claimed, *mode)
        });
        let names = self.names.iter().map(|(name, mode)| (Claimed::Name(name.clone()), *mode));
        resources.chain(names).collect()
    }

    /// The claims held in `graph`, in the types of rows.
    pub(crate) fn from_holding(
        model: &Model,
        graph: Option<&Arc<Graph>>,
        holding: &[(Claimed, Mode)],
    ) -> Self {
        let mut claims = Self { resources: vec![], names: vec![] };
        for (claimed, mode) in holding {
            match claimed {
                Claimed::Resource(id) => match model.row_of(*id) {
                    Some(row) => claims.resources.push((row, *mode)),
                    // No claim may be lost, whatever happened to the row.
                    None => {
                        debug_assert!(false, "a resource of the graph has a row");
                        let name = graph.and_then(|graph| graph.name(*id)).map(Box::from);
                        claims.names.extend(name.map(|name| (name, *mode)));
                    }
                },
                Claimed::Name(name) => claims.names.push((name.clone(), *mode)),
            }
        }
        claims
    }

    /// Writes them into the values of a row. Returns whether that changes it.
    fn write(&self, table: &TableSchema, values: &mut [Datum]) -> Option<bool> {
        let mut is_changed = false;
        let (resources, names) = crate::kept::claims_row(&self.resources, &self.names);
        for (column, datum) in [("resources", resources), ("claims", names)] {
            let place = table.column_id(column)?.index() - ColumnId::FIRST;
            let value = values.get_mut(place)?;
            is_changed |= *value != datum;
            *value = datum;
        }
        Some(is_changed)
    }
}

/// Moves the claims of permits through the graphs that the engine does not use yet, from the engine's to the
/// head's.
pub(crate) fn follow_all(
    graphs: &[Arc<Graph>],
    mut holding: Vec<(Claimed, Mode)>,
) -> Vec<(Claimed, Mode)> {
    for pair in graphs.windows(2) {
        if let [old, new] = pair {
            holding = follow((old, new), &holding);
        }
    }
    holding
}
