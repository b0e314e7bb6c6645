//! `bench-compare`: the same load against ovsdb-server and Paceline in one run. `bench-compare permits` compares with
//! Redis and etcd, `bench-compare http` with HAProxy and nginx.
//!
//! This file parses the command line, finds the binaries, runs the loads in order and prints the result. `loads`
//! defines what is measured, `rounds` how.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod data;
mod failure;
mod file;
mod floor;
mod http;
mod loads;
mod machine;
mod pattern;
mod permits;
mod pipeline;
mod process;
mod report;
mod rounds;
mod server;
mod turn;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{HELP, Options};
use crate::failure::{Failure, Outcome};
use crate::rounds::Bench;
use crate::server::{Binaries, Side};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "permits").is_some() {
        return part(permits::Options::parse(args), |options| permits::run(&options));
    }
    if args.next_if(|arg| arg == "http").is_some() {
        return part(http::Options::parse(args), |options| http::run(&options));
    }
    if args.next_if(|arg| arg == "origin").is_some() {
        return part(Ok(args), http::origin::main);
    }
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("bench-compare: {error}");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a part with its own command line.
fn part<T>(options: Outcome<T>, run: impl FnOnce(T) -> Outcome<()>) -> ExitCode {
    let (ended, code) = match options {
        Ok(options) => (run(options), ExitCode::FAILURE),
        Err(error) => (Err(error), ExitCode::from(2)),
    };
    let Err(error) = ended else { return ExitCode::SUCCESS };
    eprintln!("bench-compare: {error}");
    code
}

/// Runs the loads; returns false if one failed.
fn run(options: Options) -> Outcome<bool> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    if options.list {
        for load in loads::ALL {
            println!("{:18} {}", load.name, load.about);
        }
        return Ok(true);
    }
    let binaries = find_binaries(&options)?;
    let json = options.json;
    let bench = Bench::new(options, binaries)?;
    let (lines, failed) = run_loads(&bench)?;
    let facts = machine::facts(&bench);
    let write = if json { report::json } else { report::markdown };
    print!("{}", write(&facts, &lines, &failed));
    Ok(failed.is_empty())
}

fn run_loads(bench: &Bench) -> Outcome<(Vec<rounds::Line>, Vec<report::Failed>)> {
    let wanted = |name| bench.options.load.as_ref().is_none_or(|pattern| pattern.matches(name));
    let chosen: Vec<_> = loads::ALL.iter().filter(|load| wanted(load.name)).collect();
    if chosen.is_empty() {
        return Err(Failure::new("no load has such a name; see --list"));
    }
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for load in chosen {
        let start = Instant::now();
        eprint!("{:18} ", load.name);
        match (load.run)(bench) {
            Ok(found) => {
                eprintln!(" {:.1} s", start.elapsed().as_secs_f64());
                lines.extend(found);
            }
            Err(error) => {
                eprintln!(" failed: {error}");
                failed.push((load.name, error.to_string()));
            }
        }
    }
    Ok((lines, failed))
}

fn find_binaries(options: &Options) -> Outcome<Binaries> {
    let mut ovsdb_server = options.ovsdb_server.clone();
    // Debian installs it where only root's `PATH` looks.
    let debian = PathBuf::from("/usr/sbin/ovsdb-server");
    if ovsdb_server == Path::new("ovsdb-server") && debian.exists() {
        ovsdb_server = debian;
    }
    if options.sides.contains(&Side::Paceline) && !options.paceline.exists() {
        return Err(Failure::new(format!(
            "no paceline at {}: build it with cargo build --release, give --paceline PATH, \
             or measure --only ovsdb-server",
            options.paceline.display()
        )));
    }
    Ok(Binaries { paceline: options.paceline.clone(), ovsdb_server })
}
