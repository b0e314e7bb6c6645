//! Which request is in the way of which.
//!
//! Promises bounded work: a search gives up after [`WAITERS_MAX`] waiters, or so many marks and
//! places, rather than hold up all requests. Never changes anything.

use super::{Claims, Request, Stage};
use crate::mark::{Mark, MarkMode, NodeKey, Root};
use crate::node::Tag;
use crate::wanted::WantedClaims;
use paceline_types::{Rank, RequestId, SessionId, limits};

/// Waiters that a search for the own session goes through: each newcomer of a session that holds
/// claims pays for it, under the engine's lock.
const WAITERS_MAX: usize = 64;

/// What that search may cost, counted as in [`WORK_MAX`].
const SEARCH_MAX: usize = WAITERS_MAX * 32;

/// What one look may cost: a mark counts one, a node or a place there [`PLACE_COST`].
const WORK_MAX: usize = limits::STEP_MAX * 32;

/// Looking at a node, or at the requests there, takes about as long as looking at so many marks.
const PLACE_COST: usize = 8;

/// Places that are collected to name those in the way, before it is enough.
const PLACES_MAX: usize = limits::STEP_MAX * 8;

/// A request that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The claimed resource that cannot be had.
    pub resource: Box<str>,
    /// The request.
    pub id: RequestId,
    /// Whether it holds what is wanted; otherwise it waits and comes first.
    pub is_held: bool,
}

/// The requests that are in the way: holders first, then waiters, nearest rank first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blockers {
    /// The first of them, as many as were asked for.
    pub nearest: Vec<Blocker>,
    /// How many there are, counted up to [`STEP_MAX`](limits::STEP_MAX) or as many as were asked for.
    pub total: usize,
}

impl Claims {
    /// The requests in the way of a waiter. None only if nothing blocks it.
    #[must_use]
    pub fn blockers(&self, id: RequestId, max: usize) -> Blockers {
        match self.requests.get(&id) {
            Some(request) if request.stage.is_waiting() => {
                let first = match request.stage {
                    Stage::Parked(key, mode) => Some((key, mode)),
                    _ => None,
                };
                let asking = Asking { rank: request.rank, roots: &request.roots, first };
                self.blockers_at(&asking, &request.marks, max)
            }
            _ => Blockers::default(),
        }
    }

    /// The same for a newcomer.
    #[must_use]
    pub fn blockers_of(&self, wanted: &WantedClaims, rank: Rank, max: usize) -> Blockers {
        let (roots, marks) = self.with_made(wanted);
        self.blockers_at(&Asking { rank, roots: &roots, first: None }, &marks, max)
    }

    /// Whether a newcomer would wait for its own session: for a claim that the session holds, or for
    /// an eligible waiter that waits for one, and so on. Says which resource it asks for, and which
    /// request of its session is in the way.
    #[must_use]
    pub fn own_way(
        &self,
        wanted: &WantedClaims,
        rank: Rank,
        session: SessionId,
    ) -> Option<(Box<str>, RequestId)> {
        let (roots, marks) = self.with_made(wanted);
        self.own_way_at(&roots, &marks, rank, session)
    }

    /// The same for a waiter, after it stood aside; also for the sessions that it runs within.
    #[must_use]
    pub fn own_way_of(&self, id: RequestId, within: &[SessionId]) -> Option<(Box<str>, RequestId)> {
        let request = self.requests.get(&id).filter(|request| request.stage.is_waiting())?;
        let mut sessions = request.session.iter().chain(within);
        sessions.find_map(|session| {
            self.own_way_at(&request.roots, &request.marks, request.rank, *session)
        })
    }

    fn own_way_at(
        &self,
        roots: &[Root],
        marks: &[Mark],
        rank: Rank,
        session: SessionId,
    ) -> Option<(Box<str>, RequestId)> {
        let own = self.own_marks(session);
        if own.is_empty() {
            return None;
        }
        let name = |root: u16| {
            let root = roots.get(usize::from(root)).or(roots.last());
            root.map_or("", |root| self.name(root.key)).into()
        };
        let direct = own_clash(marks, &own).or_else(|| self.held_clash(marks, session));
        if let Some((root, id)) = direct {
            return Some((name(root), id));
        }
        // Whoever waits for the own session comes at or after the first who does, and the ranks on the
        // way there only fall: nobody before that one matters.
        let first = self.first_behind(&own).filter(|first| *first < rank)?;
        let mut search = Search::new(self, first);
        search.look(marks, rank, None);
        while let Some((waiter, root)) = search.next() {
            if let Some((_, id)) = own_clash(&waiter.marks, &own) {
                return Some((name(root), id));
            }
            search.look(&waiter.marks, waiter.rank, Some(root));
        }
        None
    }

