//! Requests that wait for each other, because sessions hold claims and ask for more.
//!
//! A waiter waits for holders and for earlier, eligible waiters that block it; a holder waits for the waiters
//! nested in it. A circle is closed by a waiter that joins the line or becomes eligible, or by a graph edit. So
//! such a waiter is checked once, and after an edit each nested waiter is. This is done only while a session
//! has both holders and waiters; otherwise it costs nothing.
//!
//! Promises bounded work: a look visits [`WAITERS_MAX`] waiters in line and as many nested ones, or so many marks and places.
//! If that was not enough, it searches from the other end (`behind.rs`), with as much work. Never refuses anything: the
//! engine does.

mod behind;

use super::nested::{HOLDERS_MAX, Sessions};
use super::why::{Looked, PLACE_COST, SEARCH_MAX, WAITERS_MAX};
use super::{Claims, Request, Stage};
use crate::mark::Mark;
use crate::node::{Node, Tag};
use crate::wanted::WantedClaims;
use behind::Behind;
use paceline_types::{Rank, RequestId, SessionId, limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Work of a search that counts as much as one request.
const WORK_PER_UNIT: usize = 32;

/// Waiters that are not nested and that one step skips.
const PASSED_BY_MAX: usize = 16;

/// The waiters to be checked, and the tangles that were found.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Whether anything is left to do: this is read several times in every call.
    is_open: bool,
    due: BTreeSet<RequestId>,
    /// The last nested waiter that was checked since the last graph edit, if not all of them were.
    swept: Option<(SessionId, RequestId)>,
    /// The last nested waiter of each tangle, with a request from which it was found.
    found: BTreeMap<RequestId, RequestId>,
    /// Waiters in a tangle, to be checked again when it is broken.
    tangled: BTreeSet<RequestId>,
}

impl Looks {
    /// Called when a waiter joined the line or became eligible.
    #[inline]
    pub fn add(&mut self, id: RequestId, sessions: &Sessions) {
        if sessions.may_nest() {
            self.due.insert(id);
            self.is_open = true;
        }
    }

    /// Called when a graph edit was applied.
    pub const fn sweep(&mut self, sessions: &Sessions) {
        if sessions.may_nest() {
            self.swept = Some((SessionId(0), RequestId(0)));
            self.is_open = true;
        }
    }

    fn close_if_done(&mut self) {
        self.is_open = !self.due.is_empty() || self.swept.is_some() || !self.found.is_empty();
    }
}

impl Claims {
    /// Whether there is something for [`Claims::look`] to do.
    #[must_use]
    #[inline]
    pub const fn has_looks(&self) -> bool {
        self.looks.is_open
    }

    /// Checks whether one of the waiters to be checked waits in a circle. Returns the cost, in requests; `None`
    /// if all were checked. To be called when nothing can be taken.
    pub fn look(&mut self) -> Option<usize> {
        let cost = self.look_once();
        self.looks.close_if_done();
        cost
    }

    fn look_once(&mut self) -> Option<usize> {
        if let Some(id) = self.looks.due.pop_first() {
            return Some(self.look_at(id));
        }
        for _ in 0..PASSED_BY_MAX {
            let (next, holds) = match self.sessions.next_waiter(self.looks.swept?) {
                Some(next) => next,
                None => {
                    self.looks.swept = None;
                    return Some(1);
                }
            };
            self.looks.swept = Some(next);
            let id = next.1;
            if holds && self.requests.get(&id).is_some_and(|request| self.is_nested(request)) {
                return Some(self.look_at(id));
            }
        }
        Some(1)
    }

    /// When all were checked: for each tangle a request to pass to [`Claims::last_of_tangle`], in the order of
    /// the waiters which that returns. All waiters in a tangle are checked again.
    pub fn tangles(&mut self) -> Vec<RequestId> {
        self.looks.due.append(&mut self.looks.tangled);
        let found = std::mem::take(&mut self.looks.found);
        self.looks.close_if_done();
        found.into_values().collect()
    }

    /// Of the nested waiters that wait for this one, and this one for them, directly or through others, the one
    /// with the highest number. `None` if it does not wait for itself.
    #[must_use]
    pub fn last_of_tangle(&self, id: RequestId) -> Option<RequestId> {
        self.tangle(id).1.map(|(last, _)| last)
    }

    /// Whether a newcomer would wait for a holder that it is nested in. Returns the resource it asks for, and
    /// the request that blocks it there.
    #[must_use]
    pub fn would_deadlock(
        &self,
        wanted: &WantedClaims,
        rank: Rank,
        session: Option<SessionId>,
        within: &[SessionId],
        beside: &[RequestId],
    ) -> Option<(Box<str>, RequestId)> {
        if !self.sessions.may_nest() {
            return None;
        }
        let mut newcomer = Request {
            rank,
            session,
            within: within.into(),
            beside: beside.into(),
            sequence: self.sequence,
            stage: Stage::Free,
            is_eligible: false,
            is_told_known: true,
            last_at_start: RequestId(0),
            roots: vec![],
            marks: Box::default(),
            names: super::Names::default(),
        };
        if !self.is_nested(&newcomer) {
            return None;
        }
        let (roots, marks) = self.with_made(wanted);
        (newcomer.roots, newcomer.marks) = (roots, marks.into());
        self.way_back(&newcomer)
    }

