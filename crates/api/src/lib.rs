//! The HTTP API door: permits, sessions, locks, objects and questions, as JSON over HTTP/1.1.
//!
//! It listens on a unix socket, where the kernel identifies the caller, and on TCP, where a bearer token does.
//! Everything it grants belongs to a session that ends with its lease or with the connection that it is bound to, so
//! nothing outlives the client that asked for it. It decides nothing about requests, locks or rows: it translates, and
//! `respond` is the one place where a refusal becomes a status.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod ahead;
mod backup;
mod body;
mod config;
mod connection;
mod events;
mod health;
mod identity;
mod json;
mod large;
mod limits;
mod locks;
mod members;
mod metrics;
mod moment;
mod objects;
mod openapi;
mod operation;
mod path;
mod permits;
mod place;
mod query;
mod questions;
mod reload;
mod request;
mod respond;
mod router;
mod ruleset;
mod secret;
mod serve;
mod sessions;
mod sight;
mod socket;
mod status;
mod token;
mod tried;
mod turns;

pub use limits::Limits;
pub use reload::Reload;
pub use serve::{Address, Api, ApiDoor, Options};

use moment::Wall;
use paceline_host::Host;
use paceline_host::registry::Registry;
use respond::Problem;
use std::sync::Arc;
use tokio::sync::watch;

/// The state that all handlers share.
pub(crate) struct App {
    pub(crate) host: Arc<Host>,
    pub(crate) wall: Arc<Wall>,
    pub(crate) limits: Limits,
    pub(crate) registry: Arc<Registry>,
    /// Places for clients that follow the events.
    pub(crate) followers: Arc<turns::Turns>,
    /// Writes events for them.
    pub(crate) press: Arc<events::Press>,
    /// Answers that are being made and sent.
    pub(crate) answers: large::Answers,
    /// Bytes of bodies that are being read.
    pub(crate) bodies: Arc<turns::Turns>,
    /// The first token.
    pub(crate) first_token: token::First,
    /// The result of the last reading of the configuration files.
    pub(crate) reload: Arc<Reload>,
    /// Warnings about the options of the daemon.
    pub(crate) warnings: Vec<String>,
    /// Set to true when connections are to be closed.
    pub(crate) closing: watch::Sender<bool>,
}

impl App {
    /// Checks that the daemon does not shut down: otherwise nothing new is accepted.
    pub(crate) fn check_open(&self) -> Result<(), Problem> {
        match self.host.control().is_draining() {
            true => Err(Problem::ending()),
            false => Ok(()),
        }
    }

    /// Waits until connections are to be closed.
    pub(crate) async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        // This fails only if the sender was dropped.
        drop(closing.wait_for(|closing| *closing).await);
    }
}

/// The form in which handlers share it.
pub(crate) type Shared = Arc<App>;

/// An app to test parts of the door with: its first token is "secret".
#[cfg(test)]
pub(crate) fn app_for_tests() -> (tokio::runtime::Runtime, Shared) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let disk = Arc::new(paceline_host::RealDisk);
    let policy = paceline_host::Policy::default();
    let host = Host::new(runtime.handle().clone(), disk, policy).unwrap();
    host.access().set_first_token(token::hash("secret"));
    let limits = Limits::default();
    let wall = Arc::new(Wall::new(host.clock()));
    let secret = secret::Secret::passing().unwrap();
    let app = App {
        registry: Registry::new(Arc::clone(&host), secret.keys(), limits.holding),
        wall,
        host,
        limits,
        followers: Arc::new(turns::Turns::new("clients that follow events", 2)),
        press: events::Press::new(),
        answers: large::Answers::new(&limits),
        bodies: body::bodies(&limits),
        first_token: token::First::new(std::path::PathBuf::new()),
        reload: Arc::default(),
        warnings: vec![],
        closing: watch::channel(false).0,
    };
    (runtime, Arc::new(app))
}
