//! Graph edits under load.
//!
//! A new graph counts at once for everything that is granted from then on: nothing is granted until
//! all marks that it changes are right. Holders keep what they held, also where the edit took it out of
//! their sub-tree or deleted it, and hold what their sub-tree gained. Waiters use the new graph; one
//! whose resource is gone steps aside. An edit goes through three rounds: requests rooted at touched
//! resources; nodes that stood in for names which have appeared; requests that stand aside for those
//! names. Edits are worked in one after the other.

use super::made::Made;
use super::step::cost;
use super::{Claims, Request, Stage};
use crate::graph::{Changes, Graph, ResourceId};
use crate::mark::{Mark, NodeKey, Root, sort_roots};
use crate::node::Tag;
use paceline_types::limits::STEP_MAX;
use paceline_types::{Claim, Rank, RequestId};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Edits that may wait to be worked in; one more, and the oldest is finished first.
const EDITS_MAX: usize = 8;

/// Nodes where nobody is that one step passes by.
const NODES_MAX: usize = 16;

/// What finding the marks of a request costs, in units of work, besides the marks themselves.
const REMARK_COST: usize = 3;

/// One edit, and how far it got.
pub(super) struct Edit {
    sequence: u64,
    old: Arc<Graph>,
    new: Arc<Graph>,
    /// Only where the new graph was built to follow another one.
    own_changes: Option<Box<Changes>>,
    round: Round,
    /// The touched resource, or the appeared name, that is looked at.
    index: usize,
    /// The last request looked at there.
    after: Option<(Tag, Rank)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Touched,
    Made,
    Aside,
    Done,
}

impl Claims {
    /// Swaps the graph. Nothing can be taken until [`Claims::step`] has worked in what it changes,
    /// for most edits a single short step. Cannot fail, and is quick if the graph was built to follow
    /// the one in use.
    pub fn configure(&mut self, graph: Arc<Graph>) {
        if Arc::ptr_eq(&graph, &self.graph) {
            return;
        }
        while self.edits.len() >= EDITS_MAX {
            self.step(STEP_MAX);
        }
        let old = std::mem::replace(&mut self.graph, Arc::clone(&graph));
        self.sequence += 1;
        let is_next = graph.changes().is_from(&old);
        let own_changes = (!is_next).then(|| Box::new(Changes::between(&old, &graph)));
        self.edits.push_back(Edit {
            sequence: self.sequence,
            old,
            new: graph,
            own_changes,
            round: Round::Touched,
            index: 0,
            after: None,
        });
    }

    /// Goes on with the oldest edit by one request or a few nodes; what that cost.
    pub(super) fn step_edit(&mut self) -> usize {
        let Some(mut edit) = self.edits.pop_front() else { return 0 };
        let cost = self.next_request(&mut edit).map_or(1, |id| self.remark(id, &edit));
        if edit.round != Round::Done {
            self.edits.push_front(edit);
        }
        cost
    }

    /// Finds the next request that the edit may concern.
    fn next_request(&self, edit: &mut Edit) -> Option<RequestId> {
        for _ in 0..NODES_MAX {
            let changes = edit.changes();
            let appeared = || changes.appeared(&edit.new, edit.index);
            // The outer option says whether the round goes on, the inner whether somebody is here.
            let found = match edit.round {
                Round::Touched => {
                    changes.touched(edit.index).map(|key| self.rooted(key, edit.after))
                }
                Round::Made if self.made.len() == 0 => None,
                Round::Made => {
                    appeared().map(|name| self.rooted(self.made.find(name)?, edit.after))
                }
                Round::Aside if self.asides.is_empty() => None,
                Round::Aside => appeared().map(|name| self.watching(name, edit.after)),
                Round::Done => return None,
            };
            match found {
                Some(Some(next)) => {
                    edit.after = Some(next);
                    return Some(next.1.id);
                }
                Some(None) => (edit.index, edit.after) = (edit.index + 1, None),
                None => edit.next_round(),
            }
        }
        None
    }

    /// The next request that claims this very node: holders first, each in the order of ranks.
    fn rooted(&self, key: NodeKey, after: Option<(Tag, Rank)>) -> Option<(Tag, Rank)> {
        let node = self.nodes.node(key)?;
        let next = |tag, after: Option<Rank>| {
            let mut ranks = node.ranks(tag, after);
            ranks.find(|rank| after != Some(*rank)).map(|rank| (tag, rank))
        };
        match after {
            Some((Tag::RootWaiting, rank)) => next(Tag::RootWaiting, Some(rank)),
            Some((_, rank)) => {
                next(Tag::RootHeld, Some(rank)).or_else(|| next(Tag::RootWaiting, None))
            }
            None => next(Tag::RootHeld, None).or_else(|| next(Tag::RootWaiting, None)),
        }
    }

    /// The next request that stands aside for this name, in the order of ids.
    fn watching(&self, name: &str, after: Option<(Tag, Rank)>) -> Option<(Tag, Rank)> {
        let start = after.map_or(Bound::Unbounded, |(_, rank)| Bound::Excluded(rank.id));
        let id = self.asides.get(name)?.range((start, Bound::Unbounded)).next()?;
        Some((Tag::RootWaiting, self.requests.get(id)?.rank))
    }

    /// Makes the roots and marks of a request right for the edit; what that cost.
    fn remark(&mut self, id: RequestId, edit: &Edit) -> usize {
        let Some(request) = self.requests.get_mut(&id) else { return 1 };
        if request.sequence >= edit.sequence {
            return 1;
        }
        request.sequence = edit.sequence;
        match request.stage {
            Stage::Aside(..) => {
                self.look_again(id, &edit.new, edit.sequence);
                1
            }
            Stage::Held => {
                let (roots, visited) = edit.kept_roots(&request.roots, &mut self.made);
                visited / NODES_MAX + self.replace(id, roots, &edit.new)
            }
            _ => match edit.moved_roots(&request.roots, &self.made) {
                Ok(roots) => self.replace(id, roots, &edit.new),
                Err((claims, missing)) => {
                    self.step_aside(id, claims, missing);
                    1
                }
            },
        }
    }

