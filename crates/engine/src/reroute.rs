//! Another server for a request that could not reach its own.

use crate::engine::Engine;
use crate::prepare::{Filled, Step};
use crate::walk::ticket;
use crate::work::{Stage, Work};
use paceline_checkpoints::{Arrival, Mode, Outlook};
use paceline_routing::{Choice, Seat, Site, SiteId};
use paceline_types::{BackendId, Known, RequestId, ServerId, Time};

/// The most servers that are tried for one request in one call, however many retries a backend has.
const TRIES_MAX: usize = 16;

/// The outcome for a request that could not reach its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rerouted {
    /// It continues with this server.
    Server(ServerId),
    /// It no longer runs and waits for a server. Its outcome is an effect, as for any waiter, possibly of this
    /// very call.
    Back,
    /// There is no other server: it keeps the one it has.
    Nowhere,
}

impl Engine {
    /// Called when a running request could not reach its server. It gets another server that is up, has room,
    /// lets it pass all its checkpoints at once, and was not tried before. If there is none among the first few
    /// (as many as the backend's `retries`, plus one), but one that is up and was not tried, it returns to
    /// waiting for a server. If there is none at all it keeps what it has.
    pub fn reroute(&mut self, now: Time, id: RequestId) -> Rerouted {
        self.begin(now);
        let Some(mut work) = self.requests.take(id) else { return Rerouted::Nowhere };
        let server = if work.runs() { self.find_other(&mut work) } else { None };
        let rerouted = match server {
            Some(server) => Rerouted::Server(server),
            None if work.runs() && self.has_untried(&work) => Rerouted::Back,
            None => Rerouted::Nowhere,
        };
        match rerouted {
            Rerouted::Back => self.go_back(work),
            Rerouted::Server(_) | Rerouted::Nowhere => self.requests.put(work),
        }
        self.run();
        rerouted
    }

    /// Whether its backend has a usable server that it was not given before.
    fn has_untried(&self, work: &Work) -> bool {
        let backend = work.draft.destination.and_then(|destination| destination.chosen.backend);
        backend.is_some_and(|backend| self.fleet.has_usable_but(backend, &work.tried))
    }

    /// Stops a running request: it releases its slot, its claims and its server, and continues from the end of
    /// its backend's list, with its rank and what it passed.
    fn go_back(&mut self, mut work: Box<Work>) {
        let id = work.rank.id;
        let Stage::Running { since } = work.stage else { return self.requests.put(work) };
        self.totals.go_back();
        self.requests.leave_slot(work.pool, id);
        self.pools.release(work.pool, self.now.since(since));
        if work.claims() {
            work.draft.rest_from(&self.claims, id);
            self.remove_claims(id);
        }
        work.stage = Stage::Moving;
        self.lose_server(&mut work);
        self.refresh(&mut work);
        let snapshot = self.snapshot();
        work.draft.plan_steps(&snapshot, work.priority, work.pool);
        work.looked_at = snapshot.generation;
        let outcome = self.walk(work, None);
        self.tell(id, outcome);
    }

    fn find_other(&mut self, work: &mut Work) -> Option<ServerId> {
        let backend = work.draft.destination?.chosen.backend?;
        let Site { id, server, .. } = **work.seat.as_ref()?.site();
        put_in(&mut work.tried, id);
        self.learn_names(work, backend, server);
        let mut except = work.tried.clone();
        let retries = self.snapshot.routing.backend_by_id(backend).map_or(0, |one| one.retries);
        let tries = (retries as usize).saturating_add(1).min(TRIES_MAX);
        let old_name: Box<str> = work.draft.request.attributes.known(Known::Server).into();
        for _ in 0..tries {
            let Choice::Server(server) = self.fleet.choose(backend, &except) else { break };
            let snapshot = self.snapshot();
            self.name_server(work, snapshot.routing.server_name(server).unwrap_or_default());
            if let Some(steps) = self.would_pass(work) {
                self.change_seat(work, backend, server, &steps);
                return Some(server);
            }
            put_in(&mut except, self.fleet.site(server)?.id);
        }
        self.name_server(work, &old_name);
        None
    }

    /// Updates the names of its backend and its server, which an edit may have changed while it ran.
    fn learn_names(&mut self, work: &mut Work, backend: BackendId, server: ServerId) {
        let snapshot = self.snapshot();
        if snapshot.routing.backend_by_id(backend).is_some() {
            self.requests
                .edit(&mut work.draft, |draft| draft.name_backend(&snapshot, Some(backend)));
        }
        if let Some(name) = snapshot.routing.server_name(server) {
            self.name_server(work, name);
        }
    }

    /// The checkpoints of the server it names, if each of them would let it pass at once.
    fn would_pass(&mut self, work: &Work) -> Option<Vec<(Step, Filled)>> {
        let snapshot = self.snapshot();
        let mut passed = vec![];
        for step in work.draft.server_steps(&snapshot, work.priority) {
            let (_, _, id) = step.position;
            let Some(filled) = self.filled(work, step) else { continue };
            let enforces = snapshot.checkpoints.checkpoint(id)?.spec.mode == Mode::Enforce;
            let outlook = self.checkpoints.preview(self.now, id, &ticket(work, filled, None));
            if enforces && outlook != Outlook::Pass {
                return None;
            }
            passed.push((step, filled));
        }
        Some(passed)
    }

    fn change_seat(
        &mut self,
        work: &mut Work,
        backend: BackendId,
        server: ServerId,
        steps: &[(Step, Filled)],
    ) {
        self.give_back_server_list(work);
        let old: Option<Seat> = work.seat.take();
        if let Some(seat) = old {
            self.fleet.give_back(seat);
        }
        self.sit(work, backend, server);
        for (step, filled) in steps {
            let (_, _, id) = step.position;
            match self.checkpoints.arrive(self.now, id, &ticket(work, *filled, None)) {
                Arrival::Passed(held) => self.requests.hold(work, held),
                Arrival::Queued { .. } | Arrival::Refused(_) => {
                    debug_assert!(false, "who would pass at once passes");
                    self.checkpoints.leave(self.now, work.rank.id);
                }
            }
        }
    }
}

/// Inserts a site into a sorted list, unless it is there.
fn put_in(sites: &mut Vec<SiteId>, site: SiteId) {
    if let Err(at) = sites.binary_search(&site) {
        sites.insert(at, site);
    }
}
