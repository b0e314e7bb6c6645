//! Whether several clients are active, so that it pays to write their grants and releases in one record.
//!
//! Owns one number. It is raised when a row becomes out of date while a record is being written, or when a record
//! has several rows. Every record with one row lowers it. While it is zero, a client counts as alone: its row is
//! written at once and does not wait for others.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many records with one row in succession it takes for a client to count as alone.
const RECORDS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Crowd(AtomicU32);

impl Crowd {
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Another row is out of date while a record is being written.
    pub fn meet(&self) {
        self.0.store(RECORDS, Ordering::Relaxed);
    }

    /// A record with this many rows is about to be written.
    pub fn take(&self, rows: usize) {
        match rows {
            0 => {}
            1 => self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed),
            _ => self.meet(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Crowd, RECORDS};

    #[test]
    fn a_client_is_alone_after_some_records_of_one_row() {
        let crowd = Crowd::default();
        assert!(!crowd.is_there());
        crowd.take(1);
        assert!(!crowd.is_there());
        crowd.take(2);
        (0..RECORDS).for_each(|_| {
            assert!(crowd.is_there());
            crowd.take(1);
        });
        assert!(!crowd.is_there());
        crowd.meet();
        assert!(crowd.is_there());
    }
}
