//! `bench`: what single operations of the pure crates cost, and how that grows with the data.
//!
//! Owns the command line. Each file in `loads` prepares data of several sizes and passes timed rounds to `measure`;
//! `report` prints the medians. There is no daemon and no socket, and threads only if they are the load. So a figure
//! here is a lower bound of what a client can see; `bench-compare` measures the whole.

mod calls;
mod histogram;
mod loads;
mod measure;
mod report;

use measure::Bench;
use std::process::ExitCode;
use std::time::Instant;

/// The result of anything that can fail here.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
bench: what single operations of the pure crates cost, and how that grows

usage: bench [options]

options:
  --load TEXT   only loads with TEXT in their name
  --big         sizes that take minutes and gigabytes, too
  --json        JSON with least, median and most instead of the table
  --help        this text

Every load runs on three sizes of data, the second and third usually 10 and
1,000 times the first. The figure is the median of several rounds; growth is
the cost of an operation against that at the first size, so 1.0 everywhere
means that the data's size does not matter. Run it in a release build:
  cargo run --release -p paceline-bench
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<ExitCode> {
    let (mut load, mut json, mut big) = (String::new(), false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            "--json" => json = true,
            "--big" => big = true,
            "--load" => load = args.next().ok_or("--load needs a value")?,
            other => {
                eprintln!("bench: unknown option {other}, see --help");
                return Ok(ExitCode::from(2));
            }
        }
    }
    if cfg!(debug_assertions) {
        eprintln!("bench: this is not a release build, the figures mean little");
    }
    let begin = Instant::now();
    let mut bench = Bench::new(load, big);
    loads::all(&mut bench)?;
    let lines = bench.lines();
    if lines.is_empty() {
        return Err("no load has that name".into());
    }
    print!("{}", if json { report::json(lines) } else { report::table(lines) });
    eprintln!("bench: {:.1} s", begin.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}
