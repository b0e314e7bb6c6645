//! The end of a transaction: deferred constraints. Automatic deletions are in `settle.rs`.
//!
//! The order is that of RFC 7047 section 3.2 and the index extension: rows that did not really change are dropped
//! from the changes; strong references are checked; unreferenced rows are deleted; row counts are checked; dangling
//! weak references are removed; unique indexes are checked. Any failure restores everything.

use super::edit::{Edit, Touched};
use super::work::Work;
use crate::changes::{Changes, RowChange};
use crate::error::{Error, tag};
use crate::schema::{ColumnId, TableId, TableSchema};
use crate::store::{Row, Store, row_uuid};
use crate::value::{Datum, Symbols};
use std::sync::Arc;

/// Values of up to this many bytes are compared in the time of a few steps.
const SHORT_BYTES_MAX: usize = 256;

impl Edit<'_> {
    /// Checks the deferred constraints and returns what changed, if that takes no more than `work`.
    pub(crate) fn commit(
        mut self,
        symbols: &mut Symbols<'_>,
        work: &mut Work,
    ) -> Result<Changes, Error> {
        self.forget_unchanged();
        let checked = self
            .check_strong_references()
            .and_then(|()| self.check_still_referenced())
            .and_then(|()| self.collect_first_garbage(symbols, work))
            .and_then(|()| self.check_row_counts())
            .and_then(|()| self.settle(symbols, work))
            .and_then(|()| self.check_indexes(work));
        match checked {
            Ok(()) => Ok(self.into_changes()),
            Err(error) => self.fail(error),
        }
    }

    /// Drops rows whose content did not change from the changes, and restores their old version.
    pub(super) fn forget_unchanged(&mut self) {
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

    fn check_indexes(&self, work: &mut Work) -> Result<(), Error> {
        for touched in &self.touched {
            let Some(row) = self.store.row(touched.table, touched.uuid) else { continue };
            let schema = self.schema().table(touched.table);
            for (index, columns) in schema.indexes.iter().enumerate() {
                // A look-up reads the values, however long they are. If the row had the same values before, then
                // another row that has them now has changed and finds this one.
                let is_kept = |column: &ColumnId| {
                    let at = column.index();
                    touched.old.as_ref().is_some_and(|old| is_plainly_same(&old[at], &row[at]))
                };
                if columns.iter().all(is_kept) {
                    continue;
                }
                let values = Store::project(row, columns);
                work.spend(values.iter().map(|value| value.steps()).sum())?;
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
        // The greater row is named first, compared by the columns that do not hold random UUIDs, so that the
        // message does not depend on which row was found first.
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

/// Whether two values are the same, without reading many bytes.
fn is_plainly_same(old: &Datum, new: &Datum) -> bool {
    let is_short = |value: &Datum| value.memory_within(SHORT_BYTES_MAX).is_some();
    old.shares_memory_with(new) || (is_short(old) && old == new)
}

/// Whether two versions of a row have the same content apart from `_version`.
fn same_content(old: &Row, new: &Row) -> bool {
    Arc::ptr_eq(old, new)
        || old.iter().zip(new.iter()).skip(ColumnId::FIRST).all(|(old, new)| old == new)
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
