//! What a transaction changed in the configuration, for clients that follow events: which rows, never values, and
//! nothing about tokens, whose names are for admins only.

use crate::audit::{op_of, row_title};
use crate::own;
use paceline_tables::schema::Schema;
use paceline_tables::{Changes, RowChange};

/// Rows of one transaction that an event names; further rows are only counted.
const ROWS_MAX: usize = 100;

/// A change of the configuration that is on disk and in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The name of the author.
    pub who: String,
    /// The rows.
    pub changes: Vec<Edited>,
    /// How many more rows changed.
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
    /// Whether there is a change to report.
    pub(super) fn is_told(schema: &Schema, changes: &Changes) -> bool {
        told(schema, changes).next().is_some()
    }

    pub(super) fn new(who: &str, schema: &Schema, changes: &Changes) -> Self {
        let edited = told(schema, changes).take(ROWS_MAX).map(|change| Edited {
            op: op_of(change),
            table: schema.table(change.table).name.to_string(),
            row: row_title(schema, change),
        });
        let more = told(schema, changes).count().saturating_sub(ROWS_MAX);
        Self { who: who.to_owned(), changes: edited.collect(), more }
    }
}

/// The changes that every viewer may see.
fn told<'a>(schema: &'a Schema, changes: &'a Changes) -> impl Iterator<Item = &'a RowChange> {
    let is_secret = |change: &RowChange| {
        [own::TOKEN_TABLE, own::SQL_PASSWORD_TABLE].contains(&&*schema.table(change.table).name)
    };
    changes.rows.iter().filter(move |change| !is_secret(change))
}
