//! The library against a server that speaks the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod away;
mod calls;
mod fake;
mod guards;
mod whole;
