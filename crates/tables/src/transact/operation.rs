//! Operations as values, in the terms of a schema.
//!
//! [`Operation`] is what is executed, whatever its origin. The JSON of an OVSDB client is parsed into one when its
//! turn comes (`written.rs`). A caller in the process builds a [`Transaction`] of them without a text. Promises
//! that a value which does not fit its column is refused with the same message as in JSON, when the operation's
//! turn comes, so that a transaction fails at the same operation whichever way it was made.

use super::estimate::Outline;
use super::gather::Mutations;
use super::operations::default_row;
use super::written::immutable_in;
use crate::condition::{Clause, Condition, Function};
use crate::error::{Error, tag};
use crate::json::Json;
use crate::schema::{ColumnId, Schema, TableId, TableSchema};
use crate::value::Datum;
use paceline_types::Uuid;
use std::sync::Arc;

/// One operation, checked against the schema.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Inserts a row. `row` has all columns; `named` are the columns that were given.
    Insert { table: TableId, uuid: Option<Uuid>, row: Vec<Datum>, named: Vec<ColumnId> },
    /// Reads rows.
    Select {
        table: TableId,
        condition: Condition,
        columns: Vec<ColumnId>,
        sort: Option<Vec<ColumnId>>,
    },
    /// Sets the columns `named` to the values in `row`.
    Update { table: TableId, condition: Condition, row: Vec<Datum>, named: Vec<ColumnId> },
    /// Changes columns based on their current values.
    Mutate { table: TableId, condition: Condition, mutations: Mutations },
    /// Deletes rows.
    Delete { table: TableId, condition: Condition },
    /// Continues when the rows found are, or are not, the expected ones.
    Wait {
        table: TableId,
        condition: Condition,
        columns: Vec<ColumnId>,
        expected: Vec<Vec<Datum>>,
        until_equal: bool,
        timeout_ms: Option<u64>,
    },
    /// Requests that the reply is sent when the transaction is on disk.
    Commit { durable: bool },
    /// Fails the transaction.
    Abort,
    /// Adds a line to the transaction's record.
    Comment(Box<str>),
    /// Fails the transaction unless the client owns the lock.
    Assert { lock: Box<str> },
}

impl Operation {
    /// Its name in the protocol.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Commit { .. } => "commit",
            Self::Abort => "abort",
            Self::Comment(_) => "comment",
            Self::Assert { .. } => "assert",
        }
    }

    /// The table it looks at or changes.
    pub(super) const fn table(&self) -> Option<TableId> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(*table),
            _ => None,
        }
    }

    /// Which rows it looks at.
    pub(super) const fn condition(&self) -> Option<&Condition> {
        match self {
            Self::Select { condition, .. }
            | Self::Update { condition, .. }
            | Self::Mutate { condition, .. }
            | Self::Delete { condition, .. }
            | Self::Wait { condition, .. } => Some(condition),
            _ => None,
        }
    }

    /// Whether it changes rows.
    pub(super) const fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Insert { .. } | Self::Update { .. } | Self::Mutate { .. } | Self::Delete { .. }
        )
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        let of_row =
            |row: &[Datum]| size_of_val(row) + row.iter().map(Datum::memory).sum::<usize>();
        let given = match self {
            Self::Insert { row, .. } | Self::Update { row, .. } => of_row(row),
            Self::Wait { expected, .. } => expected.iter().map(|row| of_row(row)).sum(),
            Self::Comment(text) | Self::Assert { lock: text } => text.len(),
            _ => 0,
        };
        size_of::<Self>() + given + self.condition().map_or(0, Condition::memory)
    }

    /// The steps of preparing it, which equal those of parsing the same operation as text.
    pub(super) fn steps(&self) -> usize {
        let expected = match self {
            Self::Wait { expected, .. } => 2 * expected.iter().map(Vec::len).sum::<usize>(),
            _ => 0,
        };
        expected + super::work::steps_of(self.memory())
    }
}

/// The operations of one transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    source: Source,
    outline: Outline,
}

#[derive(Clone, Debug)]
enum Source {
    /// As an OVSDB client wrote them.
    Written(Vec<Json>),
    /// Built in the process.
    Made(Made),
}

/// Operations that were built in the process, with the error of each that cannot be run.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    schema: Arc<Schema>,
    operations: Vec<Result<Operation, Error>>,
}

/// The operations of a transaction, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'a> {
    source: Borrowed<'a>,
    outline: Outline,
}

#[derive(Clone, Copy, Debug)]
enum Borrowed<'a> {
    Written(&'a [Json]),
    Made(&'a Made),
}

/// One operation of a transaction, in its original form.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Written(&'a Json),
    Made(Result<&'a Operation, &'a Error>),
}

