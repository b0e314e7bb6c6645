//! Frontends, backends, servers and connections, for the seeds that have them.

use super::edits::drop_conditions;
use super::{History, MS, Step};
use crate::model::config::{
    Arrival, At, Attribute, Backend, Balance, Config, Frontend, Limit, Server, Unknown, Weight,
    When,
};
use crate::model::{Model, Stage};
use crate::words::{BACKEND_NAMES, BACKENDS, FLEET, SERVER_NAMES, SERVERS, gate_of};

impl History {
    /// Frontends and backends at the start.
    pub(super) fn routes(&mut self, config: &mut Config) {
        if !self.profile.routes {
            return;
        }
        for checkpoint in &mut config.checkpoints {
            if let At::Frontend(name) = &mut checkpoint.at {
                *name = if self.rng.chance(80) { "web" } else { "api" };
                checkpoint.connection = self.rng.chance(25);
            }
        }
        for name in BACKENDS {
            let backend = self.backend(name);
            config.backends.push(backend);
        }
        self.guard_servers(config);
        let frontend = self.frontend(config);
        config.frontends.push(frontend);
    }

    /// Puts some checkpoints at servers that requests are sent to.
    fn guard_servers(&mut self, config: &mut Config) {
        let servers: Vec<&str> =
            config.backends.iter().flat_map(|b| &b.servers).map(|server| server.name).collect();
        for checkpoint in &mut config.checkpoints {
            if self.rng.chance(if self.profile.wide { 50 } else { 30 })
                && let Some(server) = self.rng.pick_any(&servers)
            {
                (checkpoint.at, checkpoint.connection) = (At::Server(server), false);
            }
        }
    }

    fn backend(&mut self, name: &'static str) -> Backend {
        self.next_backend += 1;
        let mut backend = Backend {
            id: self.next_backend,
            name,
            balance: self.balance(),
            servers: vec![],
            max_len: if self.rng.chance(60) { 1_000 } else { self.max_len() },
            max_delay: self.max_delay().unwrap_or(1_000_000 * MS),
        };
        for name in self.fleet().iter().filter(|name| is_of(name, backend.name)) {
            if self.rng.chance(75) {
                let server = self.server(name);
                backend.servers.push(server);
            }
        }
        backend
    }

