//! The PostgreSQL protocol as bytes, SCRAM, and the text of SQL statements.
//!
//! Owns the form of messages in both directions (`wire`), the login by SCRAM-SHA-256 on both sides (`scram`), and what
//! can be known of a statement from its text alone (`text`), and the state machine between a client and pooled servers
//! (`relay`). Promises D3 and D4: every length has a maximum, and no
//! input panics or takes more than linear time. Pure: it sees slices, never sockets, clocks or random numbers.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod relay;
pub mod scram;
pub mod text;
pub mod wire;
