//! Which requests block a request.
//!
//! Promises bounded work: a search gives up after [`WAITERS_MAX`] waiters, or a number of marks and places,
//! rather than delay all requests. Never changes anything.

use super::{Claims, Request, Stage};
use crate::mark::{Mark, MarkMode, NodeKey, Root};
use crate::node::Tag;
use crate::wanted::WantedClaims;
use paceline_types::{Rank, RequestId, SessionId, limits};

/// Waiters that a search for the request's own session visits: each newcomer of a session that holds claims
/// pays for it, under the engine's lock.
pub(super) const WAITERS_MAX: usize = 64;

/// The most work of that search, counted as in [`WORK_MAX`].
pub(super) const SEARCH_MAX: usize = WAITERS_MAX * 32;

/// The most work of one search: a mark counts one, a node or a place there [`PLACE_COST`].
const WORK_MAX: usize = limits::STEP_MAX * 32;

/// Visiting a node, or the requests there, takes about as long as visiting this many marks.
pub(super) const PLACE_COST: usize = 8;

/// The most places that are collected to name the blocking requests.
const PLACES_MAX: usize = limits::STEP_MAX * 8;

/// A request that blocks another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The claimed resource that it blocks.
    pub resource: Box<str>,
    /// The request.
    pub id: RequestId,
    /// Whether it holds what is wanted; otherwise it waits and has an earlier rank.
    pub is_held: bool,
}

/// The requests that block: holders first, then waiters, nearest rank first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blockers {
    /// The first of them, as many as were asked for.
    pub nearest: Vec<Blocker>,
    /// How many there are, counted up to [`STEP_MAX`](limits::STEP_MAX) or as many as were asked for.
    pub total: usize,
}

impl Claims {
    /// The requests that block a waiter. Empty only if nothing blocks it.
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

    /// Whether a newcomer would wait for its own session: for a claim that the session holds, or for an
    /// eligible waiter that waits for one, and so on. The requests in `beside` do not count. Returns the resource it
    /// asks for, and the blocking request of its session.
    #[must_use]
    pub fn own_way(
        &self,
        wanted: &WantedClaims,
        rank: Rank,
        session: SessionId,
        beside: &[RequestId],
    ) -> Option<(Box<str>, RequestId)> {
        let (roots, marks) = self.with_made(wanted);
        self.own_way_at((&roots, &marks), rank, session, beside)
    }

    /// The same for a waiter, after it was aside; also for the sessions that it runs within.
    #[must_use]
    pub fn own_way_of(&self, id: RequestId, within: &[SessionId]) -> Option<(Box<str>, RequestId)> {
        let request = self.requests.get(&id).filter(|request| request.stage.is_waiting())?;
        let mut sessions = request.session.iter().chain(within);
        sessions.find_map(|session| {
            let wanted = (&request.roots[..], &request.marks[..]);
            self.own_way_at(wanted, request.rank, *session, &request.beside)
        })
    }

