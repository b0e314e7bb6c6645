//! The SQL door: PostgreSQL clients whose transactions walk the one path, in front of PostgreSQL servers.
//!
//! Owns the sockets of SQL clients and the pooled connections to the servers of a target, their login on both sides, and
//! the form of a refusal (`respond`). What is sent where is decided by `paceline_postgres::relay`; which transaction may
//! run is decided by the engine, through `host`. Promises Q1 to Q4 through the relay, D3, and that a transaction that
//! waits ends as soon as its client disconnects or cancels. Never interprets rows.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod limits;
mod respond;
mod serve;

pub use serve::door::{Door, Options};
