//! What must hold for any input that comes from a wire or a file.
//!
//! Each module is one target: `check` takes arbitrary bytes and panics if a promise is broken. The
//! binaries in `targets` only join them to the fuzzing engine, so a reproducer can also be replayed
//! by a plain call. `mutate` changes inputs that are JSON as JSON, `world` is the database that
//! transactions and records meet.
//!
//! Unlike the rest of the workspace this code panics on purpose: a panic is how a finding is told.
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
pub mod transaction;
pub mod world;

/// The pure part of the OVSDB door, taken by its source: the runtime and the TLS library behind the
/// rest of the door would double the time to build.
#[path = "../../crates/ovsdb/src/wire/mod.rs"]
pub mod wire;

/// The pure part of the HTTP door, in the same way; it looks for its maxima at the root.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/http/src/wire/mod.rs"]
mod http_wire;

#[allow(dead_code)]
#[path = "../../crates/http/src/limits.rs"]
mod limits;
