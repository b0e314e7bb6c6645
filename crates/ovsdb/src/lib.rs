//! The OVSDB door: RFC 7047 JSON-RPC over unix sockets, TCP and TLS.
//!
//! `wire` finds and parses messages without any I/O. `methods` turns them into calls of the host. `respond` turns
//! what the host puts into a client's outbox into text. `connection` is the task of one client. `serve` listens. The
//! door decides nothing about data or locks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod connection;
mod intake;
mod methods;
mod remote;
mod respond;
mod serve;
mod tls;
mod turns;
pub mod wire;

pub use remote::{ParseRemoteError, Remote};
pub use serve::{DoorOptions, OvsdbDoor, open};
pub use tls::TlsFiles;
