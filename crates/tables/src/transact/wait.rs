//! The `wait` operation: a transaction that holds until rows are, or are no longer, as given.

use super::operations::{columns_or_all, values_in};
use super::{Execution, OpResult, Stop};
use crate::changes::RowChange;
use crate::condition::Condition;
use crate::error::Error;
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::{ColumnId, TableId};
use crate::store::{Row, Store};
use crate::value::Datum;

impl Execution<'_> {
    pub(super) fn wait(&mut self, members: &mut Members<'_>) -> Result<OpResult, Stop> {
        let timeout = members.optional("timeout", Kinds::INTEGER);
        let condition = members.required("where", Kinds::ARRAY).and_then(Json::as_array);
        let columns = members.optional("columns", Kinds::ARRAY);
        let until = members.required("until", Kinds::STRING);
        let rows = members.required("rows", Kinds::ARRAY).and_then(Json::as_array);
        let table = self.table(members);
        members.check()?;
        let (Some(table), Some(condition), Some(until), Some(rows)) =
            (table, condition, until, rows)
        else {
            return Ok(OpResult::Empty);
        };
        let condition = self.condition(condition, table)?;
        let schema = self.rows.schema().clone();
        let columns = columns_or_all(schema.table(table), columns)?;
        let timeout_ms = wait_timeout(timeout)?;
        let until_equal = match until.as_str() {
            Some("==") => true,
            Some("!=") => false,
            _ => return Err(Error::syntax(until, "\"until\" must be \"==\" or \"!=\"").into()),
        };
        // Each expected row is made with all its columns, and compared.
        self.work.spend_times(rows.len(), 2 * schema.table(table).columns.len())?;
        let mut expected = Vec::with_capacity(rows.len());
        for row in rows {
            expected.push(self.parse_row(row, table)?.0);
        }
        self.before_looking(table, &condition, &columns)?;
        let actual = self.rows.matching(table, &condition, self.work)?;
        // Each is searched for among the expected ones, which are sorted.
        let times = 2 + usize::BITS - expected.len().leading_zeros();
        self.work.spend_times(times as usize, values_in(&actual, &columns))?;
        let equal = same_rows(&columns, &actual, &expected);
        if equal == until_equal {
            return Ok(OpResult::Empty);
        }
        let elapsed = self.context.elapsed_ms;
        if timeout_ms.is_some_and(|timeout| elapsed >= timeout) {
            let details = match elapsed {
                0 => "\"where\" clause test failed".to_owned(),
                _ => format!("\"wait\" timed out after {elapsed} ms"),
            };
            return Err(Error::new("timed out", details).into());
        }
        // What the transaction has changed itself may depend on any row of the table.
        let is_changed = self.rows.is_changed() || !self.gathering.is_empty();
        let seen = (!is_changed).then(|| Box::new((condition, columns)));
        Err(Stop::Unsatisfied(timeout_ms, Interest { table, seen }))
    }
}

/// What a `wait` that does not hold looks at.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The table.
    pub table: TableId,
    /// The rows and the columns of it; none if every change of the table matters.
    seen: Option<Box<(Condition, Vec<ColumnId>)>>,
}

impl Interest {
    /// Whether one of these changes of its table can make a difference. To be asked only as long as
    /// that takes less than `work` steps; beyond, it is taken for granted.
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

fn wait_timeout(json: Option<&Json>) -> Result<Option<u64>, Error> {
    let Some(json @ Json::Integer(timeout)) = json else { return Ok(None) };
    let timeout =
        u64::try_from(*timeout).map_err(|_| Error::syntax(json, "timeout must be nonnegative"))?;
    Ok(Some(timeout))
}

/// Whether both lists have the same distinct values in `columns`.
fn same_rows(columns: &[ColumnId], actual: &[Row], expected: &[Vec<Datum>]) -> bool {
    let mut expected: Vec<_> = expected.iter().map(|row| Store::project(row, columns)).collect();
    expected.sort();
    expected.dedup();
    let mut found = vec![false; expected.len()];
    // The first row that nobody expects is the answer.
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
