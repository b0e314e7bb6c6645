//! The engine against a small reference model, on a made-up clock.
//!
//! A seed is a history ([`history`]): a configuration, then arrivals, departures, edits and movements of the
//! clock. The real engine ([`world`]) and a naive one written from the same specification ([`model`]) run
//! through it side by side ([`run`]) and are compared after every step ([`compare`]), while invariants
//! ([`invariants`]) are checked. The same seed always gives the same trace.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod compare;
pub mod history;
pub mod invariants;
pub mod model;
pub mod rng;
pub mod run;
pub mod seeds;
pub mod seen;
pub mod story;
pub mod subject;
pub mod trace;
pub mod words;
pub mod world;

#[cfg(test)]
mod tests;
