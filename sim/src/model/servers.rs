//! Backends and servers: where requests are sent, and how much room each server has.
//!
//! The requests of a server are counted from all requests. Only what the choices remember, and which servers
//! are down, is kept.

use super::checkpoints::Step;
use super::config::{
    Arrival, At, Backend, Balance, Bounds, Checkpoint, Config, Limit, Server, Weight,
};
use super::configure::is_early;
use super::seats::GONE;
use super::{Model, Passed, Position, Queued, Reason, Request, Seat, Stage, Tally};
use crate::seen::Answer;
use std::collections::BTreeMap;

/// Numbers of gates have this bit.
const GATES: u32 = 1 << 31;

/// How many servers one `reroute` tries: each backend has two retries.
const TRIES: usize = 3;

/// After all checkpoints of a backend.
pub(super) const BEHIND_BACKEND: Position = (1, u32::MAX, u32::MAX);

/// Whether a checkpoint is a gate, which is not in the configuration.
#[must_use]
pub const fn is_gate(id: u32) -> bool {
    id & GATES != 0
}

/// What the choices of servers remember.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    down: Vec<u32>,
    credit: BTreeMap<u32, i64>,
    turn: BTreeMap<u32, usize>,
    lot: u64,
}

impl Shares {
    pub const fn new(seed: u64) -> Self {
        Self { down: vec![], credit: BTreeMap::new(), turn: BTreeMap::new(), lot: seed }
    }

    /// Called for a server that is new or was moved: it is up.
    pub fn begin(&mut self, server: u32) {
        self.down.retain(|down| *down != server);
    }

    /// A random number below `n`.
    fn draw(&mut self, n: usize) -> usize {
        self.lot = self.lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.lot ^ (self.lot >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let lot = b ^ (b >> 31);
        (u128::from(lot) * n as u128 / (1 << 64)) as usize
    }
}

/// What is released later.
#[derive(Clone, Debug)]
pub(super) enum Later {
    /// One count of a request that continues.
    One(u64, Passed),
    /// Everything of an ended request, and whether it ran.
    End(u64, bool),
}

impl Model {
    /// Sets whether a server is up. Requests that sleep at the checkpoints of a server that is down move on, by
    /// rank.
    pub fn set_up(&mut self, now: u64, server: u32, up: bool) {
        self.begin(now);
        let was_down = self.shares.down.contains(&server);
        if up {
            self.shares.down.retain(|down| *down != server);
        } else if !was_down && self.server(server).is_some() {
            self.shares.down.push(server);
            self.move_on(&[server]);
        }
        self.due();
    }

    /// After a restart all servers are up, and no choice is remembered. Running requests count as having
    /// arrived and started now.
    pub fn restart(&mut self) {
        self.shares = Shares::new(7);
        self.tally = Tally { started: self.requests.len() as u64, ..Tally::default() };
        for request in self.requests.values_mut() {
            (request.at, request.started) = (self.now, self.now);
        }
    }

    /// Gives a running request another server, if one lets it pass at once. If there is only one that does not,
    /// the request returns to waiting.
    pub fn reroute(&mut self, now: u64, id: u64) -> Answer {
        self.begin(now);
        let runs = self.stage(id) == Some(&Stage::Running);
        let mut answer = Answer::Server(self.find_other(id));
        if runs && answer == Answer::Server(None) && self.has_untried(id) {
            self.go_back(id);
            answer = Answer::Back;
        }
        self.give_back_later();
        self.due();
        answer
    }

    fn has_untried(&self, id: u64) -> bool {
        let Request { backend, tried, .. } = &self.requests[&id];
        let usable = backend.map_or(vec![], |backend| self.usable(backend));
        usable.iter().any(|server| !tried.contains(&self.site(server.id).0))
    }

    /// Stops a running request, which has no server then and walks on from the end of its backend's list. If
    /// that takes it to the line at once, it is there when its slot and its claims are granted again.
    fn go_back(&mut self, id: u64) {
        self.tally.started -= 1;
        let now = self.now;
        self.leave_server_list(id);
        self.name_server(id, "");
        if let Some(request) = self.requests.get_mut(&id) {
            request.ran += now - request.started;
            (request.seat, request.stage, request.back) = (None, Stage::Moving, true);
            let names = request.arrival.claims.iter().map(|(name, _)| *name);
            request.claims.iter_mut().zip(names).for_each(|(claim, name)| claim.name = name);
        }
        let was = std::mem::replace(&mut self.astray, true);
        self.has_looked(id);
        self.walk(id, Some(BEHIND_BACKEND));
        if let Some(request) = self.requests.get_mut(&id) {
            request.back = false;
        }
        self.grant();
        self.astray = was;
        self.break_circles();
    }

