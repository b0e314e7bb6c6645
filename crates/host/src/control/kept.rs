//! Requests that outlive the daemon once they run.
//!
//! Owns the terms of each such request. When the engine starts one, and when a running one ends, its key is noted in
//! the ledger under the engine's lock. So the ledger has grants and releases in the engine's own order, and the row of
//! a permit is written from what the engine holds.

use super::{Admission, Control, EngineState, Permit};
use crate::kept::{Cause, KeptPermit, Key, PlaceHash};
use paceline_claims::{Graph, Holding};
use paceline_engine::{RequestError, Snapshot, prepare_held};
use paceline_types::{Priority, Request, RequestId, SessionId, Span, Time, Unknown};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The terms under which a permit is held.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The name that the client chose, or empty.
    pub name: String,
    /// The user who asked.
    pub user: String,
    /// The name of its session, or empty.
    pub session: String,
    /// Its own lease, if it has no session.
    pub lease: Option<Span>,
    /// Whether its lease, or that of its session, is too long to be waited for after a crash of the machine.
    pub is_long: bool,
    /// The digest of the body, in hexadecimal digits, if the client chose the name; or empty.
    pub digest: String,
    /// Identifies the request if it waits and its client asks again after an orderly shutdown of the daemon.
    pub place: Option<PlaceHash>,
}

/// A permit that is held, as its row needs it.
pub(crate) struct HeldPermit<'a> {
    pub(crate) id: RequestId,
    pub(crate) terms: &'a Terms,
    pub(crate) request: &'a Request,
    /// How claims on resources that do not exist were to be treated.
    pub(crate) unknown: Unknown,
    pub(crate) priority: i8,
    /// When it was granted: microseconds since 1970.
    pub(crate) granted_us: i64,
    pub(crate) waited: Span,
    /// The pool and the checkpoints that count it; `None` for the default pool.
    pub(crate) pool: Option<&'a str>,
    pub(crate) checkpoints: Vec<&'a str>,
}

/// A request that outlives the daemon once it runs.
pub(super) struct KeptRequest {
    terms: Terms,
    /// How claims on resources that do not exist are to be treated, which is settled once it runs.
    unknown: Unknown,
    /// When it was granted, in microseconds since 1970, and how long it had waited; `None` while it waits.
    pub(super) granted: Option<(i64, Span)>,
}

impl KeptRequest {
    pub(super) const fn new(terms: Terms, unknown: Unknown) -> Self {
        Self { terms, unknown, granted: None }
    }
}

impl Terms {
    /// The name of the permit of a request. Numbers of requests are never reused.
    #[must_use]
    pub fn name_of(&self, id: RequestId) -> String {
        if self.name.is_empty() { format!("p-{}", id.0) } else { self.name.clone() }
    }
}

impl Control {
    /// Admits a request whose permit outlives the daemon.
    ///
    /// # Errors
    ///
    /// When the request is invalid: a number or a name is out of bounds.
    pub fn admit_kept(
        self: &Arc<Self>,
        request: Request,
        terms: Terms,
    ) -> Result<Admission, RequestError> {
        self.admit_as(request, super::Way::Kept(terms))
    }

    /// Restores a permit of an earlier run with what it held, in the session of this number if it has one. Must
    /// be called before any request is admitted.
    pub fn restore_kept(
        self: &Arc<Self>,
        kept: &KeptPermit,
        session: Option<SessionId>,
        claims: Vec<paceline_types::Claim>,
    ) -> Permit {
        let mut request = kept.request.clone();
        (request.session, request.claims, request.unknown) = (session, claims, Unknown::Create);
        let logs = self.logs_values(&request);
        let prepared = prepare_held(&self.snapshot(), request);
        let priority = Priority::new(kept.priority.into()).unwrap_or(Priority::START);
        let mut state = self.state();
        let now = self.clock.now();
        let grant = state.engine.restore(now, kept.number, prepared, priority, &kept.places);
        let terms = Terms {
            name: kept.name.clone(),
            user: kept.user.clone(),
            session: kept.session.clone(),
            lease: kept.lease,
            is_long: kept.is_long,
            digest: kept.digest.clone(),
            place: None,
        };
        let granted = Some((kept.granted_us, kept.waited));
        let unknown = kept.request.unknown;
        state.kept.insert(kept.number, KeptRequest { terms, unknown, granted });
        self.finish(state);
        Permit::new(self, kept.number, logs, grant)
    }

