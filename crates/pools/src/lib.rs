//! Pools (seed 000): named sets of run slots, each with one range of priorities.
//!
//! [`PoolSet`] owns what an administrator sets: the pools, their ranges, threads, bounds and
//! states. Each failure that the seed names is an error of its own. [`Pools`] owns what happens:
//! the running requests, the waiting requests, and which waiter to try next. It promises that at
//! most a pool's maximum run, that the line is in rank order, and that a call touches only the
//! waiters it concerns.
//!
//! It knows nothing of claims: the engine parks a waiter whose claims conflict with another request
//! and unparks it later. It never reads a clock.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod pool;
mod pools;
mod set;
mod spec;

pub use pools::{Flip, PoolPlace, Pools};
pub use set::{PoolError, PoolSet};
pub use spec::{DEFAULT_NAME, PoolSpec, PoolState, QueueBounds, Range};
