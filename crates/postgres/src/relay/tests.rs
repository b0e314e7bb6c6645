//! Tests of the relay: a model with naive servers and random histories.

mod cases;
mod client;
mod model;
mod server;
mod world;

/// A small generator of numbers, the same on every run for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}
