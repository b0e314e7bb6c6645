//! Tests of the library against a server that implements the API's contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod away;
mod calls;
mod fake;
mod guards;
mod whole;
