//! The door at work: sockets, logins, sessions, pooled servers.

mod accept;
mod attributes;
mod cancel;
pub(crate) mod door;
mod inbox;
mod login;
mod pool;
mod session;
mod target;
mod upstream;
mod worker;
