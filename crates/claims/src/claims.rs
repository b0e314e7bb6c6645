//! Which requests hold claims, which wait for them, and which can be tried again.
//!
//! Owns the state under the engine's lock. A request is in one of these stages:
//!
//! - *aside*: it names a resource that does not exist, and blocks no other request;
//! - *free*: it waits, and was not found blocked; the engine may try [`Claims::take`];
//! - *ready*: the same, and [`Claims::poll`] is going to report it;
//! - *parked*: it was tried and found blocked, and is parked at one node where it is blocked;
//! - *held*: it holds all its claims.
//!
//! A waiter is blocked at a node where it has a mark when a holder has a clashing mark there, or an eligible
//! waiter of earlier rank has. When a mark is removed from a node, parked waiters are checked from the front
//! and returned as long as they are not blocked there. Trying a waiter again checks all its marks, so what may
//! be held together never depends on which waiter is woken. [`Claims::poll`] returns waiters one by one, so the
//! caller decides how much of the work of a release that frees 100,000 waiters it does.
//!
//! A new graph is swapped in at once, and the marks it changes are updated in steps. Until that is done,
//! nothing is taken.

mod aside;
mod circle;
mod edit;
mod holding;
mod made;
mod nested;
mod step;
mod view;
mod why;

pub use holding::{Claimed, Holding, follow};
pub use view::{Stats, View};
pub use why::{Blocker, Blockers};

pub(crate) use step::walk_cost;

use crate::graph::Graph;
use crate::mark::{Mark, MarkMode, NodeKey, Root, add_root, combine};
use crate::node::{Nodes, Tag};
use crate::wanted::{Resting, WantedClaims, numbers};
use aside::{Aside, Lack};
use circle::Looks;
use edit::Edit;
use made::Made;
use nested::Sessions;
use paceline_types::{Claim, Rank, RequestId, SessionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use step::Leaving;

/// Holders and waiters of all resources.
#[derive(Debug)]
pub struct Claims {
    graph: Arc<Graph>,
    /// Counts the graphs. A request remembers for which one its marks are correct.
    sequence: u64,
    requests: BTreeMap<RequestId, Request>,
    nodes: Nodes,
    made: Made,
    /// The requests that wait for each missing name; each request is listed under one name at a time.
    asides: BTreeMap<Box<str>, BTreeSet<RequestId>>,
    sessions: Sessions,
    looks: Looks,
    ready: VecDeque<RequestId>,
    /// Requests that went aside or returned, to be reported.
    news: VecDeque<RequestId>,
    edits: VecDeque<Edit>,
    leaving: VecDeque<Leaving>,
    stats: Stats,
}

/// What the engine should do next for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This waiter may no longer be blocked: try [`Claims::take`] again.
    Unblocked(RequestId),
    /// A resource of this waiter was deleted. The waiter is aside, not eligible, until it is removed,
    /// [`Claims::create`] makes the resource, or the resource exists again.
    Unknown(RequestId),
    /// An edit made a claim of this waiter too wide; it is aside until it is removed.
    TooWide(RequestId),
    /// All resources of this request exist now: it waits like others, and is not eligible yet.
    Known(RequestId),
}

/// Why claims were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Another request blocks it.
    By {
        /// The first one found.
        id: RequestId,
        /// Whether that one holds what is wanted; otherwise it waits and has an earlier rank.
        is_held: bool,
    },
    /// A graph edit is still being applied; [`Claims::poll`] reports when to try again.
    Busy,
    /// There is no such waiter.
    NotWaiting,
    /// A claim has too many marks: see [`WantedClaims::too_wide`].
    TooWide,
}

