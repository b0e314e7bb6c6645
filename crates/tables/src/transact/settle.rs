//! Automatic deletions at the end of a transaction: rows that are no longer referred to, and weak references to
//! rows that do not exist.
//!
//! One leads to the other. A pair of a map that is removed because its weak side dangles may hold the last strong
//! reference to a row, and deleting that row may make other references dangle. So this works in rounds, and each
//! round looks only at what the previous round deleted. A row that loses references is stored once, however many
//! rounds remove some of them: the time for a long chain is proportional to its length, wherever its pairs are.

use super::edit::Edit;
use super::work::Work;
use crate::error::{Error, tag};
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::store::{Row, Side, WeakReference};
use crate::value::{Atom, Datum, Symbols};
use paceline_types::Uuid;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

/// Rows that have lost references and are not stored yet, with the columns that lost them.
#[derive(Default)]
struct Losses(BTreeMap<(TableId, Uuid), BTreeMap<ColumnId, Losing>>);

/// A value that loses elements one by one. Their strong references are already released.
struct Losing {
    value: Datum,
    /// The indexes of the elements or pairs that are removed.
    gone: BTreeSet<usize>,
    /// The indexes of pairs by the row that their value refers to; empty until first used.
    by_value: Vec<(Uuid, usize)>,
}

impl Edit<'_> {
    /// Deletes rows outside the root set that are not referred to, among those that the transaction touched or
    /// removed a reference from, and the rows that only they referred to.
    pub(super) fn collect_first_garbage(
        &mut self,
        symbols: &mut Symbols<'_>,
        work: &mut Work,
    ) -> Result<(), Error> {
        let mortal = self.touched.iter().filter(|t| !self.schema().table(t.table).is_root);
        let mortal = mortal.map(|touched| (touched.table, touched.uuid)).collect();
        if !self.collect_garbage(mortal, &mut Losses::default(), symbols, work)?.is_empty() {
            // A row that this transaction inserted may be deleted again.
            self.forget_unchanged();
        }
        Ok(())
    }

    /// Removes weak references to rows that do not exist, and deletes what is lost with them.
    pub(super) fn settle(
        &mut self,
        symbols: &mut Symbols<'_>,
        work: &mut Work,
    ) -> Result<(), Error> {
        if !self.store.has_weak_columns() {
            return Ok(());
        }
        let mut losses = Losses::default();
        let settled = self.settle_in_rounds(&mut losses, symbols, work);
        // The rows must be complete before the transaction is undone, too.
        for (row, columns) in losses.0 {
            self.put_without(row, columns, symbols);
        }
        if settled? {
            self.forget_unchanged();
        }
        Ok(())
    }

    /// Returns whether rows were deleted.
    fn settle_in_rounds(
        &mut self,
        losses: &mut Losses,
        symbols: &mut Symbols<'_>,
        work: &mut Work,
    ) -> Result<bool, Error> {
        let mut any = false;
        let dangling = self.dangling_of_touched(work)?;
        let mut changed = self.drop_references(dangling, losses, work)?;
        while self.store.has_unreferenced() {
            let deleted = self.collect_garbage(changed, losses, symbols, work)?;
            any |= !deleted.is_empty();
            let mut dangling = Vec::new();
            for (table, uuid) in deleted {
                self.add_references_to(table, uuid, &mut dangling, work)?;
            }
            changed = self.drop_references(dangling, losses, work)?;
        }
        Ok(any)
    }

    /// Deletes rows outside the root set that are not referred to, among `candidates` and the rows that lost a
    /// reference, and the rows that only they referred to. Returns the deleted rows.
    fn collect_garbage(
        &mut self,
        mut candidates: Vec<(TableId, Uuid)>,
        losses: &mut Losses,
        symbols: &mut Symbols<'_>,
        work: &mut Work,
    ) -> Result<Vec<(TableId, Uuid)>, Error> {
        candidates.extend(self.store.take_unreferenced());
        let mut deleted = Vec::new();
        while let Some((table, uuid)) = candidates.pop() {
            if self.schema().table(table).is_root || self.store.strong_count(table, uuid) > 0 {
                continue;
            }
            let Some(row) = self.store.row(table, uuid) else { continue };
            work.spend(row_steps(row))?;
            work.spend_times(2, self.store.put_steps(table, uuid, None))?;
            if let Some(columns) = losses.0.remove(&(table, uuid)) {
                self.put_without((table, uuid), columns, symbols);
            }
            deleted.push((table, uuid));
            self.put(table, uuid, None);
            candidates.extend(self.store.take_unreferenced());
        }
        Ok(deleted)
    }

    /// Weak references to rows that do not exist, held by rows that the transaction touched or pointing to such
    /// rows.
    fn dangling_of_touched(&self, work: &mut Work) -> Result<Vec<WeakReference>, Error> {
        let mut dangling = Vec::new();
        for touched in &self.touched {
            let (table, uuid) = (touched.table, touched.uuid);
            let Some(row) = self.store.row(table, uuid) else {
                self.add_references_to(table, uuid, &mut dangling, work)?;
                continue;
            };
            for link in self.store.links(table).iter().filter(|link| !link.strong) {
                let value = &row[link.column.index()];
                let before = touched.old.as_ref().map(|old| &old[link.column.index()]);
                if before.is_some_and(|before| before.shares_memory_with(value)) {
                    // The row it refers to existed before. If it does not exist any more, it was touched.
                    continue;
                }
                work.spend(value.len())?;
                let all = link.references(table, uuid, value);
                dangling.extend(all.filter(|to| self.store.row(to.to_table, to.to).is_none()));
            }
        }
        Ok(dangling)
    }

    fn add_references_to(
        &self,
        table: TableId,
        uuid: Uuid,
        dangling: &mut Vec<WeakReference>,
        work: &mut Work,
    ) -> Result<(), Error> {
        for reference in self.store.weak_references_to(table, uuid) {
            work.spend(1)?;
            dangling.push(reference);
        }
        Ok(())
    }

    /// Removes these references from the rows that hold them. Returns those rows.
    fn drop_references(
        &mut self,
        mut dangling: Vec<WeakReference>,
        losses: &mut Losses,
        work: &mut Work,
    ) -> Result<Vec<(TableId, Uuid)>, Error> {
        work.spend(dangling.len())?;
        dangling.sort_unstable_by_key(|reference| (reference.holder(), reference.to));
        let mut changed = Vec::new();
        for of_one in dangling.chunk_by(|a, b| a.holder() == b.holder()) {
            changed.extend(self.lose(of_one, losses, work)?);
        }
        changed.dedup();
        Ok(changed)
    }

    /// Removes references from the one column of one row that holds them. Returns that row if it still had them.
    fn lose(
        &mut self,
        references: &[WeakReference],
        losses: &mut Losses,
        work: &mut Work,
    ) -> Result<Option<(TableId, Uuid)>, Error> {
        let Some(first) = references.first() else { return Ok(None) };
        let (table, uuid, column) = (first.from_table, first.from, first.column);
        let Some(row) = self.store.row(table, uuid) else { return Ok(None) };
        let losing = match losses.0.entry((table, uuid)).or_default().entry(column) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                // The value is copied, its references are moved, and moved back if the transaction is undone.
                let value = &row[column.index()];
                work.spend(row.len() + 4 * value.steps())?;
                new.insert(Losing::new(value.clone()))
            }
        };
        let mut removed = 0;
        for reference in references {
            for place in losing.places_of(reference.side, reference.to) {
                if losing.gone.insert(place) {
                    removed += 1;
                    self.store.release_pair((table, uuid), column, &losing.value, place);
                }
            }
        }
        work.spend_times(4, removed)?;
        let schema = self.schema().table(table);
        if removed > 0 && losing.left() < schema.column(column).ty.min as usize {
            let inserted = self.before(table, uuid).is_some_and(|t| t.old.is_none());
            let zero = references.iter().any(|reference| reference.to == Uuid::ZERO);
            return Err(emptied(schema, column, uuid, removed, inserted, zero));
        }
        Ok((removed > 0).then_some((table, uuid)))
    }

    /// Stores a row without what it has lost, under a new version.
    fn put_without(
        &mut self,
        (table, uuid): (TableId, Uuid),
        columns: BTreeMap<ColumnId, Losing>,
        symbols: &mut Symbols<'_>,
    ) {
        let Some(mut row) = self.row(table, uuid) else { return };
        let fields = Arc::make_mut(&mut row);
        for (column, losing) in &columns {
            fields[column.index()] = losing.rest();
        }
        fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(symbols.fresh()));
        self.put_released(table, uuid, row, |column| columns.contains_key(&column));
    }
}

