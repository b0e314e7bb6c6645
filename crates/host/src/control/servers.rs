//! What the HTTP door asks of the engine: servers up and down, other servers, where time was spent.

use super::Control;
use paceline_engine::Snapshot;
use paceline_routing::ServerFigures;
use paceline_types::{Attributes, Priority, RequestId, ServerId, Span};
use std::sync::Arc;
use tokio::sync::watch;

impl Control {
    /// Hears of every configuration from now on; the one in use can be read at once.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.followed.subscribe()
    }

    /// A server came up or went down. One that does not exist is left alone.
    pub fn set_up(&self, server: ServerId, up: bool) {
        self.call(|engine, now| engine.set_up(now, server, up));
    }

    /// Whether each server is up, and how many requests it has.
    #[must_use]
    pub fn servers(&self) -> Vec<(ServerId, ServerFigures)> {
        self.state().engine.fleet().servers().collect()
    }

    /// The values that a frontend logs with each request, by name, with counters as they are now; one
    /// that fails has none. Costs nothing where the frontend logs none.
    #[must_use]
    pub fn values(
        &self,
        frontend: &str,
        attributes: &Attributes,
        priority: Priority,
    ) -> Vec<(Box<str>, Option<String>)> {
        let snapshot = self.snapshot();
        let logs = |frontend: &paceline_routing::Frontend| !frontend.log_values.is_empty();
        if !snapshot.routing().frontend(frontend).is_some_and(logs) {
            return vec![];
        }
        self.state().engine.values(frontend, attributes, priority)
    }

    pub(super) fn reroute(&self, id: RequestId) -> Option<ServerId> {
        self.call(|engine, now| engine.reroute(now, id))
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
