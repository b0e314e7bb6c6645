//! The differences between two graphs, as far as they affect requests.
//!
//! Owns the answer to three questions. Which requests may have other marks now: those rooted at a *touched*
//! resource, which is above or below (or is) the lower end of an added or removed edge. (Which of several nodes
//! with the same parents represents all changes only with an edge from each of these.) What may a holder have
//! lost: walks down the old graph that pass only through *lossy* nodes, those with a removed edge or a deleted
//! resource at or below them. Which names have *appeared*. Promises work that grows with the two graphs, done
//! outside the lock.

use super::list::Bits;
use super::{Graph, ResourceId};
use crate::mark::{NodeKey, Root, sort_roots};
use paceline_types::Mode;
use std::sync::{Arc, Weak};

/// The difference between a graph and the previous one.
#[derive(Default)]
pub(crate) struct Changes {
    /// The previous graph; this applies to no other graph.
    before: Weak<Graph>,
    /// Resources of the previous graph, in order.
    touched: Vec<ResourceId>,
    /// Removed edges whose lower end still exists, as nodes of the previous graph, in order.
    removed: Vec<(u32, u32)>,
    /// Edges of the previous graph whose lower end is lossy, in order.
    lossy_edges: Vec<(u32, u32)>,
    /// Nodes of the previous graph.
    lossy: Bits,
    /// Nodes of the new graph whose names the previous graph did not have.
    appeared: Vec<u32>,
}

impl Changes {
    /// The difference between `old` and `new`.
    pub fn between(old: &Arc<Graph>, new: &Graph) -> Self {
        let edges = Edges::between(old, new);
        let mut lost: Vec<u32> = edges.removed.iter().map(|(parent, _)| *parent).collect();
        lost.extend(&edges.deleted);
        let lossy = old.parents.reach(&lost);
        let mut lossy_edges = vec![];
        for node in (0..old.len() as u32).filter(|node| lossy.has(*node)) {
            lossy_edges.extend(old.parents.of(node).iter().map(|parent| (*parent, node)));
        }
        lossy_edges.sort_unstable();
        let mut removed = edges.removed.clone();
        removed.retain(|(_, child)| new.node(old.id(*child)).is_some());
        removed.sort_unstable();
        let (touched, appeared) = (edges.touched(old, new), appeared(old, new));
        Self { before: Arc::downgrade(old), touched, removed, lossy_edges, lossy, appeared }
    }

    /// Whether this is the difference to `graph`.
    pub fn is_from(&self, graph: &Arc<Graph>) -> bool {
        std::ptr::eq(self.before.as_ptr(), Arc::as_ptr(graph))
    }

    /// The touched resource with this number.
    pub fn touched(&self, index: usize) -> Option<NodeKey> {
        self.touched.get(index).map(|id| NodeKey(id.0))
    }

    /// The appeared name with this number.
    pub fn appeared<'a>(&self, new: &'a Graph, index: usize) -> Option<&'a str> {
        self.appeared.get(index).map(|node| new.name_of(*node))
    }
}

/// What a holder with `roots` in the old graph has to hold in the new one: everything in its sub-trees stays
/// held. `stand_in` names the node for a deleted resource. Also returns how many nodes were visited: few if the
/// changes are known.
pub(crate) fn kept_roots(
    (old, new): (&Graph, &Graph),
    changes: Option<&Changes>,
    roots: &[Root],
    mut stand_in: impl FnMut(&str) -> NodeKey,
) -> (Vec<Root>, usize) {
    let losses = Losses { old, new, changes };
    let mut kept = vec![];
    let mut torn = vec![];
    let mut visited = 0;
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut seen = Bits::default();
        let mut open = vec![];
        for root in roots.iter().filter(|root| root.mode == mode) {
            let node = old.node_of(root.key);
            if node.is_none_or(|node| new.node(old.id(node)).is_some()) {
                kept.push(*root);
            }
            open.extend(node.filter(|node| losses.may_be_below(*node)));
        }
        if !open.is_empty() {
            seen = Bits::new(old.len());
        }
        open.retain(|node| seen.add(*node));
        while let Some(node) = open.pop() {
            visited += 1;
            if new.node(old.id(node)).is_none() {
                kept.push(Root { key: stand_in(old.name_of(node)), mode, claim: 0 });
            }
            let cut = |child| Root { key: old.key(child), mode, claim: 0 };
            losses.cut(node, |child| torn.push(cut(child)));
            losses.below(node, |child| open.extend(seen.add(child).then_some(child)));
        }
    }
    sort_roots(&mut kept);
    torn.retain(|root: &Root| !new.is_covered(root.key, root.mode, &kept));
    kept.extend(torn);
    sort_roots(&mut kept);
    (kept, visited)
}

/// What a holder may have lost, from the known changes or from a search.
struct Losses<'a> {
    old: &'a Graph,
    new: &'a Graph,
    changes: Option<&'a Changes>,
}

