//! The whole daemon from outside, over real sockets: rates, holders that die, edits under load, one
//! object through every door, and bad input. What is promised is measured by the
//! daemon's own clock and events, never by ours.

mod bad_bodies;
mod doors;
mod edits;
mod files;
mod holders;
mod rate;
