//! What the HTTP door asks of the engine: servers up and down, other servers, where time was spent.

use super::{Control, Decided, Event, State};
use crate::kept::Cause;
use paceline_engine::{Grant, Quota, Rerouted, Snapshot};
use paceline_routing::{Address, ServerFigures};
use paceline_types::{
    Attributes, Known, Place, Priority, Refusal, Request, RequestId, ServerId, Span, Time,
};
use std::sync::{Arc, MutexGuard};
use tokio::sync::{oneshot, watch};

/// What became of a request that could not reach its server.
pub(super) enum Moved {
    /// It runs on, with another server.
    Granted(Grant),
    /// It waits for one.
    Back(oneshot::Receiver<Decided>),
    /// It keeps the one it has.
    Nowhere,
}

impl Control {
    /// Hears of every configuration from now on; the one in use can be read at once.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.followed.subscribe()
    }

    /// The server at this address came up or went down. Whether it is still there: a server that an edit has deleted
    /// or moved to another address is left alone.
    pub fn set_up(&self, server: ServerId, address: &Address, up: bool) -> bool {
        self.call(|engine, now| {
            let is_there = engine.fleet().site(server).is_some_and(|site| site.address == *address);
            if is_there {
                engine.set_up(now, server, up);
            }
            is_there
        })
    }

    /// Whether each server is up, and how many requests it has.
    #[must_use]
    pub fn servers(&self) -> Vec<(ServerId, ServerFigures)> {
        self.state().engine.fleet().servers().collect()
    }

    /// The limit of the checkpoint that turned a request away, as it is now.
    #[must_use]
    pub fn quota(&self, refusal: &Refusal) -> Option<Quota> {
        match refusal.reason.place()? {
            Place::Checkpoint { name, .. } => self.snapshot().quota(name),
            Place::Pool(_) => None,
        }
    }

    /// The time now, as the engine counts it.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether the frontend of a request logs values with it.
    pub(super) fn logs_values(&self, request: &Request) -> bool {
        self.snapshot().logs_values(request.attributes.known(Known::Frontend))
    }

    /// The values that the frontend of a request logs with it.
    pub(super) fn values_of(&self, id: RequestId) -> Vec<(Box<str>, Option<String>)> {
        let state = self.state();
        let Some(request) = state.engine.request(id) else { return vec![] };
        let priority = state.engine.grant(id).map_or(Priority::START, |grant| grant.priority);
        let frontend = request.attributes.known(Known::Frontend);
        state.engine.values(frontend, &request.attributes, priority)
    }

    /// The values that its frontend logs with a request of these attributes that has no permit, by name, with counters as
    /// they are now.
    #[must_use]
    pub fn values(&self, attributes: &Attributes) -> Vec<(Box<str>, Option<String>)> {
        let frontend = attributes.known(Known::Frontend);
        self.state().engine.values(frontend, attributes, Priority::START)
    }

    pub(super) fn withdraw(&self, id: RequestId) {
        let mut state = self.state();
        if state.engine.withdraw(self.clock.now(), id) {
            self.tell(|| Event::Left { id });
        }
        self.forget(state, id);
    }

    /// Whoever asked has gone before it had a permit: the request leaves its queue, or is withdrawn if it
    /// was granted in that moment. Nothing is spent either way.
    pub(super) fn leave(&self, id: RequestId) {
        let mut state = self.state();
        let now = self.clock.now();
        let was_there = state.engine.cancel(now, id) || state.engine.withdraw(now, id);
        drop(state.waiters.remove(&id));
        if was_there {
            self.tell(|| Event::Left { id });
        }
        self.forget(state, id);
    }

    /// A request left that nothing was done for.
    fn forget(&self, mut state: MutexGuard<'_, State>, id: RequestId) {
        let is_noted = self.note_ended(&mut state, id, Cause::Asked);
        self.finish(state);
        if is_noted {
            self.ledger.write();
        }
    }

    /// Another server for a request that could not reach its own. Where the request has to wait for one, its caller is
    /// told what becomes of it as if it had just come.
    pub(super) fn reroute(&self, id: RequestId) -> Moved {
        let mut state = self.state();
        let moved = match state.engine.reroute(self.clock.now(), id) {
            Rerouted::Server(_) => state.engine.grant(id).map_or(Moved::Nowhere, Moved::Granted),
            Rerouted::Back => {
                self.tell(|| Event::Waiting { id });
                let (sender, receiver) = oneshot::channel();
                state.waiters.insert(id, sender);
                Moved::Back(receiver)
            }
            Rerouted::Nowhere => Moved::Nowhere,
        };
        self.finish(state);
        moved
    }

    pub(super) fn is_limited(&self, id: RequestId) -> bool {
        self.state().engine.is_limited(id)
    }

    /// The names of where a request slept, and how long.
    pub(super) fn slept(&self, id: RequestId) -> Vec<(Box<str>, Span)> {
        let state = self.state();
        let engine = &state.engine;
        let (slept, lined) = (engine.slept(id).to_vec(), engine.lined(id));
        let pool = engine.grant(id).map(|grant| grant.pool);
        let snapshot = engine.snapshot();
        drop(state);
        let mut named: Vec<(Box<str>, Span)> = slept
            .into_iter()
            .map(|(id, span)| {
                let checkpoint = snapshot.checkpoints().checkpoint(id);
                (checkpoint.map_or_else(|| "deleted".into(), |one| one.spec.name.clone()), span)
            })
            .collect();
        if lined > Span::ZERO {
            let pool = pool.and_then(|pool| snapshot.pools().by_id(pool));
            let name = pool.map_or("deleted", |pool| &*pool.name);
            named.push((format!("pool {name}").into(), lined));
        }
        named
    }
}