    /// Whether a server is up.
    #[must_use]
    pub fn is_up(&self, server: u32) -> bool {
        !self.shares.down.contains(&server)
    }

    fn find_other(&mut self, id: u64) -> Option<u32> {
        self.requests.get(&id).filter(|r| r.stage == Stage::Running)?;
        self.learn_names(id);
        let request = &self.requests[&id];
        let (backend, site, old) = (request.backend?, request.site.0, request.arrival.server);
        request.seat?;
        if let Some(request) = self.requests.get_mut(&id)
            && !request.tried.contains(&site)
        {
            request.tried.push(site);
        }
        let mut except = self.requests[&id].tried.clone();
        for _ in 0..TRIES {
            let Some(server) = self.choose(backend, &except) else { break };
            self.name_server(id, server.name);
            if let Some(list) = self.would_pass(id, server.name) {
                self.leave_server_list(id);
                self.sit(id, server);
                for checkpoint in list {
                    self.arrive(id, &checkpoint, None);
                }
                if let Some(request) = self.requests.get_mut(&id) {
                    request.stage = Stage::Running;
                }
                return Some(server.id);
            }
            except.push(self.site(server.id).0);
        }
        self.name_server(id, old);
        None
    }

    /// The checkpoints of a server that apply, without their conditions, if each lets it pass.
    fn would_pass(&self, id: u64, server: &'static str) -> Option<Vec<Checkpoint>> {
        let all = self.config.checkpoints.iter().filter(|c| c.at == At::Server(server));
        let mut list: Vec<Checkpoint> = all.cloned().collect();
        list.sort_by_key(super::position);
        let priority = self.requests[&id].priority;
        let arrival = &self.requests[&id].arrival;
        list.retain(|c| c.when.is_none_or(|when| self.holds(arrival, when, priority)));
        for checkpoint in &mut list {
            checkpoint.when = None;
            if !matches!(self.clone().arrive(id, checkpoint, None), Step::Pass) {
                return None;
            }
        }
        Some(list)
    }

    /// A request at a configured frontend cannot choose its destination, and has none yet.
    pub(super) fn forget_names(&mut self, id: u64) {
        let frontend = self.requests[&id].arrival.frontend;
        if self.config.frontends.iter().any(|other| other.name == frontend)
            && let Some(request) = self.requests.get_mut(&id)
        {
            (request.arrival.backend, request.arrival.server) = ("", "");
        }
    }

    /// Gives a routed request the present names of its backend and its server, as far as they exist.
    pub(super) fn learn_names(&mut self, id: u64) {
        let (backend, seat) = (self.requests[&id].backend, self.requests[&id].seat);
        let backend = backend.and_then(|id| self.config.backends.iter().find(|b| b.id == id));
        let backend = backend.map(|backend| backend.name);
        let server = seat.and_then(|seat| self.server(seat)).map(|server| server.name);
        let Some(Request { arrival, .. }) = self.requests.get_mut(&id) else { return };
        arrival.backend = backend.unwrap_or(arrival.backend);
        arrival.server = server.unwrap_or(arrival.server);
    }

    /// What a checkpoint sees of a request: before the list of its server, no server.
    pub(super) fn as_seen_at(&self, id: u64, at: &Checkpoint) -> Arrival {
        let request = &self.requests[&id];
        let mut arrival = request.arrival.clone();
        if request.backend.is_some() && super::position(at).0 < 2 {
            arrival.server = "";
        }
        arrival
    }

    /// The first line that holds, or the default; does nothing if the frontend is not configured.
    pub(super) fn choose_backend(&mut self, id: u64) -> Result<(), Reason> {
        let name = self.requests[&id].arrival.frontend;
        let Some(frontend) = self.config.frontends.iter().find(|f| f.name == name) else {
            return Ok(());
        };
        let arrival = &self.requests[&id].arrival;
        let line = frontend.lines.iter().find(|(when, _)| self.holds(arrival, *when, 0));
        let backend = line.map(|(_, backend)| *backend).or(frontend.backend);
        let Some(backend) = backend else { return Err(Reason::NoBackend(name)) };
        let number = self.config.backends.iter().find(|b| b.name == backend).map(|b| b.id);
        if let Some(request) = self.requests.get_mut(&id) {
            (request.arrival.backend, request.backend) = (backend, number);
        }
        Ok(())
    }

