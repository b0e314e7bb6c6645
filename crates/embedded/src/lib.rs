//! The embedded SQL engine: a session of the PostgreSQL protocol that runs on SQLite.
//!
//! Owns the dialect (PostgreSQL's text becomes SQLite's, token by token), the types that drivers see, prepared
//! statements, portals, transactions, `COPY`, the system catalogues, and the way from a `comdb2_` function to
//! [`Management`]. Promises that a result is streamed with bounded memory, that a side effect of management happens
//! once per call in the text, and that no statement reaches a file other than the database.
//!
//! Blocks, and never starts a thread: the door calls a [`Session`] from a thread of its own. Knows no socket, no login
//! and no admission.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalog;
mod database;
mod failure;
mod functions;
mod guard;
mod infer;
mod management;
mod rewrite;
mod schema;
mod session;
mod token;
mod types;
mod values;

pub use database::{Database, Options, Place};
pub use failure::Failure;
pub use management::{Column, Management, NoManagement, Output, Rows, Value};
pub use session::{Canceller, Gone, Session, SessionInfo, Sink};
pub use types::Type;
