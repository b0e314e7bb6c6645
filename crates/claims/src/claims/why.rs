//! Who is in whose way.
//!
//! Promises bounded work: a search gives up after [`limits::STEP_MAX`] waiters, or so many places,
//! rather than hold everybody up. Never changes anything.

use super::{Claims, Request, Stage};
use crate::mark::{Mark, MarkMode, NodeKey, Root, clash};
use crate::node::Tag;
use crate::wanted::Wanted;
use paceline_types::{Rank, RequestId, SessionId, limits};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Places that one search looks at.
const PLACES_MAX: usize = limits::STEP_MAX * 64;

/// Somebody who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The claimed resource that cannot be had.
    pub resource: Box<str>,
    /// Who is in the way.
    pub id: RequestId,
    /// Whether it holds what is wanted; otherwise it waits and comes first.
    pub is_held: bool,
}

impl Claims {
    /// Who is in the way of a waiter: holders first, then waiters, nearest rank first. Nobody only if
    /// nothing blocks it.
    #[must_use]
    pub fn blockers(&self, id: RequestId, max: usize) -> Vec<Blocker> {
        match self.requests.get(&id) {
            Some(request) if request.stage.is_waiting() => {
                let first = match request.stage {
                    Stage::Parked(key, mode) => Some((key, mode)),
                    _ => None,
                };
                let asking = Asking { rank: request.rank, roots: &request.roots, first };
                self.blockers_at(&asking, &request.marks, max)
            }
            _ => vec![],
        }
    }

    /// The same for a newcomer.
    #[must_use]
    pub fn blockers_of(&self, wanted: &Wanted, rank: Rank, max: usize) -> Vec<Blocker> {
        let (roots, marks) = self.with_made(wanted);
        self.blockers_at(&Asking { rank, roots: &roots, first: None }, &marks, max)
    }

    /// Whether a newcomer would wait for its own session: for a claim that the session holds, or for
    /// an eligible waiter that waits for one, and so on. Says which resource it asks for, and which
    /// request of its session is in the way.
    #[must_use]
    pub fn own_way(
        &self,
        wanted: &Wanted,
        rank: Rank,
        session: SessionId,
    ) -> Option<(Box<str>, RequestId)> {
        let range = (session, RequestId(0))..=(session, RequestId(u64::MAX));
        let own = self.sessions.range(range).take(limits::STEP_MAX);
        let own: Vec<_> =
            own.filter_map(|(_, id)| Some((*id, &*self.requests.get(id)?.marks))).collect();
        if own.is_empty() {
            return None;
        }
        let (roots, marks) = self.with_made(wanted);
        let name = |root: u16| {
            let root = roots.get(usize::from(root)).or(roots.last());
            root.map_or("", |root| self.name(root.key)).into()
        };
        let in_way = |marks| {
            own.iter().find_map(|(id, theirs)| clash(marks, theirs).map(|mark| (*id, mark.root)))
        };
        if let Some((id, root)) = in_way(&marks) {
            return Some((name(root), id));
        }
        let mut search = Search::new(self);
        search.look(&marks, rank, None);
        while let Some((waiter, root)) = search.next() {
            if let Some((id, _)) = in_way(&waiter.marks) {
                return Some((name(root), id));
            }
            search.look(&waiter.marks, waiter.rank, Some(root));
        }
        None
    }

    /// Roots and marks of what is wanted, with those names that others have made.
    fn with_made(&self, wanted: &Wanted) -> (Vec<Root>, Vec<Mark>) {
        let (mut roots, mut marks) = (wanted.roots.clone(), wanted.marks.to_vec());
        for claim in &wanted.unknown {
            if let Some(key) = self.made.find(&claim.resource) {
                let root = u16::try_from(roots.len()).unwrap_or(u16::MAX);
                roots.push(Root { key, mode: claim.mode });
                marks.push(Mark { key, mode: MarkMode::full(claim.mode), root });
            }
        }
        marks.sort_by_key(|mark| mark.key);
        (roots, marks)
    }

