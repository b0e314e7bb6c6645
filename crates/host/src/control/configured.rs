//! What a transaction changed in the configuration, for those who watch: which rows, never values.

use crate::audit::{op_of, row_title};
use paceline_tables::Changes;
use paceline_tables::schema::Schema;

/// Rows of one transaction that an event names; of more it tells the number.
const ROWS_MAX: usize = 100;

/// A change of the configuration that is on disk and in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Who made it.
    pub who: String,
    /// The rows.
    pub changes: Vec<Edited>,
    /// How many more there are.
    pub more: usize,
}

/// A row that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// `insert`, `update` or `delete`.
    pub op: &'static str,
    /// The table.
    pub table: String,
    /// Its name or number.
    pub row: String,
}

impl Configured {
    pub(super) fn new(who: &str, schema: &Schema, changes: &Changes) -> Self {
        let edited = changes.rows.iter().take(ROWS_MAX).map(|change| Edited {
            op: op_of(change),
            table: schema.table(change.table).name.to_string(),
            row: row_title(schema, change),
        });
        let more = changes.rows.len().saturating_sub(ROWS_MAX);
        Self { who: who.to_owned(), changes: edited.collect(), more }
    }
}
