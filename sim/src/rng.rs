//! A small generator of pseudo-random numbers.
//!
//! Owns one 64-bit state (SplitMix64). Promises the same sequence for the same seed on every machine. Never
//! reads anything from outside.

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; zero if `end` is zero.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of a hundred cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// One of these, or `None` if there are none.
    pub fn pick_any<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(self.pick(all)) }
    }

    /// A random index, by these weights.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut two) = (Rng::new(5), Rng::new(5));
        let first: Vec<u64> = (0..100).map(|_| one.next()).collect();
        assert!(first.iter().all(|number| *number == two.next()));
        assert_ne!(Rng::new(6).next(), first[0]);
    }

    #[test]
    fn bounds_hold_and_all_values_come() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[rng.between(3, 7) as usize - 3] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick_any::<u8>(&[]), None);
        let heavy = (0..1_000).filter(|_| rng.weighted(&[1, 0, 9]) == 2).count();
        assert!((850..950).contains(&heavy), "{heavy}");
    }
}
