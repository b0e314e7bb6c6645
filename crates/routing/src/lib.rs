//! Routing: which backend a request goes to, and which of its servers.
//!
//! This room owns the settings of frontends, backends and servers with their text forms and checks
//! ([`Frontend`], [`Backend`], [`Server`], [`Balance`], [`Address`]), and the choices made from them.
//! Promises that every wrong setting is one error that says where. Pure: it opens no socket, reads no
//! clock, and draws no random number that it was not given the seed of.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address;
mod backend;
mod frontend;

pub use address::{Address, Network, ParseAddressError};
pub use backend::{Backend, BackendTimeouts, Balance, Health, Server};
pub use frontend::{
    Certificate, ErrorBody, Frontend, FrontendTimeouts, LogFormat, UseBackend, UserFrom,
};
