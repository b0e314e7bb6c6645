//! How much one transaction may make the server do.
//!
//! Work is counted in steps: one for each clause tested on a row, for each element of a set or map that
//! is compared or copied, and for each column of a changed row. What would pass the limit is refused
//! before it is done, so a transaction takes a time that its limit bounds, however large the tables are.

use crate::error::{Error, tag};

/// The steps that are left to one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    left: u64,
    max: u64,
}

impl Work {
    /// At most `max` steps.
    #[must_use]
    pub const fn at_most(max: u64) -> Self {
        Self { left: max, max }
    }

    /// No limit, for transactions of the server itself.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::at_most(u64::MAX)
    }

    /// The steps taken so far.
    pub(crate) fn spent(&self) -> u64 {
        self.max - self.left
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
                "the transaction takes more than {max} steps (clauses tested on rows, and elements \
                 compared or copied)"
            );
            Error::new(tag::RESOURCES, details)
        })?;
        Ok(())
    }
}
