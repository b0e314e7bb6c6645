//! Types that every crate shares: time, priorities, requests and their attributes, refusals, ids, and the limits that
//! guard memory.
//!
//! Owns plain values only. Promises that every value is the same on every run for the same input.
//! Never reads a clock, a random source or the environment.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod attributes;
mod date;
mod ids;
pub mod limits;
mod line;
mod lock_name;
mod near;
mod priority;
mod refusal;
mod request;
mod role;
mod span;
mod time;
mod uuid;

pub use attributes::{
    AttributeError, Attributes, KNOWN, Known, MAPS, Name, NameError, entry_meant,
};
pub use date::civil;
pub use ids::{BackendId, CheckpointId, PoolId, RequestId, ServerId, SessionId};
pub use line::{Line, Toll};
pub use lock_name::{LOCK_NAME_RULE, in_lock_name, valid_lock_name};
pub use near::nearest;
pub use priority::{Priority, Rank};
pub use refusal::{Place, Reason, Refusal};
pub use request::{Claim, Mode, On, Request, Unknown};
pub use role::{ParseRoleError, Role};
pub use span::{ParseSpanError, Span};
pub use time::Time;
pub use uuid::{ParseUuidError, Uuid, UuidSource};
