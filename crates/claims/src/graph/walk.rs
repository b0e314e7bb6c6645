//! Walks through the graph: the marks of a claim, and what is above a node.
//!
//! Promises that the ancestors of a root are visited once each, and of its sub-tree only the nodes
//! through which a node with several parents can be reached: a claim on the root of a plain tree
//! visits nothing below it. Promises to stop at [`MARKS_MAX`] marks, or [`EDGES_WALKED_MAX`] edges,
//! unless asked to go to the end.

use super::list::Seen;
use super::{Graph, ResourceId};
use crate::mark::{Mark, MarkMode, NodeKey, Root, combine};
use paceline_types::Mode;

/// The most marks of one request. Each is added to its node, and removed again, under the engine's lock.
pub const MARKS_MAX: usize = 1_024;

/// The most edges that are walked to find the marks of one request: for a request that waited while the graph
/// was edited this is done under the engine's lock.
pub const EDGES_WALKED_MAX: usize = 131_072;

impl Graph {
    /// The marks of a request with these roots, in order, however many they are. A root that is not in the
    /// graph has only its own mark.
    pub(crate) fn marks(&self, roots: &[Root]) -> Box<[Mark]> {
        let mut walk = Walk::new(self, usize::MAX, usize::MAX);
        // Without bounds this cannot fail.
        let _ = walk.mark_all(roots);
        walk.combined()
    }

    /// The same within the bounds, and how many edges were walked; or the node of the root that exceeds them.
    pub(crate) fn marks_within(&self, roots: &[Root]) -> Result<(Box<[Mark]>, usize), NodeKey> {
        let mut walk = Walk::new(self, MARKS_MAX, EDGES_WALKED_MAX);
        match walk.mark_all(roots) {
            Ok(()) => Ok((walk.combined(), EDGES_WALKED_MAX - walk.edges_left)),
            Err(TooWide(root)) => Err(roots[usize::from(root).min(roots.len() - 1)].key),
        }
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
}

/// The number of the root whose marks are too many.
struct TooWide(u16);

/// The search for the marks of one request.
struct Walk<'a> {
    graph: &'a Graph,
    marks: Vec<Mark>,
    marks_max: usize,
    /// Edges that may still be walked.
    edges_left: usize,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, marks_max: usize, edges_left: usize) -> Self {
        Self { graph, marks: vec![], marks_max, edges_left }
    }

    fn mark_all(&mut self, roots: &[Root]) -> Result<(), TooWide> {
        self.marks.reserve(roots.len() * 4);
        let nodes = self.graph.len();
        // Exclusive roots go first, because their intentions cover the shared ones.
        let mut above = Seen::new(nodes);
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut below = Below { seen: Seen::new(nodes), doors: vec![] };
            for (index, root) in roots.iter().enumerate().filter(|(_, root)| root.mode == mode) {
                let number = u16::try_from(index).unwrap_or(u16::MAX);
                self.mark(root.key, MarkMode::full(mode), number)?;
                if let Some(node) = self.graph.node_of(root.key) {
                    self.mark_above(node, MarkMode::below(mode), number, &mut above)?;
                    self.find_doors(node, number, &mut below)?;
                }
            }
            self.mark_doors(MarkMode::full(mode), &below)?;
        }
        Ok(())
    }

    fn mark(&mut self, key: NodeKey, mode: MarkMode, root: u16) -> Result<(), TooWide> {
        self.marks.push(Mark { key, mode, root });
        if self.marks.len() > self.marks_max { Err(TooWide(root)) } else { Ok(()) }
    }

    /// Counts visited edges.
    fn pay(&mut self, edges: usize, root: u16) -> Result<(), TooWide> {
        self.edges_left = self.edges_left.checked_sub(edges).ok_or(TooWide(root))?;
        Ok(())
    }

    /// Marks everything above a node.
    fn mark_above(
        &mut self,
        node: u32,
        mode: MarkMode,
        root: u16,
        seen: &mut Seen,
    ) -> Result<(), TooWide> {
        let mut open = vec![];
        let mut next = Some(node);
        while let Some(node) = next {
            let parents = self.graph.parents.of(node);
            self.pay(parents.len(), root)?;
            for parent in parents {
                if seen.add(*parent) {
                    self.mark(self.graph.key(*parent), mode, root)?;
                    open.push(*parent);
                }
            }
            next = open.pop();
        }
        Ok(())
    }

    /// Finds the nodes below a root that may be side doors.
    fn find_doors(&mut self, root: u32, number: u16, below: &mut Below) -> Result<(), TooWide> {
        if self.graph.doors.of(root).is_empty() || !below.seen.add(root) {
            return Ok(());
        }
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            let children = self.graph.doors.of(node);
            self.pay(children.len(), number)?;
            for child in children {
                if !below.seen.add(*child) {
                    continue;
                }
                if self.graph.meets.has(*child) {
                    below.doors.push((*child, number));
                }
                open.push(*child);
            }
        }
        Ok(())
    }

    /// Marks the side doors: the doors that have a parent outside.
    fn mark_doors(&mut self, mode: MarkMode, below: &Below) -> Result<(), TooWide> {
        for (node, root) in &below.doors {
            let parents = self.graph.parents.of(*node);
            self.pay(parents.len(), *root)?;
            if !parents.iter().all(|parent| below.seen.has(*parent)) {
                self.mark(self.graph.key(*node), mode, *root)?;
            }
        }
        Ok(())
    }

    fn combined(&mut self) -> Box<[Mark]> {
        combine(&mut self.marks);
        std::mem::take(&mut self.marks).into_boxed_slice()
    }
}

/// What was visited below the roots of one mode.
struct Below {
    /// Roots and nodes below them, as far as they lead to a node with several parents.
    seen: Seen,
    /// Nodes below a root where sub-trees meet, each with the root it was reached from.
    doors: Vec<(u32, u16)>,
}