/// A comparison that a row must pass: the column, the function and the argument.
pub type Test<'a> = (&'a str, Function, Datum);

impl Transaction {
    /// An empty transaction on a database of this schema.
    #[must_use]
    pub fn on(schema: &Arc<Schema>) -> Self {
        let made = Made { schema: Arc::clone(schema), operations: Vec::new() };
        Self { source: Source::Made(made), outline: Outline::NONE }
    }

    /// Inserts a row with these columns; others have their defaults.
    #[must_use]
    pub fn insert<'a>(
        self,
        table: &str,
        columns: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Self {
        self.with(|schema| {
            let table = find_table(schema, table)?;
            let (row, named) = fitted_row(schema.table(table), columns)?;
            Ok(Operation::Insert { table, uuid: None, row, named })
        })
    }

    /// The same for a row with this UUID, which other operations of the transaction may refer to.
    #[must_use]
    pub fn insert_as<'a>(
        self,
        table: &str,
        uuid: Uuid,
        columns: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Self {
        self.with(|schema| {
            let table = find_table(schema, table)?;
            let (row, named) = fitted_row(schema.table(table), columns)?;
            Ok(Operation::Insert { table, uuid: Some(uuid), row, named })
        })
    }

    /// Selects the rows that pass all `tests`.
    #[must_use]
    pub fn select<'a>(self, table: &str, tests: impl IntoIterator<Item = Test<'a>>) -> Self {
        self.with(|schema| {
            let table = find_table(schema, table)?;
            let condition = fitted_condition(schema.table(table), tests)?;
            let columns = schema.table(table).column_ids().collect();
            Ok(Operation::Select { table, condition, columns, sort: None })
        })
    }

    /// Sets columns of the rows that pass all `tests`.
    #[must_use]
    pub fn update<'a, 'b>(
        self,
        table: &str,
        tests: impl IntoIterator<Item = Test<'a>>,
        columns: impl IntoIterator<Item = (&'b str, Datum)>,
    ) -> Self {
        self.with(|schema| {
            let table = find_table(schema, table)?;
            let (row, named) = fitted_row(schema.table(table), columns)?;
            if let Some(details) = immutable_in(schema.table(table), &named) {
                return Err(Error::new(tag::CONSTRAINT, details));
            }
            let condition = fitted_condition(schema.table(table), tests)?;
            Ok(Operation::Update { table, condition, row, named })
        })
    }

    /// Deletes the rows that pass all `tests`.
    #[must_use]
    pub fn delete<'a>(self, table: &str, tests: impl IntoIterator<Item = Test<'a>>) -> Self {
        self.with(|schema| {
            let table = find_table(schema, table)?;
            let condition = fitted_condition(schema.table(table), tests)?;
            Ok(Operation::Delete { table, condition })
        })
    }

    /// Fails with [`tag::TIMED_OUT`] unless the rows that pass all `tests` equal the expected ones in `columns`.
    #[must_use]
    pub fn expect<'a, 'b, 'c, R: IntoIterator<Item = (&'c str, Datum)>>(
        self,
        table: &str,
        tests: impl IntoIterator<Item = Test<'a>>,
        columns: impl IntoIterator<Item = &'b str>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        self.with(|schema| {
            let id = find_table(schema, table)?;
            let table = schema.table(id);
            let condition = fitted_condition(table, tests)?;
            let columns = columns.into_iter().map(|name| find_column(table, name));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let rows = rows.into_iter().map(|row| Ok(fitted_row(table, row)?.0));
            let expected = rows.collect::<Result<Vec<_>, Error>>()?;
            let (until_equal, timeout_ms) = (true, Some(0));
            Ok(Operation::Wait { table: id, condition, columns, expected, until_equal, timeout_ms })
        })
    }

    /// Requests that the reply is sent when the transaction is on disk.
    #[must_use]
    pub fn durable(self) -> Self {
        self.with(|_| Ok(Operation::Commit { durable: true }))
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        Operations::from(self).len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operations as an OVSDB client wrote them; `None` if they were built in the process.
    #[must_use]
    pub fn written(&self) -> Option<&[Json]> {
        match &self.source {
            Source::Written(operations) => Some(operations),
            Source::Made(_) => None,
        }
    }

    /// Bytes of memory held.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.outline.memory
    }

    fn with(mut self, make: impl FnOnce(&Schema) -> Result<Operation, Error>) -> Self {
        if let Source::Made(Made { schema, operations }) = &mut self.source {
            let made = make(schema);
            self.outline = self.outline.and(Item::Made(made.as_ref()));
            operations.push(made);
        }
        self
    }
}