    fn blockers_at(&self, asking: &Asking<'_>, marks: &[Mark], max: usize) -> Vec<Blocker> {
        let mut found = BTreeMap::new();
        let is_first = |mark: &&Mark| asking.first == Some((mark.key, mark.mode));
        let first = marks.iter().filter(is_first);
        for mark in first.chain(marks).take(PLACES_MAX) {
            self.find_blockers(mark, asking.rank, max, &mut found);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        // Holders first; among waiters the latest rank is the nearest.
        found.sort_by_key(|((is_held, rank), _)| (!is_held, std::cmp::Reverse(*rank)));
        found.truncate(max);
        let blocker = |((is_held, rank), root): ((bool, Rank), u16)| {
            let root = asking.roots.get(usize::from(root)).or(asking.roots.last());
            let resource = root.map_or("", |root| self.name(root.key)).into();
            Blocker { resource, id: rank.id, is_held }
        };
        found.into_iter().map(blocker).collect()
    }

    /// Who is in the way at one mark, each with the root that asks.
    fn find_blockers(
        &self,
        mark: &Mark,
        rank: Rank,
        max: usize,
        found: &mut BTreeMap<(bool, Rank), u16>,
    ) {
        let Some(node) = self.nodes.node(mark.key) else { return };
        for mode in mark.mode.clashing() {
            for holder in node.ranks(Tag::Held(*mode), None).take(max) {
                found.entry((true, holder)).or_insert(mark.root);
            }
            for waiter in node.before(Tag::Waiting(*mode), rank).rev().take(max) {
                found.entry((false, waiter)).or_insert(mark.root);
            }
        }
    }
}

/// Who asks what is in its way.
struct Asking<'a> {
    rank: Rank,
    roots: &'a [Root],
    /// A mark that is known to be blocked.
    first: Option<(NodeKey, MarkMode)>,
}

/// The waiters that somebody waits for, those they wait for, and so on; each once.
struct Search<'a> {
    claims: &'a Claims,
    /// Each with the root of the newcomer that leads to it.
    open: VecDeque<(&'a Request, u16)>,
    seen: BTreeSet<RequestId>,
    /// Up to which rank the waiting marks of a node were looked at.
    scanned: BTreeMap<(NodeKey, MarkMode), Rank>,
    places: usize,
}

impl<'a> Search<'a> {
    fn new(claims: &'a Claims) -> Self {
        let (seen, scanned) = (BTreeSet::new(), BTreeMap::new());
        Self { claims, open: VecDeque::new(), seen, scanned, places: PLACES_MAX }
    }

    fn next(&mut self) -> Option<(&'a Request, u16)> {
        self.open.pop_front()
    }

    /// Finds whom a request with these marks waits for. `root` is the newcomer's root that led here,
    /// if this is not the newcomer.
    fn look(&mut self, marks: &[Mark], rank: Rank, root: Option<u16>) {
        for mark in marks {
            for mode in mark.mode.clashing() {
                self.look_at((mark.key, *mode), rank, root.unwrap_or(mark.root));
            }
        }
    }

    fn look_at(&mut self, place: (NodeKey, MarkMode), rank: Rank, root: u16) {
        let claims = self.claims;
        let Some(node) = claims.nodes.node(place.0) else { return };
        if self.places == 0 {
            return;
        }
        self.places -= 1;
        let from = match self.scanned.entry(place) {
            Entry::Occupied(known) if *known.get() >= rank => return,
            Entry::Occupied(mut known) => Some(known.insert(rank)),
            Entry::Vacant(new) => {
                new.insert(rank);
                None
            }
        };
        for waiter in node.ranks(Tag::Waiting(place.1), from).take_while(|other| *other < rank) {
            if self.places == 0 || self.seen.len() >= limits::STEP_MAX {
                return;
            }
            self.places -= 1;
            if self.seen.insert(waiter.id) {
                let request = claims.requests.get(&waiter.id);
                self.open.extend(request.map(|request| (request, root)));
            }
        }
    }
}
