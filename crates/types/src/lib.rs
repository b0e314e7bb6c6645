//! Words that every crate shares: points in time, row identifiers, and the limits that guard memory.
//!
//! Owns plain values only. Promises that every value is the same on every run for the same input.
//! Never reads a clock, a random source or the environment.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod limits;
mod time;
mod uuid;

pub use time::Time;
pub use uuid::{ParseUuidError, Uuid, UuidSource};
