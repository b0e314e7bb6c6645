//! Pools (seed 000): named sets of run slots, each with one range of priorities.
//!
//! [`PoolSet`] owns what an administrator sets: which pools there are, their ranges, threads, bounds
//! and states, with every failure the seed names as an error of its own. [`Pools`] owns what happens:
//! the requests that run, those in line, and which of them to try next. It promises that no more than a pool's
//! maximum run, that the line is in rank order, and that an answer touches only those it concerns.
//!
//! It knows nothing of claims: the engine parks a waiter whose claims are in somebody's way and
//! unparks it again. It never reads a clock.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod pool;
mod pools;
mod set;
mod spec;

pub use pools::{Flip, PoolPlace, Pools};
pub use set::{PoolError, PoolSet};
pub use spec::{DEFAULT_NAME, PoolSpec, PoolState, QueueBounds, Range};
