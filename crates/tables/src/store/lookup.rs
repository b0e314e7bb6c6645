//! A hash map without iteration, so that no behaviour depends on its order.

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::hash::Hash;

/// A keyed-hash map without iteration.
#[derive(Clone, Debug)]
pub(crate) struct Lookup<K, V> {
    map: HashMap<K, V, FixedState>,
}

impl<K: Hash + Eq, V> Lookup<K, V> {
    /// An empty map whose hashes are keyed by `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { map: HashMap::with_hasher(FixedState::with_seed(seed)) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// The value under a borrowed key.
    pub(crate) fn get_by<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.map.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V, FixedState> {
        self.map.entry(key)
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.map.remove(key);
    }
}
