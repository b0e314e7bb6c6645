//! Backends and servers: where a request goes whose frontend is configured.
//!
//! The backend is chosen when the request comes, the server when it has passed the backend's list.
//! Promises that no server has more requests than its maximum, that a place at a server is given back
//! exactly once, and that nobody waits for servers that are all down.

use crate::effect::Outcome;
use crate::engine::{Chore, Engine, Return};
use crate::gate;
use crate::input::Live;
use crate::prepare::{Draft, Filled, List, Route, position};
use crate::snapshot::Snapshot;
use crate::walk::ticket;
use crate::work::{Stage, Work};
use paceline_checkpoints::{Arrival, Held, Kept, KeyHash};
use paceline_routing::{Choice, Seat, Server};
use paceline_types::{
    Attributes, BackendId, CheckpointId, Known, Priority, Rank, Reason, Refusal, RequestId,
    ServerId, Span, Time,
};
use std::sync::Arc;

/// Behind all checkpoints of a backend's list.
const BEHIND_BACKEND: (List, u32, CheckpointId) = (List::Backend, u32::MAX, CheckpointId(u32::MAX));

impl Engine {
    /// A server came up or went down. Whoever waits at its checkpoints goes on to another one if it
    /// went down.
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

    /// The values that a frontend logs with each request, by name; one that fails has none.
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

    /// Looks at the lines of the frontend that read counters. Refuses who has no backend.
    pub(crate) fn choose_backend(&mut self, draft: &mut Draft) -> Result<(), Refusal> {
        if draft.route.is_none() {
            return Ok(());
        }
        let errors = self.would_choose_backend(draft, &[])?;
        self.stats.expression_errors += u64::from(errors);
        Ok(())
    }

    /// The same where nothing is counted. `counted` are counters that would have counted it by now.
    /// How many lines failed.
    pub(crate) fn would_choose_backend(
        &self,
        draft: &mut Draft,
        counted: &[(CheckpointId, KeyHash)],
    ) -> Result<u32, Refusal> {
        let Some(Route { mut chosen, .. }) = draft.route else { return Ok(0) };
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

    /// Why a request gets no server, if all of its backend are down.
    pub(crate) fn no_server(&self, work: &Work) -> Option<Refusal> {
        let backend = work.draft.route.and_then(|route| route.chosen.backend)?;
        (!self.fleet.is_usable(backend)).then(|| self.without_server(work, backend))
    }

    /// That no server of its backend is up, or that an edit deleted the backend.
    fn without_server(&self, work: &Work, id: BackendId) -> Refusal {
        let backend = work.draft.request.attributes.known(Known::Backend).into();
        let is_there = self.snapshot.routing.backend_by_id(id).is_some();
        Refusal::lasting(match is_there {
            true => Reason::NoServer { backend },
            false => Reason::BackendDeleted { backend },
        })
    }

    /// Gives a server to a request that passed its backend's list; or it waits for one, or there is
    /// none.
    pub(crate) fn find_server(
        &mut self,
        mut work: Box<Work>,
        backend: BackendId,
    ) -> Result<Box<Work>, Outcome> {
        // Whoever passed the gate finds room, be it at a server that it tried before.
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

    /// A request has this server from now on.
    pub(crate) fn sit(&mut self, work: &mut Work, backend: BackendId, server: ServerId) {
        let counted = self.gate_count(work, backend).is_some();
        work.seat = self.fleet.take(backend, server, counted);
        debug_assert!(work.seat.is_some(), "only a server that is there is chosen");
        self.set_limits();
        let snapshot = self.snapshot();
        self.name_server(work, snapshot.routing.server_name(server).unwrap_or_default());
    }

    /// Its attribute `server`.
    pub(crate) fn name_server(&mut self, work: &mut Work, name: &str) {
        let request = &mut work.draft.request;
        let before = request.bytes();
        request.attributes.put(Known::Server, name);
        self.weight.changed(request, before);
    }

    /// Where among what it holds the count of its backend's gate is, if it still counts.
    fn gate_count(&self, work: &Work, backend: BackendId) -> Option<usize> {
        let gate = gate::id(backend);
        let counts = |held: &Held| held.checkpoint() == gate && self.checkpoints.counts(held);
        work.held.iter().position(counts)
    }

    /// The room that it passed the gate for is gone: it waits there again, keeping its rank.
    fn wait_at_gate(&mut self, mut work: Box<Work>, backend: BackendId) -> Outcome {
        let count = self.gate_count(&work, backend);
        if let Some(at) = count {
            let held = work.held.remove(at);
            self.drop_count_user(work.rank.id, &held);
            self.checkpoints.refund(self.now, held);
        }
        let snapshot = self.snapshot();
        let Some(checkpoint) = snapshot.checkpoints.checkpoint(gate::id(backend)) else {
            debug_assert!(false, "only a backend with a gate is full");
            let refusal = self.without_server(&work, backend);
            return self.refuse(work, refusal);
        };
        // Only what it slept here counts against the queue's longest wait, not what it slept at the
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
                self.sleep(work, gate::id(backend));
                Outcome::Waiting
            }
            Arrival::Passed(held) => {
                debug_assert!(false, "nobody passes the gate of servers that are full");
                self.hold(&mut work, held);
                let refusal = self.without_server(&work, backend);
                self.refuse(work, refusal)
            }
            Arrival::Refused(turned) => {
                let refusal = self.turned_away(&work, gate::id(backend), turned);
                self.refuse(work, refusal)
            }
        }
    }

