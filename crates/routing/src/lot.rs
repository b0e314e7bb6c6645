//! Random numbers that clients cannot predict, the same on every run with the same seed.

/// A sequence of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Lot(u64);

impl Lot {
    pub fn new(seed: u128) -> Self {
        Self(seed as u64 ^ (seed >> 64) as u64)
    }

    /// A number below `count`; 0 if that is 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        ((u128::from(mixed) * count as u128) >> 64) as usize
    }
}
