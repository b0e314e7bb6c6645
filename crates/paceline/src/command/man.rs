//! `paceline man`: the manual pages, from the same definition as the parser.

use super::print;
use crate::cli::Arguments;
use crate::failure::{Failure, NOT_FOUND};
use clap::{Args, CommandFactory as _};

pub const HELP: &str = "\
Example:
  paceline man | man -l -
  paceline man pools create | man -l -";

#[derive(Debug, Args)]
pub struct Man {
    /// Command to show the page of, such as: pools create
    command: Vec<String>,
}

pub fn run(man: &Man) -> Result<(), Failure> {
    let mut command = Arguments::command();
    command.build();
    for word in &man.command {
        let inner = command.find_subcommand(word).cloned();
        command = inner.ok_or_else(|| {
            Failure::new(NOT_FOUND, format!("no command {word}"), "see them with: paceline --help")
        })?;
    }
    let mut out = Vec::new();
    let page = clap_mangen::Man::new(command);
    page.render(&mut out).map_err(|error| format!("cannot write the page: {error}"))?;
    print(&String::from_utf8_lossy(&out))
}
