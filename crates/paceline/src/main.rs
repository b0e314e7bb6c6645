//! The binary: reads the command line, starts the daemon or runs a tool.
//!
//! Only this crate reads arguments, the environment and configuration. Data goes to stdout,
//! everything else to stderr; exit codes are those of the manual: 0, 1 failed, 2 usage.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cli;
mod config;
mod notify;
mod serve;
mod show_log;
mod tools;

use clap::Parser;
use std::io::IsTerminal as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    start_log(arguments.log);
    let done = match arguments.command {
        cli::Command::Serve(serve) => serve::run(*serve),
        cli::Command::Check { files } => return checked(config::check(&files)),
        cli::Command::Ovsdb { command } => tools::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("paceline: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What is wrong with files stands for itself, as editors and scripts read it.
fn checked(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(lines) => {
            eprintln!("{lines}");
            ExitCode::FAILURE
        }
    }
}

/// Messages go to stderr, with colours only where a person reads them.
fn start_log(level: cli::Level) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .with_max_level(level.filter())
        .init();
}
