//! Requests that name a resource which does not exist, and wait until somebody makes it.
//!
//! Promises that such a request is in nobody's way, and is listed under one missing name, so that a new
//! resource is looked up once and only those are looked at who wait for it. Only the graph makes a
//! resource known here: nodes made for a request that asked for it do not count, because they come and
//! go with that request.

use super::{Claims, Event, Request, Stage};
use crate::graph::Graph;
use crate::wanted::Wanted;
use paceline_types::{Claim, Rank, RequestId, SessionId};
use std::sync::Arc;

impl Claims {
    /// Adds a request that waits until all its resources exist; whether it stands aside. If they
    /// all do by now it is an ordinary waiter, neither eligible nor tried yet.
    pub fn add_aside(
        &mut self,
        id: RequestId,
        rank: Rank,
        session: Option<SessionId>,
        mut wanted: Wanted,
    ) -> bool {
        self.refresh(&mut wanted);
        let Some(missing) = wanted.unknown.first() else {
            self.add(id, rank, session, wanted);
            return false;
        };
        let missing = missing.resource.clone();
        let claim = |(name, mode): (&str, _)| Claim { resource: name.into(), mode };
        let claims = wanted.claims().map(claim).collect();
        let request = Request {
            rank,
            session,
            sequence: self.sequence,
            stage: Stage::Aside(claims, missing.clone()),
            is_eligible: false,
            is_told_known: false,
            roots: vec![],
            marks: Box::default(),
        };
        self.watch(id, missing);
        self.requests.insert(id, request);
        true
    }

    /// Makes the missing resources of a request that stands aside, without parents, for as long as
    /// they are claimed. It is an ordinary waiter then, neither eligible nor tried yet. Whether there
    /// was such a request.
    pub fn create(&mut self, id: RequestId) -> bool {
        let Some(Request { stage: Stage::Aside(claims, missing), .. }) = self.requests.get(&id)
        else {
            return false;
        };
        let missing = missing.clone();
        let claims = claims.iter().map(|claim| (&*claim.resource, claim.mode));
        let wanted = Wanted::new(&self.graph, claims);
        self.unwatch(id, &missing);
        self.come_back(id, wanted, self.sequence);
        if let Some(request) = self.requests.get_mut(&id) {
            request.is_told_known = true;
        }
        true
    }

    /// A name that a request which stands aside waits for.
    #[must_use]
    pub fn missing(&self, id: RequestId) -> Option<&str> {
        match &self.requests.get(&id)?.stage {
            Stage::Aside(_, missing) => Some(missing),
            _ => None,
        }
    }

    /// Looks again at a request that stands aside, after its missing name has appeared in `graph`.
    pub(super) fn look_again(&mut self, id: RequestId, graph: &Arc<Graph>, sequence: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Stage::Aside(claims, missing) = &mut request.stage else { return };
        let claims = claims.iter().map(|claim| (&*claim.resource, claim.mode));
        let wanted = Wanted::new(graph, claims);
        let was = missing.clone();
        match wanted.unknown.first() {
            Some(next) => {
                let next = next.resource.clone();
                missing.clone_from(&next);
                self.unwatch(id, &was);
                self.watch(id, next);
            }
            None => {
                self.unwatch(id, &was);
                self.come_back(id, wanted, sequence);
                self.news.push_back(id);
            }
        }
    }

    /// A waiter whose resource is gone steps aside.
    pub(super) fn step_aside(&mut self, id: RequestId, claims: Vec<Claim>, missing: Box<str>) {
        let Some(mut request) = self.requests.remove(&id) else { return };
        self.unpark(&request);
        self.unlist_now(&request);
        self.stats.waiting -= 1;
        request.roots = vec![];
        request.marks = Box::default();
        request.stage = Stage::Aside(claims, missing.clone());
        self.requests.insert(id, request);
        self.watch(id, missing);
        self.news.push_back(id);
    }

    /// The next thing to tell about a request that went aside or came back, or both.
    pub(super) fn tell(&mut self, id: RequestId) -> Option<Event> {
        let request = self.requests.get_mut(&id)?;
        let is_known = !matches!(request.stage, Stage::Aside(..));
        if request.is_told_known == is_known {
            // It was away and is back before anybody heard of it. It is not parked any more.
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

    /// A request that stood aside waits again.
    fn come_back(&mut self, id: RequestId, wanted: Wanted, sequence: u64) {
        let (roots, marks) = self.make_unknown(wanted);
        let Some(mut request) = self.requests.remove(&id) else { return };
        (request.roots, request.marks) = (roots, marks);
        request.stage = Stage::Free;
        request.sequence = sequence;
        self.list(&request);
        self.stats.waiting += 1;
        self.requests.insert(id, request);
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