    /// Gives a holder or waiter other roots; what that cost. A parked waiter whose marks change has
    /// to be tried again.
    fn replace(&mut self, id: RequestId, roots: Vec<Root>, graph: &Graph) -> usize {
        let Some(mut request) = self.requests.remove(&id) else { return 1 };
        let marks = graph.marks(&roots);
        let old_roots = std::mem::replace(&mut request.roots, roots);
        let old_marks = std::mem::replace(&mut request.marks, marks);
        // What is new comes first, so that no node is given up only to be made again.
        let came = self.list_new(&request, &old_roots, &old_marks);
        let went = self.unlist_old(&request, &old_roots, &old_marks);
        if came + went > 0 && matches!(request.stage, Stage::Parked(..)) {
            self.unpark(&request);
            request.stage = Stage::Ready;
            self.ready.push_back(id);
        }
        let cost = cost(request.marks.len() + old_marks.len());
        self.requests.insert(id, request);
        REMARK_COST + cost
    }

    /// Puts the roots and marks at their nodes that the request did not have before; how many marks.
    fn list_new(&mut self, request: &Request, roots: &[Root], marks: &[Mark]) -> usize {
        for root in request.roots.iter().filter(|root| !has_root(roots, root)) {
            self.nodes.insert(root.key, request.root_tag(), request.rank);
        }
        let mut count = 0;
        for mark in request.marks.iter().filter(|mark| !has_mark(marks, mark)) {
            count += 1;
            if let Some(tag) = request.mark_tag(mark.mode) {
                self.nodes.insert(mark.key, tag, request.rank);
            }
        }
        count
    }

    /// Takes the roots and marks away that the request has no more; how many marks.
    fn unlist_old(&mut self, request: &Request, roots: &[Root], marks: &[Mark]) -> usize {
        let mut count = 0;
        for mark in marks.iter().filter(|mark| !has_mark(&request.marks, mark)) {
            count += 1;
            if let Some(tag) = request.mark_tag(mark.mode) {
                self.nodes.remove(mark.key, tag, request.rank);
            }
        }
        for root in roots.iter().filter(|root| !has_root(&request.roots, root)) {
            self.unroot(root.key, request.root_tag(), request.rank);
        }
        count
    }

    /// The name of a node, also of one that an edit still being worked in has deleted.
    pub(super) fn name(&self, key: NodeKey) -> &str {
        if key.is_made() {
            return self.made.name(key).unwrap_or_default();
        }
        let id = ResourceId(key.0);
        let old = || self.edits.iter().rev().find_map(|edit| edit.old.name(id));
        self.graph.name(id).or_else(old).unwrap_or_default()
    }
}

impl Edit {
    fn changes(&self) -> &Changes {
        self.own_changes.as_deref().unwrap_or_else(|| self.new.changes())
    }

    fn next_round(&mut self) {
        self.round = match self.round {
            Round::Touched => Round::Made,
            Round::Made => Round::Aside,
            _ => Round::Done,
        };
        (self.index, self.after) = (0, None);
    }

    /// What a holder has to hold now, and how many nodes had to be visited to know.
    fn kept_roots(&self, roots: &[Root], made: &mut Made) -> (Vec<Root>, usize) {
        let graphs = (&*self.old, &*self.new);
        let stand_in = |name: &str| self.find(name).unwrap_or_else(|| made.make(name));
        let (mut roots, visited) = self.changes().kept_roots(graphs, roots, stand_in);
        for root in roots.iter_mut().filter(|root| root.key.is_made()) {
            root.key = made.name(root.key).and_then(|name| self.find(name)).unwrap_or(root.key);
        }
        sort_roots(&mut roots);
        (roots, visited)
    }

    /// What a waiter claims now; or all its claims by name, if one has no resource, and that name.
    fn moved_roots(
        &self,
        roots: &[Root],
        made: &Made,
    ) -> Result<Vec<Root>, (Vec<Claim>, Box<str>)> {
        let name = |root: &Root| {
            let id = ResourceId(root.key.0);
            let name = if root.key.is_made() { made.name(root.key) } else { self.new.name(id) };
            name.or_else(|| self.old.name(id)).unwrap_or_default()
        };
        let is_gone = |root: &&Root| !root.key.is_made() && self.find(name(root)).is_none();
        if let Some(gone) = roots.iter().find(is_gone) {
            let claim = |root| Claim { resource: name(root).into(), mode: root.mode };
            return Err((roots.iter().map(claim).collect(), name(gone).into()));
        }
        let moved = |root: &Root| Root { key: self.find(name(root)).unwrap_or(root.key), ..*root };
        let mut moved: Vec<_> = roots.iter().map(moved).collect();
        sort_roots(&mut moved);
        Ok(moved)
    }

    fn find(&self, name: &str) -> Option<NodeKey> {
        self.new.find(name).map(|id| NodeKey(id.0))
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edit").field("round", &self.round).field("index", &self.index).finish()
    }
}

fn has_root(roots: &[Root], root: &Root) -> bool {
    roots.binary_search_by_key(&root.key, |other| other.key).is_ok()
}

fn has_mark(marks: &[Mark], mark: &Mark) -> bool {
    let place = |mark: &Mark| (mark.key, std::cmp::Reverse(mark.mode));
    marks.binary_search_by_key(&place(mark), place).is_ok()
}
