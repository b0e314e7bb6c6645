//! Checkpoints: rate and concurrency per key, with queues.
//!
//! A checkpoint is a test, an optional key, a counter (a rate, a concurrency, or neither) and a
//! queue. This room owns the settings, their text forms ([`Rate`], [`At`]) and their checks
//! ([`CheckpointSet::compile`]), and everything at run time ([`Checkpoints`]): counters of keys by the
//! million, queues in rank order or fair between flows, meters, and the one timer per queue.
//!
//! Promises S1, S2, S3 and P1. Never reads a clock, never evaluates an expression, never sees a key's text:
//! the engine does, and passes hashes.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod at;
mod checkpoint;
mod checkpoints;
mod configure;
mod counter;
mod decide;
mod depart;
mod edits;
mod fair;
mod hash;
mod limit;
mod meter;
mod pace;
mod queue;
mod segments;
mod set;
mod spec;
mod store;
mod table;
mod ticket;
mod timers;
mod why;

pub use at::{At, ParseAtError};
pub use checkpoints::Checkpoints;
pub use configure::Renewed;
pub use hash::{KeyHash, KeyHasher};
pub use limit::{Limit, ParseRateError, Rate};
pub use set::{Checked, CheckpointSet, Warning};
pub use spec::{
    CHECKPOINTS_MAX, Field, KEYS_MAX_MAX, Mode, Problem, QueueSpec, RECOVERY_MAX, Spec, SpecError,
    WAITERS_MAX,
};
pub use ticket::{Arrival, Cause, HeldCount, How, Kept, Moved, Outlook, Stats, Ticket, Turned};
pub use timers::{Due, DueKind};
pub use why::Standing;
