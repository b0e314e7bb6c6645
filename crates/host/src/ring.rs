//! Turns: which key's work is next, when several have waiting work.
//!
//! Promises that each key gets one turn for every turn of another, however much it has waiting.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Values that get their turns in the order of their keys, round after round.
#[derive(Debug)]
pub struct Ring<K, V> {
    /// The values.
    pub all: BTreeMap<K, V>,
    /// The key that had its turn last.
    last: Option<K>,
}

impl<K, V> Ring<K, V> {
    /// No values yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { all: BTreeMap::new(), last: None }
    }
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V> Ring<K, V> {
    /// Moves on to the next key and returns it.
    pub fn turn(&mut self) -> Option<K> {
        self.turn_of(|_| true)
    }

    /// The same among the keys that may have a turn now.
    pub fn turn_of(&mut self, may: impl Fn(&K) -> bool) -> Option<K> {
        let from = self.last.as_ref().map_or(Unbounded, Excluded);
        let after = self.all.range((from, Unbounded)).map(|(key, _)| key);
        let key = after.chain(self.all.keys()).find(|key| may(key))?.clone();
        self.last = Some(key.clone());
        Some(key)
    }
}
