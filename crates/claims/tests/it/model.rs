//! The naive model: a list of requests, and sub-trees by plain reachability.
//!
//! Written from the design: requests conflict if their sub-trees meet, unless both are shared; a waiter is
//! blocked by holders it conflicts with and by eligible waiters of earlier rank that it conflicts with; holders
//! keep whatever their sub-trees ever had; waiters follow the graph.

use paceline_claims::{Resource, ResourceId};
use paceline_types::{Mode, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Ids are below 64, so that a sub-tree is a set of bits; names are numbered above them.
pub const IDS: u64 = 64;
pub const NAMES: u64 = 16;

pub fn name(number: u64) -> String {
    format!("n{number}")
}

fn number(name: &str) -> u64 {
    name[1..].parse().unwrap()
}

/// A resource by its id (below 64), or a name that no resource has (from 64 on).
type Node = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Aside(BTreeMap<String, Mode>),
    Waiting,
    Held,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub rank: Rank,
    pub session: Option<u64>,
    pub within: Vec<u64>,
    /// The last request submitted when it began to hold.
    pub last_at_start: u64,
    pub stage: Stage,
    pub is_eligible: bool,
    pub is_told_known: bool,
    pub roots: BTreeMap<Node, Mode>,
}

#[derive(Clone, Default)]
pub struct Model {
    pub resources: BTreeMap<u64, (String, BTreeSet<u64>)>,
    pub requests: BTreeMap<u64, Request>,
    /// The sub-trees of the resources as of the last edit.
    pub trees: BTreeMap<u64, u128>,
}

fn strengthen(roots: &mut BTreeMap<Node, Mode>, node: Node, mode: Mode) {
    // Exclusive is the lesser of the two in the order of the type.
    let entry = roots.entry(node).or_insert(mode);
    *entry = mode.min(*entry);
}

impl Model {
    pub fn find(&self, name: &str) -> Option<Node> {
        self.resources.iter().find(|(_, (other, _))| other == name).map(|(id, _)| *id)
    }

    pub fn list(&self) -> Vec<Resource> {
        let resource = |(id, (name, parents)): (&u64, &(String, BTreeSet<u64>))| Resource {
            id: ResourceId(*id),
            name: name.as_str().into(),
            parents: parents.iter().map(|parent| ResourceId(*parent)).collect(),
        };
        self.resources.iter().map(resource).collect()
    }

    /// The sub-tree of a node, as bits.
    pub fn below(&self, node: Node) -> u128 {
        let mut all = 1u128 << node;
        loop {
            let mut next = all;
            for (id, (_, parents)) in &self.resources {
                if parents.iter().any(|parent| all >> parent & 1 == 1) {
                    next |= 1 << id;
                }
            }
            if next == all {
                return all;
            }
            all = next;
        }
    }

    fn cover(&self, roots: &BTreeMap<Node, Mode>, mode: Mode) -> u128 {
        let roots = roots.iter().filter(|(_, other)| **other == mode);
        let tree = |node: &Node| self.trees.get(node).copied().unwrap_or(1 << node);
        roots.fold(0, |all, (node, _)| all | tree(node))
    }

    pub fn conflict(&self, one: &BTreeMap<Node, Mode>, two: &BTreeMap<Node, Mode>) -> bool {
        let exclusive = (self.cover(one, Mode::Exclusive), self.cover(two, Mode::Exclusive));
        let shared = (self.cover(one, Mode::Shared), self.cover(two, Mode::Shared));
        exclusive.0 & (exclusive.1 | shared.1) != 0 || exclusive.1 & shared.0 != 0
    }

    /// The requests that block a request with these roots and this rank, and whether each is a holder.
    pub fn blockers(&self, roots: &BTreeMap<Node, Mode>, rank: Rank) -> BTreeSet<(u64, bool)> {
        let in_way = |(id, other): (&u64, &Request)| {
            let counts = match other.stage {
                Stage::Held => true,
                Stage::Waiting => other.is_eligible && other.rank < rank,
                Stage::Aside(_) => false,
            };
            let is_held = other.stage == Stage::Held;
            (counts && self.conflict(roots, &other.roots)).then_some((*id, is_held))
        };
        self.requests.iter().filter_map(in_way).collect()
    }

    /// Whether a request waits for its own session, directly or through eligible waiters.
    pub fn is_in_own_way(&self, roots: &BTreeMap<Node, Mode>, rank: Rank, session: u64) -> bool {
        let mut open: Vec<_> = self.blockers(roots, rank).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some((id, is_held)) = open.pop() {
            let other = &self.requests[&id];
            if is_held && other.session == Some(session) {
                return true;
            }
            if !is_held && seen.insert(id) {
                open.extend(self.blockers(&other.roots, other.rank));
            }
        }
        false
    }

    /// Whether a waiter was submitted while a request of its session, or of one that it runs within, held.
    fn is_nested_in(&self, id: u64, holder: u64) -> bool {
        let (request, holder) = (&self.requests[&id], &self.requests[&holder]);
        let mut sessions = request.session.iter().chain(&request.within);
        let is_own = sessions.any(|session| holder.session == Some(*session));
        let is_held = holder.stage == Stage::Held && holder.last_at_start < id;
        request.stage == Stage::Waiting && is_held && is_own
    }

