//! What a transaction is about to do, from a look at its operations that costs next to nothing.
//!
//! Says whether it only reads, so that a snapshot will do, and how much it reads at most. Promises that
//! what it says only reads neither changes anything nor waits, whatever else is wrong with it.

use crate::json::{Json, Object};
use crate::schema::TableSchema;
use crate::store::Store;

/// More clauses than this are not searched for one that an index serves.
const CLAUSES_SEARCHED: usize = 8;

/// What a transaction is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Whether it neither changes nor waits.
    pub only_reads: bool,
    /// Whether it may wait, and so be tried many times.
    pub may_wait: bool,
    /// The steps it takes to test rows, roughly.
    pub work: u64,
}

impl Estimate {
    /// Looks at `operations` on the rows of `store`.
    #[must_use]
    pub fn of(operations: &[Json], store: &Store) -> Self {
        let mut estimate = Self { only_reads: true, may_wait: false, work: 0 };
        for operation in operations.iter().filter_map(Json::as_object) {
            estimate.may_wait |= may_wait(operation);
            estimate.only_reads &= only_reads(operation);
            estimate.work = estimate.work.saturating_add(work(operation, store));
        }
        estimate
    }

    /// Whether `operations` neither change anything nor wait.
    #[must_use]
    pub fn only_reads(operations: &[Json]) -> bool {
        operations.iter().filter_map(Json::as_object).all(only_reads)
    }
}

fn may_wait(operation: &Object) -> bool {
    operation.get("op").and_then(Json::as_str) == Some("wait")
        && !matches!(operation.get("timeout"), Some(Json::Integer(0)))
}

fn only_reads(operation: &Object) -> bool {
    match operation.get("op").and_then(Json::as_str) {
        Some("wait") => !may_wait(operation),
        // Who owns a lock is known where the head is changed.
        Some("insert" | "update" | "mutate" | "delete" | "commit" | "assert") => false,
        // What there is no such operation for is refused, on a snapshot as well.
        _ => true,
    }
}

fn work(operation: &Object, store: &Store) -> u64 {
    let schema = store.schema();
    let table = operation.get("table").and_then(Json::as_str);
    let (Some(table), Some(clauses)) = (
        table.and_then(|table| schema.table_id(table)),
        operation.get("where").and_then(Json::as_array),
    ) else {
        return 1;
    };
    let rows = if is_indexed(clauses, schema.table(table)) { 1 } else { store.row_count(table) };
    (rows as u64).saturating_mul(1 + clauses.len() as u64)
}

/// Whether an index finds the rows that meet these clauses.
fn is_indexed(clauses: &[Json], table: &TableSchema) -> bool {
    let equal = |name: &str| {
        clauses.iter().take(CLAUSES_SEARCHED).any(|clause| {
            matches!(clause.as_array(), Some([Json::String(column), Json::String(function), _])
                if **column == *name && **function == *"==")
        })
    };
    let covered = |index: &Vec<crate::schema::ColumnId>| {
        index.iter().all(|column| equal(&table.column(*column).name))
    };
    equal("_uuid") || table.indexes.iter().any(covered)
}
