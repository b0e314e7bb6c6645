//! Seeds.

use crate::world::run;

fn seeds(from: u64, to: u64) {
    for seed in from..to {
        if let Err(failure) = run(seed) {
            panic!("seed {seed}: {}\n{}", failure.text, failure.trace.join("\n"));
        }
    }
}

#[test]
fn seeds_of_the_1st_thousand() {
    seeds(0, 1_000);
}

#[test]
fn seeds_of_the_2nd_thousand() {
    seeds(1_000, 2_000);
}
