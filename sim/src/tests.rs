//! The simulation itself: ten thousand seeds, the stories of the invariants, and tests of the checks.

use crate::history::{CHURN, NESTS, RETURNS, ROUTES_EVERY, SIGNS};
use crate::invariants::{fair_shares, long_run, predicted, starvation};
use crate::run::{run, run_with_restart};
use crate::subject::Naive;
use crate::world::World;

/// Odd rates: N, D, B.
const RATES: [(u64, u64, u64); 4] =
    [(3, 10_000_000, 2), (7, 1_000_000_000, 1), (997, 1_000_003, 5), (1, 1, 1)];

/// The engine against the model, with all invariants, for a thousand seeds.
fn thousand(number: u64) {
    for seed in number * 1_000..(number + 1) * 1_000 {
        if let Err(failure) = run(seed, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

/// P3: what ran before a restart is held after it, and everything continues from there.
#[test]
fn a_restarted_engine_goes_on_as_if_only_the_waiters_had_left_p3() {
    for seed in 0..2_000 {
        if let Err(failure) = run_with_restart(seed, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

/// Another thousand of the seeds that have frontends, backends and connections.
#[test]
fn seeds_with_servers() {
    for number in 10_000 / ROUTES_EVERY..10_000 / ROUTES_EVERY + 1_000 {
        if let Err(failure) = run((number + 1) * ROUTES_EVERY - 1, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

/// P1 and S1 over edits that are undone, and servers and checkpoints that are created again, while many
/// requests run.
#[test]
fn seeds_that_edit_back_p1_s1() {
    for seed in CHURN..CHURN + 1_500 {
        if let Err(failure) = run(seed, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

/// P1 and S1 over names of a frontend that change while requests wait there and run; half of the seeds also
/// undo many other edits.
#[test]
fn seeds_that_rename_frontends_p1_s1() {
    for number in 0..750 {
        for from in [SIGNS, SIGNS | CHURN] {
            let seed = from + (number + 1) * ROUTES_EVERY - 1;
            if let Err(failure) = run(seed, &mut World::new()) {
                panic!("{failure}");
            }
        }
    }
}

/// C2 where sessions hold claims and ask for more, within each other, and the resources are edited.
#[test]
fn seeds_that_nest_c2() {
    for seed in (NESTS..NESTS + 1_500).chain((NESTS | CHURN)..(NESTS | CHURN) + 500) {
        if let Err(failure) = run(seed, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

/// Requests that had waited before a restart are placed as if they had arrived that much earlier.
#[test]
fn seeds_with_requests_that_return() {
    for seed in (RETURNS..RETURNS + 1_000).chain(RETURNS | CHURN..(RETURNS | CHURN) + 500) {
        if let Err(failure) = run(seed, &mut World::new()) {
            panic!("{failure}");
        }
    }
}

#[test]
fn seeds_of_the_1st_thousand() {
    thousand(0);
}

#[test]
fn seeds_of_the_2nd_thousand() {
    thousand(1);
}

#[test]
fn seeds_of_the_3rd_thousand() {
    thousand(2);
}

#[test]
fn seeds_of_the_4th_thousand() {
    thousand(3);
}

#[test]
fn seeds_of_the_5th_thousand() {
    thousand(4);
}

#[test]
fn seeds_of_the_6th_thousand() {
    thousand(5);
}

#[test]
fn seeds_of_the_7th_thousand() {
    thousand(6);
}

#[test]
fn seeds_of_the_8th_thousand() {
    thousand(7);
}

#[test]
fn seeds_of_the_9th_thousand() {
    thousand(8);
}

#[test]
fn seeds_of_the_10th_thousand() {
    thousand(9);
}

/// One seed with its whole trace: `SIM_SEED=123 cargo test -p paceline-sim replay -- --nocapture`.
#[test]
fn replay() {
    let seed = std::env::var("SIM_SEED").map_or(0, |seed| seed.parse().unwrap());
    match run(seed, &mut World::new()) {
        Ok(trace) => println!("{}", trace.join("\n")),
        Err(failure) => panic!("{}\n{}", failure.trace.join("\n"), failure),
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..100 {
        let [one, two] = [(); 2].map(|()| match run(seed, &mut World::new()) {
            Ok(trace) => trace,
            Err(failure) => failure.trace,
        });
        assert!(one.len() > 20, "seed {seed} is a history");
        assert_eq!(one, two, "seed {seed}");
    }
}

#[test]
fn the_long_run_rate_is_the_limit_exactly() {
    for rate in RATES {
        long_run::check(&mut World::new(), rate, 0, 1_000).unwrap();
        long_run::check(&mut World::new(), rate, 5_000_000, 1_000).unwrap();
    }
}

#[test]
fn fair_flows_get_their_shares() {
    for case in fair_shares::CASES {
        fair_shares::check(&mut World::new(), case, 4).unwrap();
    }
}

/// Promise C3, and the same for counts and slots.
#[test]
fn nobody_starves() {
    for scarce in starvation::ALL {
        starvation::check(&mut World::new(), scarce).unwrap();
    }
}

#[test]
fn predicted_times_are_right_on_a_quiet_system() {
    for seed in 0..200 {
        predicted::check(&mut World::new(), seed).unwrap();
    }
}

/// The checks accept the model itself.
#[test]
fn the_model_passes_its_own_checks() {
    let seeds = (0..1_000).chain(CHURN..CHURN + 300).chain(NESTS..NESTS + 300);
    for seed in seeds.chain(RETURNS..RETURNS + 300) {
        if let Err(failure) = run(seed, &mut Naive::new()) {
            panic!("{failure}");
        }
    }
}

/// The shorter stories are played with the model too.
#[test]
fn the_model_passes_its_own_stories() {
    for rate in RATES {
        long_run::check(&mut Naive::new(), rate, 0, 40).unwrap();
        long_run::check(&mut Naive::new(), rate, 5_000_000, 40).unwrap();
    }
    for seed in 0..30 {
        predicted::check(&mut Naive::new(), seed).unwrap();
    }
    starvation::check(&mut Naive::new(), starvation::Scarce::Count).unwrap();
    fair_shares::check(&mut Naive::new(), fair_shares::CASES[1], 1).unwrap();
}
