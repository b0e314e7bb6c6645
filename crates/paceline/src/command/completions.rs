//! `paceline completions`: scripts with which a shell completes the command line.

use super::print;
use crate::cli::Arguments;
use crate::failure::Failure;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

pub const HELP: &str = "\
Example:
  paceline completions bash > ~/.local/share/bash-completion/completions/paceline";

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

pub fn run(completions: &Completions) -> Result<(), Failure> {
    let mut out = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "paceline", &mut out);
    print(&String::from_utf8_lossy(&out))
}
