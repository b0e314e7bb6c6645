//! Whether clients come together, so that it pays to write what several of them are granted in one record.
//!
//! Owns one number. Two clients that meet at the book, or a record with several rows, raise it; every record with one row
//! lowers it. A lone client therefore writes at once, and never waits for others that do not come.

use std::sync::atomic::{AtomicU32, Ordering};

/// So many records with one row follow each other before a client counts as alone.
const RECORDS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Crowd(AtomicU32);

impl Crowd {
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// A row is to be written while a record is under way.
    pub fn meet(&self) {
        self.0.store(RECORDS, Ordering::Relaxed);
    }

    /// A record of so many rows is taken to be written.
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