    /// The first eligible waiter that waits for one of these marks.
    fn first_behind(&self, own: &[(NodeKey, MarkMode, RequestId)]) -> Option<Rank> {
        let at_node = |(key, mode, _): &(NodeKey, MarkMode, _)| {
            let node = self.nodes.node(*key)?;
            mode.clashing().iter().filter_map(|other| node.first(Tag::Waiting(*other))).min()
        };
        own.iter().filter_map(at_node).min()
    }

    /// Which of the marks clashes with a holder of this session, looking from the marks: for a session
    /// that holds more than its own marks are looked at.
    fn held_clash(&self, marks: &[Mark], session: SessionId) -> Option<(u16, RequestId)> {
        marks.iter().take(WAITERS_MAX).find_map(|mark| {
            let node = self.nodes.node(mark.key)?;
            let modes = mark.mode.clashing().iter();
            let mut holders =
                modes.flat_map(|mode| node.ranks(Tag::Held(*mode), None).take(WAITERS_MAX));
            let is_own = |rank: &Rank| {
                self.requests.get(&rank.id).is_some_and(|other| other.session == Some(session))
            };
            holders.find(is_own).map(|rank| (mark.root, rank.id))
        })
    }

    /// The marks that a session holds, in order.
    fn own_marks(&self, session: SessionId) -> Vec<(NodeKey, MarkMode, RequestId)> {
        let range = (session, RequestId(0))..=(session, RequestId(u64::MAX));
        let requests = self.sessions.range(range).filter_map(|(_, id)| self.requests.get(id));
        let marks = requests.flat_map(|request| {
            request.marks.iter().map(|mark| (mark.key, mark.mode, request.rank.id))
        });
        let mut marks: Vec<_> = marks.take(WORK_MAX / PLACE_COST).collect();
        marks.sort_unstable();
        marks
    }

    /// Roots and marks of what is wanted, with those names that others have made.
    fn with_made(&self, wanted: &WantedClaims) -> (Vec<Root>, Vec<Mark>) {
        let (mut roots, mut marks) = (wanted.roots.clone(), wanted.marks.to_vec());
        for (number, claim) in &wanted.unknown {
            if let Some(key) = self.made.find(&claim.resource) {
                let root = u16::try_from(roots.len()).unwrap_or(u16::MAX);
                roots.push(Root { key, mode: claim.mode, claim: *number });
                marks.push(Mark { key, mode: MarkMode::full(claim.mode), root });
            }
        }
        marks.sort_by_key(|mark| mark.key);
        (roots, marks)
    }

    fn blockers_at(&self, asking: &Asking<'_>, marks: &[Mark], max: usize) -> Blockers {
        let mut found = vec![];
        let count_max = max.max(limits::STEP_MAX);
        let is_first = |mark: &&Mark| asking.first == Some((mark.key, mark.mode));
        let (first, rest) = (marks.iter().filter(is_first), marks.iter().filter(|m| !is_first(m)));
        for mark in first.chain(rest).take(WORK_MAX / PLACE_COST) {
            if found.len() < PLACES_MAX {
                self.find_blockers(mark, asking.rank, count_max, &mut found);
            }
        }
        // Holders first; among waiters the latest rank is the nearest. The sort keeps the order of
        // marks, so that the first mark counts where one is in the way of several.
        found.sort_by_key(|(is_held, rank, _)| (!is_held, std::cmp::Reverse(*rank)));
        found.dedup_by_key(|(_, rank, _)| *rank);
        let blocker = |(is_held, rank, root): &(bool, Rank, u16)| {
            let root = asking.roots.get(usize::from(*root)).or(asking.roots.last());
            let resource = root.map_or("", |root| self.name(root.key)).into();
            Blocker { resource, id: rank.id, is_held: *is_held }
        };
        let nearest = found.iter().take(max).map(blocker).collect();
        Blockers { nearest, total: found.len().min(count_max) }
    }

