//! Another server for a request that could not reach its own.

use crate::engine::Engine;
use crate::prepare::{Filled, Step};
use crate::walk::ticket;
use crate::work::Work;
use paceline_checkpoints::{Arrival, Mode, Outlook};
use paceline_routing::{Choice, Seat};
use paceline_types::{BackendId, Known, RequestId, ServerId, Time};

/// So many servers are looked at for one request in one call, however many retries a backend has.
const TRIES_MAX: usize = 16;

impl Engine {
    /// A request that runs could not reach its server: it gets another one that is up, has room, lets
    /// it pass all its checkpoints at once, and was not tried before. None if there is none among the
    /// first few (as many as the backend's `retries`, and one); then it keeps what it has.
    pub fn reroute(&mut self, now: Time, id: RequestId) -> Option<ServerId> {
        self.begin(now);
        let mut work = self.requests.remove(&id)?;
        let server = if work.runs() { self.find_other(&mut work) } else { None };
        self.keep(work);
        self.run();
        server
    }

    fn find_other(&mut self, work: &mut Work) -> Option<ServerId> {
        let backend = work.draft.route?.chosen.backend?;
        let from = work.seat.as_ref()?.server();
        put_in(&mut work.tried, from);
        self.learn_names(work, backend, from);
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
            put_in(&mut except, server);
        }
        self.name_server(work, &old_name);
        None
    }

    /// An edit may have renamed its backend and its server while it ran.
    fn learn_names(&mut self, work: &mut Work, backend: BackendId, server: ServerId) {
        let snapshot = self.snapshot();
        if snapshot.routing.backend_by_id(backend).is_some() {
            let before = work.draft.request.attributes.bytes();
            work.draft.name_backend(&snapshot, Some(backend));
            self.bytes = self.bytes + work.draft.request.attributes.bytes() - before;
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
                Arrival::Passed(held) => self.hold(work, held),
                Arrival::Queued { .. } | Arrival::Refused(_) => {
                    debug_assert!(false, "who would pass at once passes");
                    self.checkpoints.leave(self.now, work.rank.id);
                }
            }
        }
    }
}

/// Puts a server where it belongs in a list that is in order, unless it is there.
fn put_in(servers: &mut Vec<ServerId>, server: ServerId) {
    if let Err(at) = servers.binary_search(&server) {
        servers.insert(at, server);
    }
}
