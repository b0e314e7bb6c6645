//! Figures, and the requests at a resource.

use super::Claims;
use crate::graph::ResourceId;
use crate::mark::{MarkMode, NodeKey};
use crate::node::{Node, Tag};
use paceline_types::RequestId;
use paceline_types::limits::AHEAD_MAX;

/// Figures of all claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that hold claims.
    pub holding: usize,
    /// Requests that wait for claims, parked or not.
    pub waiting: usize,
    /// Waiters that were found blocked and wait to be woken.
    pub parked: usize,
    /// Requests that wait for a resource that does not exist.
    pub aside: usize,
    /// Names that are claimed although no resource has them.
    pub made: usize,
    /// Nodes that have marks, roots or parked waiters.
    pub nodes: usize,
    /// Graph edits that are being applied.
    pub edits: usize,
}

/// The requests at one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The key to continue from, with [`Claims::views`].
    pub key: NodeKey,
    /// The resource, if it is or was configured; `None` for a name that only requests made.
    pub id: Option<ResourceId>,
    /// The name.
    pub resource: Box<str>,
    /// How many hold a claim on this very resource.
    pub holding: usize,
    /// How many wait for this very resource.
    pub waiting: usize,
    /// The first holders, at most [`AHEAD_MAX`].
    pub holders: Vec<RequestId>,
    /// Whether something below it is held.
    pub is_held_below: bool,
}

impl Claims {
    /// Figures of all claims.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (made, nodes, edits) = (self.made.len(), self.nodes.len(), self.edits.len());
        Stats { made, nodes, edits, ..self.stats }
    }

    /// The requests at the resource of this name, if it exists or its name is claimed.
    #[must_use]
    pub fn view(&self, resource: &str) -> Option<View> {
        let found = self.graph.find(resource).map(|id| NodeKey(id.0));
        let key = found.or_else(|| self.made.find(resource))?;
        Some(self.view_of(key, self.nodes.node(key)))
    }

    /// All resources after the given one where a request holds or waits, there or below.
    pub fn views(&self, after: Option<NodeKey>) -> impl Iterator<Item = View> {
        self.nodes.after(after).map(|(key, node)| self.view_of(key, Some(node)))
    }

    fn view_of(&self, key: NodeKey, node: Option<&Node>) -> View {
        let count = |tag| node.map_or(0, |node| node.count(tag));
        let holders = node.into_iter().flat_map(|node| node.ranks(Tag::RootHeld, None));
        let below = [MarkMode::SharedBelow, MarkMode::ExclusiveBelow];
        View {
            key,
            id: (!key.is_made()).then_some(ResourceId(key.0)),
            resource: self.name(key).into(),
            holding: count(Tag::RootHeld),
            waiting: count(Tag::RootWaiting),
            holders: holders.take(AHEAD_MAX).map(|rank| rank.id).collect(),
            is_held_below: below.into_iter().any(|mode| count(Tag::Held(mode)) > 0),
        }
    }
}
