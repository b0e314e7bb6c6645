//! The client library for a running Paceline: permits, locks, events and questions.
//!
//! Owns connections to the daemon's API, on its unix socket or over TCP with a token. Promises that every call ends:
//! with an answer, with a refusal, or with an [`Error`] of a specific kind; that no answer beyond
//! [`ANSWER_BYTES_MAX`] is read; and that everything a guard ([`Permit`], [`Lock`], [`Session`]) holds is released
//! when the guard is dropped, and by the daemon itself if the program dies. [`WhenAway`] sets the behaviour while the
//! daemon is away. Calls block and there is no async runtime; threads can share a [`Client`]. It starts a thread only
//! while the daemon is away and a release still has to be sent.
//!
//! ```no_run
//! use paceline_client::{Client, PermitRequest, Target};
//! let client = Client::connect(&Target::in_data_directory("/var/lib/paceline".as_ref()))?;
//! let permit = client.permit(PermitRequest::new().attribute("user", "etl").claim("disk:da0"))?;
//! // The work goes here; the permit is released when it is dropped.
//! drop(permit);
//! # Ok::<(), paceline_client::Error>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod client;
mod connection;
mod error;
mod events;
mod lock;
mod objects;
mod owed;
mod permit;
mod place;
mod questions;
mod request;
mod seat;
mod session;
mod sse;
mod target;
mod whole;
mod wire;

pub use client::{Client, Options, WhenAway};
pub use error::{Answer, Error, Refusal};
pub use events::{Event, Events};
pub use lock::{Lock, LockOptions};
pub use objects::Kind;
pub use permit::{Grant, Permit};
pub use place::Place;
pub use questions::{Explanation, Listed, Why};
pub use request::{Claim, Method, PermitRequest, Unknown};
pub use session::{Session, SessionOptions};
pub use target::{Target, Token};
pub use whole::{ApplyOptions, ConfigFile, CopyError};

/// The longest answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
