//! How much work one transaction may cause.
//!
//! Work is counted in steps: one for each clause tested on a row, for each element of a set or map that is compared
//! or copied, for each column of a changed row, and for each 16 bytes of an operation. Work that would exceed the
//! limit is refused before it is done, so the limit bounds the time of a transaction, however large the tables are.
//! The work at the end of the transaction counts as well: rows that are collected, and references that are removed.

use crate::error::{Error, tag};
use crate::json::Json;

/// The steps that one transaction has left.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    left: u64,
    max: u64,
    /// Whether it may change rows.
    may_change: bool,
    /// Whether it was refused because it may not change rows.
    is_change_refused: bool,
}

/// The fewest steps of an operation, whatever it looks at.
const OPERATION_STEPS: usize = 4;

/// Operations are read anew each time they are tried; this many bytes of them take one step.
const BYTES_A_STEP: usize = 16;

/// The steps of reading an operation; those of a long one are counted up to about `most`.
pub(super) fn operation_steps(operation: &Json, most: u64) -> usize {
    let bytes = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(BYTES_A_STEP);
    steps_of(operation.memory_up_to(bytes))
}

/// The steps of an operation of this many bytes, whatever it looks at.
pub(super) const fn steps_of(bytes: usize) -> usize {
    OPERATION_STEPS + bytes / BYTES_A_STEP
}

impl Work {
    /// At most `max` steps.
    #[must_use]
    pub const fn at_most(max: u64) -> Self {
        Self { left: max, max, may_change: true, is_change_refused: false }
    }

    /// At most `max` steps, and the first operation that would change a row is refused.
    #[must_use]
    pub const fn without_changes(max: u64) -> Self {
        Self { may_change: false, ..Self::at_most(max) }
    }

    /// No limit, for transactions of the server itself.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::at_most(u64::MAX)
    }

    /// The steps taken so far.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.max - self.left
    }

    /// Whether the transaction was refused because it would change a row and may not.
    #[must_use]
    pub const fn is_change_refused(&self) -> bool {
        self.is_change_refused
    }

    /// Refuses a transaction that is about to change a row but may not.
    pub(super) fn check_change(&mut self) -> Result<(), Error> {
        if self.may_change {
            return Ok(());
        }
        self.is_change_refused = true;
        Err(Error::new(tag::PERMISSION, "the transaction may not change rows"))
    }

    /// Spends the steps of reading `operation`, or refuses the transaction.
    pub(super) fn spend_operation(&mut self, operation: &Json) -> Result<(), Error> {
        self.spend(operation_steps(operation, self.left))
    }

    /// Spends `steps`, or refuses the transaction.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), Error> {
        self.spend_times(steps, 1)
    }

    /// Spends `steps` `times` times, or refuses the transaction.
    pub(crate) fn spend_times(&mut self, times: usize, steps: usize) -> Result<(), Error> {
        let wanted = (times as u64).saturating_mul(steps as u64);
        self.left = self.left.checked_sub(wanted).ok_or_else(|| {
            let max = self.max;
            let details = format!(
                "the transaction takes more than {max} steps (clauses tested on rows, elements \
                 compared or copied, rows and references removed)"
            );
            Error::new(tag::RESOURCES, details)
        })?;
        Ok(())
    }
}
