//! The one path of a request: classify, shape, claim, run, settle.
//!
//! The engine joins the rooms: rules give a request its priority or reject it, checkpoints limit the rate and
//! concurrency of each key, claims keep conflicting work apart, pools run it. Rooms do not know each other;
//! only this crate knows the order. It promises:
//!
//! - limits hold exactly (S1, P1), claims never conflict (C1), and are taken with the run slot in one
//!   step (C2), in rank order (C3);
//! - everything a request holds is released exactly once, however it ends;
//! - every waiter can report why it waits;
//! - the same calls give the same effects, on every run.
//!
//! It never reads a clock, takes a lock, starts a thread or does I/O: `now` is an argument, effects are values.
//! `docs/internals/engine.md` specifies its behaviour.
//!
//! ```
//! use paceline_engine::{Config, Engine, Outcome, Plan, prepare};
//! use paceline_types::{Attributes, Request, Time};
//!
//! let mut engine = Engine::new(7);
//! let mut config = Config::default();
//! config.rules.push(paceline_rules::Rule::parse("10 user exact eve reject stop").unwrap());
//! let plan = Plan::new(&engine.snapshot(), config).unwrap();
//! engine.configure(Time(0), &plan);
//!
//! let mut attributes = Attributes::new();
//! attributes.set("user", "ann").unwrap();
//! let prepared = prepare(&engine.snapshot(), Request::new(attributes)).unwrap();
//! let (id, outcome) = engine.submit(Time(0), prepared, &|_, _| false);
//! assert_eq!(outcome, Outcome::Started);
//! assert!(engine.settle(Time(1_000), id));
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod circles;
mod config;
mod effect;
mod engine;
mod explain;
mod gate;
mod grant;
mod holders;
mod input;
mod outstanding;
mod prepare;
mod quota;
mod reads;
mod renames;
mod requests;
mod reroute;
mod restore;
mod servers;
mod snapshot;
mod totals;
mod walk;
mod weight;
mod why;
mod work;

pub use config::{Config, Plan, PlanError};
pub use effect::{About, Effect, Ended, Grant, Outcome};
pub use engine::Engine;
pub use explain::{Explanation, Foreseen};
pub use paceline_routing::{Of as RoutingOf, RoutingError};
pub use prepare::{Prepared, RequestError, prepare, prepare_held};
pub use quota::Quota;
pub use reads::Reads;
pub use reroute::Rerouted;
pub use restore::Places;
pub use snapshot::Snapshot;
pub use totals::Stats;
pub use why::{WaitsFor, Why};
