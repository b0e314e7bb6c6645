//! What the HTTP door reports: where it listens, its problems, and its counters. Nothing here admits a request;
//! [`Control`](crate::Control) does that.
//!
//! The door writes; the API and the figures read. Edits reach it in order, under the engine's lock, so a renamed
//! frontend keeps its figures.

mod tally;

pub use tally::Tally;

use paceline_engine::Snapshot;
use paceline_model::FrontendFigures;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tally::Tallies;
use tokio::sync::watch;

/// The state of the HTTP door.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorState {
    /// Frontends with each address where they listen.
    pub listening: Vec<(Box<str>, Box<str>)>,
    /// Why it does not follow the configuration completely, if it does not.
    pub problems: Vec<DoorProblem>,
}

/// Why the HTTP door cannot follow the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorProblem {
    /// The frontend concerned, if it concerns one.
    pub frontend: Option<Box<str>>,
    /// The message.
    pub message: String,
}

impl From<String> for DoorProblem {
    fn from(message: String) -> Self {
        Self { frontend: None, message }
    }
}

/// The part of the host that only the HTTP door writes to.
#[derive(Debug)]
pub struct HttpPart {
    tallies: Tallies,
    state: Mutex<DoorState>,
    /// The generation of the configuration that the door has last applied as far as it could.
    done: watch::Sender<u64>,
}

impl HttpPart {
    pub(crate) fn new() -> Self {
        Self { tallies: Tallies::default(), state: Mutex::default(), done: watch::channel(0).0 }
    }

    /// The counters of a frontend. To be looked up once in a while, not per request.
    #[must_use]
    pub fn tally(&self, frontend: &str) -> Arc<Tally> {
        self.tallies.tally(frontend)
    }

    /// Connections that are open at all frontends.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.tallies.connections()
    }

    /// The state of the door.
    #[must_use]
    pub fn state(&self) -> DoorState {
        self.locked().clone()
    }

    /// Reports where the door listens: each frontend with each address.
    pub fn report_listening(&self, listening: Vec<(Box<str>, Box<str>)>) {
        self.locked().listening = listening;
    }

    /// Reports why the door does not follow the configuration; an empty list if it does.
    pub fn report_problems(&self, problems: Vec<DoorProblem>) {
        self.locked().problems = problems;
    }

    /// Reports that the door has applied the configuration of this generation as far as it could.
    pub fn report_done(&self, generation: u64) {
        self.done.send_replace(generation);
    }

    /// Waits until the door has applied the configuration of this generation as far as it could.
    pub(crate) async fn until_done(&self, generation: u64) {
        // The sender lives as long as this.
        let _ = self.done.subscribe().wait_for(|at| *at >= generation).await;
    }

    /// Follows an edit that renamed frontends. To be called for each edit, in order.
    pub(crate) fn rename(&self, snapshot: &Snapshot) {
        self.tallies.rename(snapshot);
    }

    /// Forgets frontends that an edit deleted.
    pub(crate) fn configure(&self, snapshot: &Snapshot) {
        self.tallies.configure(snapshot);
    }

    /// The figures of each frontend.
    pub(crate) fn figures(&self) -> BTreeMap<Box<str>, FrontendFigures> {
        let mut frontends = self.tallies.figures();
        let DoorState { listening, problems } = self.state();
        for (name, address) in listening {
            frontends.entry(name).or_default().listening.push(address);
        }
        for DoorProblem { frontend, message } in problems {
            let Some(name) = frontend else { continue };
            // The first problem of a frontend; the next one is shown when the first is solved.
            frontends.entry(name).or_default().problem.get_or_insert(message);
        }
        frontends
    }

    fn locked(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock().unwrap_or_else(crate::broken)
    }
}
