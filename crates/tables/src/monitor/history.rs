//! The net effect of several transactions, for a client that receives them as one update.

use super::{Monitor, MonitoredTable};
use crate::changes::{Changes, RowChange};
use crate::schema::{ColumnId, TableId};
use crate::store::Row;
use crate::value::Datum;
use paceline_types::Uuid;
use std::collections::BTreeMap;

/// The net effect of `transactions`, oldest first. Each row appears at most once; rows that were inserted and
/// deleted again do not appear.
#[must_use]
pub fn merge<'a>(transactions: impl IntoIterator<Item = &'a Changes>) -> Changes {
    let mut rows: BTreeMap<(TableId, Uuid), RowChange> = BTreeMap::new();
    for change in transactions.into_iter().flat_map(|changes| &changes.rows) {
        rows.entry((change.table, change.uuid))
            .and_modify(|merged| merged.new.clone_from(&change.new))
            .or_insert_with(|| change.clone());
    }
    let real = |change: &RowChange| change.old.is_some() || change.new.is_some();
    Changes { rows: rows.into_values().filter(real).collect() }
}

/// The net effect of transactions on what one monitor shows, accumulated while its client does not read. Keeps the
/// first and the last value of each column that the monitor looks at, and no values in between.
#[derive(Clone, Debug, Default)]
pub struct Net {
    rows: BTreeMap<(TableId, Uuid), RowChange>,
    memory: usize,
}

impl Net {
    /// Adds a transaction, as far as the monitor looks at it.
    pub fn add(&mut self, seen: &Seen) {
        for change in &seen.0 {
            let mut merged = change.clone();
            if let Some(known) = self.rows.remove(&(change.table, change.uuid)) {
                self.memory -= known.memory();
                merged.old = known.old;
            }
            if merged.old.is_some() || merged.new.is_some() {
                self.memory += merged.memory();
                self.rows.insert((merged.table, merged.uuid), merged);
            }
        }
    }

    /// Bytes of memory this keeps.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// The changes.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes { rows: self.rows.values().cloned().collect() }
    }
}

/// What one monitor looks at in a transaction, shared by all clients with the same monitor: the changes of the
/// tables that it watches, without the values of columns that it does not look at.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<RowChange>);

impl Seen {
    /// What `monitor` looks at in `changes`, if that takes at most `steps`: one for each column of a row. Subtracts
    /// them from `steps`.
    #[must_use]
    pub fn within(steps: &mut usize, monitor: &Monitor, changes: &Changes) -> Option<Self> {
        let mut seen = Vec::new();
        for rows in changes.by_table() {
            let Some((first, monitored)) =
                rows.first().and_then(|first| Some((first, monitor.table(first.table)?)))
            else {
                continue;
            };
            let columns = first.old.as_ref().or(first.new.as_ref()).map_or(0, |row| row.len());
            *steps = steps.checked_sub(rows.len().saturating_mul(columns))?;
            let looks = |at| monitored.looks_at(ColumnId(u16::try_from(at).unwrap_or(u16::MAX)));
            let looks: Vec<bool> = (0..columns).map(looks).collect();
            let only = |row: &Row| -> Row {
                let kept = |(value, looks): (&Datum, &bool)| match looks {
                    true => value.clone(),
                    false => Datum::Empty,
                };
                row.iter().zip(&looks).map(kept).collect()
            };
            seen.extend(rows.iter().map(|change| RowChange {
                table: change.table,
                uuid: change.uuid,
                old: change.old.as_ref().map(only),
                new: change.new.as_ref().map(only),
            }));
        }
        Some(Self(seen))
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.len()
    }
}

impl MonitoredTable {
    /// Whether a column is shown or tested, or is the row's UUID.
    fn looks_at(&self, column: ColumnId) -> bool {
        column == ColumnId::UUID
            || self.condition.tests(column)
            || self.columns.binary_search_by_key(&column, |(known, _)| *known).is_ok()
    }
}
