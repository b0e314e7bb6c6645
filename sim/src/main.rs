//! Runs seeds: `--seeds 0..1000000` shows progress and stops at the first failure, `--keep-going`
//! counts them instead; `--seed 123` shows the whole trace of one.

use paceline_sim::run::{Failure, run};
use paceline_sim::seeds::{Seeds, asked};
use paceline_sim::world::World;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seed that is running, to be reported on a panic.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Seeds between two progress reports.
const REPORT_EVERY: u64 = 10_000;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("seed {}: {panic}", SEED.load(Ordering::Relaxed));
    }));
    match asked("paceline-sim") {
        Ok(Seeds::One(seed)) => show(seed),
        Ok(Seeds::Many { from, to, keep_going }) => many(from, to, keep_going),
        Err(code) => code,
    }
}

/// The whole trace of one seed.
fn show(seed: u64) -> ExitCode {
    SEED.store(seed, Ordering::Relaxed);
    match run(seed, &mut World::new()) {
        Ok(trace) => {
            trace.iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: the engine and the model agree");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.trace.iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: {}", failure.text);
            ExitCode::FAILURE
        }
    }
}

fn many(from: u64, to: u64, keep_going: bool) -> ExitCode {
    let mut failed = 0;
    for seed in from..to {
        SEED.store(seed, Ordering::Relaxed);
        if let Err(failure) = run(seed, &mut World::new()) {
            if !keep_going {
                println!("{failure}");
                return ExitCode::FAILURE;
            }
            failed += 1;
            tell(&failure);
        }
        if (seed + 1 - from).is_multiple_of(REPORT_EVERY) {
            println!("{} seeds, {} failures", seed + 1 - from, failed);
        }
    }
    println!("{failed} of {} seeds failed", to.saturating_sub(from));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(failure: &Failure) {
    println!("seed {}: {} steps, {}", failure.seed, failure.trace.len(), failure.text);
}
