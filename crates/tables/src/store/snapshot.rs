//! The content of a database at one moment, readable from any thread while the head moves on.

use super::Row;
use super::table::Chunk;
use crate::schema::{Schema, TableId};
use std::sync::Arc;

/// Rows as they were when the snapshot was taken.
#[derive(Clone, Debug)]
pub struct Snapshot {
    schema: Arc<Schema>,
    tables: Arc<[Vec<Arc<Chunk>>]>,
}

impl Snapshot {
    pub(super) fn new(schema: Arc<Schema>, tables: Vec<Vec<Arc<Chunk>>>) -> Self {
        Self { schema, tables: tables.into() }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The rows of a table.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = &Row> {
        self.rows_from(table, 0).map(|(_, row)| row)
    }

    /// How many rows a table has at most.
    #[must_use]
    pub fn slots(&self, table: TableId) -> usize {
        let chunks = self.tables.get(table.index()).map_or(0, Vec::len);
        chunks * (std::mem::size_of::<Chunk>() / std::mem::size_of::<Option<Row>>())
    }

    /// The rows of a table from slot `first` on, each with its slot, so that a reader can stop and
    /// go on later.
    pub fn rows_from(&self, table: TableId, first: usize) -> impl Iterator<Item = (usize, &Row)> {
        let chunks = self.tables.get(table.index()).map_or(&[][..], Vec::as_slice);
        let per_chunk = std::mem::size_of::<Chunk>() / std::mem::size_of::<Option<Row>>();
        let skip = first / per_chunk;
        chunks
            .iter()
            .enumerate()
            .skip(skip)
            .flat_map(move |(i, chunk)| {
                chunk.iter().enumerate().map(move |(j, row)| (i * per_chunk + j, row))
            })
            .filter_map(
                move |(slot, row)| if slot < first { None } else { Some((slot, row.as_ref()?)) },
            )
    }
}
