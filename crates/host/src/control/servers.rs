//! What the HTTP door asks of the engine: whether servers are up, other servers for a request, and where a
//! request waited.

use super::{Caller, Control, Decided, Event};
use paceline_engine::{About, Grant, Quota, Rerouted, Snapshot};
use paceline_routing::{Address, ServerFigures};
use paceline_types::{
    Attributes, Known, Place, Priority, Refusal, Request, RequestId, ServerId, Span, Time,
};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// The outcome for a request that could not reach its server.
pub(super) enum Moved {
    /// It continues with another server.
    Granted(Grant),
    /// It waits for a server.
    Back(oneshot::Receiver<Decided>),
    /// It keeps the server it has.
    Nowhere,
}

impl Control {
    /// Subscribes to every configuration from now on; the one in use can be read at once.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.followed.subscribe()
    }

    /// Reports that the server at this address is up or down. Returns whether the server still exists: a server
    /// that an edit has deleted or moved to another address is not changed.
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

    /// The limit of the checkpoint that refused a request, as it is now.
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

    /// The values that the frontend logs with a request of these attributes that has no permit, by name, with
    /// counters as they are now.
    #[must_use]
    pub fn values(&self, attributes: &Attributes) -> Vec<(Box<str>, Option<String>)> {
        let frontend = attributes.known(Known::Frontend);
        self.state().engine.values(frontend, attributes, Priority::START)
    }

    /// Finds another server for a request that could not reach its own. If the request has to wait for one, its
    /// caller receives the decision as if the request had just arrived.
    pub(super) fn reroute(&self, id: RequestId) -> Moved {
        let mut state = self.state();
        let moved = match state.engine.reroute(self.clock.now(), id) {
            Rerouted::Server(_) => state.engine.grant(id).map_or(Moved::Nowhere, Moved::Granted),
            Rerouted::Back => {
                let about = state.engine.request(id).map(About::of);
                self.tell(|| Event::Waiting { id, about });
                let (decided, receiver) = oneshot::channel();
                state.waiters.insert(id, Caller { decided, place: None });
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

    /// The names of the places where a request waited, and how long.
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
