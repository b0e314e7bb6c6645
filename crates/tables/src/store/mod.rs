//! The rows of a database, and everything derived from them.
//!
//! Owns the head: rows by slot, the UUID and unique indexes, the counts of strong references and the list of weak
//! ones. Every change uses [`Store::put`], which keeps all of these consistent, so that a change is undone by
//! putting the old row back. Rows are shared: a [`Snapshot`] costs one pointer per 16,384 rows, and later changes
//! copy only what they touch.

mod index;
mod links;
mod lookup;
mod sharing;
mod slots;
mod snapshot;
mod table;

pub(crate) use links::{Side, WeakReference};
pub(crate) use lookup::Lookup;
pub use snapshot::{Snapshot, WeakSnapshot};

use crate::schema::{ColumnId, Schema, TableId};
use crate::value::Datum;
use links::{Links, reference_at};
use paceline_types::Uuid;
use sharing::Sharing;
use std::collections::BTreeSet;
use std::sync::Arc;
use table::Table;

/// One row: the values of all columns, `_uuid` and `_version` first. Immutable and shared.
pub type Row = Arc<[Datum]>;

/// The UUID of a row.
#[must_use]
pub fn row_uuid(row: &[Datum]) -> Uuid {
    match row.first() {
        Some(Datum::One(atom)) => atom.as_uuid().unwrap_or(Uuid::ZERO),
        _ => Uuid::ZERO,
    }
}

/// Bytes of memory that the values of a row take.
#[must_use]
pub fn row_memory(row: &[Datum]) -> usize {
    row.iter().map(|value| size_of_val(value) + value.memory()).sum()
}

/// The head of a database.
#[derive(Debug)]
pub struct Store {
    schema: Arc<Schema>,
    tables: Vec<Table>,
    links: Vec<Links>,
    /// How many strong references point to a row, whether or not the row exists; rows with none
    /// have no entry. A row's references to itself do not count.
    strong: Lookup<(TableId, Uuid), u32>,
    /// Every weak reference, by the row it points to.
    weak: BTreeSet<WeakReference>,
    /// Rows whose last strong reference was removed since [`Store::take_unreferenced`].
    unreferenced: Vec<(TableId, Uuid)>,
    sharing: Sharing,
    has_weak_columns: bool,
}

impl Store {
    /// An empty database of this schema; `hash_seed` keys the hash tables.
    #[must_use]
    pub fn new(schema: Arc<Schema>, hash_seed: u64) -> Self {
        let tables = schema.tables.iter().map(|table| Table::new(table, hash_seed)).collect();
        let links: Vec<Links> = schema.tables.iter().map(Links::new).collect();
        let has_weak_columns = links.iter().flat_map(Links::iter).any(|link| !link.strong);
        Self {
            schema,
            tables,
            links,
            strong: Lookup::new(hash_seed),
            weak: BTreeSet::new(),
            unreferenced: Vec::new(),
            sharing: Sharing::new(hash_seed),
            has_weak_columns,
        }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The row with this UUID.
    #[must_use]
    pub fn row(&self, table: TableId, uuid: Uuid) -> Option<&Row> {
        self.tables[table.index()].row(uuid)
    }

    /// The rows of a table, in no order a client may rely on.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = &Row> {
        self.tables[table.index()].rows()
    }

    /// How many rows a table has.
    #[must_use]
    pub fn row_count(&self, table: TableId) -> usize {
        self.tables[table.index()].len()
    }

    /// How many slots a table has. All of them are looked at to find every row.
    pub(crate) fn slots(&self, table: TableId) -> usize {
        self.tables[table.index()].slots()
    }

