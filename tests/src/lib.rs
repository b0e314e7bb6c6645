//! The harness of the integration tests.
//!
//! Owns: servers started in their own folders ([`server`], [`daemon`]), raw JSON-RPC connections to them
//! ([`client`]) and to the API ([`api`]), and the script language of `scenarios/` ([`script`], [`matching`], [`runner`]).
//! Promises: a server ends when its [`Server`] is dropped, every read ends within
//! [`client::READ_TIMEOUT`] or [`api::ANSWER_TIMEOUT`], and a failure names the file and line of the script.
//! Never sleeps and never tries anything twice.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod api;
pub mod caller;
pub mod client;
pub mod daemon;
pub mod guide;
pub mod matching;
pub mod runner;
pub mod scratch;
pub mod script;
pub mod server;
pub mod tool;

pub use api::Api;
pub use client::Client;
pub use daemon::{Daemon, Launch};
pub use scratch::Scratch;
pub use server::{Kind, Server};
