//! How much of a text that is written in pieces is done before the caller regains control.
//!
//! Steps count the clauses and the elements of values that a row is tested on, so that a piece takes a few
//! milliseconds whatever the rows contain. One row cannot be divided. If one row takes longer than a piece, the
//! current piece ends before it, and `Turn::is_long` returns true, so that the caller can run the next piece
//! where no other work waits for it.

use super::MonitoredTable;
use crate::value::Datum;

/// The most steps of testing in one piece.
const STEPS_MAX: usize = 100_000;

/// The most bytes of one row that is written in one piece with others.
const ROW_BYTES_MAX: usize = 1 << 20;

/// The state of one piece.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The steps of testing rows in this piece.
    steps: usize,
    next: Next,
}

/// What is known of the next row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Short,
    /// Longer than a piece. The caller can see it before it asks for the next piece.
    Long,
    /// The caller has asked for it.
    LongNow,
}

impl Turn {
    /// Begins the next piece.
    pub(super) fn begin(&mut self) {
        self.steps = 0;
        self.next = match self.next {
            Next::Long => Next::LongNow,
            _ => Next::Short,
        };
    }

    /// Whether the next row takes longer than a piece.
    pub(super) const fn is_long(&self) -> bool {
        matches!(self.next, Next::Long)
    }

    /// Whether a row that takes `steps` may be tested in this piece.
    pub(super) fn may_test(&mut self, steps: usize) -> bool {
        let after = self.steps.saturating_add(steps);
        if after <= STEPS_MAX || (self.steps == 0 && self.next == Next::LongNow) {
            self.steps = after;
            return true;
        }
        if steps > STEPS_MAX {
            self.next = Next::Long;
        }
        false
    }

    /// Whether a row that shows these values may be written in this piece. One large row may; other rows wait for
    /// the next piece.
    pub(super) fn may_write<'a>(&mut self, values: impl Iterator<Item = &'a Datum>) -> bool {
        if Datum::all_within(values, ROW_BYTES_MAX).is_some() {
            return true;
        }
        let may = self.next == Next::LongNow;
        self.next = if may { Next::Short } else { Next::Long };
        may
    }
}

impl MonitoredTable {
    /// The values of a row that are shown.
    pub(super) fn shown<'a>(&'a self, row: &'a [Datum]) -> impl Iterator<Item = &'a Datum> {
        self.columns.iter().map(|(column, _)| &row[column.index()])
    }
}
