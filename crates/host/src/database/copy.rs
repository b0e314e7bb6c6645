//! Copies of databases, for backups.
//!
//! A copy of the daemon's own database is out of date when it is served. So it must not say which client holds
//! what, and must not reuse numbers that were given out since. Promises that nothing is held in a copy, and
//! that the fencing and request numbers of a daemon that serves it are above all that were given out before
//! (L2).

use super::{Hosted, compact};
use crate::clock::wall_ms;
use crate::own;
use paceline_journal::frame;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Error, Row, RowChange, Snapshot, row_uuid, write_record};
use std::sync::Arc;

/// The comment in the records of a copy.
const COMMENT: &str = "copy made by paceline";

/// Numbers that may be given out between a copy and the day it is served: a thousand years of ten a second, or
/// a day of ten million a second.
pub(super) const NUMBERS_SKIPPED: i64 = 1 << 40;

/// The columns of the daemon's row with the numbers given out.
pub(super) const NUMBERS: [&str; 2] = ["fencing_reserved", "requests_reserved"];

/// The tables of what clients hold, and of waiters.
pub(super) const HELD: [&str; 4] =
    [own::SESSION_TABLE, own::LEASED_LOCK_TABLE, own::PERMIT_TABLE, own::WAITER_TABLE];

impl Hosted {
    /// A file with everything written so far, as bytes: a database that can be served, and opened with
    /// `ovsdb-tool`. The copy of the daemon's own database leaves out what clients hold. Must not be called
    /// from a task of the runtime.
    ///
    /// # Errors
    ///
    /// When something that the copy would contain could not be written.
    pub fn copy(self: &Arc<Self>) -> Result<Vec<u8>, Error> {
        let rows = self.written()?;
        let schema = rows.schema();
        let own_table =
            |name: &str| (self.name == own::DATABASE).then(|| schema.table_id(name)).flatten();
        let mut skip = self.unjournaled.clone();
        skip.extend(HELD.into_iter().filter_map(own_table));
        let mut out = compact::whole_file(&rows, &skip, COMMENT);
        if let Some(daemon) = own_table(own::DAEMON_TABLE) {
            let mut body = Vec::new();
            let changes = numbered_on(&rows, daemon);
            if write_record(&changes, schema, &[], COMMENT, wall_ms(), &mut body) {
                frame(&body, &mut out);
            }
        }
        Ok(out)
    }
}

/// The changes that prepare the daemon's row for another run.
fn numbered_on(rows: &Snapshot, daemon: TableId) -> Changes {
    let table = rows.schema().table(daemon);
    let change = |old: &Row| RowChange {
        table: daemon,
        uuid: row_uuid(old),
        old: Some(Arc::clone(old)),
        new: Some(to_come(old, table)),
    };
    Changes { rows: rows.rows(daemon).map(change).collect() }
}

fn to_come(row: &Row, table: &TableSchema) -> Row {
    let mut row = row.to_vec();
    let mut change = |name: &str, by: &dyn Fn(&Datum) -> Datum| {
        let at = table.column_id(name).map(ColumnId::index);
        if let Some(value) = at.and_then(|at| row.get_mut(at)) {
            *value = by(value);
        }
    };
    for name in NUMBERS {
        change(name, &|value| match value {
            Datum::One(Atom::Integer(given)) => {
                Datum::One(Atom::Integer(given.saturating_add(NUMBERS_SKIPPED)))
            }
            other => other.clone(),
        });
    }
    // Nothing is held, so the restart of a machine loses nothing.
    change("machine", &|_| Datum::One(Atom::string("")));
    row.into()
}