impl From<Vec<Json>> for Transaction {
    fn from(operations: Vec<Json>) -> Self {
        let outline = Outline::of(operations.iter().map(Item::Written));
        Self { source: Source::Written(operations), outline }
    }
}

impl<'a> From<&'a Transaction> for Operations<'a> {
    fn from(transaction: &'a Transaction) -> Self {
        let source = match &transaction.source {
            Source::Written(operations) => Borrowed::Written(operations),
            Source::Made(made) => Borrowed::Made(made),
        };
        Self { source, outline: transaction.outline }
    }
}

impl<'a> From<&'a [Json]> for Operations<'a> {
    fn from(operations: &'a [Json]) -> Self {
        let outline = Outline::of(operations.iter().map(Item::Written));
        Self { source: Borrowed::Written(operations), outline }
    }
}

impl<'a> From<&'a Vec<Json>> for Operations<'a> {
    fn from(operations: &'a Vec<Json>) -> Self {
        operations.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [Json; N]> for Operations<'a> {
    fn from(operations: &'a [Json; N]) -> Self {
        operations.as_slice().into()
    }
}

impl<'a> Operations<'a> {
    /// The names of the tables that the operations look at or change.
    pub fn tables(self) -> impl Iterator<Item = &'a str> {
        self.items().filter_map(move |item| self.table_of(item))
    }

    /// The names of the tables that the operations select rows from.
    pub fn selected_tables(self) -> impl Iterator<Item = &'a str> {
        let selects = |item: &Item<'_>| item.word() == Some("select");
        self.items().filter(selects).filter_map(move |item| self.table_of(item))
    }

    fn table_of(self, item: Item<'a>) -> Option<&'a str> {
        match (item, self.source) {
            (Item::Written(json), _) => json.as_object()?.get("table")?.as_str(),
            (Item::Made(made), Borrowed::Made(Made { schema, .. })) => {
                Some(&*schema.table(made.ok()?.table()?).name)
            }
            _ => None,
        }
    }

    /// The number of operations.
    #[must_use]
    pub fn len(self) -> usize {
        match self.source {
            Borrowed::Written(operations) => operations.len(),
            Borrowed::Made(made) => made.operations.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// What they ask for.
    pub(super) const fn outline(self) -> Outline {
        self.outline
    }

    /// The operations one by one.
    pub(super) fn items(self) -> impl Iterator<Item = Item<'a>> {
        let (written, made): (&[Json], &[Result<Operation, Error>]) = match self.source {
            Borrowed::Written(operations) => (operations, &[]),
            Borrowed::Made(made) => (&[], &made.operations),
        };
        let made = made.iter().map(|made| Item::Made(made.as_ref()));
        written.iter().map(Item::Written).chain(made)
    }

    /// Whether these operations can be run on rows of this schema.
    pub(super) fn is_on(self, schema: &Arc<Schema>) -> bool {
        match self.source {
            Borrowed::Written(_) => true,
            Borrowed::Made(made) => Arc::ptr_eq(&made.schema, schema),
        }
    }
}

fn find_table(schema: &Schema, name: &str) -> Result<TableId, Error> {
    let unknown = || Error::new(tag::SYNTAX, format!("No table named {name}."));
    schema.table_id(name).ok_or_else(unknown)
}

fn find_column(table: &TableSchema, name: &str) -> Result<ColumnId, Error> {
    table.column_id(name).ok_or_else(|| {
        Error::new("unknown column", format!("No column {name} in table {}.", table.name))
    })
}

/// A row with all columns, and the columns that were given.
fn fitted_row<'a>(
    table: &TableSchema,
    columns: impl IntoIterator<Item = (&'a str, Datum)>,
) -> Result<(Vec<Datum>, Vec<ColumnId>), Error> {
    let (mut row, mut named) = (default_row(table), Vec::new());
    for (name, value) in columns {
        let id = find_column(table, name)?;
        let ty = &table.column(id).ty;
        row[id.index()] = value.fitted(ty, (ty.min, ty.max))?;
        named.push(id);
    }
    Ok((row, named))
}

fn fitted_condition<'a>(
    table: &TableSchema,
    tests: impl IntoIterator<Item = Test<'a>>,
) -> Result<Condition, Error> {
    let clause = |(name, function, argument)| {
        let column = find_column(table, name)?;
        Clause::new(column, &table.column(column).ty, function, argument)
    };
    Ok(Condition::all_of(tests.into_iter().map(clause).collect::<Result<_, _>>()?))
}
