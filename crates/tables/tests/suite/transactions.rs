//! Random transactions against the model: results, content, versions, changes and indexes.

use crate::random::Random;
use crate::world::World;
use std::collections::BTreeMap;

/// Runs 20 transactions for each seed; returns how often each kind of event happened.
fn check(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, usize> {
    let mut total = BTreeMap::new();
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        for _ in 0..20 {
            world.step(&mut random);
        }
        world.tally.iter().for_each(|(what, n)| *total.entry(*what).or_insert(0) += n);
    }
    total
}

#[test]
fn transactions_agree_with_the_model_1() {
    check(0..1_250);
}

/// A generator that no longer reaches some case would make the comparison meaningless.
#[test]
fn transactions_agree_with_the_model_2() {
    let total = check(1_250..2_500);
    for (what, at_least) in [
        ("done", total["all"] / 3),
        ("rows", total["done"] * 3),
        ("collected", 500),
        ("dangling", 200),
        ("many", 50),
        ("selected", 1_000),
        ("counted", 1_000),
        ("aborted", 20),
        ("constraint violation", 200),
        ("domain error", 5),
        ("duplicate uuid", 20),
        ("duplicate uuid-name", 1),
        ("not allowed", 20),
        ("not owner", 20),
        ("ovsdb error", 20),
        ("permission error", 20),
        ("range error", 5),
        ("referential integrity violation", 100),
        ("syntax error", 100),
        ("timed out", 20),
        ("unknown column", 10),
        ("unknown function", 10),
        ("unknown mutator", 10),
    ] {
        let n = total.get(what).copied().unwrap_or(0);
        assert!(n >= at_least, "{what} happened {n} times, not {at_least}: {total:?}");
    }
}
