//! The ids of rows in the engine.
//!
//! A row keeps its id for as long as it exists, and no id is used twice: requests that wait or run in the engine may
//! still refer to a row that was deleted.

use paceline_types::Uuid;
use std::collections::BTreeMap;

/// Deleted rows that are remembered in any case.
const GONE_MAX: usize = 1_000;

/// The ids of one table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    numbers: BTreeMap<Uuid, u64>,
    rows: BTreeMap<u64, Uuid>,
    next: u64,
}

impl Ids {
    /// No rows yet; ids begin at 1.
    pub fn new() -> Self {
        Self { numbers: BTreeMap::new(), rows: BTreeMap::new(), next: 1 }
    }

    /// The id of a row; a new one if it has none.
    pub fn of(&mut self, row: Uuid) -> u64 {
        *self.numbers.entry(row).or_insert_with(|| {
            self.rows.insert(self.next, row);
            self.next += 1;
            self.next - 1
        })
    }

    /// The id of a row that has one.
    pub fn known(&self, row: Uuid) -> Option<u64> {
        self.numbers.get(&row).copied()
    }

    /// All rows that have an id.
    pub fn rows(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.rows.values().copied()
    }

    /// The row with this id.
    pub fn row(&self, number: u64) -> Option<Uuid> {
        self.rows.get(&number).copied()
    }

    /// Forgets deleted rows once there are many more of them than the `count` existing rows. A deleted row may
    /// reappear when its deletion cannot be written.
    pub fn prune(&mut self, count: usize, is_there: impl Fn(Uuid) -> bool) {
        if self.numbers.len() > 2 * count + GONE_MAX {
            self.numbers.retain(|row, _| is_there(*row));
            self.rows.retain(|_, row| self.numbers.contains_key(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GONE_MAX, Ids};
    use paceline_types::UuidSource;

    #[test]
    fn a_row_keeps_its_number_and_none_is_used_twice() {
        let mut uuids = UuidSource::from_number(1);
        let (a, b, c) = (uuids.next_uuid(), uuids.next_uuid(), uuids.next_uuid());
        let mut ids = Ids::new();
        assert_eq!((ids.of(a), ids.of(b), ids.of(a)), (1, 2, 1));
        ids.prune(1, |row| row != b);
        assert_eq!(ids.known(b), Some(2), "it may come back");
        let many: Vec<_> = (0..GONE_MAX).map(|_| uuids.next_uuid()).collect();
        for row in many {
            ids.of(row);
        }
        ids.prune(0, |row| row == a);
        assert_eq!((ids.known(a), ids.known(b)), (Some(1), None));
        assert_eq!((ids.row(1), ids.row(2)), (Some(a), None));
        assert_eq!(ids.of(c), 3 + GONE_MAX as u64);
    }
}
