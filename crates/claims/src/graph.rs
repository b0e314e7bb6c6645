//! The graph of resources: an immutable snapshot, built and read outside the engine's lock.
//!
//! Owns names, ids and edges in flat lists, so that a graph of 100,000 resources is dropped quickly. Nodes are
//! numbered in the order of their ids. Promises that there is no cycle, that every name and id belongs to one
//! resource, and that finding the marks of a claim walks a sub-tree only as far as it has nodes with several
//! parents. Never changes after it was built.

mod build;
mod change;
mod error;
mod list;
mod near;
mod walk;

pub(crate) use change::{Changes, kept_roots};
pub use error::GraphError;
pub use walk::{EDGES_WALKED_MAX, MARKS_MAX};

use crate::mark::NodeKey;
use list::{Bits, Lists};
use std::fmt;

/// Resources of one graph.
pub const RESOURCES_MAX: usize = 10_000_000;

/// Edges of one graph.
pub const EDGES_MAX: usize = 100_000_000;

/// Identifies a resource for as long as it exists, even if its name changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u64);

impl ResourceId {
    /// The highest number an id may have.
    pub const MAX: Self = Self(NodeKey::MADE - 1);
}

/// One resource, as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Stays the same when the resource is renamed; at most [`ResourceId::MAX`].
    pub id: ResourceId,
    /// The name that claims use.
    pub name: Box<str>,
    /// Its parents.
    pub parents: Vec<ResourceId>,
}

/// All resources and their edges.
pub struct Graph {
    /// The id of each node, ascending.
    ids: Vec<ResourceId>,
    names: Names,
    /// All nodes in the order of their names.
    by_name: Vec<u32>,
    parents: Lists,
    children: Lists,
    /// Nodes with several parents. Of nodes with the same parents only the lowest is included, which represents
    /// all: sub-trees that meet at one of them meet at all.
    meets: Bits,
    /// The children where sub-trees meet, or below which they do.
    doors: Lists,
    /// The differences to the previous graph, found here because it is too much work for the lock.
    changes: Changes,
}

impl Graph {
    /// A graph without resources.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            ids: vec![],
            names: Names::default(),
            by_name: vec![],
            parents: Lists::default(),
            children: Lists::default(),
            meets: Bits::default(),
            doors: Lists::default(),
            changes: Changes::default(),
        }
    }

    /// How many resources there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The resource of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ResourceId> {
        self.node_named(name).map(|node| self.id(node))
    }

    /// The name of a resource.
    #[must_use]
    pub fn name(&self, id: ResourceId) -> Option<&str> {
        self.node(id).map(|node| self.name_of(node))
    }

    /// The children of `id`, in the order of their ids.
    pub fn children(&self, id: ResourceId) -> impl Iterator<Item = ResourceId> {
        let node = self.node(id);
        node.into_iter().flat_map(|node| self.children.of(node)).map(|child| self.id(*child))
    }

    /// The parents of `id`, in the order of their ids.
    pub fn parents(&self, id: ResourceId) -> impl Iterator<Item = ResourceId> {
        let node = self.node(id);
        node.into_iter().flat_map(|node| self.parents.of(node)).map(|parent| self.id(*parent))
    }

    /// All resources, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, &str)> {
        self.ids.iter().zip(0..).map(|(id, node)| (*id, self.name_of(node)))
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    fn node(&self, id: ResourceId) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|index| index as u32)
    }

    fn node_named(&self, name: &str) -> Option<u32> {
        let place = self.by_name.binary_search_by(|node| self.name_of(*node).cmp(name)).ok()?;
        Some(self.by_name[place])
    }

    fn id(&self, node: u32) -> ResourceId {
        self.ids[node as usize]
    }

    fn key(&self, node: u32) -> NodeKey {
        NodeKey(self.id(node).0)
    }

    fn name_of(&self, node: u32) -> &str {
        self.names.of(node)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("resources", &self.len()).finish_non_exhaustive()
    }
}

/// The names of all nodes in one text.
#[derive(Default)]
struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    fn of(&self, node: u32) -> &str {
        let node = node as usize;
        let start = if node == 0 { 0 } else { self.ends[node - 1] };
        &self.text[start..self.ends[node]]
    }
}
