//! The harness of the integration tests.
//!
//! Owns: servers started in their own folders ([`server`], [`daemon`]), raw JSON-RPC connections to them ([`client`])
//! and to the API ([`api`]), the daemon as a reverse proxy ([`proxy`]) between clients ([`web`]) and servers
//! ([`upstream`]) that record every byte, in front of PostgreSQL ([`postgres`]), with TLS before them ([`authority`]), the OpenAPI document ([`schema`]),
//! and the script language of `scenarios/` ([`script`], [`matching`], [`runner`]). Promises: a server ends when its
//! [`Server`] is dropped, every read ends within [`client::READ_TIMEOUT`] or [`api::ANSWER_TIMEOUT`], and a failure
//! names the file and line of the script. Never relies on a sleep and never retries.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod api;
pub mod authority;
pub mod caller;
pub mod client;
pub mod daemon;
pub mod guide;
pub mod matching;
pub mod message;
pub mod postgres;
pub mod proxy;
pub mod runner;
pub mod schema;
pub mod scratch;
pub mod script;
pub mod server;
pub mod tool;
pub mod upstream;
pub mod web;

pub use api::Api;
pub use client::Client;
pub use daemon::{Daemon, Launch};
pub use postgres::{Postgres, SqlDoor};
pub use proxy::{Proxy, until};
pub use scratch::Scratch;
pub use server::{Kind, Server};
pub use upstream::{Call, Latch, Upstream};
pub use web::Web;
