//! Random transactions against the model: results, content, versions, changes and indexes.

use crate::random::Random;
use crate::world::World;

fn check(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        for _ in 0..20 {
            world.step(&mut random);
        }
    }
}

#[test]
fn transactions_agree_with_the_model_1() {
    check(0..1_000);
}

#[test]
fn transactions_agree_with_the_model_2() {
    check(1_000..2_000);
}

#[test]
fn tally() {
    let mut total = std::collections::BTreeMap::new();
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        for _ in 0..20 {
            world.step(&mut random);
        }
        for (k, v) in &world.tally { *total.entry(*k).or_insert(0) += v; }
    }
    panic!("{total:#?}");
}
