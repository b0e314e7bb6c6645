//! What one transaction changed: rows before and after.
//!
//! The one description of a change that the journal record, the monitors' updates, the undo and
//! the waiting transactions all read.

use crate::schema::{ColumnId, TableId};
use crate::store::{Row, Store};
use crate::value::Datum;
use paceline_types::Uuid;

/// One row that was inserted, deleted or modified.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// Its table.
    pub table: TableId,
    /// Its UUID.
    pub uuid: Uuid,
    /// The row before; `None` if it was inserted.
    pub old: Option<Row>,
    /// The row after; `None` if it was deleted.
    pub new: Option<Row>,
}

impl RowChange {
    /// Whether `column` has another value than before; always true for inserted and deleted rows.
    #[must_use]
    pub fn changed(&self, column: ColumnId) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old[column.index()] != new[column.index()],
            _ => true,
        }
    }

    /// The steps of checking whether `column` has another value than before.
    pub(crate) fn compare_steps(&self, column: ColumnId) -> usize {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => {
                let (old, new) = (&old[column.index()], &new[column.index()]);
                let is_read = old.len() == new.len() && !old.shares_memory_with(new);
                1 + if is_read { old.steps() } else { 0 }
            }
            _ => 1,
        }
    }

    /// Bytes of memory this keeps, including rows that the database has too. Values that both rows share do not
    /// count and are not looked at: the change that removes such a value from the row counts it.
    #[must_use]
    pub fn memory(&self) -> usize {
        let values = |row: &Row| size_of_val::<[Datum]>(row);
        let rows = self.old.as_ref().map_or(0, values) + self.new.as_ref().map_or(0, values);
        let beside: usize = match (&self.old, &self.new) {
            (Some(old), Some(new)) => old
                .iter()
                .zip(new.iter())
                .filter(|(old, new)| !old.shares_memory_with(new))
                .map(|(old, new)| old.memory() + new.memory())
                .sum(),
            (old, new) => old.iter().chain(new).flat_map(|row| row.iter()).map(Datum::memory).sum(),
        };
        size_of::<Self>() + rows + beside
    }

    /// Bytes of both rows, if they are at most `most`. Looks at no more elements than that many bytes have.
    #[must_use]
    pub fn row_bytes_within(&self, most: usize) -> Option<usize> {
        let mut left = most;
        for value in self.old.iter().chain(&self.new).flat_map(|row| row.iter()) {
            left = left.checked_sub(size_of_val(value) + value.memory_within(left)?)?;
        }
        Some(most - left)
    }
}

/// The rows one transaction changed, grouped by table.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The changes, sorted by table.
    pub rows: Vec<RowChange>,
}

impl Changes {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The changes of each table, one slice a table.
    pub fn by_table(&self) -> impl Iterator<Item = &[RowChange]> {
        self.rows.chunk_by(|a, b| a.table == b.table)
    }

    /// Bytes of memory this keeps, including rows that the database has too.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.rows.iter().map(RowChange::memory).sum()
    }

    /// Restores everything as it was before. Later changes must have been undone first.
    pub fn undo(&self, store: &mut Store) {
        for change in self.rows.iter().rev() {
            store.put(change.table, change.uuid, change.old.clone());
        }
        store.take_unreferenced();
    }
}