impl Losses<'_> {
    /// Whether something at or below a node may be lost.
    fn may_be_below(&self, node: u32) -> bool {
        self.changes.is_none_or(|changes| changes.lossy.has(node))
    }

    /// The children that still exist but are no longer below the node.
    fn cut(&self, node: u32, found: impl FnMut(u32)) {
        match self.changes {
            Some(changes) => edges_of(&changes.removed, node).for_each(found),
            None => self
                .old
                .children
                .of(node)
                .iter()
                .copied()
                .filter(|c| self.is_cut(node, *c))
                .for_each(found),
        }
    }

    /// The children below which something may be lost.
    fn below(&self, node: u32, found: impl FnMut(u32)) {
        match self.changes {
            Some(changes) => edges_of(&changes.lossy_edges, node).for_each(found),
            None => self.old.children.of(node).iter().copied().for_each(found),
        }
    }

    fn is_cut(&self, node: u32, child: u32) -> bool {
        let Some(child) = self.new.node(self.old.id(child)) else { return false };
        let hangs = |parent: u32| self.new.parents.of(child).contains(&parent);
        !self.new.node(self.old.id(node)).is_some_and(hangs)
    }
}

/// The lower ends of the edges that leave `node`.
fn edges_of(edges: &[(u32, u32)], node: u32) -> impl Iterator<Item = u32> {
    let start = edges.partition_point(|(parent, _)| *parent < node);
    edges[start..].iter().take_while(move |(parent, _)| *parent == node).map(|(_, child)| *child)
}

/// Edges that were added and removed.
#[derive(Default)]
struct Edges {
    /// Parent and child, nodes of the old graph.
    removed: Vec<(u32, u32)>,
    /// Nodes of the old graph that are not in the new one.
    deleted: Vec<u32>,
    /// Lower ends of new edges, nodes of the new graph.
    added: Vec<u32>,
}

impl Edges {
    fn between(old: &Graph, new: &Graph) -> Self {
        let mut edges = Self::default();
        let (mut before, mut after) = (0u32, 0u32);
        while (before as usize) < old.len() || (after as usize) < new.len() {
            let old_id = old.ids.get(before as usize);
            let new_id = new.ids.get(after as usize);
            // Nodes are in the order of their ids, so the lower id has no partner.
            let is_old = old_id.is_some_and(|id| new_id.is_none_or(|other| id <= other));
            let is_new = new_id.is_some_and(|id| old_id.is_none_or(|other| id <= other));
            edges.compare((old, is_old.then_some(before)), (new, is_new.then_some(after)));
            before += u32::from(is_old);
            after += u32::from(is_new);
        }
        edges
    }

    /// Compares the parents of one resource, given its nodes in the old and the new graph.
    fn compare(
        &mut self,
        (old, before): (&Graph, Option<u32>),
        (new, after): (&Graph, Option<u32>),
    ) {
        let ups = |graph: &Graph, node: Option<u32>| -> Vec<ResourceId> {
            let list = node.map_or(&[][..], |node| graph.parents.of(node));
            list.iter().map(|up| graph.id(*up)).collect()
        };
        let (was, is) = (ups(old, before), ups(new, after));
        if let Some(node) = before {
            let gone = old.parents.of(node).iter().zip(&was);
            let gone = gone.filter(|(_, id)| is.binary_search(id).is_err());
            self.removed.extend(gone.map(|(up, _)| (*up, node)));
            if after.is_none() {
                self.deleted.push(node);
            }
        }
        if let Some(node) = after
            && is.iter().any(|id| was.binary_search(id).is_err())
        {
            self.added.push(node);
        }
    }

    /// Resources of the old graph that are above or below a changed edge in either graph.
    fn touched(&self, old: &Graph, new: &Graph) -> Vec<ResourceId> {
        let mut ends: Vec<u32> = self.removed.iter().map(|(_, child)| *child).collect();
        ends.extend(&self.deleted);
        let mut touched = around(old, &ends, &self.added_in(new, old));
        let removed = ends.iter().filter_map(|node| new.node(old.id(*node))).collect::<Vec<_>>();
        touched.extend(around(new, &removed, &self.added));
        touched.sort_unstable();
        touched.dedup();
        touched.retain(|id| old.node(*id).is_some());
        touched
    }

    /// The lower ends of new edges as nodes of the old graph.
    fn added_in(&self, new: &Graph, old: &Graph) -> Vec<u32> {
        self.added.iter().filter_map(|node| old.node(new.id(*node))).collect()
    }
}

/// Everything above and below (and at) the given nodes of one graph.
fn around(graph: &Graph, some: &[u32], others: &[u32]) -> Vec<ResourceId> {
    let ends = [some, others].concat();
    if ends.is_empty() {
        return vec![];
    }
    let (above, below) = (graph.parents.reach(&ends), graph.children.reach(&ends));
    let nodes = 0..graph.len() as u32;
    nodes.filter(|n| above.has(*n) || below.has(*n)).map(|n| graph.id(n)).collect()
}

/// Nodes of the new graph with names that the old one did not have: both are read in name order.
fn appeared(old: &Graph, new: &Graph) -> Vec<u32> {
    let mut known = old.by_name.iter().map(|node| old.name_of(*node)).peekable();
    let mut appeared = vec![];
    for node in &new.by_name {
        let name = new.name_of(*node);
        while known.next_if(|other| *other < name).is_some() {}
        if known.peek().is_none_or(|other| *other != name) {
            appeared.push(*node);
        }
    }
    appeared
}
