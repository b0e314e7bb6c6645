//! How much one transaction may make the server do.
//!
//! Work is counted in steps: one for each clause tested on a row, for each element of a set or map that
//! is compared or copied, for each column of a changed row, and for each 16 bytes of an operation. What would
//! pass the limit is refused before it is done, so a transaction takes a time that its limit bounds, however
//! large the tables are. What the end of the transaction does counts as well: rows that are collected, and
//! references that are removed.

use crate::error::{Error, tag};
use crate::json::Json;

/// The steps that are left to one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    left: u64,
    max: u64,
    /// Whether it may change rows.
    may_change: bool,
    /// Whether it was refused because it may not.
    is_change_refused: bool,
}

/// What an operation takes at least, whatever it looks at.
const OPERATION_STEPS: usize = 4;

/// Operations are read anew each time they are tried; so many bytes of them take a step.
const BYTES_A_STEP: usize = 16;

/// The steps that reading an operation takes; those of a long one are counted up to about `most`.
pub(super) fn operation_steps(operation: &Json, most: u64) -> usize {
    let bytes = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(BYTES_A_STEP);
    steps_of(operation.memory_up_to(bytes))
}

/// The steps that an operation of so many bytes takes, whatever it looks at.
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

    /// Refuses a transaction that is about to change a row and may not.
    pub(super) fn check_change(&mut self) -> Result<(), Error> {
        if self.may_change {
            return Ok(());
        }
        self.is_change_refused = true;
        Err(Error::new(tag::PERMISSION, "the transaction may not change rows"))
    }

    /// Takes the steps of reading `operation`, or refuses the transaction.
    pub(super) fn spend_operation(&mut self, operation: &Json) -> Result<(), Error> {
        self.spend(operation_steps(operation, self.left))
    }

    /// Takes `steps`, or refuses the transaction.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), Error> {
        self.spend_times(steps, 1)
    }

    /// Takes `steps` for each of `times`, or refuses the transaction.
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
