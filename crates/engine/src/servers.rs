//! Backends and servers: the destination of requests whose frontend is configured.
//!
//! The backend is chosen when the request arrives, the server when it has passed the backend's list. Promises
//! that no server has more requests than its maximum, that a place at a server is released exactly once, and
//! that no request waits for servers that are all down.

use crate::effect::Outcome;
use crate::engine::Engine;
use crate::gate;
use crate::input::Live;
use crate::outstanding::{Chore, Return};
use crate::prepare::{Destination, Draft, Filled, List, position};
use crate::snapshot::Snapshot;
use crate::walk::ticket;
use crate::work::{Stage, Work};
use paceline_checkpoints::{Arrival, HeldCount, Kept, KeyHash};
use paceline_routing::{Choice, Seat, Server};
use paceline_types::{
    Attributes, BackendId, CheckpointId, Known, Priority, Rank, Reason, Refusal, RequestId,
    ServerId, Time,
};
use std::sync::Arc;

/// After all checkpoints of a backend's list.
const BEHIND_BACKEND: (List, u32, CheckpointId) = (List::Backend, u32::MAX, CheckpointId(u32::MAX));

impl Engine {
    /// Sets whether a server is up. When it goes down, requests that wait at its checkpoints move to another
    /// server.
    pub fn set_up(&mut self, now: Time, server: ServerId, up: bool) {
        self.begin(now);
        if self.fleet.set_up(server, up) {
            self.set_limits();
            if !up {
                self.leave_servers(&[server]);
            }
        }
        self.run();
    }

    /// The values that a frontend logs with each request, by name; a value that fails is `None`.
    #[must_use]
    pub fn values(
        &self,
        frontend: &str,
        attributes: &Attributes,
        priority: Priority,
    ) -> Vec<(Box<str>, Option<String>)> {
        let live = Live { attributes, priority, engine: self, counted: &[] };
        self.snapshot.switch.values(frontend, &live)
    }

    /// Evaluates the lines of the frontend that read counters. Refuses a request that has no backend.
    pub(crate) fn choose_backend(&mut self, draft: &mut Draft) -> Result<(), Refusal> {
        if draft.destination.is_none() {
            return Ok(());
        }
        let errors = self.would_choose_backend(draft, &[])?;
        self.totals.fail_expressions(errors);
        Ok(())
    }

    /// The same without counting anything. `counted` are counters that would have counted it by now. Returns
    /// how many lines failed.
    pub(crate) fn would_choose_backend(
        &self,
        draft: &mut Draft,
        counted: &[(CheckpointId, KeyHash)],
    ) -> Result<u32, Refusal> {
        let Some(Destination { mut chosen, .. }) = draft.destination else { return Ok(0) };
        if chosen.open > 0 {
            let attributes = &draft.request.attributes;
            let live = Live { attributes, priority: Priority::START, engine: self, counted };
            let frontend = attributes.known(Known::Frontend);
            chosen = self.snapshot.switch.end(frontend, chosen, &live);
            draft.turn_to(&self.snapshot, chosen);
        }
        if chosen.backend.is_some() {
            return Ok(chosen.errors);
        }
        let frontend = draft.request.attributes.known(Known::Frontend).into();
        Err(Refusal::lasting(Reason::NoBackend { frontend }))
    }

    /// The refusal of a request if all servers of its backend are down.
    pub(crate) fn no_server(&self, work: &Work) -> Option<Refusal> {
        let backend = work.draft.destination.and_then(|destination| destination.chosen.backend)?;
        (!self.fleet.is_usable(backend)).then(|| self.without_server(work, backend))
    }

    /// The refusal because no server of its backend is up, or because an edit deleted the backend.
    fn without_server(&self, work: &Work, id: BackendId) -> Refusal {
        let backend = work.draft.request.attributes.known(Known::Backend).into();
        let is_there = self.snapshot.routing.backend_by_id(id).is_some();
        Refusal::lasting(match is_there {
            true => Reason::NoServer { backend },
            false => Reason::BackendDeleted { backend },
        })
    }

    /// Gives a server to a request that passed its backend's list. Otherwise the request waits for one or is
    /// refused.
    pub(crate) fn find_server(
        &mut self,
        mut work: Box<Work>,
        backend: BackendId,
    ) -> Result<Box<Work>, Outcome> {
        // A request that passed the gate finds room, perhaps at a server that it tried before.
        let choice = match self.fleet.choose(backend, &work.tried) {
            Choice::Full if !work.tried.is_empty() => self.fleet.choose(backend, &[]),
            choice => choice,
        };
        match choice {
            Choice::Server(server) => {
                self.sit(&mut work, backend, server);
                work.draft.plan_server(&self.snapshot, work.priority);
                Ok(work)
            }
            Choice::Full => Err(self.wait_at_gate(work, backend)),
            Choice::None => {
                let refusal = self.without_server(&work, backend);
                Err(self.refuse(work, refusal))
            }
        }
    }

