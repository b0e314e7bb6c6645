//! The binary: reads the command line, starts the daemon or runs a tool.
//!
//! Only this crate reads arguments, the environment and configuration. Data is written to stdout, everything
//! else to stderr; exit codes are those of the manual: 0, 1 failed, 2 usage, 3 refused, 4 not found, 69 daemon
//! unreachable, 75 queue full or waited too long, 77 not permitted.
// These macros panic if the output is closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cli;
mod command;
mod config;
mod demo;
mod failure;
mod keep;
mod moment;
mod notify;
mod screen;
mod serve;
mod settings;
mod show_log;
mod table;
mod tools;

use clap::Parser;
use failure::Failure;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// It returns freed memory to the system, unlike glibc's allocator, and takes less time per permit.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let played = command::witness::play(std::env::args_os());
    if let Some(code) = played.or_else(|| command::starter::play(std::env::args_os())) {
        return code;
    }
    let arguments = match cli::Arguments::try_parse().map_err(with_tip) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && asks_for_json() => {
            return Failure::usage(&error.to_string()).report(true);
        }
        Err(error) => error.exit(),
    };
    // The demo draws on the terminal, and its daemon's log would disturb that.
    if !matches!(arguments.command, cli::Command::Demo(_)) {
        start_log(arguments.log);
    }
    paceline_host::end_with_panics();
    let as_json = arguments.reach.json;
    match run(arguments.command, as_json) {
        Ok(code) => code,
        Err(failure) => failure.report(as_json),
    }
}

/// Whether errors should be JSON, for a command line that could not be parsed.
fn asks_for_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// Adds a hint about a command to run that was given without the dashes before it.
fn with_tip(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let runs_command =
        error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("-- <CMD>"));
    let is_word = matches!(error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(word)) if !word.starts_with('-'));
    if error.kind() == ErrorKind::UnknownArgument && runs_command && is_word {
        let tip = "put -- before the command that is to be run".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

fn run(command: cli::Command, as_json: bool) -> Result<ExitCode, Failure> {
    use cli::Command;
    match command {
        Command::Demo(demo) => demo::run(&demo)?,
        Command::Serve(serve) => serve::run(*serve)?,
        Command::Check { files, strict } => {
            let is_good = config::check(&files, strict, as_json)?;
            return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Ovsdb { command } => tools::run(command)?,
        Command::Apply(apply) => return command::apply::run(&apply),
        Command::Export(export) => command::export::run(&export)?,
        Command::Backup(backup) => command::backup::run(&backup)?,
        Command::Restore(restore) => command::restore::run(&restore)?,
        Command::Doctor(doctor) => return command::doctor::run(&doctor),
        Command::Permit(permit) => return command::permit::run(&permit),
        Command::Lock(lock) => return command::lock::run(&lock),
        Command::Why(why) => command::why::run(&why)?,
        Command::Explain(explain) => command::explain::run(&explain)?,
        Command::Cancel(cancel) => command::cancel::run(&cancel)?,
        Command::Status(status) => command::status::run(&status)?,
        Command::Whoami(whoami) => command::whoami::run(&whoami)?,
        Command::Users(users) => command::users::run(&users)?,
        Command::Ps(ps) => command::ps::run(&ps)?,
        Command::Tree(tree) => command::tree::run(&tree)?,
        Command::Pools(pools) => command::pools::run(&pools)?,
        Command::Rules(rules) => return command::rules::run(&rules),
        Command::Checkpoints(checkpoints) => command::checkpoints::run(&checkpoints)?,
        Command::Api(api) => command::single::api(&api)?,
        Command::Http(http) => command::single::http(&http)?,
        Command::Frontends(frontends) => command::frontends::run(&frontends)?,
        Command::Backends(backends) => command::backends::run(&backends)?,
        Command::Servers(servers) => command::servers::run(&servers)?,
        Command::SqlTargets(targets) => command::sql_targets::run(&targets)?,
        Command::Resources(resources) => command::resources::run(&resources)?,
        Command::Locks(locks) => command::locks::run(&locks)?,
        Command::Token(token) => command::token::run(&token)?,
        Command::Events(events) => command::events::run(&events)?,
        Command::Completions(completions) => command::completions::run(&completions)?,
        Command::Man(man) => command::man::run(&man)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Messages go to stderr, with colours only where a person reads them.
fn start_log(level: cli::Level) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .with_max_level(level.filter())
        // A log that cannot be written is not a reason to fail.
        .log_internal_errors(false)
        .finish()
        // What libraries log about the data of clients is for their authors, and clients could fill a disk with
        // it.
        .with(filter_fn(|metadata| metadata.target().starts_with("paceline")))
        .init();
}
