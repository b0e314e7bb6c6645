//! Monitors: what a client watches, and the updates that it receives.
//!
//! A [`Monitor`] is the parsed request. [`Monitor::update`] turns the changes of a transaction into the update for
//! the client. [`Dump`] writes the initial content piece by piece from a snapshot. [`merge`] turns several
//! transactions into their net effect for a client that reconnects. [`Telling`] makes a long update in pieces, and
//! [`Moving`] an update for changed conditions. There are three formats: RFC 7047's `update`, and
//! `update2`/`update3` with differences and conditions.

mod dump;
mod history;
mod moving;
mod parse;
mod telling;
mod turn;
mod update;

pub use dump::Dump;
pub use history::{Net, Seen, merge};
pub use moving::Moving;
pub use parse::Requests;
pub use telling::{Telling, steps_bytes, steps_of};

use crate::condition::Condition;
use crate::schema::{ColumnId, TableId};

/// The format of a monitor's updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `monitor` and `update`: old and new rows.
    V1,
    /// `monitor_cond` and `update2`: differences, conditions.
    V2,
    /// `monitor_cond_since` and `update3`: as V2, with transaction ids.
    V3,
}

/// Which kinds of change to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Select(u8);

impl Select {
    /// Rows that exist when the monitor begins.
    pub const INITIAL: Self = Self(1);
    /// Inserted rows.
    pub const INSERT: Self = Self(2);
    /// Deleted rows.
    pub const DELETE: Self = Self(4);
    /// Modified rows.
    pub const MODIFY: Self = Self(8);
    /// All of these.
    pub const ALL: Self = Self(15);

    /// Whether `kind` is among these.
    #[must_use]
    pub const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    /// These and the kinds in `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a client watches in one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MonitoredTable {
    /// The table.
    pub table: TableId,
    /// Every kind of change that some column selects.
    pub select: Select,
    /// The columns, each with the kinds of change it is reported for.
    pub columns: Vec<(ColumnId, Select)>,
    /// A row is shown while any clause holds.
    pub condition: Condition,
}

/// What a client watches in a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    /// The format.
    pub version: Version,
    /// The tables, sorted.
    pub tables: Vec<MonitoredTable>,
}

impl Monitor {
    /// The tables it watches.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|monitored| monitored.table)
    }

    /// What the client watches in `table`.
    #[must_use]
    pub fn table(&self, table: TableId) -> Option<&MonitoredTable> {
        let at = self.tables.binary_search_by(|monitored| monitored.table.cmp(&table)).ok()?;
        self.tables.get(at)
    }

    /// The most steps of testing whether a changed row is shown.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.tables.iter().map(|monitored| monitored.condition.weight()).max().unwrap_or(1)
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory(&self) -> usize {
        let table = |t: &MonitoredTable| {
            size_of::<MonitoredTable>() + t.columns.len() * 4 + t.condition.memory()
        };
        size_of::<Self>() + self.tables.iter().map(table).sum::<usize>()
    }
}
