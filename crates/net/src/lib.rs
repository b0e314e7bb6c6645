//! What the doors for traffic share below their protocols: the HTTP door and the SQL door.
//!
//! Owns listening sockets ([`listen`]), connections with and without TLS ([`stream`], [`tls`]), their buffers ([`buffer`]), one timer
//! per connection ([`timer`]), name resolution ([`resolve`]) and connecting to several addresses ([`dial`]), bounded
//! reading of files ([`mod@file`]), and tasks whose panic ends one connection only ([`task`]). Never knows a protocol, and
//! decides nothing about requests.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod buffer;
pub mod dial;
pub mod file;
pub mod listen;
pub mod resolve;
pub mod stream;
pub mod task;
pub mod timer;
pub mod tls;