    /// The rows that have `values` in the columns of unique index number `index`. In the middle of
    /// a transaction there may be more than one.
    pub fn indexed<'a>(
        &'a self,
        table: TableId,
        index: usize,
        values: &'a [&'a Datum],
    ) -> impl Iterator<Item = &'a Row> {
        let columns = &self.schema.table(table).indexes[index];
        self.tables[table.index()].indexed(index, columns, values)
    }

    /// How many strong references other rows hold to this row.
    #[must_use]
    pub fn strong_count(&self, table: TableId, uuid: Uuid) -> u32 {
        self.strong.get(&(table, uuid)).copied().unwrap_or(0)
    }

    /// The rows that hold a weak reference to this row, each once.
    #[must_use]
    pub fn weak_referrers(&self, table: TableId, uuid: Uuid) -> Vec<(TableId, Uuid)> {
        let references = self.weak_references_to(table, uuid);
        let mut referrers: Vec<_> = references.map(|weak| (weak.from_table, weak.from)).collect();
        referrers.dedup();
        referrers
    }

    /// The weak references to this row.
    pub(crate) fn weak_references_to(
        &self,
        table: TableId,
        uuid: Uuid,
    ) -> impl Iterator<Item = WeakReference> + '_ {
        self.weak.range(WeakReference::all_to(table, uuid)).copied()
    }

    /// Whether any table has a column with weak references.
    pub(crate) fn has_weak_columns(&self) -> bool {
        self.has_weak_columns
    }

    /// Which columns of a table hold references.
    pub(crate) fn links(&self, table: TableId) -> &Links {
        &self.links[table.index()]
    }

    /// Whether [`Store::take_unreferenced`] has something to return.
    pub(crate) fn has_unreferenced(&self) -> bool {
        !self.unreferenced.is_empty()
    }

    /// The rows whose last strong reference was removed since the last call.
    pub(crate) fn take_unreferenced(&mut self) -> Vec<(TableId, Uuid)> {
        std::mem::take(&mut self.unreferenced)
    }

    /// Replaces the row with this UUID by `new`, or removes it. Returns the previous row.
    pub fn put(&mut self, table: TableId, uuid: Uuid, new: Option<Row>) -> Option<Row> {
        self.put_released(table, uuid, new, |_| false)
    }

    /// The steps of updating what is derived from a row when `new` replaces it: references, and entries of indexes.
    pub(crate) fn put_steps(&self, table: TableId, uuid: Uuid, new: Option<&[Datum]>) -> usize {
        let (links, indexes) = (self.links(table), &self.schema.table(table).indexes);
        if links.is_empty() && indexes.is_empty() {
            return 0;
        }
        let old = self.row(table, uuid);
        let steps = |column: ColumnId| {
            let old = old.map(|row| &row[column.index()]);
            match (old, new.map(|row| &row[column.index()])) {
                (Some(old), Some(new)) if old.shares_memory_with(new) => 0,
                (old, new) => old.map_or(0, Datum::steps) + new.map_or(0, Datum::steps),
            }
        };
        let linked = links.iter().map(|link| link.column);
        linked.chain(indexes.iter().flatten().copied()).map(steps).sum()
    }

    /// Releases the strong references of the pair at `place` in the value of a column. [`Store::put_released`]
    /// stores the row without the pair later.
    pub(crate) fn release_pair(
        &mut self,
        (table, uuid): (TableId, Uuid),
        column: ColumnId,
        value: &Datum,
        place: usize,
    ) {
        let links = std::mem::take(&mut self.links[table.index()]);
        for link in links.iter().filter(|link| link.strong && link.column == column) {
            let to = reference_at(value, link.side, place);
            let is_other = |to: &Uuid| link.table != table || *to != uuid;
            if let Some(to) = to.filter(is_other) {
                self.release(link.table, to);
            }
        }
        self.links[table.index()] = links;
    }

    /// Like [`Store::put`], for a row whose strong references are already released in the columns for which
    /// `is_released` returns true, as far as `new` no longer has them.
    pub(crate) fn put_released(
        &mut self,
        table: TableId,
        uuid: Uuid,
        mut new: Option<Row>,
        is_released: impl Fn(ColumnId) -> bool,
    ) -> Option<Row> {
        let rows = &mut self.tables[table.index()];
        let slot = rows.slot_of(uuid);
        // A row that is not shared yet is a new one.
        if let Some(fields) = new.as_mut().and_then(Arc::get_mut) {
            let old = slot.and_then(|slot| rows.row_at(slot));
            self.sharing.share_row(fields, old.map(|row| &**row));
        }
        let has_links = !self.links[table.index()].is_empty();
        let kept = if has_links { new.clone() } else { None };
        let old = rows.put(self.schema.table(table), (uuid, slot), new);
        if has_links {
            let rows = (old.as_deref(), kept.as_deref());
            self.move_references(table, uuid, rows, is_released);
        }
        old
    }

    fn move_references(
        &mut self,
        table: TableId,
        uuid: Uuid,
        (old, new): (Option<&[Datum]>, Option<&[Datum]>),
        is_released: impl Fn(ColumnId) -> bool,
    ) {
        let links = std::mem::take(&mut self.links[table.index()]);
        for link in links.iter().filter(|link| !(link.strong && is_released(link.column))) {
            let value = |row: Option<&[Datum]>| {
                row.and_then(|row| row.get(link.column.index())).cloned().unwrap_or_default()
            };
            let (old, new) = (value(old), value(new));
            if old == new {
                continue;
            }
            let (gone, come) = link.moved(&old, &new);
            if link.strong {
                let is_other = |to: &&Uuid| link.table != table || **to != uuid;
                gone.iter().filter(is_other).for_each(|to| self.release(link.table, *to));
                for to in come.iter().filter(is_other) {
                    *self.strong.entry((link.table, *to)).or_insert(0) += 1;
                }
            } else {
                let weak = |to: Uuid| link.weak(table, uuid, to);
                for to in gone {
                    self.weak.remove(&weak(to));
                }
                self.weak.extend(come.into_iter().map(weak));
            }
        }
        self.links[table.index()] = links;
    }

    fn release(&mut self, table: TableId, uuid: Uuid) {
        let key = (table, uuid);
        let Some(count) = self.strong.get_mut(&key) else { return };
        *count -= 1;
        if *count == 0 {
            self.strong.remove(&key);
            self.unreferenced.push(key);
        }
    }

    /// The current content, which can be read while the head keeps changing.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.schema.clone(), self.tables.iter().map(Table::share))
    }

    /// The values of the given columns of a row.
    pub(crate) fn project<'a>(row: &'a [Datum], columns: &[ColumnId]) -> Vec<&'a Datum> {
        columns.iter().map(|column| &row[column.index()]).collect()
    }
}
