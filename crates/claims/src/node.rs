//! The content of nodes: held marks, marks of eligible waiters, and parked waiters.
//!
//! Owns one sorted list of places per node that has some; other nodes cost nothing. Promises that finding the
//! requests that block at a node, and adding or removing a place, take a few steps however many places there
//! are; and that of the parked waiters only those are touched that can be tried again: within one mode the
//! first waiter that is still blocked proves that the later ones are.

mod places;

use crate::mark::{MarkMode, NodeKey};
use paceline_types::{Rank, RequestId};
use places::Places;
use std::collections::{BTreeMap, VecDeque};

/// The meaning of a place at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tag {
    /// A mark of a holder.
    Held(MarkMode),
    /// A mark of an eligible waiter: it blocks requests of later rank.
    Waiting(MarkMode),
    /// A waiter of this mode that was found blocked here.
    Parked(MarkMode),
    /// A holder claims this very node.
    RootHeld,
    /// A waiter claims this very node.
    RootWaiting,
}

impl Tag {
    const COUNT: usize = 14;

    const fn number(self) -> usize {
        match self {
            Self::Held(mode) => mode as usize,
            Self::Waiting(mode) => 4 + mode as usize,
            Self::Parked(mode) => 8 + mode as usize,
            Self::RootHeld => 12,
            Self::RootWaiting => 13,
        }
    }
}

/// All places at one node.
#[derive(Debug, Default)]
pub(crate) struct Node {
    places: Places,
    counts: [u32; Tag::COUNT],
    /// Whether parked waiters should be checked, because a mark was removed.
    is_stirred: bool,
}

impl Node {
    /// How many places have this tag.
    pub fn count(&self, tag: Tag) -> usize {
        self.counts[tag.number()] as usize
    }

    /// The places with this tag, from the rank `from` on.
    pub fn ranks(&self, tag: Tag, from: Option<Rank>) -> impl DoubleEndedIterator<Item = Rank> {
        self.places.ranks(tag.number() as u8, from)
    }

    /// The ranks with this tag that are lower than `rank`.
    pub fn before(&self, tag: Tag, rank: Rank) -> impl DoubleEndedIterator<Item = Rank> {
        self.places.before(tag.number() as u8, rank)
    }

    /// The lowest rank with this tag.
    pub fn first(&self, tag: Tag) -> Option<Rank> {
        if self.count(tag) == 0 { None } else { self.places.first(tag.number() as u8) }
    }

    /// The request that blocks a waiter with this mark, and whether it is a holder.
    fn obstacle(&self, mode: MarkMode, rank: Rank) -> Option<(RequestId, bool)> {
        for other in mode.clashing() {
            if let Some(holder) = self.first(Tag::Held(*other)) {
                return Some((holder.id, true));
            }
        }
        let ahead = mode.clashing().iter().filter_map(|other| self.first(Tag::Waiting(*other)));
        ahead.min().filter(|first| *first < rank).map(|first| (first.id, false))
    }

    /// A parked waiter that is no longer blocked here.
    fn unblocked(&self) -> Option<(MarkMode, Rank)> {
        MarkMode::ALL.into_iter().find_map(|mode| {
            let rank = self.first(Tag::Parked(mode))?;
            self.obstacle(mode, rank).is_none().then_some((mode, rank))
        })
    }

    fn insert(&mut self, tag: Tag, rank: Rank) {
        if self.places.insert(tag.number() as u8, rank) {
            self.counts[tag.number()] += 1;
        }
    }

    fn remove(&mut self, tag: Tag, rank: Rank) {
        if self.places.remove(tag.number() as u8, rank) {
            self.counts[tag.number()] -= 1;
        }
    }

    fn has_parked(&self) -> bool {
        MarkMode::ALL.into_iter().any(|mode| self.count(Tag::Parked(mode)) > 0)
    }

    /// Whether the mark that is about to be removed may block a parked waiter.
    fn matters(&self, tag: Tag, rank: Rank) -> bool {
        match tag {
            Tag::Held(_) => self.count(tag) == 1,
            Tag::Waiting(_) => self.first(tag) == Some(rank),
            _ => false,
        }
    }
}

/// All nodes that have places.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<NodeKey, Node>,
    /// Nodes whose parked waiters should be checked.
    stirred: VecDeque<NodeKey>,
}

impl Nodes {
    pub fn node(&self, key: NodeKey) -> Option<&Node> {
        self.nodes.get(&key)
    }

    /// All nodes after the one given, in the order of their keys.
    pub fn after(&self, key: Option<NodeKey>) -> impl Iterator<Item = (NodeKey, &Node)> {
        let start = key.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.nodes.range((start, std::ops::Bound::Unbounded)).map(|(key, node)| (*key, node))
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many places with this tag there are at a node.
    pub fn count(&self, key: NodeKey, tag: Tag) -> usize {
        self.nodes.get(&key).map_or(0, |node| node.count(tag))
    }

    /// The request that blocks a waiter with this mark, and whether it is a holder.
    pub fn obstacle(&self, key: NodeKey, mode: MarkMode, rank: Rank) -> Option<(RequestId, bool)> {
        self.nodes.get(&key)?.obstacle(mode, rank)
    }

    pub fn insert(&mut self, key: NodeKey, tag: Tag, rank: Rank) {
        self.nodes.entry(key).or_default().insert(tag, rank);
    }

    /// Removes a place, and marks the node to be checked if it may have blocked parked waiters.
    pub fn remove(&mut self, key: NodeKey, tag: Tag, rank: Rank) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if !node.is_stirred && node.matters(tag, rank) && node.has_parked() {
            node.is_stirred = true;
            self.stirred.push_back(key);
        }
        node.remove(tag, rank);
        if node.places.is_empty() {
            self.nodes.remove(&key);
        }
    }

    /// Turns a waiting mark into a held one. This unblocks no waiter: what the waiting mark blocked, the held
    /// one blocks too.
    pub fn hold(&mut self, key: NodeKey, mode: MarkMode, rank: Rank) {
        let node = self.nodes.entry(key).or_default();
        node.remove(Tag::Waiting(mode), rank);
        node.insert(Tag::Held(mode), rank);
    }

    /// Whether there are parked waiters to check.
    pub fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// Takes the next parked waiter that is no longer blocked where it is parked.
    pub fn poll_unblocked(&mut self) -> Option<RequestId> {
        while let Some(key) = self.stirred.front().copied() {
            if let Some(node) = self.nodes.get_mut(&key) {
                if let Some((mode, rank)) = node.unblocked() {
                    self.remove(key, Tag::Parked(mode), rank);
                    return Some(rank.id);
                }
                node.is_stirred = false;
            }
            self.stirred.pop_front();
        }
        None
    }
}
