//! What a transaction is about to do, from a look at its operations that costs next to nothing.
//!
//! Says whether it only reads, so that a snapshot will do, and how much it reads at most. Promises that
//! what it says only reads neither changes anything nor waits, whatever else is wrong with it.

use super::work::operation_steps;
use crate::json::{Json, Object};
use crate::schema::{Schema, TableId, TableSchema};
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
    pub fn of(operations: &[Json], store: &Store) -> Self {
        let mut estimate = Self { only_reads: true, may_wait: false, work: 0 };
        let mut before = Before::default();
        for json in operations {
            let operation = json.as_object();
            if let Some(operation) = operation {
                estimate.may_wait |= may_wait(operation);
                estimate.only_reads &= only_reads(operation);
            }
            let Some(left) = COUNTED_MAX.checked_sub(estimate.work) else { continue };
            let reading = operation_steps(json, left) as u64;
            let looking = operation.map_or(0, |operation| before.and(operation, store));
            estimate.work = estimate.work.saturating_add(reading).saturating_add(looking);
        }
        estimate
    }

    /// Whether `operations`, if they run to their end, change something in any case: they insert a row that
    /// nothing takes away again. Tables in `maintained` do not count, which refuse it themselves.
    #[must_use]
    pub fn surely_changes(operations: &[Json], schema: &Schema, maintained: &[TableId]) -> bool {
        let mut inserts = false;
        for operation in operations.iter().filter_map(Json::as_object) {
            match word(operation) {
                Some("insert") => {
                    let table = operation.get("table").and_then(Json::as_str);
                    let table = table.and_then(|table| schema.table_id(table));
                    inserts |= table.is_some_and(|table| {
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
    pub fn only_reads(operations: &[Json]) -> bool {
        operations.iter().filter_map(Json::as_object).all(only_reads)
    }
}

fn may_wait(operation: &Object) -> bool {
    word(operation) == Some("wait") && !matches!(operation.get("timeout"), Some(Json::Integer(0)))
}

fn only_reads(operation: &Object) -> bool {
    match word(operation) {
        Some("wait") => !may_wait(operation),
        // Who owns a lock is known where the head is changed.
        Some("insert" | "update" | "mutate" | "delete" | "commit" | "assert") => false,
        // What there is no such operation for is refused, on a snapshot as well.
        _ => true,
    }
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
    fn and(&mut self, operation: &Object, store: &Store) -> u64 {
        let schema = store.schema();
        let name = operation.get("table").and_then(Json::as_str);
        let Some(id) = name.and_then(|name| schema.table_id(name)) else { return 1 };
        let table = schema.table(id);
        if word(operation) == Some("insert") {
            self.inserted = self.inserted.saturating_add(1);
            self.alike = self.alike.saturating_add(1);
            return table.columns.len() as u64;
        }
        let Some(clauses) = operation.get("where").and_then(Json::as_array) else { return 1 };
        let all = (store.row_count(id) as u64).saturating_add(self.inserted);
        let rows = match way(clauses, table) {
            Way::Uuid => 1,
            Way::Index => all.min(self.alike).max(1),
            Way::Scan => all,
        };
        if sets_index(operation, table) {
            self.alike = self.alike.saturating_add(rows);
        }
        rows.saturating_mul(1 + clauses.len() as u64)
    }
}

/// Whether an operation sets a column of an index in rows that exist.
fn sets_index(operation: &Object, table: &TableSchema) -> bool {
    let mut columns = table.indexes.iter().flatten().map(|column| &*table.column(*column).name);
    let sets = |mutation: &Json, name: &str| {
        mutation.as_array().and_then(|parts| parts.first()?.as_str()) == Some(name)
    };
    match word(operation) {
        Some("update") => {
            let row = operation.get("row").and_then(Json::as_object);
            row.is_some_and(|row| columns.any(|column| row.get(column).is_some()))
        }
        Some("mutate") => {
            let mutations = operation.get("mutations").and_then(Json::as_array).unwrap_or_default();
            columns.any(|column| mutations.iter().any(|mutation| sets(mutation, column)))
        }
        _ => false,
    }
}

fn word(operation: &Object) -> Option<&str> {
    operation.get("op").and_then(Json::as_str)
}

/// How the rows are found that an operation looks at.
enum Way {
    Uuid,
    Index,
    Scan,
}

/// How the rows that meet these clauses are found.
fn way(clauses: &[Json], table: &TableSchema) -> Way {
    let equal = |name: &str| {
        clauses.iter().take(CLAUSES_SEARCHED).any(|clause| {
            matches!(clause.as_array(), Some([Json::String(column), Json::String(function), _])
                if **column == *name && **function == *"==")
        })
    };
    let covered = |index: &Vec<crate::schema::ColumnId>| {
        index.iter().all(|column| equal(&table.column(*column).name))
    };
    if equal("_uuid") {
        Way::Uuid
    } else if table.indexes.iter().any(covered) {
        Way::Index
    } else {
        Way::Scan
    }
}