impl Losing {
    fn new(value: Datum) -> Self {
        Self { value, gone: BTreeSet::new(), by_value: Vec::new() }
    }

    /// The number of elements or pairs that are left.
    fn left(&self) -> usize {
        self.value.len() - self.gone.len()
    }

    /// The indexes of the elements or pairs that refer to a row on this side.
    fn places_of(&mut self, side: Side, to: Uuid) -> Vec<usize> {
        if side == Side::Key {
            return self.value.place_of(&Atom::Uuid(to)).into_iter().collect();
        }
        if self.by_value.is_empty() {
            let values = self.value.pairs().iter().enumerate();
            self.by_value = values.filter_map(|(at, (_, to))| Some((to.as_uuid()?, at))).collect();
            self.by_value.sort_unstable();
        }
        let start = self.by_value.partition_point(|(known, _)| *known < to);
        let of_row = self.by_value.iter().skip(start).take_while(|(known, _)| *known == to);
        of_row.map(|(_, place)| *place).collect()
    }

    /// The value without the removed elements.
    fn rest(&self) -> Datum {
        fn kept<T: Clone>(elements: &[T], gone: &BTreeSet<usize>) -> Vec<T> {
            let mut gone = gone.iter().copied().peekable();
            let is_kept = |(at, _): &(usize, &T)| gone.next_if_eq(at).is_none();
            elements.iter().enumerate().filter(is_kept).map(|(_, one)| one.clone()).collect()
        }
        match &self.value {
            Datum::Map(pairs) => Datum::from_sorted_pairs(kept(pairs, &self.gone)),
            other => Datum::from_sorted(kept(other.atoms(), &self.gone)),
        }
    }
}

/// The steps that deleting a row takes.
fn row_steps(row: &Row) -> usize {
    row.iter().map(|value| 1 + value.steps()).sum()
}

/// The error for a column that has lost more references than its minimum allows.
fn emptied(
    table: &TableSchema,
    column: ColumnId,
    uuid: Uuid,
    removed: usize,
    inserted: bool,
    zero: bool,
) -> Error {
    let (name, column) = (&table.name, &table.column(column).name);
    let details = if zero && inserted {
        format!(
            "Weak reference column \"{column}\" in \"{name}\" row {uuid} (inserted within this \
             transaction) contained all-zeros UUID (probably as the default value for this \
             column) but deleting this value caused a constraint volation because this column is \
             not allowed to be empty."
        )
    } else {
        let inserted = if inserted { "(inserted within this transaction) " } else { "" };
        format!(
            "Deletion of {removed} weak reference(s) to deleted (or never-existing) rows from \
             column \"{column}\" in \"{name}\" row {uuid} {inserted}caused this column to become \
             empty, but constraints on this column disallow an empty column."
        )
    };
    Error::new(tag::CONSTRAINT, details)
}
