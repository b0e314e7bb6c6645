//! How the HTTP door stands, as it tells: where it listens, and what it could not do.

use super::Control;
use paceline_model::FrontendFigures;
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

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

impl Control {
    /// How the HTTP door stands.
    #[must_use]
    pub fn door(&self) -> DoorState {
        self.door_state().clone()
    }

    /// The HTTP door tells where it listens, each frontend with each address.
    pub fn tell_listening(&self, listening: Vec<(Box<str>, Box<str>)>) {
        self.door_state().listening = listening;
    }

    /// The HTTP door tells why it is not as the configuration says; with nothing, that it is.
    pub fn tell_problems(&self, problems: Vec<DoorProblem>) {
        self.door_state().problems = problems;
    }

    /// The HTTP door tells that it did what it could for the configuration of this generation.
    pub fn tell_followed(&self, generation: u64) {
        self.door_at.send_replace(generation);
    }

    /// Waits until the HTTP door did what it could for the configuration in use, so that
    /// [`door`](Self::door) tells of it. Returns at once if no door is open; the caller bounds the wait.
    pub async fn door_follows(&self) {
        let generation = self.snapshot().generation();
        if self.followed.receiver_count() > 0 {
            // The sender lives as long as this.
            let _ = self.door_at.subscribe().wait_for(|at| *at >= generation).await;
        }
    }

    /// The daemon begins to end: what its doors have is finished first.
    pub fn tell_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon begins to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Adds what the door tells of each frontend.
    pub(super) fn add_door_figures(&self, frontends: &mut BTreeMap<Box<str>, FrontendFigures>) {
        let DoorState { listening, problems } = self.door();
        for (name, address) in listening {
            frontends.entry(name).or_default().listening.push(address);
        }
        for DoorProblem { frontend, message } in problems {
            let Some(name) = frontend else { continue };
            // The first of a frontend; the next is told when that is mended.
            frontends.entry(name).or_default().problem.get_or_insert(message);
        }
    }

    fn door_state(&self) -> MutexGuard<'_, DoorState> {
        self.door.lock().unwrap_or_else(crate::broken)
    }
}
