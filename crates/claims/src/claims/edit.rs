//! Graph edits under load.
//!
//! A new graph applies at once to everything that is granted from then on: nothing is granted until all marks
//! that it changes are correct. Holders keep what they held, even if the edit moved it out of their sub-tree or
//! deleted it, and hold what their sub-tree gained. Waiters use the new graph; a waiter whose resource is
//! deleted or has become too wide steps aside. An edit has three rounds: requests rooted at touched resources;
//! nodes that replaced names which have appeared; requests that wait aside for those names. If it is unknown
//! what an edit changes, there is one round, through all requests.
//!
//! Edits are applied one after the other. When [`EDITS_MAX`] wait, the newest of them and one more are merged:
//! nothing was granted in the graph between, so no request depends on it.

use super::made::Made;
use super::step::{cost, walk_cost};
use super::{Aside, Claims, Lack, Request, Stage};
use crate::graph::{Changes, EDGES_WALKED_MAX, Graph, ResourceId, kept_roots};
use crate::mark::{Mark, NodeKey, Root, sort_roots};
use crate::node::Tag;
use paceline_types::{Claim, Rank, RequestId};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Edits that may wait to be applied. The newest must not be the one that is being applied.
const EDITS_MAX: usize = 8;
const _: () = assert!(EDITS_MAX > 1);

/// Nodes without requests that one step skips.
const NODES_MAX: usize = 16;

/// The cost of finding the marks of a request, in units of work, in addition to the marks themselves.
const REMARK_COST: usize = 2;

/// One edit, and its progress.
pub(super) struct Edit {
    /// The numbers of the new graph and of the old one.
    pub(super) sequence: u64,
    old_sequence: u64,
    pub(super) old: Arc<Graph>,
    pub(super) new: Arc<Graph>,
    round: Round,
    /// The touched resource, or the appeared name, that is processed.
    index: usize,
    /// The last request processed there.
    after: Option<(Tag, Rank)>,
}

/// What a waiter claims after an edit.
struct Moved {
    roots: Vec<Root>,
    marks: Box<[Mark]>,
    /// Edges that were walked to find the marks.
    walked: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Touched,
    Made,
    Aside,
    /// All requests, because it is unknown what changed.
    All,
    Done,
}

impl Claims {
    /// Swaps the graph. Nothing can be taken until [`Claims::step`] has applied what it changes, for most edits
    /// a single short step. Cannot fail and is quick; the steps are less work if the graph was built to follow
    /// the one in use.
    pub fn configure(&mut self, graph: Arc<Graph>) {
        if Arc::ptr_eq(&graph, &self.graph) {
            return;
        }
        let old = std::mem::replace(&mut self.graph, Arc::clone(&graph));
        self.sequence += 1;
        if self.edits.len() >= EDITS_MAX
            && let Some(newest) = self.edits.back_mut()
        {
            (newest.sequence, newest.new, newest.round) = (self.sequence, graph, Round::All);
            return;
        }
        let round = if graph.changes().is_from(&old) { Round::Touched } else { Round::All };
        self.edits.push_back(Edit {
            sequence: self.sequence,
            old_sequence: self.sequence - 1,
            old,
            new: graph,
            round,
            index: 0,
            after: None,
        });
    }

    /// Continues the oldest edit by one request or a few nodes. Returns the cost.
    pub(super) fn step_edit(&mut self) -> usize {
        let Some(mut edit) = self.edits.pop_front() else { return 0 };
        let cost = self.next_request(&mut edit).map_or(1, |id| self.remark(id, &edit));
        if edit.round != Round::Done {
            self.edits.push_front(edit);
        } else if self.edits.is_empty() {
            self.looks.sweep(&self.sessions);
        }
        cost
    }