    /// The names that servers may get.
    const fn fleet(&self) -> &'static [&'static str] {
        if self.profile.wide { &SERVER_NAMES } else { &FLEET }
    }

    fn balance(&mut self) -> Balance {
        self.rng.pick(&[Balance::RoundRobin, Balance::Least, Balance::TwoLots])
    }

    fn server(&mut self, name: &'static str) -> Server {
        self.next_server += 1;
        let (weight, max) = (self.server_weight(), self.server_max());
        let address = self.address(name);
        Server { id: self.next_server, name, weight, max, address }
    }

    /// The address of a server: mostly the usual one of its name.
    fn address(&mut self, name: &str) -> u32 {
        if self.profile.churn && self.rng.chance(20) {
            return self.rng.between(1, 4) as u32;
        }
        let (_, short) = name.split_once('/').unwrap_or_default();
        ["one", "two", "three"].iter().position(|other| *other == short).unwrap_or(0) as u32
    }

    fn server_weight(&mut self) -> u64 {
        self.rng.pick(&[0, 1, 1, 1, 2, 3, 256])
    }

    fn server_max(&mut self) -> Option<u64> {
        self.rng.chance(65).then(|| self.rng.between(1, 3))
    }

    fn frontend(&mut self, config: &Config) -> Frontend {
        let backends: Vec<&str> = config.backends.iter().map(|backend| backend.name).collect();
        let mut lines = vec![];
        for _ in 0..self.rng.weighted(&[4, 3, 2, 1]) {
            let gate = self.rng.pick_any(&config.backends).filter(|backend| backend.is_gated());
            let n = self.rng.below(3);
            let when = match (gate, self.rng.below(3)) {
                (Some(backend), 0) => When::Queued(backend.gate(), None, n),
                (Some(backend), 1) => When::Inflight(backend.gate(), None, n),
                _ => self.when(config),
            };
            lines.extend(self.rng.pick_any(&backends).map(|backend| (when, backend)));
        }
        let has_rest = self.rng.chance(90);
        let backend = self.rng.pick_any(&backends).filter(|_| has_rest);
        Frontend { name: "web", lines, backend }
    }

    /// Most requests arrive at the frontend; some of them are connections.
    pub(super) fn send_to_door(&mut self, arrival: &mut Arrival, config: &Config) {
        if !self.profile.routes {
            return;
        }
        if self.rng.chance(20) {
            // It does not arrive at the configured frontend, so it keeps the backend and server that it names.
            arrival.frontend = "api";
            return;
        }
        let name = config.frontends.first().map_or("web", |frontend| frontend.name);
        (arrival.frontend, arrival.backend, arrival.server) = (name, "", "");
        if self.rng.chance(20) {
            arrival.connection = true;
            (arrival.claims, arrival.locks, arrival.unknown) = (vec![], vec![], Unknown::Refuse);
        } else if self.profile.wide && !config.frontends.is_empty() && self.rng.chance(20) {
            // Its own values for these are ignored.
            arrival.backend = self.rng.pick(&BACKENDS);
            arrival.server = self.rng.pick(&SERVERS);
        }
    }

    /// Servers go up and down, or cannot be reached.
    pub(super) fn serve(&mut self, model: &Model) -> Option<Step> {
        if !self.profile.routes {
            return None;
        }
        match self.rng.below(100) {
            0..8 => {
                let servers = model.config.backends.iter().flat_map(|backend| &backend.servers);
                let servers: Vec<u32> = servers.map(|server| server.id).collect();
                let up = self.rng.chance(60);
                self.rng.pick_any(&servers).map(|server| Step::SetUp(server, up))
            }
            8..14 => {
                let runs = |stage: &Stage| *stage == Stage::Running;
                let all = model.requests.iter().filter(|(_, r)| runs(&r.stage) && r.seat.is_some());
                let all: Vec<u64> = all.map(|(id, _)| *id).collect();
                self.rng.pick_any(&all).map(Step::Reroute)
            }
            _ => None,
        }
    }

    /// An edit of frontends, backends or servers, in about half of the cases.
    pub(super) fn edit_routes(&mut self, config: &mut Config) -> Option<String> {
        if !self.profile.routes || self.rng.chance(50) {
            return None;
        }
        let what = self.edit_route(config)?;
        let gates: Vec<&str> = config
            .backends
            .iter()
            .filter(|backend| !backend.is_gated())
            .map(Backend::gate)
            .collect();
        let missing =
            BACKEND_NAMES.iter().filter(|name| config.backends.iter().all(|b| b.name != **name));
        let missing: Vec<&str> = missing.map(|name| gate_of(name)).collect();
        gates.into_iter().chain(missing).for_each(|gate| drop_conditions(config, gate));
        Some(what)
    }

    fn edit_route(&mut self, config: &mut Config) -> Option<String> {
        if self.profile.signs && self.rng.chance(30) {
            return self.rename_frontend(config);
        }
        if self.profile.churn && self.rng.chance(50) {
            return self.edit_fleet(config);
        }
        match self.rng.below(12) {
            0 => {
                let frontend = self.frontend(config);
                let what = format!("{frontend:?}");
                config.frontends = vec![frontend];
                Some(what)
            }
            1 if self.rng.chance(30) => {
                config.frontends.clear();
                Some("no frontend".into())
            }
            2 => self.edit_connection(config),
            3 if self.rng.chance(40) => self.replace_backend(config),
            4 | 5 => self.edit_fleet(config),
            6 | 7 => {
                let index = self.any_backend(config)?;
                let (max_len, max_delay) = (self.max_len(), self.max_delay());
                let balance = self.balance();
                let backend = &mut config.backends[index];
                (backend.max_len, backend.balance) = (max_len, balance);
                backend.max_delay = max_delay.unwrap_or(1_000_000 * MS);
                Some(format!("{backend:?}"))
            }
            _ => {
                let index = self.any_backend(config)?;
                let at = self.rng.below(config.backends[index].servers.len().max(1) as u64);
                let (weight, max) = (self.server_weight(), self.server_max());
                let moves = self.profile.churn && self.rng.chance(30);
                let address = moves.then(|| self.rng.below(4) as u32);
                let server = config.backends[index].servers.get_mut(at as usize)?;
                (server.weight, server.max) = (weight, max);
                server.address = address.unwrap_or(server.address);
                Some(format!("{server:?}"))
            }
        }
    }

    fn any_backend(&mut self, config: &Config) -> Option<usize> {
        let count = config.backends.len() as u64;
        (count > 0).then(|| self.rng.below(count) as usize)
    }

    /// A checkpoint of a frontend changes between requests and connections.
    fn edit_connection(&mut self, config: &mut Config) -> Option<String> {
        let all = config.checkpoints.iter_mut();
        let mut fits: Vec<_> =
            all.filter(|c| matches!(c.at, At::Frontend(_)) && c.limit != Limit::Count).collect();
        let index = self.rng.below(fits.len().max(1) as u64) as usize;
        let checkpoint = fits.get_mut(index)?;
        checkpoint.connection = !checkpoint.connection;
        Some(format!("{} connection {}", checkpoint.name, checkpoint.connection))
    }

    /// Deletes a backend, and creates another one of the same name, or none.
    fn replace_backend(&mut self, config: &mut Config) -> Option<String> {
        let index = self.any_backend(config)?;
        let name = config.backends.remove(index).name;
        if config.backends.is_empty() || self.rng.chance(70) {
            let backend = self.backend(name);
            config.backends.push(backend);
            return Some(format!("another {name}"));
        }
        for frontend in &mut config.frontends {
            frontend.lines.retain(|(_, to)| *to != name);
            frontend.backend = frontend.backend.filter(|to| *to != name);
        }
        Some(format!("no {name}"))
    }

    /// Adds or deletes a server.
    fn edit_fleet(&mut self, config: &mut Config) -> Option<String> {
        let index = self.any_backend(config)?;
        let name = config.backends[index].name;
        let all = self.fleet().iter().copied();
        let names: Vec<&str> = all.filter(|full| is_of(full, name)).collect();
        let name = self.rng.pick_any(&names)?;
        let new = self.server(name);
        let servers = &mut config.backends[index].servers;
        match servers.iter().position(|server| server.name == name) {
            Some(at) => {
                servers.remove(at);
                Some(format!("{name} deleted"))
            }
            None => {
                servers.push(new);
                Some(format!("{new:?}"))
            }
        }
    }
}

fn is_of(server: &str, backend: &str) -> bool {
    server.split_once('/').is_some_and(|(of, _)| of == backend)
}

/// Connections pass checkpoints of configured frontends, which read only attributes that connections have.
pub(super) fn fit_connections(config: &mut Config) {
    let has = |attribute: &Attribute| *attribute == Attribute::Host;
    let mut changed = vec![];
    for checkpoint in &mut config.checkpoints {
        checkpoint.connection &= checkpoint.at != At::Frontend("api");
        if !checkpoint.connection {
            continue;
        }
        if checkpoint.key.is_some_and(|key| !has(&key)) {
            checkpoint.key = None;
            changed.push(checkpoint.name);
        }
        checkpoint.fair = checkpoint.fair.filter(has);
        checkpoint.weight = Weight::Same;
        checkpoint.when = checkpoint.when.filter(|when| match when {
            When::Inflight(_, key, _) | When::Queued(_, key, _) | When::Rate(_, key, _) => {
                key.as_ref().is_none_or(has)
            }
            When::Is(attribute, _) => has(attribute),
            When::Running(..) | When::Waiting(..) => true,
            When::PriorityOver(_) => false,
        });
    }
    changed.into_iter().for_each(|name| drop_conditions(config, name));
}