    /// The same for a waiter.
    #[must_use]
    pub fn deadlock_of(&self, id: RequestId) -> Option<(Box<str>, RequestId)> {
        let request = self.requests.get(&id).filter(|request| request.stage.is_waiting())?;
        let may_nest = self.sessions.may_nest() && self.is_nested(request);
        if may_nest { self.way_back(request) } else { None }
    }

    /// The claim by which a nested waiter waits for a holder that it is nested in, and the request that blocks
    /// it there.
    fn way_back(&self, request: &Request) -> Option<(Box<str>, RequestId)> {
        let holders = request.sessions().flat_map(|session| self.sessions.holders(session));
        let holders = holders.filter_map(|id| self.requests.get(&id)).take(HOLDERS_MAX);
        let goals: Vec<&Request> = holders.filter(|holder| request.is_nested_in(holder)).collect();
        let mut search = Search::new(self, goals.clone());
        search.run(request, true);
        let behind = || {
            let path = Behind::new(self, request).run(goals);
            path.first().and_then(|other| request.way_to(self.requests.get(other)?))
        };
        let (root, id) = match search.met {
            None if search.is_cut() => behind()?,
            met => met?,
        };
        let root = request.roots.get(usize::from(root)).or(request.roots.last());
        Some((root.map_or("", |root| self.name(root.key)).into(), id))
    }

    /// Checks one waiter. Returns the cost.
    fn look_at(&mut self, id: RequestId) -> usize {
        if self.looks.tangled.contains(&id) {
            return 1;
        }
        let (cost, tangle) = self.tangle(id);
        if let Some((last, members)) = tangle {
            self.looks.found.insert(last, id);
            // One check is enough for all of them.
            for member in members {
                self.looks.due.remove(&member);
                self.looks.tangled.insert(member);
            }
        }
        cost
    }

    /// The cost of the search, and the tangle of a waiter, if it waits for itself: its last nested waiter, and
    /// its waiters.
    fn tangle(&self, id: RequestId) -> (usize, Option<(RequestId, Vec<RequestId>)>) {
        let Some(first) = self.requests.get(&id).filter(|request| request.stage.is_waiting())
        else {
            return (1, None);
        };
        let mut search = Search::new(self, vec![first]);
        search.run(first, false);
        let mut cost = 1 + (SEARCH_MAX - search.work) / WORK_PER_UNIT;
        if search.met.is_none() {
            if !search.is_cut() {
                return (cost, None);
            }
            let mut behind = Behind::new(self, first);
            let path = behind.run(vec![first]);
            cost += (SEARCH_MAX - behind.work) / WORK_PER_UNIT;
            if path.is_empty() {
                return (cost, None);
            }
            search.seen.extend(path);
        }
        // Of the requests it reaches, those that reach it. Tangles are rare, so each pair is compared.
        let mut others: Vec<&Request> = search
            .seen
            .iter()
            .filter(|other| **other != id)
            .filter_map(|id| self.requests.get(id))
            .collect();
        let (mut members, mut done) = (vec![first], 0);
        while let Some(member) = members.get(done).copied() {
            done += 1;
            members.extend(others.extract_if(.., |other| other.waits_for(member)));
        }
        members.retain(|member| member.stage.is_waiting());
        let nested = members.iter().filter(|member| self.is_nested(member));
        let last = nested.map(|member| member.rank.id).max();
        let ids = members.iter().map(|member| member.rank.id).collect();
        (limits::STEP_MAX.min(cost * done), last.map(|last| (last, ids)))
    }
}

impl Request {
    /// Whether it waits for another request directly.
    fn waits_for(&self, other: &Self) -> bool {
        match (&self.stage, &other.stage) {
            (Stage::Held, _) => other.stage.is_waiting() && other.is_nested_in(self),
            (_, Stage::Held) => clash(&self.marks, &other.marks),
            _ => other.is_eligible && other.rank < self.rank && clash(&self.marks, &other.marks),
        }
    }

    /// By which of its claims it waits for a request that it waits for directly.
    fn way_to(&self, other: &Self) -> Option<Way> {
        let mark = self.marks.iter().find(|mark| clashes(mark, &other.marks))?;
        Some((mark.root, other.rank.id))
    }
}

/// Whether any mark of one clashes with any of the other.
fn clash(one: &[Mark], other: &[Mark]) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().any(|mark| clashes(mark, many))
}

/// Whether a mark clashes with any of others, which are sorted.
fn clashes(mark: &Mark, many: &[Mark]) -> bool {
    let start = many.partition_point(|other| other.key < mark.key);
    let at_node = many[start..].iter().take_while(|other| other.key == mark.key);
    at_node.into_iter().any(|other| mark.mode.clashing().contains(&other.mode))
}

/// The root of the first request that leads to another one, and the request that blocks it there.
type Way = (u16, RequestId);