#[derive(Debug)]
struct Request {
    rank: Rank,
    session: Option<SessionId>,
    /// Further sessions that end only after it.
    within: Box<[SessionId]>,
    /// Holders of its sessions that it is not nested in, although their numbers are lower.
    beside: Box<[RequestId]>,
    sequence: u64,
    stage: Stage,
    is_eligible: bool,
    /// The last request that was submitted before this one began to hold.
    last_at_start: RequestId,
    /// Whether the engine was told that all its resources exist.
    is_told_known: bool,
    /// In the order of their keys; empty while aside.
    roots: Vec<Root>,
    marks: Box<[Mark]>,
    /// The names of its resources, if it arrived while edits were being applied: the graph it was resolved in
    /// may be skipped.
    names: Names,
}

/// Names of resources, for requests that would not find them in a graph.
type Names = Box<[(NodeKey, Box<str>)]>;

#[derive(Debug)]
enum Stage {
    Aside(Aside),
    Free,
    Ready,
    Parked(NodeKey, MarkMode),
    Held,
}

impl Stage {
    const fn is_waiting(&self) -> bool {
        matches!(self, Self::Free | Self::Ready | Self::Parked(..))
    }
}

impl Default for Claims {
    fn default() -> Self {
        Self::new()
    }
}

impl Claims {
    /// No resources, no requests.
    #[must_use]
    pub fn new() -> Self {
        Self {
            graph: Arc::new(Graph::empty()),
            sequence: 0,
            requests: BTreeMap::new(),
            nodes: Nodes::default(),
            made: Made::default(),
            asides: BTreeMap::new(),
            sessions: Sessions::new(),
            looks: Looks::default(),
            ready: VecDeque::new(),
            news: VecDeque::new(),
            edits: VecDeque::new(),
            leaving: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Adds a waiter, neither eligible nor tried yet. Nodes are made for names that no resource has.
    pub fn add(
        &mut self,
        id: RequestId,
        rank: Rank,
        session: Option<SessionId>,
        wanted: WantedClaims,
    ) {
        self.enter(id, rank, session, wanted, Stage::Free);
        self.stats.waiting += 1;
    }

    /// Makes a newcomer that [`Claims::check`] accepted a holder, without waiting.
    pub fn take_at_once(
        &mut self,
        id: RequestId,
        rank: Rank,
        session: Option<SessionId>,
        wanted: WantedClaims,
    ) {
        self.enter(id, rank, session, wanted, Stage::Held);
        if let Some(session) = session {
            self.sessions.hold(session, id);
        }
        self.stats.holding += 1;
    }

    /// Sets whether a waiter's marks block requests of later rank: they do while it could run.
    pub fn set_eligible(&mut self, id: RequestId, is_eligible: bool) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        if request.is_eligible == is_eligible || matches!(request.stage, Stage::Held) {
            return;
        }
        request.is_eligible = is_eligible;
        if !request.stage.is_waiting() {
            return;
        }
        for mark in &request.marks {
            if is_eligible {
                self.nodes.insert(mark.key, Tag::Waiting(mark.mode), request.rank);
            } else {
                self.nodes.remove(mark.key, Tag::Waiting(mark.mode), request.rank);
            }
        }
        if is_eligible {
            self.looks.add(id, &self.sessions);
        }
    }

    /// Whether a newcomer could take its claims, including names that no resource has.
    ///
    /// # Errors
    ///
    /// When it could not: the request that blocks it, or that nothing can be taken at present.
    pub fn check(&self, wanted: &mut WantedClaims, rank: Rank) -> Result<(), Blocked> {
        if self.is_busy() {
            return Err(Blocked::Busy);
        }
        self.refresh(wanted);
        if wanted.too_wide.is_some() {
            return Err(Blocked::TooWide);
        }
        let unknown = wanted.unknown().filter_map(|claim| {
            Some((self.made.find(&claim.resource)?, MarkMode::full(claim.mode)))
        });
        let known = wanted.marks.iter().map(|mark| (mark.key, mark.mode));
        let obstacle = |(key, mode)| self.nodes.obstacle(key, mode, rank);
        match known.chain(unknown).find_map(obstacle) {
            Some((id, is_held)) => Err(Blocked::By { id, is_held }),
            None => Ok(()),
        }
    }

    /// Makes a waiter a holder, or parks it where it is blocked.
    ///
    /// # Errors
    ///
    /// When it is blocked; [`Claims::poll`] reports when to try again.
    pub fn take(&mut self, id: RequestId) -> Result<(), Blocked> {
        let is_busy = self.is_busy();
        let Some(request) = self.requests.get_mut(&id) else { return Err(Blocked::NotWaiting) };
        match request.stage {
            Stage::Held | Stage::Aside(_) => return Err(Blocked::NotWaiting),
            Stage::Free if is_busy => {
                request.stage = Stage::Ready;
                self.ready.push_back(id);
                return Err(Blocked::Busy);
            }
            _ if is_busy => return Err(Blocked::Busy),
            _ => {}
        }
        if let Stage::Parked(key, mode) = request.stage {
            self.nodes.remove(key, Tag::Parked(mode), request.rank);
            self.stats.parked -= 1;
        }
        let rank = request.rank;
        let obstacle = |mark: &Mark| Some((*mark, self.nodes.obstacle(mark.key, mark.mode, rank)?));
        if let Some((mark, (id, is_held))) = request.marks.iter().find_map(obstacle) {
            self.nodes.insert(mark.key, Tag::Parked(mark.mode), rank);
            request.stage = Stage::Parked(mark.key, mark.mode);
            self.stats.parked += 1;
            return Err(Blocked::By { id, is_held });
        }
        self.hold(id);
        Ok(())
    }

    /// Removes a waiter, or a holder with all its claims. Returns whether there was such a request.
    pub fn remove(&mut self, id: RequestId) -> bool {
        let Some(request) = self.requests.remove(&id) else { return false };
        self.unpark(&request);
        match &request.stage {
            Stage::Aside(Aside { lack: Lack::Missing(missing), .. }) => self.unwatch(id, missing),
            Stage::Aside(_) => {}
            Stage::Held => {
                if let Some(session) = request.session {
                    self.sessions.release(session, id);
                }
                self.stats.holding -= 1;
            }
            _ => {
                self.end_wait(&request);
                self.stats.waiting -= 1;
            }
        }
        self.unlist(request);
        true
    }

    /// What to do next. Reports no unblocked waiter while a graph edit is being applied.
    pub fn poll(&mut self) -> Option<Event> {
        while let Some(id) = self.news.pop_front() {
            if let Some(event) = self.tell(id) {
                return Some(event);
            }
        }
        if self.is_busy() {
            return None;
        }
        while let Some(id) = self.ready.pop_front() {
            if let Some(request) = self.requests.get_mut(&id)
                && matches!(request.stage, Stage::Ready)
            {
                request.stage = Stage::Free;
                return Some(Event::Unblocked(id));
            }
        }
        let id = self.nodes.poll_unblocked()?;
        self.stats.parked -= 1;
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = Stage::Free;
        }
        Some(Event::Unblocked(id))
    }

