//! The HTTP door: a reverse proxy whose requests walk the one path.
//!
//! Owns the sockets of frontends and the connections to servers, HTTP/1 as bytes (`wire`), and what a
//! refusal looks like to a client (`respond`). Promises H1 to H5 and D2; that a client which leaves while
//! its request waits takes it along at once; and that no more memory is used for a body than two
//! buffers. It does not decide which requests may run: the engine does, behind `host`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod date;
mod limits;
mod respond;
mod serve;
mod wire;

pub use serve::door::{Door, Options};
pub use serve::tls::check_certificate;
