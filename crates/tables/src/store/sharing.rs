//! Sharing of equal sets and maps between rows.
//!
//! Many rows of a database hold the same few small sets and maps. A small cache of recent ones lets
//! a new row use what an earlier one has in memory. It only saves memory: a miss costs nothing but
//! the look, and the cache has a fixed size.

use crate::value::Datum;
use foldhash::quality::FixedState;
use std::hash::BuildHasher as _;

/// How many values are remembered.
const PLACES: usize = 4096;

/// Larger values are not looked at: comparing them costs more than they save.
const ELEMENTS_MAX: usize = 16;

/// Recent small sets and maps, each in the one place that its hash says.
#[derive(Debug)]
pub(super) struct Sharing {
    places: Vec<Datum>,
    hasher: FixedState,
}

impl Sharing {
    pub(super) fn new(hash_seed: u64) -> Self {
        Self { places: Vec::new(), hasher: FixedState::with_seed(hash_seed) }
    }

    /// Makes `value` use the memory of an equal one that was seen before.
    pub(super) fn share(&mut self, value: &mut Datum) {
        if !matches!(value, Datum::Set(_) | Datum::Map(_)) || value.len() > ELEMENTS_MAX {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![Datum::Empty; PLACES];
        }
        let place = self.hasher.hash_one(&*value) as usize % PLACES;
        let known = &mut self.places[place];
        if known == value {
            value.clone_from(known);
        } else {
            known.clone_from(value);
        }
    }
}
