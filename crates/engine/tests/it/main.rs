//! The engine's behaviour as scripts on a logical clock: `testdata/*.txt`.
//!
//! A command stands at the start of a line, what it must answer beneath it, indented, after `->`.
//! `SCRIPT=name` runs one file; `SCRIPT_UPDATE=1` writes what the engine answers into the files, to
//! be read before it is believed.
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
