//! Properties of the database, checked against a reference model and small tables of cases.
//!
//! Every random case comes from a numbered seed; a failure prints the seed and the transactions
//! that led to it.
#![allow(missing_docs, reason = "tests describe themselves")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod bounds;
mod gathered;
mod generate;
mod history;
mod journal;
mod made;
mod model;
mod monitors;
mod random;
mod refusals;
mod settling;
mod steps;
mod texts;
mod transactions;
mod waits;
mod world;
