//! Paceline's own database: its schema, and the meaning of its rows to the engine.
//!
//! Owns the schema of the database `Paceline`, with the conversion from older ones, and reads rows into the engine's
//! configuration. Promises that one invalid row is one error that names table, row and column, and that a row keeps
//! its id in the engine for as long as it exists, whatever else changes. Pure: no file, clock, lock or thread; it
//! reads the rows of the database and returns their configuration. It never changes a row.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod backend;
mod checkpoint;
mod columns;
mod doubt;
mod error;
mod figures;
mod frontend;
mod idle;
mod ids;
mod model;
mod pool;
mod reader;
mod resource;
mod restart;
mod routing;
mod rule;
pub mod schema;
mod sql_target;
#[cfg(test)]
mod world;

pub use access::{FIRST_TOKEN, Grant, GrantChange, SqlVerifier, TokenRow};
pub use doubt::unused_backend;
pub use error::ModelError;
pub use figures::{Figures, FrontendFigures};
pub use model::Model;
pub use restart::Put;
