//! What a transaction is about to do, from a look at its operations that costs next to nothing.
//!
//! Says whether it only reads, so that a snapshot will do, and how much it reads at most. Promises that
//! what it says only reads neither changes anything nor waits, whatever else is wrong with it.

use super::operation::{Item, Operation, Operations};
use super::work::operation_steps;
use crate::json::Json;
use crate::schema::{ColumnId, Schema, TableId, TableSchema};
use crate::store::Store;
use paceline_types::limits::READ_AT_ONCE_STEPS_MAX;

/// More clauses than this are not searched for one that an index serves.
const CLAUSES_SEARCHED: usize = 8;

/// A transaction that takes more steps than this is long, however many more they are.
const COUNTED_MAX: u64 = 2 * READ_AT_ONCE_STEPS_MAX;

/// What a transaction is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Whether it neither changes nor waits.
    pub only_reads: bool,
    /// Whether it may wait, and so be tried many times.
    pub may_wait: bool,
    /// The steps it takes to read the operations and to test rows, roughly. Of a transaction that is long in any case,
    /// not all operations are counted.
    pub work: u64,
}

impl Estimate {
    /// Looks at `operations` on the rows of `store`.
    #[must_use]
    pub fn of<'a>(operations: impl Into<Operations<'a>>, store: &Store) -> Self {
        let mut estimate = Self { only_reads: true, may_wait: false, work: 0 };
        let mut before = Before::default();
        for item in operations.into().items() {
            estimate.may_wait |= item.may_wait();
            estimate.only_reads &= item.only_reads();
            let Some(left) = COUNTED_MAX.checked_sub(estimate.work) else { continue };
            let steps = item.reading_steps(left).saturating_add(before.and(item, store));
            estimate.work = estimate.work.saturating_add(steps);
        }
        estimate
    }

    /// Whether `operations`, if they run to their end, change something in any case: they insert a row that
    /// nothing takes away again. Tables in `maintained` do not count, which refuse it themselves.
    #[must_use]
    pub fn surely_changes<'a>(
        operations: impl Into<Operations<'a>>,
        schema: &Schema,
        maintained: &[TableId],
    ) -> bool {
        let mut inserts = false;
        for item in operations.into().items() {
            match item.word() {
                Some("insert") => {
                    inserts |= item.table(schema).is_some_and(|table| {
                        schema.table(table).is_root && !maintained.contains(&table)
                    });
                }
                Some("delete" | "abort") => return false,
                _ => {}
            }
        }
        inserts
    }

    /// Whether `operations` neither change anything nor wait.
    #[must_use]
    pub fn only_reads<'a>(operations: impl Into<Operations<'a>>) -> bool {
        operations.into().items().all(Item::only_reads)
    }
}

