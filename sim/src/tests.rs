//! The simulation itself: ten thousand seeds, the stories of the invariants, and the checks checked.

use crate::invariants::{fair_shares, long_run, predicted, starvation};
use crate::run::run;
use crate::subject::Naive;

/// The checks accept the model itself.
#[test]
fn the_model_passes_its_own_checks() {
    for seed in 0..3000 {
        if let Err(failure) = run(seed, &mut Naive::new()) {
            panic!("{failure}");
        }
    }
    for rate in [(3, 10_000_000, 2), (7, 1_000_000_000, 1), (997, 1_000_003, 5)] {
        long_run::check(&mut Naive::new(), rate, 0).unwrap();
        long_run::check(&mut Naive::new(), rate, 5_000_000).unwrap();
    }
    for case in fair_shares::CASES {
        fair_shares::check(&mut Naive::new(), case).unwrap();
    }
    for seed in 0..100 {
        predicted::check(&mut Naive::new(), seed).unwrap();
    }
    for scarce in starvation::ALL {
        starvation::check(&mut Naive::new(), scarce).unwrap();
    }
}
