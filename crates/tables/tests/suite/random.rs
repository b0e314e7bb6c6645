//! A small seeded generator (SplitMix64), so that every failing case repeats from its number.

/// A stream of random numbers that depends on its seed alone.
pub struct Random {
    state: u64,
    /// Nothing rare happens: the output is mostly valid.
    pub calm: bool,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let state = seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x2545_f491_4f6c_dd1d;
        Self { state, calm: false }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but not including `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` cases, unless this is calm.
    pub fn rare(&mut self, n: usize) -> bool {
        let rare = self.below(n) == 0;
        rare && !self.calm
    }

    /// One of `all`, which is not empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// The elements of `all`, each chosen with a chance of `percent`, in order.
    pub fn some_of<T: Clone>(&mut self, all: &[T], percent: usize) -> Vec<T> {
        all.iter().filter(|_| self.chance(percent)).cloned().collect()
    }
}
