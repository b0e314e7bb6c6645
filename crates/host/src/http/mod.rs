//! What the HTTP door reports about itself: where it listens, what it could not do, what it counts. Nothing here admits
//! a request; [`Control`](crate::Control) does that.
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

/// How the HTTP door stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorState {
    /// Frontends with each address where they listen.
    pub listening: Vec<(Box<str>, Box<str>)>,
    /// Why it does not do all that the configuration says, if it does not.
    pub problems: Vec<DoorProblem>,
}

/// Why the HTTP door cannot do what the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorProblem {
    /// The frontend that it is about, if it is about one.
    pub frontend: Option<Box<str>>,
    /// What it is.
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
    /// The generation of the configuration that the door has last done what it could for.
    done: watch::Sender<u64>,
}

impl HttpPart {
    pub(crate) fn new() -> Self {
        Self { tallies: Tallies::default(), state: Mutex::default(), done: watch::channel(0).0 }
    }

    /// Where to count what happens at a frontend. To be asked for once in a while, not per request.
    #[must_use]
    pub fn tally(&self, frontend: &str) -> Arc<Tally> {
        self.tallies.tally(frontend)
    }

    /// Connections that are open at all frontends.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.tallies.connections()
    }

    /// How the door stands.
    #[must_use]
    pub fn state(&self) -> DoorState {
        self.locked().clone()
    }

    /// The door reports where it listens, each frontend with each address.
    pub fn report_listening(&self, listening: Vec<(Box<str>, Box<str>)>) {
        self.locked().listening = listening;
    }

    /// The door reports why it is not as the configuration says; with nothing, that it is.
    pub fn report_problems(&self, problems: Vec<DoorProblem>) {
        self.locked().problems = problems;
    }

    /// The door reports that it did what it could for the configuration of this generation.
    pub fn report_done(&self, generation: u64) {
        self.done.send_replace(generation);
    }

    /// Waits until the door did what it could for the configuration of this generation.
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

    /// What is known of each frontend.
    pub(crate) fn figures(&self) -> BTreeMap<Box<str>, FrontendFigures> {
        let mut frontends = self.tallies.figures();
        let DoorState { listening, problems } = self.state();
        for (name, address) in listening {
            frontends.entry(name).or_default().listening.push(address);
        }
        for DoorProblem { frontend, message } in problems {
            let Some(name) = frontend else { continue };
            // The first of a frontend; the next is shown when that is mended.
            frontends.entry(name).or_default().problem.get_or_insert(message);
        }
        frontends
    }

    fn locked(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock().unwrap_or_else(crate::broken)
    }
}
