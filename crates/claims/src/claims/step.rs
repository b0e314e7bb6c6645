//! Work that may be long, done in steps: large releases, and the marks that a graph edit changes.
//!
//! Promises that these two are done in bounded steps: [`Claims::step`] counts a request as one unit, and a
//! number of marks or nodes as one more. Taking or adding one request costs as much as it has marks, at most
//! [`MARKS_MAX`](crate::MARKS_MAX); only a holder may be given more, by an edit. A request that is partly
//! removed still blocks with its remaining marks, which is safe.

use super::{Claims, Request, Stage};
use crate::mark::{Mark, NodeKey, Root};
use crate::node::Tag;
use paceline_types::limits::STEP_MAX;
use paceline_types::{Rank, RequestId};

/// Marks or nodes that count as much as one request.
const NODES_PER_UNIT: usize = 16;

/// Edges walked that count as much as one request.
const EDGES_PER_UNIT: usize = 1_024;

/// A request with more marks than this leaves in several steps.
const LEAVE_MAX: usize = STEP_MAX * NODES_PER_UNIT / 2;

/// The rest of a request that is being removed.
#[derive(Debug)]
pub(super) struct Leaving {
    rank: Rank,
    is_held: bool,
    marks: Vec<Mark>,
    roots: Vec<Root>,
}

impl Claims {
    /// Whether there is something for [`Claims::poll`] or [`Claims::step`] to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.is_busy()
            || !self.leaving.is_empty()
            || !self.news.is_empty()
            || !self.ready.is_empty()
            || self.nodes.is_stirred()
    }

    /// Whether a graph edit is being applied, so that nothing can be taken.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.edits.is_empty()
    }

    /// The work of taking, adding or removing this request, in requests with few marks.
    #[must_use]
    pub fn cost(&self, id: RequestId) -> usize {
        self.requests.get(&id).map_or(1, |request| cost(request.marks.len()))
    }

    /// Continues graph edits and large releases, for about as much work as `budget` requests. Returns how much
    /// of it was used: 0 if there is nothing to do.
    pub fn step(&mut self, budget: usize) -> usize {
        let mut used = 0;
        while used < budget {
            used += match self.step_edit() {
                0 => self.step_leaving(),
                cost => cost,
            };
            if self.edits.is_empty() && self.leaving.is_empty() {
                break;
            }
        }
        used
    }

    /// Removes a request's marks and roots from their nodes, in steps if they are many.
    pub(super) fn unlist(&mut self, request: Request) {
        if request.marks.len() + request.roots.len() <= LEAVE_MAX {
            self.unlist_now(&request);
            return;
        }
        let marks = if request.mark_tag(request.marks[0].mode).is_some() {
            request.marks.into_vec()
        } else {
            vec![]
        };
        let is_held = matches!(request.stage, Stage::Held);
        let leaving = Leaving { rank: request.rank, is_held, marks, roots: request.roots };
        self.leaving.push_back(leaving);
        self.step_leaving();
    }

    pub(super) fn unlist_now(&mut self, request: &Request) {
        for mark in &request.marks {
            if let Some(tag) = request.mark_tag(mark.mode) {
                self.nodes.remove(mark.key, tag, request.rank);
            }
        }
        for root in &request.roots {
            self.unroot(root.key, request.root_tag(), request.rank);
        }
    }

    /// Removes a waiter from where it is parked; the caller sets its next stage.
    pub(super) fn unpark(&mut self, request: &Request) {
        if let Stage::Parked(key, mode) = request.stage {
            self.nodes.remove(key, Tag::Parked(mode), request.rank);
            self.stats.parked -= 1;
        }
    }

    /// Removes a root; a made node without claims is forgotten.
    pub(super) fn unroot(&mut self, key: NodeKey, tag: Tag, rank: Rank) {
        self.nodes.remove(key, tag, rank);
        let count = |tag| self.nodes.count(key, tag);
        if key.is_made() && count(Tag::RootHeld) + count(Tag::RootWaiting) == 0 {
            self.made.forget(key);
        }
    }

    fn step_leaving(&mut self) -> usize {
        let Some(mut leaving) = self.leaving.pop_front() else { return 0 };
        let rank = leaving.rank;
        let mut work = LEAVE_MAX;
        while work > 0 && !(leaving.marks.is_empty() && leaving.roots.is_empty()) {
            work -= 1;
            if let Some(mark) = leaving.marks.pop() {
                let held = Tag::Held(mark.mode);
                let tag = if leaving.is_held { held } else { Tag::Waiting(mark.mode) };
                self.nodes.remove(mark.key, tag, rank);
            } else if let Some(root) = leaving.roots.pop() {
                let tag = if leaving.is_held { Tag::RootHeld } else { Tag::RootWaiting };
                self.unroot(root.key, tag, rank);
            }
        }
        if !leaving.marks.is_empty() || !leaving.roots.is_empty() {
            self.leaving.push_front(leaving);
        }
        cost(LEAVE_MAX - work)
    }
}

/// Units of work for this many marks or nodes.
pub(super) const fn cost(nodes: usize) -> usize {
    1 + nodes / NODES_PER_UNIT
}

/// Units of work for this many edges walked.
pub(crate) const fn walk_cost(edges: usize) -> usize {
    1 + edges / EDGES_PER_UNIT
}