    /// The graph that new requests are resolved against.
    #[must_use]
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Resolves claims again if the graph has changed since. Returns whether it has.
    pub fn refresh(&self, wanted: &mut WantedClaims) -> bool {
        let has_changed = !Arc::ptr_eq(&wanted.graph, &self.graph);
        if has_changed {
            *wanted = wanted.resolved_in(&self.graph);
        }
        has_changed
    }

    /// What is kept of a waiter or holder that leaves and may return later.
    #[must_use]
    pub fn rest(&self, id: RequestId) -> Option<Resting> {
        self.requests.get(&id).map(|request| Resting::of(&request.roots))
    }

    /// The claims of a request that slept; `claims` are those that `resting` was made from.
    #[must_use]
    pub fn wake(&self, resting: &Resting, claims: &[Claim]) -> WantedClaims {
        WantedClaims::awake(&self.graph, resting, claims)
    }

    /// Registers a request.
    fn enter(
        &mut self,
        id: RequestId,
        rank: Rank,
        session: Option<SessionId>,
        mut wanted: WantedClaims,
        stage: Stage,
    ) {
        debug_assert!(!self.requests.contains_key(&id), "request {id} is there already");
        self.refresh(&mut wanted);
        let names = self.names(&wanted);
        let (roots, marks) = self.make_unknown(wanted);
        let request = Request {
            rank,
            session,
            within: Box::default(),
            beside: Box::default(),
            sequence: self.sequence,
            stage,
            is_eligible: false,
            last_at_start: self.sessions.last(),
            is_told_known: true,
            roots,
            marks,
            names,
        };
        self.list(&request);
        if request.stage.is_waiting() {
            self.begin_wait(id, &request);
        }
        self.requests.insert(id, request);
    }

