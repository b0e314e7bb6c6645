//! The loads, by crate and operation.

mod claims;
mod engine;
mod expressions;
mod journal;
mod keys;
mod locks;
mod one_by_one;
mod references;
mod resources;
mod rows;
mod rule_mix;
mod rules;
mod snapshots;
mod text;
mod threads;
mod updates;
mod why;
mod world;

use crate::Outcome;
use crate::measure::Bench;

/// Runs the selected loads.
pub fn all(bench: &mut Bench) -> Outcome<()> {
    // This comes first, because memory that other loads have freed would hide what keys take.
    keys::run(bench)?;
    rules::run(bench)?;
    expressions::run(bench)?;
    claims::run(bench)?;
    threads::run(bench)?;
    why::run(bench)?;
    rows::run(bench)?;
    references::run(bench)?;
    text::run(bench)?;
    updates::run(bench)?;
    snapshots::run(bench)?;
    locks::run(bench)?;
    journal::run(bench)
}
