//! Requests that name a resource which does not exist, and wait until it is created.
//!
//! Promises that such a request blocks no other request, and is listed under one missing name, so that a new
//! resource is looked up once and only the requests that wait for it are checked. Only the graph makes a
//! resource known here: nodes made for a request that asked for it do not count, because they exist only as
//! long as that request.

use super::{Claims, Event, Names, Request, Stage};
use crate::graph::Graph;
use crate::wanted::WantedClaims;
use paceline_types::{Claim, Rank, RequestId, SessionId};
use std::sync::Arc;

/// What a request claims by name, and why it is aside.
#[derive(Debug)]
pub(super) struct Aside {
    /// In their order.
    pub claims: Vec<Claim>,
    pub lack: Lack,
}

/// Why a request is aside.
#[derive(Debug)]
pub(super) enum Lack {
    /// No resource has this name; the request is listed under it.
    Missing(Box<str>),
    /// This resource has become too wide to be claimed.
    TooWide(Box<str>),
}

impl Aside {
    fn wanted(&self, graph: &Arc<Graph>) -> WantedClaims {
        let claims = self.claims.iter().map(|claim| (&*claim.resource, claim.mode));
        WantedClaims::new(graph, claims)
    }
}

impl Claims {
    /// Adds a request that waits until all its resources exist. Returns whether it is aside. If all exist by
    /// now it is an ordinary waiter, neither eligible nor tried yet.
    pub fn add_aside(
        &mut self,
        id: RequestId,
        rank: Rank,
        session: Option<SessionId>,
        mut wanted: WantedClaims,
    ) -> bool {
        self.refresh(&mut wanted);
        let Some((_, missing)) = wanted.unknown.first() else {
            self.add(id, rank, session, wanted);
            return false;
        };
        let missing = missing.resource.clone();
        let aside = Aside { claims: wanted.claims(), lack: Lack::Missing(missing.clone()) };
        let request = Request {
            rank,
            session,
            within: Box::default(),
            beside: Box::default(),
            sequence: self.sequence,
            stage: Stage::Aside(aside),
            is_eligible: false,
            last_at_start: self.sessions.last(),
            is_told_known: false,
            roots: vec![],
            marks: Box::default(),
            names: Names::default(),
        };
        self.watch(id, missing);
        self.requests.insert(id, request);
        true
    }

    /// Makes the missing resources of a request that is aside, without parents, for as long as they are
    /// claimed. Then it is an ordinary waiter, neither eligible nor tried yet, unless its other claims are too
    /// wide. Returns whether it waits.
    pub fn create(&mut self, id: RequestId) -> bool {
        let Some(Request { stage: Stage::Aside(aside), .. }) = self.requests.get(&id) else {
            return false;
        };
        let wanted = aside.wanted(&self.graph);
        let comes_back = self.look_with(id, wanted, self.sequence);
        if comes_back && let Some(request) = self.requests.get_mut(&id) {
            request.is_told_known = true;
        }
        comes_back
    }

    /// The first resource, in the order of its claims, that a request waits for aside.
    #[must_use]
    pub fn missing(&self, id: RequestId) -> Option<&str> {
        let Stage::Aside(aside) = &self.requests.get(&id)?.stage else { return None };
        let Lack::Missing(listed) = &aside.lack else { return None };
        // A resource before the name it is listed under may have been deleted since.
        let mut names = aside.claims.iter().map(|claim| &*claim.resource);
        names.find(|name| self.graph.find(name).is_none()).or(Some(listed))
    }

    /// The resource that has become too wide for a request to claim it.
    #[must_use]
    pub fn too_wide(&self, id: RequestId) -> Option<&str> {
        match &self.requests.get(&id)?.stage {
            Stage::Aside(Aside { lack: Lack::TooWide(resource), .. }) => Some(resource),
            _ => None,
        }
    }

    /// Checks a request again that is aside, after its missing name has appeared in `graph`.
    pub(super) fn look_again(&mut self, id: RequestId, graph: &Arc<Graph>, sequence: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Stage::Aside(aside) = &mut request.stage else { return };
        let Lack::Missing(listed) = &mut aside.lack else { return };
        let was = listed.clone();
        let wanted = aside.wanted(graph);
        match wanted.unknown.first() {
            Some((_, next)) => {
                let next = next.resource.clone();
                aside.lack = Lack::Missing(next.clone());
                self.unwatch(id, &was);
                self.watch(id, next);
            }
            None => {
                self.look_with(id, wanted, sequence);
                self.news.push_back(id);
            }
        }
    }

    /// Lets a request that was aside wait again, unless its claims are too wide. Returns whether it waits.
    fn look_with(&mut self, id: RequestId, wanted: WantedClaims, sequence: u64) -> bool {
        let Some(mut request) = self.requests.remove(&id) else { return false };
        let Stage::Aside(aside) = &mut request.stage else {
            self.requests.insert(id, request);
            return false;
        };
        if let Lack::Missing(listed) = &aside.lack {
            self.unwatch(id, listed);
        }
        if let Some(resource) = wanted.too_wide() {
            aside.lack = Lack::TooWide(resource.into());
            self.requests.insert(id, request);
            return false;
        }
        request.names = self.names(&wanted);
        (request.roots, request.marks) = self.make_unknown(wanted);
        request.stage = Stage::Free;
        request.sequence = sequence;
        self.list(&request);
        self.begin_wait(id, &request);
        self.stats.waiting += 1;
        self.requests.insert(id, request);
        true
    }

    /// Moves a waiter aside because of `aside.lack`.
    pub(super) fn step_aside(&mut self, id: RequestId, aside: Aside) {
        let Some(mut request) = self.requests.remove(&id) else { return };
        self.unpark(&request);
        self.unlist_now(&request);
        self.end_wait(&request);
        self.stats.waiting -= 1;
        request.roots = vec![];
        request.marks = Box::default();
        if let Lack::Missing(missing) = &aside.lack {
            self.watch(id, missing.clone());
        }
        request.stage = Stage::Aside(aside);
        self.requests.insert(id, request);
        self.news.push_back(id);
    }

    /// The next event to report about a request that went aside, returned, or both.
    pub(super) fn tell(&mut self, id: RequestId) -> Option<Event> {
        let request = self.requests.get_mut(&id)?;
        let is_known = !matches!(request.stage, Stage::Aside(_));
        if let Stage::Aside(Aside { lack: Lack::TooWide(_), .. }) = request.stage {
            (request.is_told_known, request.is_eligible) = (false, false);
            return Some(Event::TooWide(id));
        }
        if request.is_told_known == is_known {
            // It went aside and returned before that was reported. It is not parked any more.
            if matches!(request.stage, Stage::Free) {
                request.stage = Stage::Ready;
                self.ready.push_back(id);
            }
            return None;
        }
        request.is_told_known = is_known;
        if is_known {
            return Some(Event::Known(id));
        }
        request.is_eligible = false;
        Some(Event::Unknown(id))
    }

    fn watch(&mut self, id: RequestId, missing: Box<str>) {
        self.asides.entry(missing).or_default().insert(id);
        self.stats.aside += 1;
    }

    pub(super) fn unwatch(&mut self, id: RequestId, missing: &str) {
        let Some(watchers) = self.asides.get_mut(missing) else { return };
        watchers.remove(&id);
        self.stats.aside -= 1;
        if watchers.is_empty() {
            self.asides.remove(missing);
        }
    }
}