    pub fn is_nested(&self, id: u64) -> bool {
        self.requests.keys().any(|holder| self.is_nested_in(id, *holder))
    }

    /// All requests that a request waits for, directly or through others.
    pub fn reached(&self, id: u64) -> BTreeSet<u64> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![id]);
        while let Some(one) = open.pop() {
            let request = &self.requests[&one];
            let next: Vec<u64> = match request.stage {
                Stage::Waiting => {
                    let blockers = self.blockers(&request.roots, request.rank);
                    blockers.into_iter().map(|(other, _)| other).collect()
                }
                Stage::Held => {
                    let all = self.requests.keys().copied();
                    all.filter(|other| self.is_nested_in(*other, one)).collect()
                }
                Stage::Aside(_) => vec![],
            };
            open.extend(next.into_iter().filter(|other| reached.insert(*other)));
        }
        reached
    }

    /// The last nested waiter that waits for this waiter, and this one for it.
    pub fn last_of_tangle(&self, id: u64) -> Option<u64> {
        let reached = self.reached(id);
        if !reached.contains(&id) {
            return None;
        }
        let nested = reached.into_iter().rev().filter(|other| self.is_nested(*other));
        nested.into_iter().find(|other| self.reached(*other).contains(&id))
    }

    /// The roots of claims; names that no resource has are nodes of their own.
    pub fn resolve(&self, claims: &[(String, Mode)]) -> BTreeMap<Node, Mode> {
        let mut roots = BTreeMap::new();
        for (name, mode) in claims {
            let node = self.find(name).unwrap_or(IDS + number(name));
            strengthen(&mut roots, node, *mode);
        }
        roots
    }

    /// The roots of claims that were resolved some time ago: a resource stays the one that was claimed,
    /// whatever its name is now; only if it is deleted its name counts.
    pub fn resolve_again(&self, claims: &[(String, Option<u64>, Mode)]) -> BTreeMap<Node, Mode> {
        let mut roots = BTreeMap::new();
        for (name, id, mode) in claims {
            let known = id.filter(|id| self.resources.contains_key(id));
            let node = known.or_else(|| self.find(name)).unwrap_or(IDS + number(name));
            strengthen(&mut roots, node, *mode);
        }
        roots
    }

    pub fn name_now(&self, id: Option<u64>) -> Option<String> {
        Some(self.resources.get(&id?)?.0.clone())
    }

    /// Swaps the graph.
    pub fn edit(&mut self, resources: BTreeMap<u64, (String, BTreeSet<u64>)>) {
        let old = Self {
            resources: std::mem::replace(&mut self.resources, resources),
            requests: BTreeMap::new(),
            trees: std::mem::take(&mut self.trees),
        };
        self.trees = self.resources.keys().map(|id| (*id, self.below(*id))).collect();
        let mut requests = std::mem::take(&mut self.requests);
        for request in requests.values_mut() {
            match &request.stage {
                Stage::Held => request.roots = self.kept(&old, &request.roots),
                Stage::Waiting => self.follow(&old, request),
                Stage::Aside(names) => {
                    let names: Vec<_> =
                        names.iter().map(|(name, mode)| (name.clone(), *mode)).collect();
                    if names.iter().all(|(name, _)| self.find(name).is_some()) {
                        request.roots = self.resolve(&names);
                        request.stage = Stage::Waiting;
                    }
                }
            }
        }
        self.requests = requests;
    }

    /// A holder keeps every node that it had, by id or, if it is deleted, by name.
    fn kept(&self, old: &Self, roots: &BTreeMap<Node, Mode>) -> BTreeMap<Node, Mode> {
        let mut kept = BTreeMap::new();
        for mode in [Mode::Exclusive, Mode::Shared] {
            let cover = old.cover(roots, mode);
            for node in (0..IDS + NAMES).filter(|node| cover >> node & 1 == 1) {
                strengthen(&mut kept, self.moved(old, node), mode);
            }
        }
        kept
    }

    fn moved(&self, old: &Self, node: Node) -> Node {
        if self.resources.contains_key(&node) {
            return node;
        }
        let name = old.name_of(node);
        self.find(&name).unwrap_or(IDS + number(&name))
    }

    fn name_of(&self, node: Node) -> String {
        if node >= IDS { name(node - IDS) } else { self.resources[&node].0.clone() }
    }

    fn follow(&self, old: &Self, request: &mut Request) {
        let mut moved = BTreeMap::new();
        for (node, mode) in &request.roots {
            strengthen(&mut moved, self.moved(old, *node), *mode);
        }
        let was_made = |node: &Node| request.roots.contains_key(node);
        if moved.keys().any(|node| *node >= IDS && !was_made(node)) {
            let names = moved.iter().map(|(node, mode)| (self.name_of(*node), *mode)).collect();
            request.stage = Stage::Aside(names);
            moved.clear();
        }
        request.roots = moved;
    }
}
