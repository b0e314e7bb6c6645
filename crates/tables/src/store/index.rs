//! A unique index of one table: which slot has which values in the index's columns.
//!
//! Holds slot numbers only; the values are in the rows. In the middle of a transaction many rows may have the same
//! values. The first of them is in the hash table. The others are doubles in an ordered set beside it, so that
//! adding or removing a row never walks along all rows with equal values.

use super::slots::Slots;
use crate::schema::ColumnId;
use crate::value::Datum;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};

#[derive(Debug, Default)]
pub(super) struct Index {
    /// One slot for each combination of values, with their hash. The values may be long and must not be read again
    /// when the table grows.
    firsts: HashTable<First>,
    /// The other slots, by the hash of their values.
    doubles: BTreeSet<(u32, u32)>,
}

#[derive(Debug)]
struct First {
    hash: u32,
    slot: u32,
}

/// What an index reads: the rows, its columns, and the key of the hashes.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) slots: &'a Slots,
    pub(super) columns: &'a [ColumnId],
    pub(super) hasher: &'a FixedState,
}

impl Index {
    /// The slots of the rows that have these values.
    pub(super) fn find<'a>(
        &'a self,
        keys: Keys<'a>,
        values: &'a [&'a Datum],
    ) -> impl Iterator<Item = u32> + 'a {
        let hash = hash_values(keys.hasher, values.iter().copied());
        let is_same = move |slot: &u32| keys.has(*slot, values);
        let same_first = |first: &First| first.hash == hash && is_same(&first.slot);
        let first = self.firsts.find(spread(hash), same_first).map(|first| first.slot);
        // Without a first slot there is no double.
        let doubles = first.map(|_| self.doubles.range((hash, 0)..=(hash, u32::MAX)));
        let doubles = doubles.into_iter().flatten().map(|(_, slot)| *slot).filter(is_same);
        first.into_iter().chain(doubles)
    }

    /// Adds `slot`, whose row is or will be `row`.
    pub(super) fn add(&mut self, keys: Keys<'_>, slot: u32, row: &[Datum]) {
        let hash = keys.hash(row);
        let same = |other: &First| {
            let row_of = |slot: u32| keys.slots.row(slot as usize);
            other.hash == hash && row_of(other.slot).is_some_and(|other| keys.agree(other, row))
        };
        match self.firsts.entry(spread(hash), same, |other| spread(other.hash)) {
            Entry::Vacant(place) => drop(place.insert(First { hash, slot })),
            Entry::Occupied(_) => drop(self.doubles.insert((hash, slot))),
        }
    }

    /// Removes `slot`, whose row is or was `row`.
    pub(super) fn remove(&mut self, keys: Keys<'_>, slot: u32, row: &[Datum]) {
        let hash = keys.hash(row);
        let Ok(mut first) = self.firsts.find_entry(spread(hash), |first| first.slot == slot) else {
            self.doubles.remove(&(hash, slot));
            return;
        };
        let is_same =
            |other: u32| keys.slots.row(other as usize).is_some_and(|other| keys.agree(other, row));
        let mut doubles = self.doubles.range((hash, 0)..=(hash, u32::MAX)).copied();
        match doubles.find(|(_, other)| is_same(*other)) {
            Some(next) => {
                first.get_mut().slot = next.1;
                self.doubles.remove(&next);
            }
            None => drop(first.remove()),
        }
    }
}

impl Keys<'_> {
    pub(super) fn agree(&self, a: &[Datum], b: &[Datum]) -> bool {
        self.columns.iter().all(|column| a[column.index()] == b[column.index()])
    }

    fn has(&self, slot: u32, values: &[&Datum]) -> bool {
        let has = |row: &super::Row| {
            self.columns.iter().zip(values).all(|(column, value)| &row[column.index()] == *value)
        };
        self.slots.row(slot as usize).is_some_and(has)
    }

    fn hash(&self, row: &[Datum]) -> u32 {
        hash_values(self.hasher, self.columns.iter().map(|column| &row[column.index()]))
    }
}

fn hash_values<'a>(hasher: &FixedState, values: impl Iterator<Item = &'a Datum>) -> u32 {
    let mut state = hasher.build_hasher();
    for value in values {
        value.hash(&mut state);
    }
    state.finish() as u32
}

/// Spreads a hash over 64 bits, because the table uses all of them.
const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Row;
    use crate::value::Atom;
    use std::collections::BTreeMap;

    /// D4: rows with the same values are kept in order beside the first, and can be added and removed in any order.
    #[test]
    fn rows_with_the_same_values_are_doubles_of_the_first_d4() {
        const SLOTS: u32 = 64;
        let value = |number: u32| Datum::One(Atom::Integer(i64::from(number)));
        let (columns, hasher) = ([ColumnId(0)], FixedState::with_seed(7));
        let (mut slots, mut index) = (Slots::default(), Index::default());
        slots.grow();
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut random: u32 = 1;
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (slot, number) = (random >> 8 & (SLOTS - 1), random >> 20 & 3);
            let row: Row = std::sync::Arc::from([value(number)]);
            if let Some(old) = known.remove(&slot) {
                let keys = Keys { slots: &slots, columns: &columns, hasher: &hasher };
                index.remove(keys, slot, &[value(old)]);
                slots.set(slot as usize, None);
            } else {
                let keys = Keys { slots: &slots, columns: &columns, hasher: &hasher };
                index.add(keys, slot, &row);
                slots.set(slot as usize, Some(row));
                known.insert(slot, number);
            }
            let keys = Keys { slots: &slots, columns: &columns, hasher: &hasher };
            let mut distinct = 0;
            for number in 0..4 {
                let wanted = value(number);
                let mut found: Vec<u32> = index.find(keys, &[&wanted]).collect();
                found.sort_unstable();
                let expected = known.iter().filter(|(_, known)| **known == number);
                let expected: Vec<u32> = expected.map(|(slot, _)| *slot).collect();
                assert_eq!(found, expected);
                distinct += usize::from(!found.is_empty());
            }
            assert_eq!(index.firsts.len(), distinct);
            assert_eq!(index.doubles.len(), known.len() - distinct);
        }
    }
}