    /// When a request was granted, in microseconds since 1970: the kept time, or computed from the clocks now.
    pub(crate) fn granted_us(&self, id: RequestId, since: Time) -> i64 {
        let kept = self.state().kept.get(&id).and_then(|kept| kept.granted);
        kept.map_or_else(|| self.us_of(since), |(us, _)| us)
    }

    /// The name of the pool that counts a running request, even if the pool is deleted; `None` for the default
    /// pool.
    pub(crate) fn slot_name(&self, id: RequestId) -> Option<Box<str>> {
        self.state().engine.slot_of(id).map(Into::into)
    }

    fn us_of(&self, since: Time) -> i64 {
        let ago = self.clock.now().since(since);
        self.clock.wall_us().saturating_sub(i64::try_from(ago.0 / 1_000).unwrap_or(0))
    }

    /// What `read` makes of permits as they are held now, with the graph in use and what each claims in it;
    /// `None` for a permit that is not held.
    pub(super) fn kept<T>(
        &self,
        ids: &[RequestId],
        read: impl Fn(&Arc<Graph>, &HeldPermit<'_>, Holding) -> T,
    ) -> Vec<(RequestId, Option<T>)> {
        let state = self.state();
        let claims = state.engine.claims();
        let read = |id: RequestId| {
            let holding = claims.holding(id).unwrap_or_default();
            Some(read(claims.graph(), &state.held_permit(id)?, holding))
        };
        ids.iter().map(|id| (*id, read(*id))).collect()
    }

    /// All permits that are kept, if `is_quiet` holds while nothing can change.
    #[cfg(debug_assertions)]
    pub(crate) fn all_kept(
        &self,
        is_quiet: impl Fn() -> bool,
    ) -> Option<std::collections::BTreeSet<u64>> {
        let state = self.state();
        let held = state.kept.iter().filter(|(_, kept)| kept.granted.is_some());
        is_quiet().then(|| held.map(|(id, _)| id.0).collect())
    }

    /// Notes that a request was granted, if it outlives the daemon.
    pub(super) fn note_granted(&self, state: &mut EngineState, id: RequestId) {
        let Some(kept) = state.kept.get_mut(&id) else { return };
        if let Some(grant) = state.engine.grant(id) {
            let us = self.us_of(grant.since);
            kept.granted = Some((us, grant.waited()));
            self.ledger.note(Key::Permit(id), Cause::Granted);
        }
    }

    /// Notes the permits whose rows name a checkpoint that an edit renamed. The record of the edit itself
    /// updated the rows that existed then; this updates rows that were written since.
    pub(super) fn note_renamed(&self, state: &EngineState, old: &Snapshot, new: &Snapshot) {
        let names: BTreeSet<&str> = old.renamed_checkpoints(new).map(|(_, name)| name).collect();
        if names.is_empty() {
            return;
        }
        let is_counted =
            |id: RequestId| state.engine.counted_by(id).any(|name| names.contains(name));
        let held = state.kept.iter().filter(|(_, kept)| kept.granted.is_some());
        for (id, _) in held.filter(|(id, _)| is_counted(**id)) {
            self.ledger.note(Key::Permit(*id), Cause::Changed);
        }
    }

    /// Notes that a request has ended. Returns whether it ran and outlives the daemon, so that its end must be
    /// written.
    pub(super) fn note_ended(&self, state: &mut EngineState, id: RequestId, cause: Cause) -> bool {
        let kept = state.kept.remove(&id);
        let had_row = kept.is_some_and(|kept| kept.granted.is_some());
        if had_row {
            self.ledger.note(Key::Permit(id), cause);
        }
        had_row
    }
}

impl EngineState {
    fn held_permit(&self, id: RequestId) -> Option<HeldPermit<'_>> {
        let KeptRequest { terms, unknown, granted } = self.kept.get(&id)?;
        let (granted_us, waited) = (*granted)?;
        let (request, priority) = (self.engine.request(id)?, self.engine.grant(id)?.priority);
        let (unknown, priority) = (*unknown, priority.number());
        let mut checkpoints: Vec<&str> = self.engine.counted_by(id).collect();
        checkpoints.sort_unstable();
        // A renamed checkpoint may have the name of a deleted one that counts the request as well.
        checkpoints.dedup();
        let pool = self.engine.slot_of(id);
        Some(HeldPermit {
            id,
            terms,
            request,
            unknown,
            priority,
            granted_us,
            waited,
            pool,
            checkpoints,
        })
    }
}
