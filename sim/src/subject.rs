//! What runs through a history: the real engine, or the model itself when the checks are tested.

use crate::history::Step;
use crate::model::Model;
use crate::model::config::Config;
use crate::seen::{self, Answer, Seen};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Which session owns which lock.
pub type Owned = BTreeSet<(u64, &'static str)>;

/// An engine under test.
pub trait Subject {
    /// Does one step and returns its results, without the requests that are alive and the figures.
    fn act(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Seen;

    /// Fills in the requests that are alive and the figures.
    fn look(&self, seen: &mut Seen);

    /// Restarts with the running requests and the configuration, and nothing else.
    fn restart(&mut self, now: u64);

    /// Does one step and returns everything that can be observed.
    fn apply(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Seen {
        let mut seen = self.act(now, step, owned);
        self.look(&mut seen);
        seen
    }
}

/// The model as a subject.
#[derive(Clone, Debug)]
pub struct Naive {
    /// The model.
    pub model: Model,
    config: Rc<Config>,
}

impl Naive {
    /// Nothing configured yet.
    #[must_use]
    pub fn new() -> Self {
        let model = Model::new();
        let config = Rc::new(model.config.clone());
        Self { model, config }
    }
}

impl Naive {
    /// The expected state of the subject, without the requests ahead of each.
    pub fn expect(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Seen {
        let mut seen = self.act(now, step, owned);
        seen::look_at_model(&self.model, &mut seen, false);
        seen
    }
}

impl Default for Naive {
    fn default() -> Self {
        Self::new()
    }
}

impl Subject for Naive {
    fn act(&mut self, now: u64, step: &Rc<Step>, owned: &Owned) -> Seen {
        let model = &mut self.model;
        let owns = |session, lock: &str| owned.iter().any(|o| *o == (session, lock));
        let mut answer = Answer::None;
        match &**step {
            Step::Submit(arrival) => {
                let (id, outcome) = model.submit(now, (**arrival).clone(), &owns);
                answer = Answer::Submitted(id, outcome);
            }
            Step::Settle(id) => answer = Answer::Done(model.settle(now, *id)),
            Step::Withdraw(id) => answer = Answer::Done(model.withdraw(now, *id)),
            Step::End(id) => answer = Answer::Ended(model.end_either(now, *id)),
            Step::Cancel(id) => answer = Answer::Done(model.cancel(now, *id)),
            Step::EndSession(session) => model.end_session(now, *session),
            Step::LockTaken(..) => {}
            Step::LockLost(session, lock) => model.lock_lost(now, *session, lock),
            Step::Configure(config, _) => {
                self.config = Rc::new((**config).clone());
                model.configure(now, (**config).clone());
            }
            Step::SetUp(server, up) => model.set_up(now, *server, *up),
            Step::Reroute(id) => answer = model.reroute(now, *id),
            Step::Timeout => model.handle_timeout(now),
        }
        seen::act_of_model(model, step, &self.config, answer)
    }

    /// In the model only the running requests and the configuration are left, once no request waits, and which
    /// servers are down.
    fn restart(&mut self, _: u64) {
        self.model.restart();
    }

    fn look(&self, seen: &mut Seen) {
        seen::look_at_model(&self.model, seen, true);
    }
}