    /// The requests in the way at one mark, each with the root that asks.
    fn find_blockers(
        &self,
        mark: &Mark,
        rank: Rank,
        max: usize,
        found: &mut Vec<(bool, Rank, u16)>,
    ) {
        let Some(node) = self.nodes.node(mark.key) else { return };
        for mode in mark.mode.clashing() {
            let (held, waiting) = (Tag::Held(*mode), Tag::Waiting(*mode));
            if node.count(held) > 0 {
                let holders = node.ranks(held, None).take(max);
                found.extend(holders.map(|holder| (true, holder, mark.root)));
            }
            if node.count(waiting) > 0 {
                let waiters = node.before(waiting, rank).rev().take(max);
                found.extend(waiters.map(|waiter| (false, waiter, mark.root)));
            }
        }
    }
}

/// Which of the marks clashes with what the own session holds: its root, and the holder.
fn own_clash(marks: &[Mark], own: &[(NodeKey, MarkMode, RequestId)]) -> Option<(u16, RequestId)> {
    marks.iter().find_map(|mark| {
        let start = own.partition_point(|(key, ..)| *key < mark.key);
        let mut at_node = own[start..].iter().take_while(|(key, ..)| *key == mark.key);
        let (.., id) = at_node.find(|(_, mode, _)| mark.mode.clashing().contains(mode))?;
        Some((mark.root, *id))
    })
}

/// The request that asks what is in its way.
struct Asking<'a> {
    rank: Rank,
    roots: &'a [Root],
    /// A mark that is known to be blocked.
    first: Option<(NodeKey, MarkMode)>,
}

/// The waiters that a request waits for, those they wait for, and so on; each once.
struct Search<'a> {
    claims: &'a Claims,
    /// Waiters before this one are passed over.
    first: Rank,
    /// All found so far, each with the root of the newcomer that leads to it.
    found: Vec<(RequestId, u16)>,
    /// How many of them were handed out.
    handed: usize,
    /// Up to which rank was looked who stands in the way of a mark, in order.
    looked: Vec<((NodeKey, MarkMode), Rank)>,
    /// What is left to spend.
    work: usize,
}

impl<'a> Search<'a> {
    fn new(claims: &'a Claims, first: Rank) -> Self {
        let found = Vec::with_capacity(WAITERS_MAX);
        Self { claims, first, found, handed: 0, looked: vec![], work: SEARCH_MAX }
    }

    fn next(&mut self) -> Option<(&'a Request, u16)> {
        if self.work == 0 {
            return None;
        }
        let (id, root) = *self.found.get(self.handed)?;
        self.handed += 1;
        Some((self.claims.requests.get(&id)?, root))
    }

    /// Finds the requests that one with these marks waits for. `root` is the newcomer's root that led here,
    /// if this is not the newcomer.
    fn look(&mut self, marks: &[Mark], rank: Rank, root: Option<u16>) {
        for mark in marks {
            if self.work == 0 {
                return;
            }
            self.work -= 1;
            let place = (mark.key, mark.mode);
            let from = match self.looked.binary_search_by_key(&place, |(place, _)| *place) {
                Ok(known) if self.looked[known].1 >= rank => continue,
                Ok(known) => std::mem::replace(&mut self.looked[known].1, rank),
                Err(index) => {
                    self.looked.insert(index, (place, rank));
                    self.first
                }
            };
            self.look_at(mark, from, rank, root.unwrap_or(mark.root));
        }
    }

    /// Finds the requests in the way of one mark, from one rank up to another.
    fn look_at(&mut self, mark: &Mark, from: Rank, rank: Rank, root: u16) {
        self.work = self.work.saturating_sub(PLACE_COST);
        let Some(node) = self.claims.nodes.node(mark.key) else { return };
        for mode in mark.mode.clashing() {
            if node.count(Tag::Waiting(*mode)) == 0 {
                continue;
            }
            let waiters = node.ranks(Tag::Waiting(*mode), Some(from));
            for waiter in waiters.take_while(|other| *other < rank) {
                if self.work == 0 || self.found.len() >= WAITERS_MAX {
                    return;
                }
                self.work = self.work.saturating_sub(PLACE_COST);
                if self.found.iter().all(|(id, _)| *id != waiter.id) {
                    self.found.push((waiter.id, root));
                }
            }
        }
    }
}
