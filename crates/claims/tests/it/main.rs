//! Claims against the requirement: the seed's picture, a naive model over random histories, and limits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod circles;
mod conflicts;
mod edits;
mod graphs;
mod histories;
mod limits;
mod model;
mod picture;
mod random;
mod waiting;

use paceline_claims::{Claims, Event, Graph, Resource, ResourceId, WantedClaims};
use paceline_types::{Claim, Mode, Priority, Rank, RequestId, SessionId, Span, Time};
use std::sync::Arc;

/// The rank of a request that arrived at `at` with priority 0.
fn rank(at: u64, id: u64) -> Rank {
    Rank::new(Time(at), Priority::START, Span::from_secs(1), RequestId(id))
}

fn resource(id: u64, name: &str, parents: &[u64]) -> Resource {
    let parents = parents.iter().map(|parent| ResourceId(*parent)).collect();
    Resource { id: ResourceId(id), name: name.into(), parents }
}

fn claim(name: &str, mode: Mode) -> Claim {
    Claim { resource: name.into(), mode }
}

/// Claims under test, with helpers for scripts.
struct Bench {
    claims: Claims,
}

impl Bench {
    fn new(resources: Vec<Resource>) -> Self {
        let mut bench = Self { claims: Claims::new() };
        bench.edit(resources);
        bench
    }

    /// Swaps the graph and applies the edit.
    fn edit(&mut self, resources: Vec<Resource>) {
        let graph = Graph::build(Some(self.claims.graph()), resources).unwrap();
        self.claims.configure(Arc::new(graph));
        while self.claims.is_busy() {
            assert!(self.claims.step(1) > 0);
        }
    }

    fn wanted(&self, names: &str, mode: Mode) -> WantedClaims {
        let claims: Vec<_> = names.split_whitespace().map(|name| claim(name, mode)).collect();
        self.claims.graph().resolve(&claims).unwrap()
    }

    /// A newcomer that takes its claims or waits, eligible. Returns whether it holds them.
    fn ask(&mut self, id: u64, names: &str, mode: Mode) -> bool {
        let mut wanted = self.wanted(names, mode);
        if self.claims.check(&mut wanted, rank(id, id)).is_ok() {
            self.claims.take_at_once(RequestId(id), rank(id, id), Some(SessionId(id)), wanted);
            return true;
        }
        self.claims.add(RequestId(id), rank(id, id), Some(SessionId(id)), wanted);
        self.claims.set_eligible(RequestId(id), true);
        assert!(self.claims.take(RequestId(id)).is_err(), "request {id} was blocked a moment ago");
        false
    }

    fn exclusive(&mut self, id: u64, names: &str) -> bool {
        self.ask(id, names, Mode::Exclusive)
    }

    fn shared(&mut self, id: u64, names: &str) -> bool {
        self.ask(id, names, Mode::Shared)
    }

    fn remove(&mut self, id: u64) {
        assert!(self.claims.remove(RequestId(id)), "request {id}");
    }

    /// Handles all events. Returns the requests that could take their claims, in order.
    fn grants(&mut self) -> Vec<u64> {
        let mut granted = vec![];
        while let Some(event) = self.claims.poll() {
            let Event::Unblocked(id) = event else { panic!("{event:?}") };
            if self.claims.take(id).is_ok() {
                granted.push(id.0);
            }
        }
        assert!(!self.claims.has_work());
        granted
    }
}