    /// Assigns this server to a request.
    pub(crate) fn sit(&mut self, work: &mut Work, backend: BackendId, server: ServerId) {
        let counted = self.gate_count(work, backend).is_some();
        work.seat = self.fleet.take(backend, server, counted);
        debug_assert!(work.seat.is_some(), "only a server that is there is chosen");
        self.set_limits();
        let snapshot = self.snapshot();
        self.name_server(work, snapshot.routing.server_name(server).unwrap_or_default());
    }

    /// Sets its attribute `server`.
    pub(crate) fn name_server(&mut self, work: &mut Work, name: &str) {
        self.requests.edit(&mut work.draft, |draft| {
            draft.request.attributes.put(Known::Server, name);
        });
    }

    /// The index in `held` of the count of its backend's gate, if that still counts.
    fn gate_count(&self, work: &Work, backend: BackendId) -> Option<usize> {
        let gate = gate::id(backend);
        let counts = |held: &HeldCount| held.checkpoint() == gate && self.checkpoints.counts(held);
        work.held.iter().position(counts)
    }

    /// Called when the room that it passed the gate for is gone: it waits there again, keeping its rank.
    fn wait_at_gate(&mut self, mut work: Box<Work>, backend: BackendId) -> Outcome {
        let count = self.gate_count(&work, backend);
        if let Some(at) = count {
            let held = work.held.remove(at);
            self.requests.drop_count(work.rank.id, &held);
            self.checkpoints.refund(self.now, held);
        }
        let snapshot = self.snapshot();
        let Some(checkpoint) = snapshot.checkpoints.checkpoint(gate::id(backend)) else {
            debug_assert!(false, "only a backend with a gate is full");
            let refusal = self.without_server(&work, backend);
            return self.refuse(work, refusal);
        };
        // Only the time it slept here counts towards the longest wait of the queue, not the time at the
        // checkpoints of the server that it lost.
        let slept = work.slept_at(gate::id(backend));
        let entered = Time(self.now.0.saturating_sub(slept.0));
        let last = entered.plus(checkpoint.spec.queue.delay_max).max(self.now);
        let deadline = work.deadline.map_or(last, |own| own.min(last));
        let kept = Kept { entered, deadline, metered: count.is_some() };
        let filled = Filled { applies: true, weight: 1, ..Filled::default() };
        work.position = Some(position(checkpoint));
        let ticket = ticket(&work, filled, Some(kept));
        match self.checkpoints.arrive(self.now, gate::id(backend), &ticket) {
            Arrival::Queued { .. } => {
                self.requests.sleep(self.now, work, gate::id(backend));
                Outcome::Waiting
            }
            Arrival::Passed(held) => {
                debug_assert!(false, "nobody passes the gate of servers that are full");
                self.requests.hold(&mut work, held);
                let refusal = self.without_server(&work, backend);
                self.refuse(work, refusal)
            }
            Arrival::Refused(turned) => {
                let refusal = self.turned_away(&work, gate::id(backend), turned);
                self.refuse(work, refusal)
            }
        }
    }

    /// Takes the server from a request if the server went down while the request was at that server's
    /// checkpoints, or if an edit deleted the server or moved it to another address. The request releases what
    /// it holds there.
    pub(crate) fn leave_lost_server(&mut self, work: &mut Work) {
        let Some(site) = work.seat.as_ref().map(Seat::site) else { return };
        let is_there = work.position.is_none_or(|(list, _, _)| list <= List::Server);
        let keeps = if is_there { self.fleet.is_up(site) } else { self.fleet.has(site) };
        if !keeps {
            self.lose_server(work);
        }
    }

    /// Takes its server from a request, which returns to the end of its backend's list.
    pub(crate) fn lose_server(&mut self, work: &mut Work) {
        self.give_back_server_list(work);
        if let Some(seat) = work.seat.take() {
            self.leave_seat(seat);
        }
        self.requests.edit(&mut work.draft, Draft::leave_server);
        work.position = Some(BEHIND_BACKEND);
    }

    /// Refunds what it holds at checkpoints of its server, as if it had never been there.
    pub(crate) fn give_back_server_list(&mut self, work: &mut Work) {
        let snapshot = Arc::clone(&self.snapshot);
        let is_of_server = |held: &mut HeldCount| {
            let checkpoint = snapshot.checkpoints.checkpoint(held.checkpoint());
            checkpoint.is_some_and(|checkpoint| List::of(&checkpoint.spec.at) == List::Server)
        };
        let of_server: Vec<HeldCount> = work.held.extract_if(.., is_of_server).collect();
        self.outstanding.refund(work.rank.id, of_server);
    }

