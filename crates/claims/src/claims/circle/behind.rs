//! The search for a circle from its other end.
//!
//! Looks for what waits for a request, what waits for that, and so on, until the request itself waits for one of them. So
//! a short circle is found however many holders and waiters the request waits for besides. Promises bounded work, as the
//! search forward does.

use super::{Claims, PLACE_COST, Request, SEARCH_MAX, Stage, WAITERS_MAX};
use crate::claims::nested::HOLDERS_MAX;
use crate::mark::Mark;
use crate::node::{Node, Tag};
use paceline_types::{Rank, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// What waits for a request; each once.
pub(super) struct Behind<'a> {
    claims: &'a Claims,
    first: &'a Request,
    /// For each that was found, what it waits for; itself, if the search began there.
    next: BTreeMap<RequestId, RequestId>,
    /// Requests for which it is still to be found what waits for them. Holders come first, as there are few of them.
    holders: VecDeque<&'a Request>,
    line: VecDeque<&'a Request>,
    /// One of those found that the first request waits for.
    met: Option<RequestId>,
    /// What is left to spend.
    pub work: usize,
}

impl<'a> Behind<'a> {
    pub fn new(claims: &'a Claims, first: &'a Request) -> Self {
        Self {
            claims,
            first,
            next: BTreeMap::new(),
            holders: VecDeque::new(),
            line: VecDeque::new(),
            met: None,
            work: SEARCH_MAX,
        }
    }

    /// Searches from `goals`, which wait for the first request or are the first request. Returns a way from what the first
    /// request waits for to one of the goals; nothing if there is none, or none was found.
    pub fn run(&mut self, goals: Vec<&'a Request>) -> Vec<RequestId> {
        self.next.extend(goals.iter().map(|goal| (goal.rank.id, goal.rank.id)));
        for goal in goals {
            self.expand(goal);
        }
        while let Some(request) = self.holders.pop_front().or_else(|| self.line.pop_front()) {
            if self.is_done() {
                break;
            }
            self.expand(request);
        }
        let mut path = vec![];
        let mut last = self.met;
        while let Some(id) = last {
            path.push(id);
            last = self.next.get(&id).copied().filter(|next| *next != id);
        }
        path
    }

    const fn is_done(&self) -> bool {
        self.work == 0 || self.met.is_some()
    }

    /// Finds what waits for a request.
    fn expand(&mut self, request: &'a Request) {
        let is_held = matches!(request.stage, Stage::Held);
        if !is_held {
            self.meet_holders(request);
        }
        if !is_held && !request.is_eligible {
            return;
        }
        let from = if is_held { None } else { Some(request.rank) };
        for mark in &request.marks {
            if self.is_done() {
                return;
            }
            self.spend(PLACE_COST);
            let Some(node) = self.claims.nodes.node(mark.key) else { continue };
            self.meet_waiters(mark, node, from, request);
        }
        if !is_held {
            return;
        }
        // Waiters that are not eligible have no marks at the nodes, but wait for holders too.
        for root in &request.roots {
            let node = self.claims.nodes.node(root.key);
            let waiters = node.into_iter().flat_map(|node| node.ranks(Tag::RootWaiting, None));
            self.meet_each(waiters, request);
        }
    }

    /// Finds the holders that a waiter is nested in.
    fn meet_holders(&mut self, waiter: &'a Request) {
        let claims = self.claims;
        for session in waiter.sessions() {
            for id in claims.sessions.holders(session).take(HOLDERS_MAX) {
                if self.is_done() {
                    return;
                }
                self.spend(PLACE_COST);
                let holder = claims.requests.get(&id);
                if let Some(holder) = holder.filter(|holder| waiter.is_nested_in(holder)) {
                    self.meet(holder, waiter);
                }
            }
        }
    }

    /// Finds the waiters that a mark is in the way of: all of them, or those behind a rank.
    fn meet_waiters(
        &mut self,
        mark: &Mark,
        node: &'a Node,
        from: Option<Rank>,
        request: &'a Request,
    ) {
        for mode in mark.mode.clashing().iter().filter(|mode| node.count(Tag::Waiting(**mode)) > 0)
        {
            self.meet_each(node.ranks(Tag::Waiting(*mode), from), request);
        }
    }

    fn meet_each(&mut self, waiters: impl Iterator<Item = Rank>, request: &'a Request) {
        for waiter in waiters {
            if self.is_done() {
                return;
            }
            self.spend(PLACE_COST);
            let waiter = self.claims.requests.get(&waiter.id);
            let waits = |waiter: &&Request| waiter.stage.is_waiting() && waiter.waits_for(request);
            if let Some(waiter) = waiter.filter(waits) {
                self.meet(waiter, request);
            }
        }
    }

    /// Notes a request that waits for `next`.
    fn meet(&mut self, request: &'a Request, next: &Request) {
        let id = request.rank.id;
        if id == self.first.rank.id || self.next.contains_key(&id) {
            return;
        }
        self.next.insert(id, next.rank.id);
        self.spend(self.first.marks.len().min(request.marks.len()));
        if self.first.waits_for(request) {
            self.met = Some(id);
        } else if matches!(request.stage, Stage::Held) {
            self.holders.push_back(request);
        } else {
            // What the waiter is nested in is the way round, and so is looked at first.
            self.meet_holders(request);
            if request.is_eligible && self.line.len() < WAITERS_MAX {
                self.line.push_back(request);
            }
        }
    }

    const fn spend(&mut self, work: usize) {
        self.work = self.work.saturating_sub(work);
    }
}