impl<'a> Item<'a> {
    pub(super) fn word(self) -> Option<&'a str> {
        match self {
            Self::Written(json) => json.as_object()?.get("op").and_then(Json::as_str),
            Self::Made(made) => made.ok().map(Operation::word),
        }
    }

    fn table(self, schema: &Schema) -> Option<TableId> {
        match self {
            Self::Written(json) => {
                schema.table_id(json.as_object()?.get("table").and_then(Json::as_str)?)
            }
            Self::Made(made) => made.ok()?.table(),
        }
    }

    /// Whether it is a wait that can be tried more than once.
    fn may_wait(self) -> bool {
        match self {
            Self::Written(Json::Object(operation)) => {
                self.word() == Some("wait")
                    && !matches!(operation.get("timeout"), Some(Json::Integer(0)))
            }
            Self::Made(Ok(Operation::Wait { timeout_ms, .. })) => *timeout_ms != Some(0),
            _ => false,
        }
    }

    fn only_reads(self) -> bool {
        if matches!(self, Self::Made(Err(_))) {
            // What could not be made may be of any kind.
            return false;
        }
        match self.word() {
            Some("wait") => !self.may_wait(),
            // Who owns a lock is known where the head is changed.
            Some("insert" | "update" | "mutate" | "delete" | "commit" | "assert") => false,
            // What there is no such operation for is refused, on a snapshot as well.
            _ => true,
        }
    }

    /// The steps that reading the operation takes; those of a long one are counted up to about `most`.
    fn reading_steps(self, most: u64) -> u64 {
        match self {
            Self::Written(json) => operation_steps(json, most) as u64,
            Self::Made(made) => made.map_or(1, Operation::steps) as u64,
        }
    }

    /// How the rows are found that it looks at, and how many clauses are tested on each; none if it looks at none.
    fn way(self, table: &TableSchema) -> Option<(Way, u64)> {
        match self {
            Self::Written(json) => {
                let clauses = json.as_object()?.get("where").and_then(Json::as_array)?;
                let is_equal = |column: ColumnId| is_compared(clauses, &table.column(column).name);
                Some((Way::by(table, is_equal), clauses.len() as u64))
            }
            Self::Made(made) => {
                let condition = made.ok()?.condition()?;
                let is_equal = |column| condition.equal_to(column).is_some();
                Some((Way::by(table, is_equal), condition.len() as u64))
            }
        }
    }

    /// Whether it sets a column of an index in rows that exist.
    fn sets_index(self, table: &TableSchema) -> bool {
        let mut indexed = table.indexes.iter().flatten().copied();
        match self {
            Self::Made(Ok(Operation::Update { named, .. })) => {
                indexed.any(|id| named.contains(&id))
            }
            Self::Made(Ok(Operation::Mutate { mutations, .. })) => {
                indexed.any(|id| mutations.columns().any(|column| column == id))
            }
            Self::Made(_) => false,
            Self::Written(json) => {
                let mut names = indexed.map(|column| &*table.column(column).name);
                match (self.word(), json.as_object()) {
                    (Some("update"), Some(operation)) => {
                        let row = operation.get("row").and_then(Json::as_object);
                        row.is_some_and(|row| names.any(|name| row.get(name).is_some()))
                    }
                    (Some("mutate"), Some(operation)) => {
                        let mutations = operation.get("mutations").and_then(Json::as_array);
                        let mutations = mutations.unwrap_or_default();
                        names.any(|name| mutations.iter().any(|mutation| sets(mutation, name)))
                    }
                    _ => false,
                }
            }
        }
    }
}

/// Whether a mutation is of the column of this name.
fn sets(mutation: &Json, name: &str) -> bool {
    mutation.as_array().and_then(|parts| parts.first()?.as_str()) == Some(name)
}

/// Whether one of the first clauses compares the column of this name by `==`.
fn is_compared(clauses: &[Json], name: &str) -> bool {
    clauses.iter().take(CLAUSES_SEARCHED).any(|clause| {
        matches!(clause.as_array(), Some([Json::String(column), Json::String(function), _])
            if **column == *name && **function == *"==")
    })
}

/// What the operations before one may have done.
#[derive(Default)]
struct Before {
    /// Rows inserted.
    inserted: u64,
    /// Rows, those included, whose columns of an index were set: they may all have the same values there.
    alike: u64,
}

impl Before {
    /// Takes note of one more operation. Answers its steps.
    fn and(&mut self, item: Item<'_>, store: &Store) -> u64 {
        let schema = store.schema();
        let Some(id) = item.table(schema) else { return item.word().map_or(0, |_| 1) };
        let table = schema.table(id);
        if item.word() == Some("insert") {
            self.inserted = self.inserted.saturating_add(1);
            self.alike = self.alike.saturating_add(1);
            return table.columns.len() as u64;
        }
        let Some((way, clauses)) = item.way(table) else { return 1 };
        let all = (store.row_count(id) as u64).saturating_add(self.inserted);
        let rows = match way {
            Way::Uuid => 1,
            Way::Index => all.min(self.alike).max(1),
            Way::Scan => all,
        };
        if item.sets_index(table) {
            self.alike = self.alike.saturating_add(rows);
        }
        rows.saturating_mul(1 + clauses)
    }
}

/// How the rows are found that an operation looks at.
enum Way {
    Uuid,
    Index,
    Scan,
}

impl Way {
    /// How rows are found of which `is_equal` says whether a column is compared by `==`.
    fn by(table: &TableSchema, is_equal: impl Fn(ColumnId) -> bool) -> Self {
        if is_equal(ColumnId::UUID) {
            Self::Uuid
        } else if table.indexes.iter().any(|index| index.iter().all(|column| is_equal(*column))) {
            Self::Index
        } else {
            Self::Scan
        }
    }
}
