//! The net effect of several transactions, for a client that hears of them together.

use super::Monitor;
use crate::changes::{Changes, RowChange};
use crate::schema::{ColumnId, TableId};
use crate::store::Row;
use crate::value::Datum;
use paceline_types::Uuid;
use std::collections::BTreeMap;

/// The net effect of `transactions`, oldest first: each row at most once, rows that came and went
/// not at all.
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

/// The net effect of transactions on what one monitor shows, taken in one after the other while its client
/// does not read. Keeps the first and the last value of each column that the monitor looks at, and nothing
/// in between.
#[derive(Clone, Debug, Default)]
pub struct Net {
    rows: BTreeMap<(TableId, Uuid), RowChange>,
    memory: usize,
}

impl Net {
    /// Takes in a transaction, as far as `monitor` looks at it.
    pub fn add(&mut self, monitor: &Monitor, changes: &Changes) {
        for change in monitor.seen(changes) {
            let merged = match self.rows.remove(&(change.table, change.uuid)) {
                Some(known) => {
                    self.memory -= known.memory();
                    RowChange { old: known.old, ..change }
                }
                None => change,
            };
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

impl Monitor {
    /// The changes of tables that it watches, without the values of columns that it does not look at.
    fn seen<'a>(&'a self, changes: &'a Changes) -> impl Iterator<Item = RowChange> + 'a {
        changes.rows.iter().filter_map(|change| {
            let monitored = self.table(change.table)?;
            let looks = |column: ColumnId| {
                column == ColumnId::UUID
                    || monitored.condition.tests(column)
                    || monitored.columns.binary_search_by_key(&column, |(known, _)| *known).is_ok()
            };
            let only = |row: &Row| -> Row {
                let kept = |(at, value): (usize, &Datum)| {
                    let column = ColumnId(u16::try_from(at).unwrap_or(u16::MAX));
                    if looks(column) { value.clone() } else { Datum::Empty }
                };
                row.iter().enumerate().map(kept).collect()
            };
            let (old, new) = (change.old.as_ref().map(only), change.new.as_ref().map(only));
            Some(RowChange { table: change.table, uuid: change.uuid, old, new })
        })
    }
}
