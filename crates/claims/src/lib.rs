//! Claims on a graph of resources: which may be held together, and which requests wait.
//!
//! Owns three things: the [`Graph`] of resources, an immutable snapshot built outside the engine's lock;
//! [`WantedClaims`], what one request claims, resolved against a snapshot outside the lock as well; and
//! [`Claims`], the requests that hold and wait, under the lock. Promises that no request is granted a claim
//! whose sub-tree meets one that is held, except that shared claims may meet (C1), that all claims of a request
//! are taken together or not at all (C2), and that no request passes an earlier one that conflicts with it and
//! could run (C3). Never decides which request could run: pools are another room, and the engine says which
//! waiters are eligible.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod claims;
mod graph;
mod mark;
mod node;
mod wanted;

pub use claims::{
    Blocked, Blocker, Blockers, Claimed, Claims, Event, Holding, Stats, View, follow,
};
pub use graph::{
    EDGES_MAX, EDGES_WALKED_MAX, Graph, GraphError, MARKS_MAX, RESOURCES_MAX, Resource, ResourceId,
};
pub use mark::NodeKey;
pub use wanted::{ResolveError, Resting, WantedClaims};
