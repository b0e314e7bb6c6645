//! The numbers by which the engine knows rows.
//!
//! A row keeps its number for as long as it exists, and no number is used twice: what waits or runs
//! in the engine may still mean a row that is gone.

use paceline_types::Uuid;
use std::collections::BTreeMap;

/// The numbers of one table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    numbers: BTreeMap<Uuid, u64>,
    next: u64,
}

impl Ids {
    /// No rows yet; numbers begin at 1.
    pub fn new() -> Self {
        Self { numbers: BTreeMap::new(), next: 1 }
    }

    /// The number of a row, a new one if it has none.
    pub fn of(&mut self, row: Uuid) -> u64 {
        *self.numbers.entry(row).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// The number of a row that has one.
    pub fn known(&self, row: Uuid) -> Option<u64> {
        self.numbers.get(&row).copied()
    }

    /// Forgets all rows but those that are still there.
    pub fn keep(&mut self, is_there: impl Fn(Uuid) -> bool) {
        self.numbers.retain(|row, _| is_there(*row));
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;
    use paceline_types::UuidSource;

    #[test]
    fn a_row_keeps_its_number_and_none_is_used_twice() {
        let mut uuids = UuidSource::from_number(1);
        let (a, b, c) = (uuids.next_uuid(), uuids.next_uuid(), uuids.next_uuid());
        let mut ids = Ids::new();
        assert_eq!((ids.of(a), ids.of(b), ids.of(a)), (1, 2, 1));
        ids.keep(|row| row != b);
        assert_eq!((ids.known(a), ids.known(b)), (Some(1), None));
        assert_eq!((ids.of(c), ids.of(b)), (3, 4));
    }
}
