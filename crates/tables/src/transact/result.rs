//! The results of operations.
//!
//! Selected rows are kept as shared rows and written only when the reply is sent, piece by piece if there are many.

use crate::error::Error;
use crate::json::write_string;
use crate::schema::{ColumnId, Schema, TableId};
use crate::store::{Lookup, Row, Snapshot, row_memory};
use crate::value::Datum;
use hashbrown::hash_map::Entry;
use paceline_types::Uuid;
use std::sync::Arc;

/// The most bytes of one row that are written in a few milliseconds.
const WRITTEN_BYTES_MAX: usize = 1 << 20;

/// The result of one operation.
#[derive(Debug)]
pub enum OpResult {
    /// `{}`
    Empty,
    /// The UUID of an inserted row.
    Uuid(Uuid),
    /// How many rows matched.
    Count(usize),
    /// Selected rows.
    Rows(Selected),
    /// Why it failed.
    Error(Error),
    /// So many operations that do not count: they were not tried, or were undone. A number, because a message may have
    /// millions of operations behind the one that fails.
    Nulls(usize),
}

/// The rows that a `select` found, and the columns it asked for.
#[derive(Debug)]
pub struct Selected {
    schema: Arc<Schema>,
    table: TableId,
    columns: Vec<ColumnId>,
    rows: Vec<Row>,
    /// The snapshot that contains the rows, kept so that its memory is seen to be in use; and the bytes of those
    /// rows that the snapshot does not contain.
    pinned: Option<(Snapshot, usize)>,
}

impl Selected {
    pub(super) fn new(
        schema: Arc<Schema>,
        table: TableId,
        columns: Vec<ColumnId>,
        rows: Vec<Row>,
    ) -> Self {
        Self { schema, table, columns, rows, pinned: None }
    }

    /// Removes rows that are equal to another row in all selected columns.
    pub(super) fn distinct(&mut self) {
        if self.rows.len() < 2 || self.columns.contains(&ColumnId::UUID) {
            return;
        }
        let mut seen: Lookup<Vec<Datum>, ()> = Lookup::new(0);
        let columns = &self.columns;
        self.rows.retain(|row| {
            let values = columns.iter().map(|column| row[column.index()].clone()).collect();
            match seen.entry(values) {
                Entry::Occupied(_) => false,
                Entry::Vacant(place) => {
                    place.insert(());
                    true
                }
            }
        });
    }

    /// Sorts by the given columns.
    pub(super) fn sort(&mut self, by: &[ColumnId]) {
        self.rows.sort_by(|a, b| {
            let (a, b) = (by.iter().map(|c| &a[c.index()]), by.iter().map(|c| &b[c.index()]));
            a.cmp(b)
        });
    }

    /// Keeps the snapshot `content` alive as long as the rows. `is_of` says which rows it contains: a transaction
    /// may select rows and then change them.
    pub fn pin(&mut self, content: Snapshot, is_of: impl Fn(TableId, &Row) -> bool) {
        let others = self.rows.iter().filter(|row| !is_of(self.table, row));
        let beside = others.map(|row| row_memory(row)).sum();
        self.pinned = Some((content, beside));
    }

    /// Bytes of memory of the rows that the kept snapshot does not contain; `None` if no snapshot is kept.
    #[must_use]
    pub fn beside_pinned(&self) -> Option<usize> {
        self.pinned.as_ref().map(|(_, beside)| *beside)
    }

    /// Bytes of memory of the first `count` rows. Counting stops once they are more than `most`.
    #[must_use]
    pub fn memory(&self, count: usize, most: usize) -> usize {
        let mut memory = 0;
        for row in self.rows.iter().take(count) {
            memory += row_memory(row);
            if memory > most {
                break;
            }
        }
        memory
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The selected columns of the row with index `at`, by name.
    pub fn columns(&self, at: usize) -> impl Iterator<Item = (&str, &Datum)> {
        let schema = self.schema.table(self.table);
        let row = self.rows.get(at);
        let named = |column: &ColumnId| (&*schema.column(*column).name, *column);
        row.into_iter().flat_map(move |row| {
            let value = move |(name, column): (_, ColumnId)| (name, &row[column.index()]);
            self.columns.iter().map(named).map(value)
        })
    }

    /// Whether the row with index `at` takes long to write, because it has very large values.
    #[must_use]
    pub fn is_long(&self, at: usize) -> bool {
        let value = |column: &ColumnId| self.rows.get(at)?.get(column.index());
        let shown = self.columns.iter().filter_map(value);
        Datum::all_within(shown, WRITTEN_BYTES_MAX).is_none()
    }

    /// Appends the row with index `at` as a JSON object.
    pub fn write_row(&self, at: usize, out: &mut Vec<u8>) {
        let schema = self.schema.table(self.table);
        out.push(b'{');
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let value = &self.rows[at][column.index()];
            let column = schema.column(*column);
            write_string(column.name.as_bytes(), out);
            out.push(b':');
            value.write(&column.ty, out);
        }
        out.push(b'}');
    }
}

impl OpResult {
    /// How many operations this is the result of.
    #[must_use]
    pub const fn operations(&self) -> usize {
        if let Self::Nulls(count) = self { *count } else { 1 }
    }

    /// Appends the JSON form; of several operations, with commas between them. Use [`Selected::write_row`] to write many
    /// rows in pieces.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => out.extend_from_slice(b"{}"),
            Self::Nulls(count) => {
                for at in 0..*count {
                    let text: &[u8] = if at == 0 { b"null" } else { b",null" };
                    out.extend_from_slice(text);
                }
            }
            Self::Error(error) => error.write(out),
            Self::Uuid(uuid) => {
                out.extend_from_slice(b"{\"uuid\":");
                crate::json::write_uuid(*uuid, out);
                out.push(b'}');
            }
            Self::Count(count) => {
                out.extend_from_slice(b"{\"count\":");
                crate::json::write_integer(i64::try_from(*count).unwrap_or(i64::MAX), out);
                out.push(b'}');
            }
            Self::Rows(selected) => {
                out.extend_from_slice(b"{\"rows\":[");
                for at in 0..selected.rows.len() {
                    if at > 0 {
                        out.push(b',');
                    }
                    selected.write_row(at, out);
                }
                out.extend_from_slice(b"]}");
            }
        }
    }
}
