//! The whole daemon from outside, over real sockets: rates, holders that die, edits under load, one object through
//! every door, and bad input. Promises are measured by the daemon's own clock and events, never by the test's clock.

mod bad_bodies;
mod doors;
mod edits;
mod files;
mod holders;
mod rate;
