//! Copies of databases, for backups.
//!
//! A copy of the daemon's own database is older than what happens after it. So it must not say who holds what, and must
//! not give out numbers that were given out since. Promises that nothing is held in a copy, and that the fencing and
//! request numbers of a daemon that serves it are above all that were given out before (L2).

use super::{Hosted, compact};
use crate::clock::wall_ms;
use crate::own;
use paceline_journal::frame;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Error, Row, RowChange, Snapshot, row_uuid, write_record};
use std::sync::Arc;

/// What is said in the records of a copy.
const COMMENT: &str = "copy made by paceline";

/// Numbers that may be given between a copy and the day it is served. A thousand years of ten a second,
/// or a day of ten million.
pub(super) const NUMBERS_SKIPPED: i64 = 1 << 40;

/// The columns of the daemon's row that say which numbers were given.
pub(super) const NUMBERS: [&str; 2] = ["fencing_reserved", "requests_reserved"];

/// The tables of what clients hold.
pub(super) const HELD: [&str; 3] = [own::SESSION_TABLE, own::LEASED_LOCK_TABLE, own::PERMIT_TABLE];

impl Hosted {
    /// A file that holds what is written by now, as bytes: a database that can be served, and opened
    /// with `ovsdb-tool`. Of the daemon's own what clients hold is left out. Must not be called from a
    /// task of the runtime.
    ///
    /// # Errors
    ///
    /// When what it would hold could not be written.
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

/// What makes the daemon's row that of a daemon to come.
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
    // Nothing is held, so there is no machine that could have lost anything.
    change("machine", &|_| Datum::One(Atom::string("")));
    row.into()
}
