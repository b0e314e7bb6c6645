//! The `wait` operation: a transaction that holds until rows are, or are no longer, as given.

use super::operations::{columns_or_all, matching};
use super::{Execution, OpResult, Stop, Waits};
use crate::error::Error;
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::ColumnId;
use crate::store::Store;
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
        let schema = self.edit.store.schema().clone();
        let columns = columns_or_all(schema.table(table), columns)?;
        let timeout_ms = wait_timeout(timeout)?;
        let until_equal = match until.as_str() {
            Some("==") => true,
            Some("!=") => false,
            _ => return Err(Error::syntax(until, "\"until\" must be \"==\" or \"!=\"").into()),
        };
        let mut expected = Vec::with_capacity(rows.len());
        for row in rows {
            expected.push(self.parse_row(row, table)?.0);
        }
        let actual = matching(self.edit.store, table, &condition);
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
        self.waits = Waits { timeout_ms, tables: vec![table] };
        Err(Stop::Unsatisfied)
    }
}

fn wait_timeout(json: Option<&Json>) -> Result<Option<u64>, Error> {
    let Some(json @ Json::Integer(timeout)) = json else { return Ok(None) };
    let timeout =
        u64::try_from(*timeout).map_err(|_| Error::syntax(json, "timeout must be nonnegative"))?;
    Ok(Some(timeout))
}

/// Whether both lists have the same distinct values in `columns`.
fn same_rows(
    columns: &[ColumnId],
    actual: &[impl AsRef<[Datum]>],
    expected: &[Vec<Datum>],
) -> bool {
    let values = |row: &'_ [Datum]| -> Vec<Datum> {
        Store::project(row, columns).into_iter().cloned().collect()
    };
    let mut actual: Vec<_> = actual.iter().map(|row| values(row.as_ref())).collect();
    let mut expected: Vec<_> = expected.iter().map(|row| values(row)).collect();
    for list in [&mut actual, &mut expected] {
        list.sort();
        list.dedup();
    }
    actual == expected
}