    /// Whether a request needs a server before it continues to this checkpoint.
    pub(super) fn wants_server(&self, id: u64, next: Option<&Checkpoint>) -> bool {
        let request = &self.requests[&id];
        let is_behind = next.is_none_or(|checkpoint| super::position(checkpoint).0 > 1);
        request.backend.is_some() && request.seat.is_none() && is_behind
    }

    /// Why a request gets no server, however long it waits.
    pub(super) fn no_server(&self, id: u64) -> Option<Reason> {
        let request = &self.requests[&id];
        let usable = self.usable(request.backend?);
        usable.is_empty().then_some(Reason::NoServer(request.arrival.backend))
    }

    /// Gives a request a server, or makes it wait at the gate once more.
    pub(super) fn find_server(&mut self, id: u64) -> Step {
        let Some(backend) = self.requests[&id].backend else { return Step::Pass };
        if let Some(reason) = self.no_server(id) {
            return Step::Refuse(reason);
        }
        let tried = self.requests[&id].tried.clone();
        if let Some(server) = self.choose(backend, &tried).or_else(|| self.choose(backend, &[])) {
            self.sit(id, server);
            return Step::Pass;
        }
        let Some(gate) = self.checkpoint(GATES | backend).cloned() else { return Step::Pass };
        let holds = |passed: &Passed| passed.checkpoint == gate.id;
        let was_counted = self.requests[&id].walk.iter().any(holds);
        if let Some(request) = self.requests.get_mut(&id) {
            request.walk.retain(|passed| !holds(passed));
        }
        let since = self.now - self.requests[&id].gate_slept;
        let longest = since.saturating_add(gate.queue.max_delay).max(self.now);
        let deadline = [longest].into_iter().chain(self.requests[&id].own_deadline()).min();
        let counter = if was_counted { None } else { Some(GONE) };
        let was = Queued {
            checkpoint: gate.id,
            seat: Seat { key: None, counter },
            flow: "",
            cost: 1,
            share: 1,
            since,
            deadline,
        };
        self.arrive(id, &gate, Some(&was))
    }

    /// Records how long a request slept at a gate that it leaves, because it may return.
    pub(super) fn leave_gate(&mut self, id: u64, queued: &Queued) {
        if is_gate(queued.checkpoint)
            && let Some(request) = self.requests.get_mut(&id)
        {
            request.gate_slept = self.now - queued.since;
        }
    }

    fn sit(&mut self, id: u64, server: Server) {
        self.name_server(id, server.name);
        let site = self.site(server.id);
        if let Some(request) = self.requests.get_mut(&id) {
            (request.seat, request.site) = (Some(server.id), site);
        }
    }

    fn name_server(&mut self, id: u64, name: &'static str) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.arrival.server = name;
        }
    }

    /// The limit of a concurrency checkpoint; that of a gate is the number of requests that have a server, plus
    /// the free places.
    pub(super) fn limit(&self, at: &Checkpoint) -> u64 {
        let Limit::Concurrency(limit) = at.limit else { return u64::MAX };
        if !is_gate(at.id) {
            return limit;
        }
        let usable = self.usable(at.id & !GATES);
        let room = usable.iter().map(|server| self.room(server));
        let counts = |request: &&Request| {
            request.seat.is_some() && request.walk.iter().any(|p| p.checkpoint == at.id)
        };
        let counted = self.requests.values().filter(counts).count() as u64;
        match usable.is_empty() {
            true => u64::MAX,
            false => room.fold(counted, u64::saturating_add),
        }
    }

    fn room(&self, server: &Server) -> u64 {
        let held = self.held_at(server.id);
        server.max.map_or(u64::MAX, |max| max.saturating_sub(held))
    }

    fn usable(&self, backend: u32) -> Vec<Server> {
        let backend = self.config.backends.iter().find(|b| b.id == backend);
        let servers = backend.map_or(&[][..], |backend| &backend.servers).iter();
        servers.filter(|server| server.weight > 0 && self.is_up(server.id)).copied().collect()
    }

