//! What a transaction is about to do, from a very cheap look at its operations.
//!
//! The look at all operations is an [`Outline`], which a transaction has from its beginning: a message may have millions of
//! operations, and estimates are made while others wait for the database. An estimate looks at so many of them as a
//! short transaction may have.
//!
//! Says whether it only reads, so that a snapshot will do, and how much it reads at most. Promises that
//! what it says only reads neither changes anything nor waits, whatever else is wrong with it.

use super::operation::{Item, Operation, Operations};
use super::work::operation_steps;
use crate::json::Json;
use crate::schema::{ColumnId, Schema, TableId, TableSchema};
use crate::store::Store;
use paceline_types::limits::READ_AT_ONCE_STEPS_MAX;

/// How many clauses are searched for one that an index serves.
const CLAUSES_SEARCHED: usize = 8;

/// A transaction that takes more steps than this is long; further steps are not counted.
const COUNTED_MAX: u64 = 2 * READ_AT_ONCE_STEPS_MAX;

/// What a transaction is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Whether it neither changes anything nor waits.
    pub only_reads: bool,
    /// Whether it may wait, and so be tried many times.
    pub may_wait: bool,
    /// The approximate steps of reading the operations and testing rows. For a transaction that is long in any
    /// case, not all operations are counted.
    pub work: u64,
}

impl Estimate {
    /// Looks at `operations` on the rows of `store`.
    #[must_use]
    pub fn of<'a>(operations: impl Into<Operations<'a>>, store: &Store) -> Self {
        let operations = operations.into();
        let Outline { only_reads, may_wait, .. } = operations.outline();
        let mut estimate = Self { only_reads, may_wait, work: 0 };
        let mut before = Before::default();
        for item in operations.items() {
            let Some(left) = COUNTED_MAX.checked_sub(estimate.work) else { break };
            let steps = item.reading_steps(left).saturating_add(before.and(item, store));
            estimate.work = estimate.work.saturating_add(steps);
        }
        estimate
    }

    /// Whether `operations`, if they complete, certainly change something: they insert a row that no later
    /// operation removes. Tables in `maintained` do not count, because inserts into them are refused.
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
        operations.into().outline().only_reads
    }
}

/// What operations ask for, whatever rows there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline {
    /// Whether they neither change nor wait.
    pub(super) only_reads: bool,
    /// Whether one of them may wait.
    pub(super) may_wait: bool,
    /// Whether one of them gives a row both a name and its UUID.
    pub(super) announces: bool,
    /// Bytes of memory that they hold.
    pub(super) memory: usize,
}

impl Outline {
    /// That of no operations.
    pub(super) const NONE: Self =
        Self { only_reads: true, may_wait: false, announces: false, memory: 0 };

    /// That of several.
    pub(super) fn of<'a>(items: impl Iterator<Item = Item<'a>>) -> Self {
        items.fold(Self::NONE, Self::and)
    }

    /// That of these operations and one more.
    pub(super) fn and(self, item: Item<'_>) -> Self {
        Self {
            only_reads: self.only_reads && item.only_reads(),
            may_wait: self.may_wait || item.may_wait(),
            announces: self.announces || item.announces(),
            memory: self.memory + item.memory(),
        }
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

    /// Whether it gives a row both a name and its UUID.
    fn announces(self) -> bool {
        match self {
            Self::Written(Json::Object(operation)) => {
                operation.get("uuid-name").is_some() && operation.get("uuid").is_some()
            }
            _ => false,
        }
    }

    /// Bytes of memory it holds.
    fn memory(self) -> usize {
        match self {
            Self::Written(json) => json.memory(),
            Self::Made(made) => made.map_or(0, Operation::memory),
        }
    }

    fn only_reads(self) -> bool {
        if matches!(self, Self::Made(Err(_))) {
            // An operation that could not be built may be of any kind.
            return false;
        }
        match self.word() {
            Some("wait") => !self.may_wait(),
            // The owner of a lock is known only where the head is changed.
            Some("insert" | "update" | "mutate" | "delete" | "commit" | "assert") => false,
            // Unknown operations are refused, on a snapshot as well.
            _ => true,
        }
    }

    /// The steps of reading the operation; those of a long one are counted up to about `most`.
    fn reading_steps(self, most: u64) -> u64 {
        match self {
            Self::Written(json) => operation_steps(json, most) as u64,
            Self::Made(made) => made.map_or(1, Operation::steps) as u64,
        }
    }

    /// How the rows it looks at are found, and how many clauses are tested on each; `None` if it looks at no rows.
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

    /// Whether it sets an indexed column of existing rows.
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

/// Whether a mutation changes the column of this name.
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

/// What the preceding operations may have done.
#[derive(Default)]
struct Before {
    /// Rows inserted.
    inserted: u64,
    /// Rows, including inserted ones, whose indexed columns were set: they may all have the same values there.
    alike: u64,
}

impl Before {
    /// Adds one more operation. Returns its steps.
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

/// How the rows that an operation looks at are found.
enum Way {
    Uuid,
    Index,
    Scan,
}

impl Way {
    /// How rows are found if `is_equal` says which columns are compared by `==`.
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
