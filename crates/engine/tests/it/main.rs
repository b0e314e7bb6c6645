//! The engine's behaviour as scripts on a logical clock: `testdata/*.txt`.
//!
//! A command is at the start of a line; its expected answer is on the lines below, indented, after `->`.
//! `SCRIPT=name` runs one file; `SCRIPT_UPDATE=1` writes the engine's answers into the files, to be reviewed
//! before they are trusted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod claims;
mod commands;
mod holders;
mod lists;
mod plans;
mod renames;
mod routed;
mod routing;
mod script;
mod world;