/// The requests that a request waits for, those that they wait for, and so on; each once.
struct Search<'a> {
    claims: &'a Claims,
    /// The requests searched for. Each is compared directly, however many others are at the node.
    goals: Vec<&'a Request>,
    /// The way by which one of them was reached.
    met: Option<Way>,
    seen: BTreeSet<RequestId>,
    /// Waiters whose marks are still to be followed. Nested ones are followed first, so that a long line does
    /// not hide them.
    nested: VecDeque<(RequestId, Way)>,
    line: VecDeque<(RequestId, Way)>,
    /// How many of both were found.
    counts: [usize; 2],
    /// Whether one of them found no room.
    is_full: bool,
    looked: Looked,
    /// The work that may still be done.
    work: usize,
}

impl<'a> Search<'a> {
    fn new(claims: &'a Claims, goals: Vec<&'a Request>) -> Self {
        Self {
            claims,
            goals,
            met: None,
            seen: BTreeSet::new(),
            nested: VecDeque::new(),
            line: VecDeque::new(),
            counts: [0; 2],
            is_full: false,
            looked: Looked::default(),
            work: SEARCH_MAX,
        }
    }

    /// Follows everything from this waiter on; if `is_short`, only until a goal is reached.
    fn run(&mut self, first: &Request, is_short: bool) {
        self.seen.insert(first.rank.id);
        self.follow(&first.marks, first.rank, None);
        while let Some((id, way)) = self.nested.pop_front().or_else(|| self.line.pop_front()) {
            if self.work == 0 || (is_short && self.met.is_some()) {
                return;
            }
            let Some(request) = self.claims.requests.get(&id) else { continue };
            self.work = self.work.saturating_sub(self.goals.len() * PLACE_COST);
            if self.goals.iter().any(|goal| request.waits_for(goal)) {
                self.met = self.met.or(Some(way));
            }
            self.follow(&request.marks, request.rank, Some(way));
        }
    }

    /// Whether its bounds may have kept it from a goal.
    const fn is_cut(&self) -> bool {
        self.is_full || self.work == 0
    }

    /// Finds the requests that one with these marks waits for.
    fn follow(&mut self, marks: &[Mark], rank: Rank, way: Option<Way>) {
        for mark in marks {
            if self.work == 0 {
                return;
            }
            self.work -= 1;
            let Some(from) = self.looked.up_to(mark, rank) else { continue };
            self.work = self.work.saturating_sub(PLACE_COST);
            let Some(node) = self.claims.nodes.node(mark.key) else { continue };
            if from.is_none() {
                self.meet_holders(mark, node, way);
            }
            self.meet_waiters(mark, node, from, rank, way);
        }
    }

    fn meet_holders(&mut self, mark: &Mark, node: &Node, way: Option<Way>) {
        for mode in mark.mode.clashing().iter().filter(|mode| node.count(Tag::Held(**mode)) > 0) {
            for holder in node.ranks(Tag::Held(*mode), None) {
                if self.work == 0 {
                    return;
                }
                self.work = self.work.saturating_sub(PLACE_COST);
                if self.seen.insert(holder.id) {
                    self.meet_holder(holder.id, way.unwrap_or((mark.root, holder.id)));
                }
            }
        }
    }

    fn meet_holder(&mut self, id: RequestId, way: Way) {
        let claims = self.claims;
        let Some(holder) = claims.requests.get(&id) else { return };
        let waits = |goal: &&Request| goal.stage.is_waiting() && goal.is_nested_in(holder);
        if self.goals.iter().any(waits) {
            self.met = self.met.or(Some(way));
        }
        let Some(session) = holder.session else { return };
        for waiter in claims.sessions.waiters_after(session, holder.last_at_start) {
            if self.work == 0 {
                return;
            }
            self.work = self.work.saturating_sub(PLACE_COST);
            if claims.requests.get(&waiter).is_none_or(|waiter| !waiter.beside.contains(&id)) {
                self.meet_waiter(waiter, way, true);
            }
        }
    }

    fn meet_waiters(
        &mut self,
        mark: &Mark,
        node: &Node,
        from: Option<Rank>,
        rank: Rank,
        way: Option<Way>,
    ) {
        for mode in mark.mode.clashing().iter().filter(|mode| node.count(Tag::Waiting(**mode)) > 0)
        {
            let waiters = node.ranks(Tag::Waiting(*mode), from);
            for waiter in waiters.take_while(|other| *other < rank) {
                if self.work == 0 || self.counts[0] >= WAITERS_MAX {
                    self.is_full = true;
                    return;
                }
                self.work = self.work.saturating_sub(PLACE_COST);
                self.meet_waiter(waiter.id, way.unwrap_or((mark.root, waiter.id)), false);
            }
        }
    }

    fn meet_waiter(&mut self, id: RequestId, way: Way, is_nested: bool) {
        let count = &mut self.counts[usize::from(is_nested)];
        if *count >= WAITERS_MAX {
            self.is_full = true;
        } else if self.seen.insert(id) {
            *count += 1;
            let queue = if is_nested { &mut self.nested } else { &mut self.line };
            queue.push_back((id, way));
        }
    }
}
