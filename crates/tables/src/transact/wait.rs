//! The `wait` operation: a transaction that waits until rows are, or are no longer, as given.

use super::operations::values_in;
use super::{Execution, OpResult, Stop};
use crate::changes::RowChange;
use crate::condition::Condition;
use crate::error::{Error, tag};
use crate::schema::{ColumnId, TableId};
use crate::store::{Row, Store};
use crate::value::Datum;

/// What a `wait` waits for.
pub(super) struct Until {
    /// The rows, with all their columns.
    pub(super) expected: Vec<Vec<Datum>>,
    /// Whether the rows found must be these, or must not.
    pub(super) until_equal: bool,
    /// How long it may wait; `None` for no limit.
    pub(super) timeout_ms: Option<u64>,
}

impl Execution<'_> {
    pub(super) fn wait(
        &mut self,
        table: TableId,
        condition: Condition,
        columns: Vec<ColumnId>,
        until: &Until,
    ) -> Result<OpResult, Stop> {
        self.before_looking(table, &condition, &columns)?;
        let actual = self.rows.matching(table, &condition, self.work)?;
        // Each row is searched for among the expected rows, which are sorted.
        let times = 2 + usize::BITS - until.expected.len().leading_zeros();
        self.work.spend_times(times as usize, values_in(&actual, &columns))?;
        let equal = same_rows(&columns, &actual, &until.expected);
        if equal == until.until_equal {
            return Ok(OpResult::Empty);
        }
        let elapsed = self.context.elapsed_ms;
        if until.timeout_ms.is_some_and(|timeout| elapsed >= timeout) {
            let details = match elapsed {
                0 => "\"where\" clause test failed".to_owned(),
                _ => format!("\"wait\" timed out after {elapsed} ms"),
            };
            return Err(Error::new(tag::TIMED_OUT, details).into());
        }
        // The transaction's own changes may depend on any row of the table.
        let is_changed = self.rows.is_changed() || !self.gathering.is_empty();
        let seen = (!is_changed).then(|| Box::new((condition, columns)));
        Err(Stop::Unsatisfied(until.timeout_ms, Interest { table, seen }))
    }
}

/// The rows and columns that an unsatisfied `wait` looks at.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The table.
    pub table: TableId,
    /// The rows and columns; `None` if every change of the table matters.
    seen: Option<Box<(Condition, Vec<ColumnId>)>>,
}

impl Interest {
    /// Whether one of these changes of its table can make a difference. Checks this for at most `work` steps;
    /// beyond that, it returns true.
    #[must_use]
    pub fn touched_by(&self, changes: &[RowChange], work: u64) -> bool {
        let Some((condition, columns)) = self.seen.as_deref() else { return true };
        let mut left = usize::try_from(work).unwrap_or(usize::MAX);
        let mut may_take = |steps: usize| {
            let rest = left.checked_sub(steps);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let tests = 2 * condition.weight();
        if !may_take(changes.len().saturating_mul(tests)) {
            return true;
        }
        changes.iter().any(|change| {
            let mut is_in = |row: &Option<Row>| {
                row.as_ref()
                    .map(|row| may_take(condition.search_steps(row)).then(|| condition.all(row)))
            };
            match (is_in(&change.old), is_in(&change.new)) {
                (Some(None), _) | (_, Some(None)) => true,
                (Some(Some(true)), Some(Some(true))) => columns.iter().any(|column| {
                    !may_take(change.compare_steps(*column)) || change.changed(*column)
                }),
                (was, is) => (was == Some(Some(true))) != (is == Some(Some(true))),
            }
        })
    }
}

/// Whether both lists have the same distinct values in `columns`.
fn same_rows(columns: &[ColumnId], actual: &[Row], expected: &[Vec<Datum>]) -> bool {
    let mut expected: Vec<_> = expected.iter().map(|row| Store::project(row, columns)).collect();
    expected.sort();
    expected.dedup();
    let mut found = vec![false; expected.len()];
    // The first row that is not expected decides the result.
    let all_expected = actual.iter().all(|row| {
        let at = expected.binary_search(&Store::project(row, columns));
        at.is_ok_and(|at| {
            found.get_mut(at).is_some_and(|found| {
                *found = true;
                true
            })
        })
    });
    all_expected && found.into_iter().all(|found| found)
}