    /// The server of a request went down while the request stood at that server's checkpoints, or an edit deleted
    /// the server or moved it to another address: the request has none, and gives back what it holds there.
    pub(crate) fn leave_lost_server(&mut self, work: &mut Work) {
        let Some(site) = work.seat.as_ref().map(Seat::site) else { return };
        let is_there = work.position.is_none_or(|(list, _, _)| list <= List::Server);
        let keeps = if is_there { self.fleet.is_up(site) } else { self.fleet.has(site) };
        if !keeps {
            self.lose_server(work);
        }
    }

    /// A request has no server any more, and comes to the end of its backend's list again.
    pub(crate) fn lose_server(&mut self, work: &mut Work) {
        self.give_back_server_list(work);
        if let Some(seat) = work.seat.take() {
            self.leave_seat(seat);
        }
        let before = work.draft.request.bytes();
        work.draft.leave_server();
        self.weight.changed(&work.draft.request, before);
        work.position = Some(BEHIND_BACKEND);
    }

    /// What it holds at checkpoints of its server, it gives back as if it had never come there.
    pub(crate) fn give_back_server_list(&mut self, work: &mut Work) {
        let snapshot = Arc::clone(&self.snapshot);
        let is_of_server = |held: &mut Held| {
            let checkpoint = snapshot.checkpoints.checkpoint(held.checkpoint());
            checkpoint.is_some_and(|checkpoint| List::of(&checkpoint.spec.at) == List::Server)
        };
        let of_server: Vec<Held> = work.held.extract_if(.., is_of_server).collect();
        self.refund(work.rank.id, of_server);
    }

    /// Whoever has one of these servers and sleeps at a checkpoint of servers goes on to another one.
    fn leave_servers(&mut self, servers: &[ServerId]) {
        let first = Rank::new(Time(0), Priority::MAX, Span(u64::MAX), RequestId(0));
        let mut lost: Vec<Rank> = vec![];
        for server in servers {
            let sleepers = self.sleepers.range((*server, first)..);
            let sleepers = sleepers.take_while(|(other, _)| other == server);
            lost.extend(
                sleepers.map(|(_, rank)| *rank).filter(|rank| self.is_in_server_list(rank.id)),
            );
        }
        lost.sort_unstable();
        self.chores.extend(lost.into_iter().map(|rank| Chore::Astray(rank.id)));
    }

    /// Whether a sleeper waits at a checkpoint of a server's list.
    fn is_in_server_list(&self, id: RequestId) -> bool {
        let Some(Stage::Checkpoint { id: at, .. }) = self.requests.get(&id).map(|work| work.stage)
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

    /// A sleeper goes on to another server, if its own is still down, gone or elsewhere.
    pub(crate) fn move_on(&mut self, id: RequestId) {
        let is_astray = self.requests.get(&id).is_some_and(|work| {
            let site = work.seat.as_ref().map(Seat::site);
            let is_asleep = matches!(work.stage, Stage::Checkpoint { .. });
            is_asleep && site.is_some_and(|site| !self.fleet.is_up(site))
        });
        if !is_astray {
            return;
        }
        let Some(mut work) = self.requests.remove(&id) else { return };
        self.leave_queue(&work);
        self.wake(&mut work);
        let outcome = self.walk(work, None);
        self.tell(id, outcome);
    }

    /// Whether an edit deleted the server that a request has, or moved it to another address.
    pub(crate) fn has_lost_server(&self, id: RequestId) -> bool {
        let seat = self.requests.get(&id).and_then(|work| work.seat.as_ref());
        seat.is_some_and(|seat| !self.fleet.has(seat.site()))
    }

    /// A request in line could run, but its server was deleted or moved: it leaves the line, gets another server,
    /// and comes back.
    pub(crate) fn seek_server(&mut self, id: RequestId) {
        let Some(mut work) = self.requests.remove(&id) else { return };
        let Stage::Line { since, .. } = work.stage else { return self.keep(work) };
        self.undecided.retain(|other| *other != id);
        work.draft.rest_from(&self.claims, id);
        self.leave_queue(&work);
        work.stand(self.now.since(since));
        work.stage = Stage::Moving;
        // Who stands in line has passed all that there was on its way.
        work.looked_at = self.snapshot.generation;
        let outcome = self.walk(work, None);
        self.tell(id, outcome);
    }

    /// Gives a place at a server back.
    pub(crate) fn leave_seat(&mut self, seat: Seat) {
        self.fleet.give_back(seat);
        self.set_limits();
    }

    /// Has the gates follow their servers.
    pub(crate) fn set_limits(&mut self) {
        while let Some((backend, limit)) = self.fleet.poll_limit() {
            self.checkpoints.set_limit(self.now, gate::id(backend), limit);
        }
    }

    /// A request is over: what it holds is given back in the order of its walk. Its server goes with
    /// the count of the gate, or at once where no gate counts it.
    pub(crate) fn return_all(&mut self, work: &mut Work, ran: bool) {
        let id = work.rank.id;
        let mut seat = work.seat.take();
        let counted = seat.as_ref().and_then(|seat| self.gate_count(work, seat.backend()));
        for (index, held) in work.held.drain(..).enumerate() {
            let seat = if Some(index) == counted { seat.take() } else { None };
            self.returns.push_back(Return { id, held, ran, seat });
        }
        if let Some(seat) = seat {
            self.leave_seat(seat);
        }
    }

    /// Nobody waits any more for this count of a request.
    pub(crate) fn drop_count_user(&mut self, id: RequestId, held: &Held) {
        if let Some(counter) = held.counter() {
            self.count_users.remove(&(held.checkpoint(), counter, id));
        }
    }
}
