//! The API over real sockets, against a host in a temporary directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cancel;
mod client;
mod config;
mod door;
mod http;
mod large;
mod leaving;
mod messages;
mod objects;
mod permits;
mod questions;
mod restored;
mod tokens;
mod world;
