//! Sharing of equal sets and maps between rows.
//!
//! Many rows of a database hold the same few small sets and maps. A small cache of recent ones lets a new row use
//! the memory of an earlier one. It only saves memory: a miss costs nothing but the look-up, and the cache has a
//! fixed size. It keeps no value alive: a value that no row has any more is freed, except for the few hundred bytes
//! of the array that its atoms were in.

use crate::value::{Atom, Datum};
use foldhash::quality::FixedState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Weak};

/// How many values are remembered.
const PLACES: usize = 4096;

/// Larger values are skipped: comparing them costs more than they save.
const ELEMENTS_MAX: usize = 16;
const BYTES_MAX: usize = 1 << 10;

/// Recent small sets and maps, each at the place given by its hash.
#[derive(Debug)]
pub(super) struct Sharing {
    places: Vec<Known>,
    hasher: FixedState,
}

/// A set or map that some row had.
#[derive(Clone, Debug, Default)]
enum Known {
    #[default]
    Nothing,
    Set(Weak<[Atom]>),
    Map(Weak<[(Atom, Atom)]>),
}

impl Known {
    fn of(value: &Datum) -> Self {
        match value {
            Datum::Set(atoms) => Self::Set(Arc::downgrade(atoms)),
            Datum::Map(pairs) => Self::Map(Arc::downgrade(pairs)),
            Datum::Empty | Datum::One(_) => Self::Nothing,
        }
    }

    fn value(&self) -> Option<Datum> {
        match self {
            Self::Nothing => None,
            Self::Set(atoms) => atoms.upgrade().map(Datum::Set),
            Self::Map(pairs) => pairs.upgrade().map(Datum::Map),
        }
    }
}

impl Sharing {
    pub(super) fn new(hash_seed: u64) -> Self {
        Self { places: Vec::new(), hasher: FixedState::with_seed(hash_seed) }
    }

    /// Makes the values of a new version of a row use the memory of equal values seen before. Values that the row
    /// already had in `old` are not looked at again.
    pub(super) fn share_row(&mut self, fields: &mut [Datum], old: Option<&[Datum]>) {
        for (at, field) in fields.iter_mut().enumerate() {
            let had = old.and_then(|old| old.get(at));
            if !had.is_some_and(|had| had.shares_memory_with(field)) {
                self.share(field);
            }
        }
    }

    fn share(&mut self, value: &mut Datum) {
        let is_shareable = matches!(value, Datum::Set(_) | Datum::Map(_));
        if !is_shareable || value.len() > ELEMENTS_MAX || value.memory() > BYTES_MAX {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![Known::Nothing; PLACES];
        }
        let place = self.hasher.hash_one(&*value) as usize % PLACES;
        match self.places[place].value().filter(|known| known == value) {
            Some(same) => *value = same,
            None => self.places[place] = Known::of(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> Datum {
        Datum::from_sorted(texts.iter().map(|text| Atom::string(text)).collect())
    }

    fn map(texts: &[&str]) -> Datum {
        let pair = |text: &&str| (Atom::string(text), Atom::Integer(1));
        Datum::from_sorted_pairs(texts.iter().map(pair).collect())
    }

    fn text_of(value: &Datum) -> Weak<str> {
        let Some(Atom::Long(text)) = value.keys().next() else { panic!("{value:?}") };
        Arc::downgrade(text)
    }

    #[test]
    fn equal_small_sets_and_maps_are_shared() {
        let mut sharing = Sharing::new(1);
        for (first, mut second) in
            [(set(&["a", "b"]), set(&["a", "b"])), (map(&["a"]), map(&["a"]))]
        {
            let mut fields = [first];
            sharing.share_row(&mut fields, None);
            assert!(!second.shares_memory_with(&fields[0]));
            sharing.share_row(std::slice::from_mut(&mut second), None);
            assert!(second.shares_memory_with(&fields[0]));
        }
    }

    /// D1: a value that no row has any more is freed, even a small one.
    #[test]
    fn what_no_row_has_is_freed_d1() {
        let long = "x".repeat(100);
        let mut sharing = Sharing::new(1);
        for value in [set(&[&long, "y"]), map(&[&long])] {
            let mut fields = [value];
            sharing.share_row(&mut fields, None);
            let text = text_of(&fields[0]);
            drop(fields);
            assert!(text.upgrade().is_none(), "the cache keeps it");
        }
    }

    /// D4: neither a value of many bytes, however few its elements, nor a value that the row had before is hashed.
    #[test]
    fn large_and_untouched_values_are_not_looked_at_d4() {
        let (long, text) = ("x".repeat(BYTES_MAX), "y".repeat(100));
        let mut sharing = Sharing::new(1);
        let mut large = [set(&[&long, "y"]), map(&[&long])];
        sharing.share_row(&mut large, None);
        assert!(sharing.places.is_empty(), "a large value was hashed");
        let old = [set(&["a", &text]), map(&["a"])];
        sharing.share_row(&mut old.clone(), Some(&old));
        assert!(sharing.places.is_empty(), "an untouched value was hashed");
    }
}
