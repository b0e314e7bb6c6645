//! What must hold for any input from a wire or a file.
//!
//! Each module is one target: `check` takes arbitrary bytes and panics if a promise is broken. The binaries in
//! `targets` only connect them to the fuzzing engine, so a reproducer can also be replayed by a plain call. `mutate`
//! changes JSON inputs as JSON. `world` is the database for transactions and records.
//!
//! Unlike the rest of the workspace this code panics on purpose: a panic reports a finding.
#![forbid(unsafe_code)]

pub mod expression;
pub mod framing;
pub mod http_chunked;
pub mod http_request;
pub mod http_response;
pub mod mutate;
pub mod patterns;
pub mod proxy;
pub mod record;
pub mod schema;
pub mod sql_backend;
pub mod sql_frontend;
pub mod sql_startup;
pub mod sql_text;
pub mod transaction;
pub mod world;

/// The pure part of the OVSDB door, included as source: the runtime and the TLS library that the rest of the door
/// needs would double the build time.
#[path = "../../crates/ovsdb/src/wire/mod.rs"]
pub mod wire;

/// The pure part of the HTTP door, included in the same way. It expects its limits at the crate root.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/http/src/wire/mod.rs"]
mod http_wire;

#[allow(dead_code)]
#[path = "../../crates/http/src/limits.rs"]
mod limits;

pub use paceline_postgres::wire as sql_wire;
