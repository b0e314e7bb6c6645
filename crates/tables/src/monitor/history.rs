//! The net effect of several transactions, for a client that comes back after them.

use crate::changes::{Changes, RowChange};
use crate::schema::TableId;
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
