//! The command line as it is run: its output, its exit code, and what it holds meanwhile.
//!
//! It calls a small server that implements the API's contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../../client/tests/it/fake.rs"]
mod fake;
mod holding;
mod sample;
mod screens;
mod words;

use std::path::Path;
use std::process::{Command, Stdio};

/// The program, calling the daemon of `data`, without the settings of the user who runs the tests.
fn paceline(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PACELINE_SESSION", "PACELINE_LOG"] {
        command.env_remove(name);
    }
    command.env("PACELINE_DATA", data);
    command
}

/// Exit code, standard output and standard error.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
