//! Runs seeds: `--seeds 0..100000` shows progress and stops at the first failure, `--keep-going` counts them
//! instead; `--seed 123` shows the whole history of one.

use paceline_sim::seeds::{Seeds, asked};
use paceline_sim_host::world::run;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seed that is running, to be reported on a panic.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Seeds between two progress reports.
const REPORT_EVERY: u64 = 1_000;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("seed {}: {panic}", SEED.load(Ordering::Relaxed));
    }));
    match asked("paceline-sim-host") {
        Ok(Seeds::One(seed)) => show(seed),
        Ok(Seeds::Many { from, to, keep_going }) => many(from, to, keep_going),
        Err(code) => code,
    }
}

/// The whole history of one seed.
fn show(seed: u64) -> ExitCode {
    SEED.store(seed, Ordering::Relaxed);
    match run(seed) {
        Ok(figures) => {
            println!("seed {seed}: all promises held, {figures:?}");
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
    let (mut failed, mut permits, mut steps) = (0, 0, 0);
    for seed in from..to {
        SEED.store(seed, Ordering::Relaxed);
        match run(seed) {
            Ok(figures) => (permits, steps) = (permits + figures.permits, steps + figures.steps),
            Err(failure) => {
                println!("seed {seed}: {} (step {})", failure.text, failure.trace.len());
                if !keep_going {
                    return ExitCode::FAILURE;
                }
                failed += 1;
            }
        }
        if (seed + 1 - from).is_multiple_of(REPORT_EVERY) {
            println!(
                "{} seeds, {failed} failures, {permits} permits, {steps} steps",
                seed + 1 - from
            );
        }
    }
    println!(
        "{failed} of {} seeds failed, {permits} permits, {steps} steps",
        to.saturating_sub(from)
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
