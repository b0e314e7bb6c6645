//! The content of a database at one moment, readable from any thread while the head changes.

use super::Row;
use super::slots::Slots;
use crate::schema::{Schema, TableId};
use std::sync::{Arc, Weak};

/// Rows as they were when the snapshot was taken.
#[derive(Clone, Debug)]
pub struct Snapshot {
    schema: Arc<Schema>,
    tables: Arc<[Slots]>,
}

/// A reference to a snapshot that does not keep it alive.
#[derive(Clone, Debug)]
pub struct WeakSnapshot {
    schema: Weak<Schema>,
    tables: Weak<[Slots]>,
}

impl Snapshot {
    pub(super) fn new(schema: Arc<Schema>, tables: impl Iterator<Item = Slots>) -> Self {
        Self { schema, tables: tables.collect() }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The rows of a table.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = &Row> {
        self.tables.get(table.index()).into_iter().flat_map(Slots::rows)
    }

    /// An upper bound of the number of rows in a table.
    #[must_use]
    pub fn slots(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, Slots::len)
    }

    /// The rows of a table from slot `first` on, each with its slot, so that a reader can stop and continue later.
    pub fn rows_from(&self, table: TableId, first: usize) -> impl Iterator<Item = (usize, &Row)> {
        self.tables.get(table.index()).into_iter().flat_map(move |slots| slots.rows_from(first))
    }

    /// Bytes that this keeps in memory and `later`, a later content of the same database, does not.
    #[must_use]
    pub fn memory_beside(&self, later: &Self) -> usize {
        let none = Slots::default();
        let is_same = Arc::ptr_eq(&self.schema, &later.schema);
        let tables = self.tables.iter().enumerate();
        let beside = |at: usize| later.tables.get(at).filter(|_| is_same).unwrap_or(&none);
        size_of::<Slots>() * self.tables.len()
            + tables.map(|(at, slots)| slots.memory_beside(beside(at))).sum::<usize>()
    }

    /// A reference that does not keep the snapshot alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakSnapshot {
        let (schema, tables) = (Arc::downgrade(&self.schema), Arc::downgrade(&self.tables));
        WeakSnapshot { schema, tables }
    }
}

impl WeakSnapshot {
    /// The snapshot, if it is still alive.
    #[must_use]
    pub fn upgrade(&self) -> Option<Snapshot> {
        Some(Snapshot { schema: self.schema.upgrade()?, tables: self.tables.upgrade()? })
    }

    /// Whether the snapshot is still alive.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.tables.strong_count() > 0
    }
}