    /// The next server of a backend, except those at these sites.
    fn choose(&mut self, backend: u32, except: &[u32]) -> Option<Server> {
        let balance = self.config.backends.iter().find(|b| b.id == backend)?.balance;
        let mut fit = self.usable(backend);
        fit.retain(|server| self.room(server) > 0 && !except.contains(&self.site(server.id).0));
        match balance {
            Balance::RoundRobin => self.in_turn(&fit),
            Balance::Least => self.least(backend, &fit),
            Balance::TwoLots => {
                if fit.len() < 2 {
                    return fit.first().copied();
                }
                let one = fit.remove(self.shares.draw(fit.len()));
                let other = fit[self.shares.draw(fit.len())];
                Some(if self.load(&other) < self.load(&one) { other } else { one })
            }
        }
    }

    fn in_turn(&mut self, fit: &[Server]) -> Option<Server> {
        for server in fit {
            *self.shares.credit.entry(server.id).or_default() += server.weight as i64;
        }
        let best = fit.iter().map(|server| self.shares.credit[&server.id]).max()?;
        let chosen = *fit.iter().find(|server| self.shares.credit[&server.id] == best)?;
        let all: u64 = fit.iter().map(|server| server.weight).sum();
        *self.shares.credit.entry(chosen.id).or_default() -= all as i64;
        Some(chosen)
    }

    fn least(&mut self, backend: u32, fit: &[Server]) -> Option<Server> {
        let servers = self.config.backends.iter().find(|b| b.id == backend)?.servers.clone();
        let first = self.shares.turn.get(&backend).copied().filter(|turn| *turn < servers.len());
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.rotate_left(first.unwrap_or(0));
        let least = fit.iter().map(|server| self.load(server)).min()?;
        let is_it = |at: &usize| fit.contains(&servers[*at]) && self.load(&servers[*at]) == least;
        let at = order.into_iter().find(is_it)?;
        self.shares.turn.insert(backend, at + 1);
        Some(servers[at])
    }

    /// (requests + 1) / weight, as a whole number: 768 is a multiple of all weights from 1 to 256 that
    /// histories use.
    fn load(&self, server: &Server) -> u64 {
        (self.held_at(server.id) + 1) * 768 / server.weight
    }

    fn server(&self, id: u32) -> Option<&Server> {
        self.config.backends.iter().flat_map(|b| &b.servers).find(|server| server.id == id)
    }

    /// Whether the server of a request was deleted or moved.
    pub(super) fn has_lost_server(&self, id: u64) -> bool {
        self.requests[&id].seat.is_some() && !self.has_site(&self.requests[&id])
    }

