//! Nothing waits in a circle (C2): when nothing is left to do, no request waits, through the requests that
//! `why` names ahead of it, for a session that holds claims and waits for that very request.
//!
//! Keeps its own records: the sessions of each request, and which requests arrived after it had started.

use super::Invariant;
use crate::history::Step;
use crate::model::{Effect, Outcome, Spot};
use crate::seen::{Answer, Seen};
use std::collections::{BTreeMap, BTreeSet};

struct Request {
    session: Option<u64>,
    /// Its session, and those that it runs within.
    sessions: Vec<u64>,
    claims: bool,
    /// The last request that had arrived when it started.
    last_at_start: Option<u64>,
}

/// Remembers the sessions of all requests that are alive.
#[derive(Default)]
pub struct Circles {
    requests: BTreeMap<u64, Request>,
    last: u64,
}

impl Invariant for Circles {
    fn name(&self) -> &'static str {
        "nothing waits in a circle"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (Step::Submit(arrival), Answer::Submitted(id, outcome)) = (&*seen.step, &seen.answer)
        {
            self.last = *id;
            let starts = *outcome == Outcome::Started;
            let request = Request {
                session: arrival.session,
                sessions: arrival.sessions().collect(),
                claims: !arrival.claims.is_empty(),
                last_at_start: starts.then_some(*id),
            };
            self.requests.insert(*id, request);
        }
        for effect in &seen.effects {
            if let Effect::Start(id) = effect
                && let Some(request) = self.requests.get_mut(id)
            {
                request.last_at_start = Some(self.last);
            }
        }
        self.requests.retain(|id, _| seen.alive.contains_key(id));
        // A circle can close only through a session.
        let waits = |id: &u64| seen.alive.get(id).is_some_and(|sight| sight.spot == Spot::Claims);
        let nested = self.requests.keys().filter(|id| waits(id));
        let nested = nested.filter(|id| self.requests.keys().any(|h| self.is_nested_in(**id, *h)));
        for id in nested {
            if self.reaches_itself(*id, seen) {
                return Err(format!("request {id} waits for itself"));
            }
        }
        Ok(())
    }
}

impl Circles {
    fn is_nested_in(&self, id: u64, holder: u64) -> bool {
        let (request, holder) = (&self.requests[&id], &self.requests[&holder]);
        holder.claims
            && holder.last_at_start.is_some_and(|last| last < id)
            && holder.session.is_some_and(|session| request.sessions.contains(&session))
    }

    fn reaches_itself(&self, id: u64, seen: &Seen) -> bool {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![id]);
        while let Some(one) = todo.pop() {
            let next: Vec<u64> = match seen.alive.get(&one).map(|sight| &sight.spot) {
                Some(Spot::Claims) => seen.alive[&one].ahead.clone(),
                Some(Spot::Running) => {
                    let waits = |id: &&u64| {
                        seen.alive.get(id).is_some_and(|sight| sight.spot == Spot::Claims)
                    };
                    let inner = self.requests.keys().filter(waits);
                    inner.filter(|id| self.is_nested_in(**id, one)).copied().collect()
                }
                _ => vec![],
            };
            todo.extend(next.into_iter().filter(|other| reached.insert(*other)));
        }
        reached.contains(&id)
    }
}
