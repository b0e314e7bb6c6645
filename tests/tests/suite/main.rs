//! One integration binary: scenario scripts and real clients against the built daemon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audit;
mod away;
mod bad_input;
mod begun;
mod catalogue;
mod clients;
mod command_line;
mod config;
mod crash;
mod daemon;
mod demo;
mod drifted;
mod files;
mod guide;
mod handed_on;
mod held;
mod http;
mod http_wire;
mod idle;
mod inside;
mod manuals;
mod metrics;
mod network;
mod openapi;
mod ovsdb_values;
mod owners;
mod raced;
mod readme;
mod restart;
mod restored;
mod roles;
mod scenarios;
mod signals;
mod storm;
mod whole;