    /// A request that could run but has lost its server leaves the line and gets to it again. What it releases
    /// is released after all grants.
    pub(super) fn seek_server(&mut self, id: u64) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = Stage::Moving;
            let names = request.arrival.claims.iter().map(|(name, _)| *name);
            request.claims.iter_mut().zip(names).for_each(|(claim, name)| claim.name = name);
        }
        let was = std::mem::replace(&mut self.astray, true);
        self.has_looked(id);
        self.walk(id, Some(BEHIND_BACKEND));
        self.astray = was;
    }

    /// Takes the server from a request that walks on from its server's list while that server is down or
    /// deleted.
    pub(super) fn leave_lost_server(&mut self, id: u64, after: &mut Option<Position>) {
        let Some(seat) = self.requests[&id].seat else { return };
        let is_there = after.is_none_or(|(list, _, _)| list <= 2);
        if self.has_site(&self.requests[&id]) && (!is_there || self.is_up(seat)) {
            return;
        }
        self.leave_server_list(id);
        self.name_server(id, "");
        if let Some(request) = self.requests.get_mut(&id) {
            request.seat = None;
        }
        *after = Some(BEHIND_BACKEND);
    }

    /// Called when a request has to wait at a checkpoint that an edit put before others which it passed: it
    /// releases what it holds at the later ones, and its server if that is later too.
    pub(super) fn leave_behind(&mut self, id: u64, at: &Checkpoint) {
        let at = super::position(at);
        let is_behind = |passed: &&Passed| {
            let checkpoint = self.checkpoint(passed.checkpoint);
            checkpoint.is_some_and(|other| super::position(other) > at && !is_early(other))
        };
        let passed: Vec<Passed> =
            self.requests[&id].walk.iter().filter(is_behind).cloned().collect();
        self.later.extend(passed.into_iter().map(|passed| Later::One(id, passed)));
        if at.0 <= 1 && self.requests[&id].seat.is_some() {
            self.name_server(id, "");
            if let Some(request) = self.requests.get_mut(&id) {
                request.seat = None;
            }
        }
    }

    /// What it holds at checkpoints of servers is released later.
    fn leave_server_list(&mut self, id: u64) {
        let of_server = |passed: &&Passed| {
            let checkpoint = self.checkpoint(passed.checkpoint);
            checkpoint.is_some_and(|checkpoint| matches!(checkpoint.at, At::Server(_)))
        };
        let passed: Vec<Passed> =
            self.requests[&id].walk.iter().filter(of_server).cloned().collect();
        self.later.extend(passed.into_iter().map(|passed| Later::One(id, passed)));
    }

    /// How often a request will return a count of a checkpoint that it passed in the list of a server it lost.
    pub(super) fn given_up(&self, id: u64, checkpoint: u32) -> usize {
        let its = |later: &&Later| match later {
            Later::One(other, passed) => *other == id && passed.checkpoint == checkpoint,
            Later::End(..) => false,
        };
        self.later.iter().filter(its).count()
    }

    /// Requests that sleep at the checkpoints of servers that are down or deleted move on, by rank.
    fn move_on(&mut self, servers: &[u32]) {
        self.astray = true;
        let is_lost = |request: &Request| request.seat.is_some_and(|seat| servers.contains(&seat));
        let sleeps = |request: &Request| match &request.stage {
            Stage::Queued(queued) => self
                .checkpoint(queued.checkpoint)
                .is_some_and(|c| matches!(c.at, At::Server(_)) && is_lost(request)),
            _ => false,
        };
        let lost = self.requests.iter().filter(|(_, r)| sleeps(r)).map(|(id, _)| *id);
        for id in self.by_rank(lost.collect()) {
            let Some(request) = self.requests.get_mut(&id) else { continue };
            if let Stage::Queued(queued) = std::mem::replace(&mut request.stage, Stage::Moving) {
                self.forget_tags_if_empty(queued.checkpoint, queued.seat.counter);
            }
            self.walk(id, Some((2, 0, 0)));
        }
        self.astray = false;
        self.break_circles();
        self.give_back_later();
    }

    /// Releases what waits to be released; then the requests that were handed a count walk on.
    pub(super) fn give_back_later(&mut self) {
        if self.astray {
            return;
        }
        for later in std::mem::take(&mut self.later) {
            match later {
                Later::One(id, passed) => {
                    let Some(request) = self.requests.get_mut(&id) else { continue };
                    let cost = request.arrival.cost;
                    let found = request.walk.iter().position(|other| *other == passed);
                    found.map(|at| request.walk.remove(at));
                    self.give_back(&passed, cost);
                }
                Later::End(id, ran) => self.give_back_all(id, ran),
            }
        }
        self.walk_handed();
    }

    /// A server without a gate is released before all counts.
    pub(super) fn leave_ungated_seat(&mut self, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let gate = request.backend.map(|backend| GATES | backend);
        if !request.walk.iter().any(|passed| Some(passed.checkpoint) == gate) {
            request.seat = None;
        }
    }

    /// The gates of all backends that have one, as checkpoints.
    pub(super) fn add_gates(&mut self) {
        let gates = self.config.backends.iter().filter(|backend| backend.is_gated()).map(gate);
        let gates: Vec<Checkpoint> = gates.collect();
        self.config.checkpoints.retain(|checkpoint| !is_gate(checkpoint.id));
        self.config.checkpoints.extend(gates);
    }

    /// No request sleeps at servers that an edit deleted or moved; a new server is up.
    pub(super) fn servers_changed(&mut self, old: &Config) {
        let servers = old.backends.iter().flat_map(|backend| &backend.servers);
        let is_gone =
            |was: &&Server| self.server(was.id).is_none_or(|server| server.address != was.address);
        let gone: Vec<u32> = servers.filter(is_gone).map(|server| server.id).collect();
        self.move_on(&gone);
    }
}

fn gate(backend: &Backend) -> Checkpoint {
    let max_total = backend.max_len.max(100_000);
    Checkpoint {
        id: GATES | backend.id,
        name: backend.gate(),
        at: At::Backend(backend.name),
        number: u32::MAX,
        connection: false,
        when: None,
        key: None,
        limit: Limit::Concurrency(0),
        fair: None,
        weight: Weight::Same,
        queue: Bounds { max_len: backend.max_len, max_total, max_delay: backend.max_delay },
        keys_max: 1_000_000,
        watch: false,
    }
}
