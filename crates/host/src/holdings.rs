//! Memory that the daemon keeps for clients until they release it: monitors, and waiting transactions.
//!
//! Promises that no connection, no user and no address takes all of it, and that the last tenth is reserved for root
//! and the user who runs the daemon (promise D1). Dropping a [`Holding`] releases what it took.

use crate::database::shares::{Bound, Full, Holder, Shares};
use paceline_types::limits::{HOLDINGS_BYTES_MAX, SESSION_BYTES_MAX};
use std::sync::{Arc, Mutex};

/// The bounds.
const BOUND: Bound = Bound {
    connection: SESSION_BYTES_MAX as u64,
    peer: HOLDINGS_BYTES_MAX as u64 / 4,
    all: HOLDINGS_BYTES_MAX as u64,
    kept: HOLDINGS_BYTES_MAX as u64 / 10,
};

/// The memory that all clients hold.
#[derive(Clone, Debug)]
pub(crate) struct Holdings(Arc<Mutex<Shares>>);

/// The memory of one monitor or transaction.
#[derive(Debug)]
pub(crate) struct Holding {
    of: Holdings,
    holder: Holder,
    bytes: u64,
}

impl Default for Holdings {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Shares::new(BOUND))))
    }
}

impl Holdings {
    /// Takes `bytes` bytes, unless that is more than a bound allows.
    pub(crate) fn take(&self, holder: Holder, bytes: usize) -> Result<Holding, Full> {
        let bytes = bytes as u64;
        crate::sync::lock(&self.0).take(holder, bytes)?;
        Ok(Holding { of: self.clone(), holder, bytes })
    }

    /// Whether nothing is held.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        crate::sync::lock(&self.0).is_empty()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        crate::sync::lock(&self.of.0).give_back(self.holder, self.bytes);
    }
}
