//! The loads, by what they ask of which crate.

mod journal;
mod locks;
mod references;
mod rows;
mod snapshots;
mod text;
mod updates;
mod world;

use crate::Outcome;
use crate::measure::Bench;

/// Runs those that were asked for.
pub fn all(bench: &mut Bench) -> Outcome<()> {
    rows::run(bench)?;
    references::run(bench)?;
    text::run(bench)?;
    updates::run(bench)?;
    snapshots::run(bench)?;
    locks::run(bench)?;
    journal::run(bench)
}
