//! Requests that wait for each other: which wait for which, and which are refused for it.

use super::{Model, Reason, Stage};
use std::collections::{BTreeMap, BTreeSet};

impl Model {
    /// Whether a request that is about to wait would wait for a holder that it is nested in.
    pub(super) fn would_deadlock(&self, id: u64) -> bool {
        let nested_in = |other: &u64| self.is_nested_in(id, *other);
        let first = self.in_the_way(id);
        let mut edges = BTreeMap::new();
        first.iter().any(nested_in)
            || first.iter().any(|other| self.reached(*other, &mut edges).iter().any(nested_in))
    }

    /// Refuses the last nested waiter of every tangle, all at once, and repeats until there is none.
    pub(super) fn break_circles(&mut self) {
        if self.astray || self.editing {
            return;
        }
        let last = self.last_of_tangles();
        if !last.is_empty() {
            self.refuse_all(last.into_iter().collect(), &Reason::Deadlock);
        }
    }

    fn last_of_tangles(&self) -> BTreeSet<u64> {
        let is_nested = |id: &u64| self.requests.keys().any(|other| self.is_nested_in(*id, *other));
        let nested: Vec<u64> = self.line().into_iter().filter(is_nested).collect();
        let mut edges = BTreeMap::new();
        let reached: BTreeMap<u64, BTreeSet<u64>> =
            nested.iter().map(|id| (*id, self.reached(*id, &mut edges))).collect();
        let last = |id: &u64| {
            let both = |other: &&u64| reached[id].contains(other) && reached[other].contains(id);
            nested.iter().filter(both).max().copied()
        };
        nested.iter().filter_map(last).collect()
    }

    /// All requests that a request waits for, directly or through others.
    fn reached(&self, id: u64, edges: &mut BTreeMap<u64, Vec<u64>>) -> BTreeSet<u64> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![id]);
        while let Some(one) = todo.pop() {
            let next = edges.entry(one).or_insert_with(|| self.waits_for(one));
            todo.extend(next.iter().copied().filter(|other| reached.insert(*other)));
        }
        reached
    }

    fn waits_for(&self, id: u64) -> Vec<u64> {
        match self.stage(id) {
            Some(Stage::Running) => {
                self.line().into_iter().filter(|other| self.is_nested_in(*other, id)).collect()
            }
            Some(_) => self.in_the_way(id),
            None => vec![],
        }
    }

    /// Whether a request arrived after another of its sessions had started, which holds something.
    fn is_nested_in(&self, id: u64, holder: u64) -> bool {
        let request = &self.requests[&holder];
        let holds = request.stage == Stage::Running && !request.claims.is_empty();
        let mut sessions = self.requests[&id].arrival.sessions();
        holds && request.last_at_start < id && sessions.any(|s| Some(s) == request.arrival.session)
    }
}
