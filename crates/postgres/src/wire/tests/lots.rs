//! Random numbers and texts that repeat with their seed.

use super::super::Format;

/// A sequence of random numbers (SplitMix64).
pub struct Lots(u64);

impl Lots {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.number() % count as u64) as usize
    }

    pub fn is_so(&mut self) -> bool {
        self.number() & 1 != 0
    }

    /// A number of any size, often a small one or one at the edge.
    pub fn word(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(4) as u32,
            1 => u32::MAX - self.below(2) as u32,
            _ => self.number() as u32,
        }
    }

    /// Up to 11 bytes, among them NUL.
    pub fn bytes(&mut self) -> Vec<u8> {
        let len = self.below(12);
        (0..len).map(|_| self.number() as u8 & [0x03, 0x7f, 0xff][self.below(3)]).collect()
    }

    /// Up to 11 bytes without NUL.
    pub fn text(&mut self) -> Vec<u8> {
        self.bytes().into_iter().filter(|byte| *byte != 0).collect()
    }

    pub fn value(&mut self) -> Option<Vec<u8>> {
        (self.below(4) != 0).then(|| self.bytes())
    }

    pub fn format(&mut self) -> Format {
        if self.is_so() { Format::Binary } else { Format::Text }
    }

    /// Up to four of what `make` makes.
    pub fn list<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.below(5);
        (0..len).map(|_| make(self)).collect()
    }
}
