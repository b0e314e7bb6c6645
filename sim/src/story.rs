//! A story: a fixed sequence of steps for one subject.
//!
//! Owns the clock of the story and its last state. The scenarios of invariants use it.

use crate::history::Step;
use crate::model::config::{Arrival, At, Bounds, Checkpoint, Config, Limit, Unknown, Weight};
use crate::model::{Effect, Outcome};
use crate::seen::{Answer, Seen, Sight};
use crate::subject::{Owned, Subject};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A subject and the story's clock.
pub struct Story<'a> {
    subject: &'a mut dyn Subject,
    /// The clock.
    pub now: u64,
    /// The last observed state.
    pub last: Option<Seen>,
}

impl<'a> Story<'a> {
    /// Begins a story at a time, with a configuration.
    pub fn new(subject: &'a mut dyn Subject, now: u64, config: Config) -> Self {
        let mut story = Self { subject, now, last: None };
        story.step(Step::Configure(Box::new(config), "start".into()));
        story
    }

    /// Does one step now. Returns the requests that started.
    pub fn step(&mut self, step: Step) -> Vec<u64> {
        let seen = self.subject.act(self.now, &Rc::new(step), &Owned::new());
        let start = |effect: &Effect| match effect {
            Effect::Start(id) => Some(*id),
            Effect::Refuse(..) | Effect::End(..) | Effect::Log(..) => None,
        };
        let mut started: Vec<u64> = seen.effects.iter().filter_map(start).collect();
        if let Answer::Submitted(id, Outcome::Started) = seen.answer {
            started.push(id);
        }
        self.last = Some(seen);
        started
    }

    /// Submits a request now. Returns its number, and the requests that started.
    pub fn submit(&mut self, arrival: Arrival) -> (u64, Vec<u64>) {
        let started = self.step(Step::Submit(Box::new(arrival)));
        let id = match self.last.as_ref().map(|seen| &seen.answer) {
            Some(Answer::Submitted(id, _)) => *id,
            _ => 0,
        };
        (id, started)
    }

    /// All requests that are alive.
    #[must_use]
    pub fn alive(&self) -> BTreeMap<u64, Sight> {
        let Some(mut seen) = self.last.clone() else { return BTreeMap::new() };
        self.subject.look(&mut seen);
        seen.alive
    }

    /// When the subject asks to be called again.
    #[must_use]
    pub fn timeout(&self) -> Option<u64> {
        self.last.as_ref().and_then(|seen| seen.timeout)
    }
}

/// A request of this user, without further settings.
#[must_use]
pub fn request(user: &'static str) -> Arrival {
    Arrival {
        connection: false,
        user,
        host: "",
        task: "",
        text: "",
        frontend: "api",
        backend: "",
        server: "",
        cost: 1,
        claims: vec![],
        unknown: Unknown::Refuse,
        locks: vec![],
        wait_max: None,
        waited: 0,
        session: None,
        within: vec![],
    }
}

/// A checkpoint of the frontend `api`, with wide bounds.
#[must_use]
pub fn checkpoint(id: u32, name: &'static str, limit: Limit) -> Checkpoint {
    let day = 86_400_000_000_000;
    Checkpoint {
        id,
        name,
        at: At::Frontend("api"),
        number: id,
        connection: false,
        when: None,
        key: None,
        limit,
        fair: None,
        weight: Weight::Same,
        queue: Bounds { max_len: 100_000, max_total: 100_000, max_delay: day },
        keys_max: 1_000_000,
        watch: false,
    }
}
