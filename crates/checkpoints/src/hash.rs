//! Keys and flows as 128-bit numbers.
//!
//! Owns the keyed hash that stands for a key's text everywhere behind the engine's edge, so that a client
//! that does not know the seed cannot make two keys collide. Promises the same number for the same seed and
//! text. Never keeps a text.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// A key, or a flow, of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u64; 2]);

/// Turns the text of keys and flows into numbers. Small and cheap to copy, for use outside the lock.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    seed: [u64; 2],
}

impl KeyHasher {
    /// A hasher whose numbers depend on this seed.
    #[must_use]
    pub const fn new(seed: u128) -> Self {
        Self { seed: [(seed >> 64) as u64, seed as u64] }
    }

    /// The number that stands for this text.
    #[must_use]
    pub fn hash(&self, text: &[u8]) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hasher.write(text);
        let hash = hasher.finish128();
        KeyHash([hash.h1, hash.h2])
    }
}

#[cfg(test)]
mod tests {
    use super::KeyHasher;
    use std::collections::BTreeSet;

    #[test]
    fn the_seed_and_the_text_decide() {
        let hasher = KeyHasher::new(7);
        assert_eq!(hasher.hash(b"ann"), KeyHasher::new(7).hash(b"ann"));
        assert_ne!(hasher.hash(b"ann"), KeyHasher::new(8).hash(b"ann"));
        assert_ne!(hasher.hash(b"ann"), KeyHasher::new(7 << 64).hash(b"ann"));
        let all: BTreeSet<_> =
            (0..10_000u32).map(|n| hasher.hash(n.to_string().as_bytes())).collect();
        assert_eq!(all.len(), 10_000);
        // Each half alone distinguishes keys: one selects the sub-table, the other the tag.
        let high: BTreeSet<_> = all.iter().map(|hash| hash.0[0]).collect();
        let low: BTreeSet<_> = all.iter().map(|hash| hash.0[1]).collect();
        assert_eq!((high.len(), low.len()), (10_000, 10_000));
    }
}