    /// Finds the next request that the edit may affect.
    fn next_request(&self, edit: &mut Edit) -> Option<RequestId> {
        for _ in 0..NODES_MAX {
            let changes = edit.new.changes();
            let appeared = || changes.appeared(&edit.new, edit.index);
            // The outer option says whether the round continues, the inner one whether there is a request here.
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
                Round::All => self.after(edit.after).map(Some),
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

    /// The next request that waits aside for this name, in the order of ids.
    fn watching(&self, name: &str, after: Option<(Tag, Rank)>) -> Option<(Tag, Rank)> {
        let start = after.map_or(Bound::Unbounded, |(_, rank)| Bound::Excluded(rank.id));
        let id = self.asides.get(name)?.range((start, Bound::Unbounded)).next()?;
        Some((Tag::RootWaiting, self.requests.get(id)?.rank))
    }

    /// The next request of all, in the order of ids.
    fn after(&self, after: Option<(Tag, Rank)>) -> Option<(Tag, Rank)> {
        let start = after.map_or(Bound::Unbounded, |(_, rank)| Bound::Excluded(rank.id));
        let (_, request) = self.requests.range((start, Bound::Unbounded)).next()?;
        Some((Tag::RootWaiting, request.rank))
    }

    /// Updates the roots and marks of a request for the edit. Returns the cost.
    fn remark(&mut self, id: RequestId, edit: &Edit) -> usize {
        let Some(request) = self.requests.get_mut(&id) else { return 1 };
        if request.sequence >= edit.sequence {
            return 1;
        }
        let names = std::mem::take(&mut request.names);
        let came_between = request.sequence > edit.old_sequence;
        request.sequence = edit.sequence;
        match request.stage {
            Stage::Aside(_) => {
                self.look_again(id, &edit.new, edit.sequence);
                1
            }
            Stage::Held => {
                let (roots, visited) = edit.kept_roots(&request.roots, &mut self.made);
                let marks = edit.new.marks(&roots);
                visited / NODES_MAX + self.replace(id, roots, marks)
            }
            _ => {
                let names = if came_between { &*names } else { &[] };
                match edit.moved(&request.roots, names, &self.made) {
                    Ok(moved) => {
                        walk_cost(moved.walked) + self.replace(id, moved.roots, moved.marks)
                    }
                    Err(aside) => {
                        let is_wide = matches!(aside.lack, Lack::TooWide(_));
                        self.step_aside(id, aside);
                        walk_cost(if is_wide { EDGES_WALKED_MAX } else { 0 })
                    }
                }
            }
        }
    }

    /// Gives a holder or waiter other roots and marks. Returns the cost. A parked waiter whose marks change has
    /// to be tried again.
    fn replace(&mut self, id: RequestId, roots: Vec<Root>, marks: Box<[Mark]>) -> usize {
        let Some(mut request) = self.requests.remove(&id) else { return 1 };
        let old_roots = std::mem::replace(&mut request.roots, roots);
        let old_marks = std::mem::replace(&mut request.marks, marks);
        // New marks are added first, so that no node is removed only to be created again.
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

    /// Puts new roots and marks of the request at their nodes. Returns how many marks.
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

    /// Removes the roots and marks that the request no longer has. Returns how many marks.
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

    /// The name of a node, even if an edit that is still being applied has deleted it.
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
    fn next_round(&mut self) {
        self.round = match self.round {
            Round::Touched => Round::Made,
            Round::Made => Round::Aside,
            _ => Round::Done,
        };
        (self.index, self.after) = (0, None);
    }

    /// What a holder has to hold now, and how many nodes were visited to find out.
    fn kept_roots(&self, roots: &[Root], made: &mut Made) -> (Vec<Root>, usize) {
        let changes = (self.round != Round::All).then(|| self.new.changes());
        kept_in((&self.old, &self.new), changes, roots, made)
    }

    /// What a waiter claims now, or why it must step aside. `names` are those of the graph it was resolved in,
    /// if that was skipped.
    fn moved(
        &self,
        roots: &[Root],
        names: &[(NodeKey, Box<str>)],
        made: &Made,
    ) -> Result<Moved, Aside> {
        let name = |key: NodeKey| {
            let id = ResourceId(key.0);
            let name = if key.is_made() { made.name(key) } else { self.new.name(id) };
            let known = names.iter().find(|(other, _)| *other == key);
            name.or_else(|| known.map(|(_, name)| &**name))
                .or_else(|| self.old.name(id))
                .unwrap_or_default()
        };
        let aside = |lack| {
            let mut roots: Vec<_> = roots.iter().collect();
            roots.sort_by_key(|root| root.claim);
            let claim = |root: &Root| Claim { resource: name(root.key).into(), mode: root.mode };
            Aside { claims: roots.into_iter().map(claim).collect(), lack }
        };
        let is_gone = |root: &&Root| !root.key.is_made() && self.find(name(root.key)).is_none();
        if let Some(gone) = roots.iter().filter(is_gone).min_by_key(|root| root.claim) {
            return Err(aside(Lack::Missing(name(gone.key).into())));
        }
        let moved =
            |root: &Root| Root { key: self.find(name(root.key)).unwrap_or(root.key), ..*root };
        let mut moved: Vec<_> = roots.iter().map(moved).collect();
        sort_roots(&mut moved);
        match self.new.marks_within(&moved) {
            Ok((marks, walked)) => Ok(Moved { roots: moved, marks, walked }),
            Err(key) => Err(aside(Lack::TooWide(name(key).into()))),
        }
    }

    fn find(&self, name: &str) -> Option<NodeKey> {
        find(&self.new, name)
    }
}

fn find(graph: &Graph, name: &str) -> Option<NodeKey> {
    graph.find(name).map(|id| NodeKey(id.0))
}

/// What a holder has to hold in the new graph, and how many nodes were visited to find out. Names that have
/// appeared in it are resources from now on.
pub(super) fn kept_in(
    (old, new): (&Graph, &Graph),
    changes: Option<&Changes>,
    roots: &[Root],
    made: &mut Made,
) -> (Vec<Root>, usize) {
    let stand_in = |name: &str| find(new, name).unwrap_or_else(|| made.make(name));
    let (mut roots, visited) = kept_roots((old, new), changes, roots, stand_in);
    for root in roots.iter_mut().filter(|root| root.key.is_made()) {
        root.key = made.name(root.key).and_then(|name| find(new, name)).unwrap_or(root.key);
    }
    sort_roots(&mut roots);
    (roots, visited)
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
