//! The HTTP door: a reverse proxy that submits every request to the engine.
//!
//! Owns the sockets of frontends and the connections to servers, HTTP/1 as bytes (`wire`), and the form of a refusal
//! (`respond`). Promises H1 to H5 and D2. Promises also that a waiting request ends as soon as its client
//! disconnects, and that a body uses no more memory than two buffers. It does not decide which requests may run: the
//! engine does, through `host`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod date;
mod limits;
mod respond;
mod serve;
mod wire;

pub use paceline_net::tls::check_certificate;
pub use serve::door::{Door, Options};
