//! The host on a simulated machine, against a model that knows only the promises.
//!
//! A seed ([`world::run`]) starts the real host, with its database, journal, locks, engine, keeper and
//! registry, on a machine whose clock, disk, processes and scheduling are the simulator's ([`machine`],
//! [`executor`], [`disk`]). Clients ([`client`]) ask, wait, leave, renew, steal and edit; the daemon and the
//! machine die at any call of the disk and start again. The [`model`] knows which answers clients received, and
//! which answers are allowed then. The same seed gives the same history.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod client;
pub mod disk;
pub mod executor;
pub mod machine;
pub mod model;
pub mod world;

#[cfg(test)]
mod tests;
