//! Walks through the graph: the marks of a claim, and who is above whom.
//!
//! Promises that the ancestors of a root are visited once each, and of its sub-tree only the nodes
//! through which a node with several parents can be reached: a claim on the root of a plain tree
//! visits nothing below it.

use super::list::Seen;
use super::{Graph, ResourceId};
use crate::mark::{Mark, MarkMode, NodeKey, Root, combine};
use paceline_types::Mode;

impl Graph {
    /// The marks of a request with these roots, in order. A root that is not in the graph stands alone.
    pub(crate) fn marks(&self, roots: &[Root]) -> Box<[Mark]> {
        let mut marks = Vec::with_capacity(roots.len() * 4);
        // Exclusive roots go first, because their intentions cover the shared ones.
        let mut above = Seen::new(self.len());
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut doors = Doors { graph: self, seen: Seen::new(self.len()), found: vec![] };
            for (index, root) in roots.iter().enumerate().filter(|(_, root)| root.mode == mode) {
                let number = u16::try_from(index).unwrap_or(u16::MAX);
                marks.push(Mark { key: root.key, mode: MarkMode::full(mode), root: number });
                if let Some(node) = self.node_of(root.key) {
                    self.mark_above(node, mode, number, &mut above, &mut marks);
                    doors.walk(node, number);
                }
            }
            doors.mark(mode, &mut marks);
        }
        combine(&mut marks);
        marks.into_boxed_slice()
    }

    /// Whether `key` lies in the sub-tree of one of the roots that is at least as strong as `mode`.
    pub(crate) fn is_covered(&self, key: NodeKey, mode: Mode, roots: &[Root]) -> bool {
        let covers = |key: NodeKey| {
            roots.binary_search_by_key(&key, |root| root.key).is_ok_and(|index| {
                let strength = roots[index].mode;
                strength == mode || strength == Mode::Exclusive
            })
        };
        let Some(node) = self.node_of(key) else { return covers(key) };
        let mut seen = Seen::new(self.len());
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if covers(self.key(node)) {
                return true;
            }
            open.extend(self.parents.of(node).iter().copied().filter(|up| seen.add(*up)));
        }
        false
    }

    /// The node of a key, if it is a resource of this graph.
    pub(super) fn node_of(&self, key: NodeKey) -> Option<u32> {
        if key.is_made() { None } else { self.node(ResourceId(key.0)) }
    }

    fn mark_above(&self, node: u32, mode: Mode, root: u16, seen: &mut Seen, out: &mut Vec<Mark>) {
        let mode = MarkMode::below(mode);
        let mut open = node;
        let mut more = vec![];
        loop {
            for parent in self.parents.of(open) {
                if seen.add(*parent) {
                    out.push(Mark { key: self.key(*parent), mode, root });
                    more.push(*parent);
                }
            }
            match more.pop() {
                Some(next) => open = next,
                None => return,
            }
        }
    }
}

/// The search for side doors of all roots of one mode.
struct Doors<'a> {
    graph: &'a Graph,
    /// Roots and nodes below them, as far as they lead to a node with several parents.
    seen: Seen,
    /// Nodes below a root that have several parents, each with the root it was reached from.
    found: Vec<(u32, u16)>,
}

impl Doors<'_> {
    fn walk(&mut self, root: u32, number: u16) {
        if self.graph.doors.of(root).is_empty() || !self.seen.add(root) {
            return;
        }
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            for child in self.graph.doors.of(node) {
                if !self.seen.add(*child) {
                    continue;
                }
                if self.graph.parents.of(*child).len() > 1 {
                    self.found.push((*child, number));
                }
                open.push(*child);
            }
        }
    }

    fn mark(&self, mode: Mode, out: &mut Vec<Mark>) {
        for (node, root) in &self.found {
            let is_inside = |parent: &u32| self.seen.has(*parent);
            if !self.graph.parents.of(*node).iter().all(is_inside) {
                out.push(Mark {
                    key: self.graph.key(*node),
                    mode: MarkMode::full(mode),
                    root: *root,
                });
            }
        }
    }
}
