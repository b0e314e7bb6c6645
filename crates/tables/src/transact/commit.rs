//! The end of a transaction: deferred constraints, garbage and dangling weak references.
//!
//! In this order, as RFC 7047 section 3.2 and the index extension demand: rows that did not really
//! change are forgotten; strong references are checked; unreferenced rows are deleted; row counts
//! are checked; dangling weak references are removed; unique indexes are checked. Any failure puts
//! everything back.

use super::edit::{Edit, Touched};
use crate::changes::{Changes, RowChange};
use crate::error::{Error, tag};
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::store::{Row, Side, Store, reference_atoms, row_uuid};
use crate::value::{Atom, Datum, Symbols};
use paceline_types::Uuid;
use std::sync::Arc;

impl Edit<'_> {
    /// Checks the deferred constraints and answers what changed.
    pub(crate) fn commit(mut self, symbols: &mut Symbols<'_>) -> Result<Changes, Error> {
        self.forget_unchanged();
        let checked = self
            .check_strong_references()
            .and_then(|()| self.check_still_referenced())
            .map(|()| self.collect_first_garbage())
            .and_then(|()| self.check_row_counts())
            .and_then(|()| self.drop_all_dangling(symbols))
            .and_then(|changed| self.settle(changed, symbols))
            .and_then(|()| self.check_indexes());
        match checked {
            Ok(()) => Ok(self.into_changes()),
            Err(error) => self.fail(error),
        }
    }

    /// Forgets rows that came out as they went in, and gives them their old version back.
    fn forget_unchanged(&mut self) {
        if !self.touched.iter().any(|touched| self.is_unchanged(touched)) {
            return;
        }
        let mut kept = Vec::with_capacity(self.touched.len());
        for touched in std::mem::take(&mut self.touched) {
            if self.is_unchanged(&touched) {
                self.store.put(touched.table, touched.uuid, touched.old);
            } else {
                kept.push(touched);
            }
        }
        self.restore_touched(kept);
    }

    fn is_unchanged(&self, touched: &Touched) -> bool {
        match (&touched.old, self.store.row(touched.table, touched.uuid)) {
            (Some(old), Some(new)) => same_content(old, new),
            (None, None) => true,
            _ => false,
        }
    }

    fn check_strong_references(&self) -> Result<(), Error> {
        for touched in &self.touched {
            let Some(new) = self.store.row(touched.table, touched.uuid) else { continue };
            for link in self.store.links(touched.table).iter().filter(|link| link.strong) {
                let value = &new[link.column.index()];
                let before = touched.old.as_ref().map(|old| &old[link.column.index()]);
                if before == Some(value) {
                    continue;
                }
                let (_, come) = link.moved(before.unwrap_or(&Datum::Empty), value);
                for to in come {
                    if self.store.row(link.table, to).is_none() {
                        let schema = self.schema();
                        let table = schema.table(touched.table);
                        return Err(Error::new(
                            tag::REFERENCE,
                            format!(
                                "Table {} column {} row {} references nonexistent row {to} in \
                                 table {}.",
                                table.name,
                                table.column(link.column).name,
                                touched.uuid,
                                schema.table(link.table).name
                            ),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_still_referenced(&self) -> Result<(), Error> {
        for touched in &self.touched {
            let count = self.store.strong_count(touched.table, touched.uuid);
            if count > 0 && self.store.row(touched.table, touched.uuid).is_none() {
                let name = &self.schema().table(touched.table).name;
                let details = format!(
                    "cannot delete {name} row {} because of {count} remaining reference(s)",
                    touched.uuid
                );
                return Err(Error::new(tag::REFERENCE, details));
            }
        }
        Ok(())
    }

    fn collect_first_garbage(&mut self) {
        let mortal = self.touched.iter().filter(|t| !self.schema().table(t.table).is_root);
        let mortal = mortal.map(|touched| (touched.table, touched.uuid)).collect();
        if !self.collect_garbage(mortal).is_empty() {
            // A row that this transaction inserted may be gone again.
            self.forget_unchanged();
        }
    }

    /// Deletes those of `candidates`, and of the rows that lost a reference, that are outside the root set and that
    /// nothing refers to, and what only they referred to. Answers the rows that were deleted.
    fn collect_garbage(&mut self, mut candidates: Vec<(TableId, Uuid)>) -> Vec<(TableId, Uuid)> {
        candidates.extend(self.store.take_unreferenced());
        let mut deleted = Vec::new();
        while let Some((table, uuid)) = candidates.pop() {
            let garbage = !self.schema().table(table).is_root
                && self.store.strong_count(table, uuid) == 0
                && self.store.row(table, uuid).is_some();
            if garbage {
                deleted.push((table, uuid));
                self.put(table, uuid, None);
                candidates.extend(self.store.take_unreferenced());
            }
        }
        deleted
    }

    /// A pair of a map that goes because its weak side dangles may take the last strong reference to
    /// a row with it, whose deletion may make others dangle. Each round looks only at the rows that the one before it has
    /// deleted or changed, so that a chain of such pairs takes time in its length.
    fn settle(
        &mut self,
        mut changed: Vec<(TableId, Uuid)>,
        symbols: &mut Symbols<'_>,
    ) -> Result<(), Error> {
        let mut any = false;
        while self.store.has_unreferenced() {
            let deleted = self.collect_garbage(changed);
            any |= !deleted.is_empty();
            changed = self.drop_dangling(deleted, symbols)?;
        }
        if any {
            self.forget_unchanged();
        }
        Ok(())
    }

    fn check_row_counts(&self) -> Result<(), Error> {
        let schema = self.schema();
        let bounded = |table: &TableId| schema.table(*table).max_rows != u32::MAX;
        for table in self.touched.iter().map(|touched| touched.table).filter(bounded) {
            let (count, most) = (self.store.row_count(table), schema.table(table).max_rows);
            if count > most as usize {
                let details = format!(
                    "transaction causes \"{}\" table to contain {count} rows, greater than the \
                     schema-defined limit of {most} row(s)",
                    schema.table(table).name
                );
                return Err(Error::new(tag::CONSTRAINT, details));
            }
        }
        Ok(())
    }

    fn drop_all_dangling(
        &mut self,
        symbols: &mut Symbols<'_>,
    ) -> Result<Vec<(TableId, Uuid)>, Error> {
        if !self.store.has_weak_columns() {
            return Ok(Vec::new());
        }
        let touched = self.touched.iter().map(|touched| (touched.table, touched.uuid)).collect();
        self.drop_dangling(touched, symbols)
    }

    /// Removes weak references to rows that do not exist, from rows in `touched` and to rows in `touched`. Answers the
    /// rows that had some.
    fn drop_dangling(
        &mut self,
        touched: Vec<(TableId, Uuid)>,
        symbols: &mut Symbols<'_>,
    ) -> Result<Vec<(TableId, Uuid)>, Error> {
        let mut rows: Vec<(TableId, Uuid)> = Vec::new();
        for (table, uuid) in touched {
            if self.store.row(table, uuid).is_some() {
                rows.push((table, uuid));
            } else {
                rows.extend(self.store.weak_referrers(table, uuid));
            }
        }
        rows.sort_unstable();
        rows.dedup();
        let mut changed = Vec::new();
        for (table, uuid) in rows {
            if !self.store.links(table).iter().all(|link| link.strong)
                && self.drop_dangling_of(table, uuid, symbols)?
            {
                changed.push((table, uuid));
            }
        }
        Ok(changed)
    }

    /// Whether the row had weak references to rows that do not exist, which it has no longer.
    fn drop_dangling_of(
        &mut self,
        table: TableId,
        uuid: Uuid,
        symbols: &mut Symbols<'_>,
    ) -> Result<bool, Error> {
        let Some(row) = self.store.row(table, uuid).cloned() else { return Ok(false) };
        let mut changed = row.clone();
        for link in self.store.links(table).iter().filter(|link| !link.strong) {
            let value = &changed[link.column.index()];
            let exists = |to: &Uuid| self.store.row(link.table, *to).is_some();
            if reference_atoms(value, link.side).all(|to| exists(&to)) {
                continue;
            }
            let zero = reference_atoms(value, link.side).any(|to| to == Uuid::ZERO);
            let kept = keep_references(value, link.side, exists);
            let column = self.schema().table(table).column(link.column);
            if kept.len() < column.ty.min as usize {
                let removed = value.len() - kept.len();
                let inserted = self.before(table, uuid).is_some_and(|t| t.old.is_none());
                let table = self.schema().table(table);
                return Err(emptied(table, link.column, uuid, removed, inserted, zero));
            }
            Arc::make_mut(&mut changed)[link.column.index()] = kept;
        }
        let is_changed = !Arc::ptr_eq(&row, &changed);
        if is_changed {
            let version = Datum::One(Atom::Uuid(symbols.fresh()));
            Arc::make_mut(&mut changed)[ColumnId::VERSION.index()] = version;
            self.put(table, uuid, Some(changed));
        }
        Ok(is_changed)
    }

    fn check_indexes(&self) -> Result<(), Error> {
        for touched in &self.touched {
            let Some(row) = self.store.row(touched.table, touched.uuid) else { continue };
            let schema = self.schema().table(touched.table);
            for (index, columns) in schema.indexes.iter().enumerate() {
                let values = Store::project(row, columns);
                let other = self
                    .store
                    .indexed(touched.table, index, &values)
                    .find(|other| row_uuid(other) != touched.uuid);
                if let Some(other) = other {
                    return Err(self.duplicate(touched.table, columns, row, other));
                }
            }
        }
        Ok(())
    }

    /// The error of two rows with the same values in a unique index; it names the table, the
    /// columns and both rows.
    fn duplicate(&self, table: TableId, index: &[ColumnId], a: &Row, b: &Row) -> Error {
        let schema = self.schema().table(table);
        // The greater row comes first, by the columns that do not hold random UUIDs, so that the
        // message is the same whichever row was found first.
        let comparable = |row: &Row| -> Vec<Datum> {
            let plain = schema.columns.iter().zip(row.iter()).filter(|(column, _)| {
                let is_uuid =
                    |base: &crate::schema::BaseType| base.atom == crate::schema::AtomType::Uuid;
                !is_uuid(&column.ty.key) && !column.ty.value.as_ref().is_some_and(is_uuid)
            });
            plain.map(|(_, value)| value.clone()).collect()
        };
        let (first, second) = if comparable(a) < comparable(b) { (b, a) } else { (a, b) };
        let details = format!(
            "Transaction causes multiple rows in \"{}\" table to have identical values ({}) for \
             index on {}.  First row, with UUID {}, {}  Second row, with UUID {}, {}",
            schema.name,
            values_text(schema, index, first),
            columns_text(schema, index),
            row_uuid(first),
            self.history(table, index, first),
            row_uuid(second),
            self.history(table, index, second),
        );
        Error::new(tag::CONSTRAINT, details)
    }

    /// What the transaction did to a row, as far as an index is concerned.
    fn history(&self, table: TableId, index: &[ColumnId], row: &Row) -> String {
        let schema = self.schema().table(table);
        match self.before(table, row_uuid(row)) {
            None => "existed in the database before this transaction and was not modified by the \
                     transaction."
                .to_owned(),
            Some(Touched { old: None, .. }) => "was inserted by this transaction.".to_owned(),
            Some(Touched { old: Some(old), .. }) => {
                if index.iter().all(|column| old[column.index()] == row[column.index()]) {
                    "existed in the database before this transaction, which modified some of the \
                     row's columns but not any columns in this index."
                        .to_owned()
                } else {
                    format!(
                        "had the following index values before the transaction: {}.",
                        values_text(schema, index, old)
                    )
                }
            }
        }
    }

    fn into_changes(self) -> Changes {
        let Self { store, touched, .. } = self;
        let mut rows: Vec<RowChange> = touched
            .into_iter()
            .map(|Touched { table, uuid, old }| {
                let new = store.row(table, uuid).cloned();
                RowChange { table, uuid, old, new }
            })
            .collect();
        rows.sort_by_key(|change| change.table);
        store.take_unreferenced();
        Changes { rows }
    }
}

/// Whether two versions of a row hold the same, their version apart.
fn same_content(old: &Row, new: &Row) -> bool {
    Arc::ptr_eq(old, new)
        || old.iter().zip(new.iter()).skip(ColumnId::FIRST).all(|(old, new)| old == new)
}

/// `value` without the references for which `exists` is false.
fn keep_references(value: &Datum, side: Side, exists: impl Fn(&Uuid) -> bool) -> Datum {
    let good = |atom: &Atom| atom.as_uuid().is_none_or(|to| exists(&to));
    if let Datum::Map(pairs) = value {
        let kept =
            pairs.iter().filter(|(key, value)| good(if side == Side::Key { key } else { value }));
        return Datum::from_sorted_pairs(kept.cloned().collect());
    }
    Datum::from_sorted(value.atoms().iter().filter(|atom| good(atom)).cloned().collect())
}

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

/// The values of the index columns, as an English list.
fn values_text(schema: &TableSchema, index: &[ColumnId], row: &Row) -> String {
    let text = |column: &ColumnId| row[column.index()].to_text(&schema.column(*column).ty);
    english_list(&index.iter().map(text).collect::<Vec<_>>())
}

/// `column "a"`, or `columns "a" and "b"`, or `columns "a", "b", and "c"`.
fn columns_text(schema: &TableSchema, index: &[ColumnId]) -> String {
    let name = |column: &ColumnId| format!("\"{}\"", schema.column(*column).name);
    let names: Vec<String> = index.iter().map(name).collect();
    let word = if names.len() == 1 { "column" } else { "columns" };
    format!("{word} {}", english_list(&names))
}

fn english_list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [most @ .., last] => format!("{}, and {last}", most.join(", ")),
    }
}