    /// Moves requests that have one of these servers and sleep at a checkpoint of servers to another server.
    fn leave_servers(&mut self, servers: &[ServerId]) {
        let mut lost: Vec<Rank> = vec![];
        for server in servers {
            let asleep = self.requests.asleep_with(*server);
            lost.extend(asleep.filter(|rank| self.is_in_server_list(rank.id)));
        }
        lost.sort_unstable();
        self.outstanding.add_chores(lost.into_iter().map(|rank| Chore::Astray(rank.id)));
    }

    /// Whether a sleeper waits at a checkpoint of a server's list.
    fn is_in_server_list(&self, id: RequestId) -> bool {
        let Some(Stage::Checkpoint { id: at, .. }) = self.requests.get(id).map(|work| work.stage)
        else {
            return false;
        };
        let checkpoint = self.snapshot.checkpoints.checkpoint(at);
        let list = checkpoint.map(|checkpoint| List::of(&checkpoint.spec.at));
        list == Some(List::Server) && self.checkpoints.waits(id)
    }

    /// The same for all servers that an edit deleted or moved.
    pub(crate) fn leave_lost_servers(&mut self, old: &Snapshot) {
        if Arc::ptr_eq(&old.routing, &self.snapshot.routing) {
            return;
        }
        let servers = old.routing.backends().iter().flat_map(|backend| &backend.servers);
        let is_gone = |server: &&Server| {
            let site = self.fleet.site(server.id);
            site.is_none_or(|site| site.address != server.address)
        };
        let gone: Vec<ServerId> = servers.filter(is_gone).map(|server| server.id).collect();
        self.leave_servers(&gone);
    }

    /// Moves a sleeping request to another server, if its own is still down, deleted or at another address.
    pub(crate) fn move_on(&mut self, id: RequestId) {
        let is_astray = self.requests.get(id).is_some_and(|work| {
            let site = work.seat.as_ref().map(Seat::site);
            let is_asleep = matches!(work.stage, Stage::Checkpoint { .. });
            is_asleep && site.is_some_and(|site| !self.fleet.is_up(site))
        });
        if !is_astray {
            return;
        }
        let Some(mut work) = self.requests.take(id) else { return };
        self.leave_queue(&mut work);
        let outcome = self.walk(work, None);
        self.tell(id, outcome);
    }

    /// Whether an edit deleted the server that a request has, or moved it to another address.
    pub(crate) fn has_lost_server(&self, id: RequestId) -> bool {
        let seat = self.requests.get(id).and_then(|work| work.seat.as_ref());
        seat.is_some_and(|seat| !self.fleet.has(seat.site()))
    }

    /// Called when a request in line could run, but its server was deleted or moved: it leaves the line, gets
    /// another server, and returns.
    pub(crate) fn seek_server(&mut self, id: RequestId) {
        let Some(mut work) = self.requests.take(id) else { return };
        let Stage::Line { since, .. } = work.stage else { return self.requests.put(work) };
        self.outstanding.drop_undecided(id);
        work.draft.rest_from(&self.claims, id);
        self.leave_queue(&mut work);
        work.stand(self.now.since(since));
        work.stage = Stage::Moving;
        // A request in line has passed all checkpoints on its way.
        work.looked_at = self.snapshot.generation;
        let outcome = self.walk(work, None);
        self.tell(id, outcome);
    }

    /// Releases a place at a server.
    pub(crate) fn leave_seat(&mut self, seat: Seat) {
        self.fleet.give_back(seat);
        self.set_limits();
    }

    /// Updates the limits of the gates from their servers.
    pub(crate) fn set_limits(&mut self) {
        while let Some((backend, limit)) = self.fleet.poll_limit() {
            self.checkpoints.set_limit(self.now, gate::id(backend), limit);
        }
    }

    /// Releases what an ended request holds, in the order of its walk. Its server is released with the count of
    /// the gate, or at once if no gate counts it.
    pub(crate) fn return_all(&mut self, work: &mut Work, ran: bool) {
        let id = work.rank.id;
        let mut seat = work.seat.take();
        let counted = seat.as_ref().and_then(|seat| self.gate_count(work, seat.backend()));
        for (index, held) in work.held.drain(..).enumerate() {
            let seat = if Some(index) == counted { seat.take() } else { None };
            self.outstanding.give_back(Return { id, held, ran, seat });
        }
        if let Some(seat) = seat {
            self.leave_seat(seat);
        }
    }
}