    /// The roots and marks of what is wanted, with a node for every name that no resource has.
    fn make_unknown(&mut self, wanted: WantedClaims) -> (Vec<Root>, Box<[Mark]>) {
        let WantedClaims { graph, mut roots, mut marks, unknown, too_wide, .. } = wanted;
        if too_wide.is_some() {
            // A caller that adds it all the same pays for finding the marks.
            marks = graph.marks(&roots);
        }
        if unknown.is_empty() {
            return (roots, marks);
        }
        let mut marks = marks.into_vec();
        let known = roots.len();
        for (number, claim) in unknown {
            let key = self.made.make(&claim.resource);
            add_root(&mut roots, Root { key, mode: claim.mode, claim: number });
        }
        // Keys of made nodes are higher than all others, so the roots before them keep their numbers.
        for (root, number) in roots.iter().zip(numbers()).skip(known) {
            marks.push(Mark { key: root.key, mode: MarkMode::full(root.mode), root: number });
        }
        combine(&mut marks);
        (roots, marks.into_boxed_slice())
    }

    /// The names of a newcomer's resources, if they have to be remembered.
    fn names(&self, wanted: &WantedClaims) -> Names {
        if !self.is_busy() {
            return Names::default();
        }
        let name = |root: &Root| (root.key, wanted.name(root.key).into());
        wanted.roots.iter().map(name).collect()
    }

    /// Turns a waiter that is neither blocked nor parked into a holder.
    fn hold(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        for mark in &request.marks {
            if request.is_eligible {
                self.nodes.hold(mark.key, mark.mode, request.rank);
            } else {
                self.nodes.insert(mark.key, Tag::Held(mark.mode), request.rank);
            }
        }
        for root in &request.roots {
            self.nodes.insert(root.key, Tag::RootHeld, request.rank);
            self.nodes.remove(root.key, Tag::RootWaiting, request.rank);
        }
        request.stage = Stage::Held;
        request.is_eligible = false;
        request.last_at_start = self.sessions.last();
        let sessions = &mut self.sessions;
        request.sessions().for_each(|session| sessions.leave(session, id));
        if let Some(session) = request.session {
            sessions.hold(session, id);
        }
        self.stats.waiting -= 1;
        self.stats.holding += 1;
    }

    /// Puts the marks and roots of a request at their nodes, with the tags of its stage.
    fn list(&mut self, request: &Request) {
        for root in &request.roots {
            self.nodes.insert(root.key, request.root_tag(), request.rank);
        }
        for mark in &request.marks {
            if let Some(tag) = request.mark_tag(mark.mode) {
                self.nodes.insert(mark.key, tag, request.rank);
            }
        }
    }
}

impl Request {
    /// The tag of its marks; an ineligible waiter leaves none.
    const fn mark_tag(&self, mode: MarkMode) -> Option<Tag> {
        match self.stage {
            Stage::Held => Some(Tag::Held(mode)),
            Stage::Aside(_) => None,
            _ if self.is_eligible => Some(Tag::Waiting(mode)),
            _ => None,
        }
    }

    const fn root_tag(&self) -> Tag {
        if matches!(self.stage, Stage::Held) { Tag::RootHeld } else { Tag::RootWaiting }
    }
}