    fn own_way_at(
        &self,
        (roots, marks): (&[Root], &[Mark]),
        rank: Rank,
        session: SessionId,
        beside: &[RequestId],
    ) -> Option<(Box<str>, RequestId)> {
        let own = self.own_marks(session, beside);
        if own.is_empty() {
            return None;
        }
        let name = |root: u16| {
            let root = roots.get(usize::from(root)).or(roots.last());
            root.map_or("", |root| self.name(root.key)).into()
        };
        let direct = own_clash(marks, &own).or_else(|| self.held_clash(marks, session, beside));
        if let Some((root, id)) = direct {
            return Some((name(root), id));
        }
        // A waiter that waits for the own session has the rank of the first such waiter or a later one, and
        // ranks only fall along the way: waiters before that one do not matter.
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

    /// Which of the marks clashes with a holder of this session. Starts from the marks, for a session that
    /// holds more marks than are searched.
    fn held_clash(
        &self,
        marks: &[Mark],
        session: SessionId,
        beside: &[RequestId],
    ) -> Option<(u16, RequestId)> {
        marks.iter().take(WAITERS_MAX).find_map(|mark| {
            let node = self.nodes.node(mark.key)?;
            let modes = mark.mode.clashing().iter();
            let mut holders =
                modes.flat_map(|mode| node.ranks(Tag::Held(*mode), None).take(WAITERS_MAX));
            let is_own = |rank: &Rank| {
                let holder = self.requests.get(&rank.id).filter(|_| !beside.contains(&rank.id));
                holder.is_some_and(|holder| holder.session == Some(session))
            };
            holders.find(is_own).map(|rank| (mark.root, rank.id))
        })
    }

    /// The marks that a session holds, in order, without those of the requests in `beside`.
    fn own_marks(
        &self,
        session: SessionId,
        beside: &[RequestId],
    ) -> Vec<(NodeKey, MarkMode, RequestId)> {
        let holders = self.sessions.holders(session).filter(|id| !beside.contains(id));
        let requests = holders.filter_map(|id| self.requests.get(&id));
        let marks = requests.flat_map(|request| {
            request.marks.iter().map(|mark| (mark.key, mark.mode, request.rank.id))
        });
        let mut marks: Vec<_> = marks.take(WORK_MAX / PLACE_COST).collect();
        marks.sort_unstable();
        marks
    }

    /// The roots and marks of what is wanted, including names that other requests have made.
    pub(super) fn with_made(&self, wanted: &WantedClaims) -> (Vec<Root>, Vec<Mark>) {
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
        // Holders first; among waiters the latest rank is the nearest. The sort keeps the order of marks, so
        // that the first mark counts where one request blocks several.
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

    /// The requests that block at one mark, each with the root that is blocked.
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

/// The request whose blockers are searched.
struct Asking<'a> {
    rank: Rank,
    roots: &'a [Root],
    /// A mark that is known to be blocked.
    first: Option<(NodeKey, MarkMode)>,
}

/// The rank up to which a search has looked for blocking requests at each mark, in the order of the marks.
#[derive(Default)]
pub(super) struct Looked(Vec<((NodeKey, MarkMode), Rank)>);

impl Looked {
    /// Notes that a search looks up to `rank`. Returns the rank from which it has to look, `Some(None)` if it
    /// has not looked at this mark before, or `None` if it has looked that far already.
    pub fn up_to(&mut self, mark: &Mark, rank: Rank) -> Option<Option<Rank>> {
        let place = (mark.key, mark.mode);
        match self.0.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(known) if self.0[known].1 >= rank => None,
            Ok(known) => Some(Some(std::mem::replace(&mut self.0[known].1, rank))),
            Err(index) => {
                self.0.insert(index, (place, rank));
                Some(None)
            }
        }
    }
}

/// The waiters that a request waits for, those they wait for, and so on; each once.
struct Search<'a> {
    claims: &'a Claims,
    /// Waiters before this one are skipped.
    first: Rank,
    /// All found so far, each with the root of the newcomer that leads to it.
    found: Vec<(RequestId, u16)>,
    /// How many of them were returned.
    handed: usize,
    looked: Looked,
    /// The work that may still be done.
    work: usize,
}

impl<'a> Search<'a> {
    fn new(claims: &'a Claims, first: Rank) -> Self {
        let found = Vec::with_capacity(WAITERS_MAX);
        Self { claims, first, found, handed: 0, looked: Looked::default(), work: SEARCH_MAX }
    }

    fn next(&mut self) -> Option<(&'a Request, u16)> {
        if self.work == 0 {
            return None;
        }
        let (id, root) = *self.found.get(self.handed)?;
        self.handed += 1;
        Some((self.claims.requests.get(&id)?, root))
    }

    /// Finds the requests that a request with these marks waits for. `root` is the newcomer's root that led
    /// here, if this is not the newcomer.
    fn look(&mut self, marks: &[Mark], rank: Rank, root: Option<u16>) {
        for mark in marks {
            if self.work == 0 {
                return;
            }
            self.work -= 1;
            let Some(from) = self.looked.up_to(mark, rank) else { continue };
            self.look_at(mark, from.unwrap_or(self.first), rank, root.unwrap_or(mark.root));
        }
    }

    /// Finds the requests that block one mark, from one rank up to another.
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
