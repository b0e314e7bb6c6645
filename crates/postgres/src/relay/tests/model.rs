//! Random histories, each from its own seed.

use super::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const SEEDS: u64 = 40_000;

fn check(seeds: std::ops::Range<u64>, has_deaths: bool) {
    for seed in seeds {
        let run = || World::new(seed, has_deaths).run();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("seed {seed} fails, deaths: {has_deaths}");
            World::new(seed, has_deaths).traced().run();
            resume_unwind(panic);
        }
    }
}

#[test]
fn answers_are_those_of_a_private_server() {
    check(0..SEEDS, false);
}

#[test]
fn answers_are_those_of_a_private_server_until_one_side_dies() {
    check(SEEDS..2 * SEEDS, true);
}
