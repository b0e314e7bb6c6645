//! Clients, their relays and a few servers, moved by dice; what must hold is checked after each step.

use super::Dice;
use super::client::{Script, script};
use super::server::{Session, Store, show};
use crate::relay::{Effect, Parameters, Phase, Pooling, Relay, Reuse, Server};
use crate::wire::SqlState;
use crate::wire::backend::Status;
use crate::wire::frame::{Framed, Side, Walk};
use crate::wire::kind::client;
use crate::wire::report::Report;
use std::collections::VecDeque;

/// What a private server is given in the place of the relay.
enum Item {
    Message(Vec<u8>),
    Error(u8, &'static str),
}

struct Client {
    relay: Relay,
    script: Script,
    /// Messages that the relay has and nobody has decided about.
    undecided: Vec<Vec<u8>>,
    log: Vec<Item>,
    received: Vec<String>,
    /// The last `application_name` that was reported.
    name: String,
    private: Session,
    store: Store,
    is_waiting: bool,
    is_gone: bool,
    link: Option<usize>,
    admits: usize,
    settles: usize,
    refusals: usize,
    cancels: usize,
    canceled: Vec<u64>,
    runs: u64,
}

struct Upstream {
    session: Session,
    input: VecDeque<Vec<u8>>,
    /// None while a relay has it.
    server: Option<Box<Server>>,
    owner: Option<usize>,
    generation: u64,
}

pub struct World {
    dice: Dice,
    clients: Vec<Client>,
    servers: Vec<Upstream>,
    store: Store,
    /// Cancel requests under way: client, server, generation, whether it has arrived.
    cancels: Vec<(usize, usize, u64, bool)>,
    has_deaths: bool,
    is_traced: bool,
}

fn parameters() -> Parameters {
    let mut parameters = Parameters::new();
    parameters.set(b"application_name", b"app");
    parameters
}

fn report(code: &str) -> Report {
    Report::error(SqlState::read(code.as_bytes()).unwrap(), "no")
}

fn framed(bytes: &[u8]) -> Framed<'_> {
    Framed { kind: bytes[0], bytes }
}

fn split(side: Side, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut walk = Walk::new(side, bytes);
    let mut all = vec![];
    while let Some(message) = walk.step().unwrap() {
        all.push(message.bytes.to_vec());
    }
    assert_eq!(walk.rest(), b"");
    all
}

impl Client {
    fn new(dice: &mut Dice, id: usize, store: Store, pooling: Pooling) -> Self {
        Self {
            relay: Relay::new(pooling, parameters()),
            script: script(dice, id),
            undecided: vec![],
            log: vec![],
            received: vec![],
            name: "app".into(),
            private: Session::new("app"),
            store,
            is_waiting: false,
            is_gone: false,
            link: None,
            admits: 0,
            settles: 0,
            refusals: 0,
            cancels: 0,
            canceled: vec![],
            runs: 0,
        }
    }

    fn decide(&mut self, error: Option<&'static str>) {
        let is_query = self.undecided.first().is_some_and(|message| message[0] == client::QUERY);
        let messages = std::mem::take(&mut self.undecided);
        if let Some(code) = error {
            let kind = if is_query { client::QUERY } else { client::PARSE };
            self.log.push(Item::Error(kind, code));
            if is_query {
                return;
            }
        }
        self.log.extend(messages.into_iter().map(Item::Message));
    }

    /// What the private server answers to the log.
    fn replay(&mut self) -> (Vec<String>, Vec<Store>) {
        let mut states = vec![self.store.clone()];
        self.private.canceled.extend(self.canceled.drain(..));
        for item in self.log.drain(..) {
            match item {
                Item::Message(bytes) => self.private.feed(&bytes, &mut self.store),
                Item::Error(kind, code) => self.private.inject(kind, code, &mut self.store),
            }
            if states.last() != Some(&self.store) {
                states.push(self.store.clone());
            }
        }
        let out = self.private.out.drain(..).map(|message| show(&message));
        (out.filter(|text| !text.starts_with("name ")).collect(), states)
    }

    /// The client reads a message. When a parameter is reported before ReadyForQuery does not matter.
    fn receive(&mut self, message: &[u8]) {
        let text = show(message);
        match text.strip_prefix("name ") {
            Some(name) => self.name = name.into(),
            None => self.received.push(text),
        }
    }
}

impl World {
    pub fn new(seed: u64, has_deaths: bool) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x55);
        let clients = 1 + dice.roll(3);
        // A client of a pool of sessions keeps its server, so each needs one.
        let (pooling, servers) = match seed % 8 {
            7 => (Pooling::Session, clients),
            _ => (Pooling::Transaction, 1 + dice.roll(2)),
        };
        let clients =
            (0..clients).map(|id| Client::new(&mut dice, id, Store::new(), pooling)).collect();
        let servers = (0..servers).map(|_| Upstream::new(0)).collect();
        Self {
            dice,
            clients,
            servers,
            store: Store::new(),
            cancels: vec![],
            has_deaths,
            is_traced: false,
        }
    }

    /// Prints what happens.
    pub fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    fn trace(&self, text: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{}", text());
        }
    }

    pub fn run(&mut self) {
        for _ in 0..400 {
            self.step(self.has_deaths);
            if self.is_done() {
                break;
            }
        }
        let mut left = 0;
        while !self.is_done() {
            self.step(false);
            left += 1;
            assert!(left < 100_000, "the history comes to its end");
        }
        self.has_deaths = false;
        for id in 0..self.clients.len() {
            self.leave(id);
        }
        while self.clients.iter().any(|client| client.link.is_some()) || !self.cancels.is_empty() {
            self.step(false);
            left += 1;
            assert!(left < 100_000, "servers come back");
        }
        for client in &self.clients {
            assert_eq!(client.admits, client.settles + client.refusals, "one end for each Admit");
        }
        assert!(self.servers.iter().all(|server| server.server.is_some()), "servers come back");
    }

    fn is_done(&self) -> bool {
        self.clients.iter().all(|client| {
            let is_quiet = !client.is_waiting && client.log.is_empty();
            is_quiet && (client.is_gone || client.script.is_empty())
        }) && self.cancels.is_empty()
    }

    fn step(&mut self, may_kill: bool) {
        let id = self.dice.roll(self.clients.len());
        let server = self.dice.roll(self.servers.len());
        match self.dice.roll(40) {
            0..=11 => self.client_sends(id),
            12..=19 => self.server_works(server),
            20..=29 => self.server_answers(server),
            30..=33 => self.decide(id),
            34 | 35 => self.cancel_moves(),
            36 => self.cancel(id),
            37 if may_kill && self.dice.roll(4) == 0 => self.leave(id),
            38 if may_kill && self.dice.roll(4) == 0 => self.kill(server),
            _ => self.client_sends(id),
        }
        for id in 0..self.clients.len() {
            self.check(id);
        }
    }

    fn client_sends(&mut self, id: usize) {
        let client = &mut self.clients[id];
        if client.is_gone || !client.relay.wants_client() {
            return;
        }
        let Some(message) = client.script.pop_front() else { return };
        let was_failed = client.relay.begun.as_ref().is_some_and(|begun| begun.is_failed);
        let before = client.received.len();
        client.undecided.push(message.clone());
        self.trace(|| format!("client {id} sends {:?}", String::from_utf8_lossy(&message)));
        let client = &mut self.clients[id];
        client.relay.client(framed(&message));
        self.perform(id, &message);
        let client = &mut self.clients[id];
        if !client.is_waiting && client.relay.held.is_empty() {
            let is_failed = client.received.get(before).is_some_and(|text| text == "error 25P02");
            client.decide((was_failed && is_failed).then_some("25P02"));
        }
    }

    /// A server reads a message.
    fn server_works(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if let Some(message) = server.input.pop_front() {
            if self.is_traced {
                eprintln!("server {at} reads {:?}", String::from_utf8_lossy(&message));
            }
            server.session.feed(&message, &mut self.store);
        }
    }

    fn server_answers(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let Some(id) = server.owner else {
            assert!(server.session.out.is_empty(), "nobody reads this answer");
            return;
        };
        let Some(message) = server.session.out.pop_front() else { return };
        if self.is_traced {
            eprintln!("server {at} answers {id}: {}", show(&message));
        }
        let client = &mut self.clients[id];
        client.runs = server.session.runs;
        client.canceled.append(&mut server.session.cuts);
        if client.relay.passes().has(message[0]) {
            client.receive(&message);
            return;
        }
        client.relay.server(framed(&message));
        self.perform(id, &message);
    }

    /// Decides about a permit, or finds a server.
    fn decide(&mut self, id: usize) {
        let client = &mut self.clients[id];
        if !client.is_waiting {
            return;
        }
        let fate = self.dice.roll(12);
        if client.relay.phase == Phase::Admitting {
            client.is_waiting = false;
            if fate == 0 {
                client.refusals += 1;
                client.decide(Some("53300"));
                client.relay.refused(&report("53300"));
            } else {
                if client.link.is_some() {
                    client.decide(None);
                }
                client.relay.admitted();
            }
        } else if fate == 0 {
            client.is_waiting = false;
            client.decide(Some("08001"));
            client.relay.link_failed(&report("08001"));
        } else {
            let Some(at) = self.servers.iter().position(|server| server.server.is_some()) else {
                return;
            };
            let upstream = &mut self.servers[at];
            (upstream.owner, client.link) = (Some(id), Some(at));
            upstream.session.runs = client.runs;
            client.is_waiting = false;
            client.decide(None);
            client.relay.linked(upstream.server.take().unwrap(), 0);
        }
        self.perform(id, b"");
    }

    fn cancel(&mut self, id: usize) {
        let client = &mut self.clients[id];
        if client.is_gone {
            return;
        }
        if client.is_waiting {
            client.is_waiting = false;
            client.decide(Some("57014"));
        }
        client.relay.cancel();
        self.perform(id, b"");
    }

    fn cancel_moves(&mut self) {
        if self.cancels.is_empty() {
            return;
        }
        let at = self.dice.roll(self.cancels.len());
        let (id, server, generation, has_arrived) = self.cancels[at];
        if has_arrived {
            self.cancels.swap_remove(at);
            self.clients[id].cancels -= 1;
            self.clients[id].relay.cancel_ended();
            return self.perform(id, b"");
        }
        self.cancels[at].3 = true;
        let server = &mut self.servers[server];
        if server.generation == generation {
            assert_eq!(server.owner, Some(id), "Q3: the cancel hits another client");
            server.session.is_canceled = !server.input.is_empty();
        }
    }

    fn leave(&mut self, id: usize) {
        self.trace(|| format!("client {id} leaves"));
        let client = &mut self.clients[id];
        if client.is_gone {
            return;
        }
        client.is_gone = true;
        client.is_waiting = false;
        client.undecided.clear();
        client.relay.client_gone();
        self.perform(id, b"");
    }

    fn kill(&mut self, at: usize) {
        self.trace(|| format!("server {at} dies"));
        let generation = self.servers[at].generation + 1;
        let old = std::mem::replace(&mut self.servers[at], Upstream::new(generation));
        let Some(id) = old.owner else { return };
        let client = &mut self.clients[id];
        client.link = None;
        client.canceled.extend(old.session.cuts);
        client.runs = old.session.runs;
        let before = client.received.len();
        client.relay.server_gone(false);
        self.perform(id, b"");
        let client = &mut self.clients[id];
        if client.is_gone {
            return;
        }
        let told = client.received.split_off(before);
        let received = std::mem::take(&mut client.received);
        let (expected, states) = client.replay();
        assert!(expected.starts_with(&received), "{expected:?} begins with {received:?}");
        assert!(told.iter().all(|text| text == "error 08006" || text == "ready I"), "{told:?}");
        let own = self.own(id);
        assert!(states.contains(&own), "the store is at some step of the client");
        self.clients[id].store = own;
        self.leave(id);
    }

    /// The part of the store that belongs to a client.
    fn own(&self, id: usize) -> Store {
        let prefix = format!("c{id}k");
        let own = self.store.iter().filter(|(key, _)| key.starts_with(&prefix));
        own.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What must hold when nothing of a client is under way.
    fn check(&mut self, id: usize) {
        let own = self.own(id);
        let client = &mut self.clients[id];
        if client.is_gone {
            if client.link.is_none() && client.cancels == 0 && self.has_deaths {
                let (_, states) = client.replay();
                assert!(states.contains(&own), "Q1: the client is gone, {states:?} has {own:?}");
                assert_eq!(client.admits, client.settles + client.refusals, "one end each");
                *client = Client::new(&mut self.dice, id, own, client.relay.pooling);
            }
            return;
        }
        let is_busy = client.relay.link.as_ref().is_some_and(|link| link.is_busy);
        if client.is_waiting || is_busy || !client.undecided.is_empty() {
            return;
        }
        let received = std::mem::take(&mut client.received);
        let (expected, _) = client.replay();
        assert_eq!(received, expected, "the answers are those of a private server");
        assert_eq!(
            client.name, client.private.name,
            "the parameters are those of a private server"
        );
        if client.relay.status() == Status::Idle {
            assert_eq!(client.store, own, "Q1, Q4: the store is that of a private server");
        }
    }

    fn perform(&mut self, id: usize, input: &[u8]) {
        loop {
            let Some(effect) = self.clients[id].relay.poll_effect() else { return };
            self.trace(|| match &effect {
                Effect::Release(_, reuse) => format!("-> {id}: Release {reuse:?}"),
                effect => format!("-> {id}: {effect:?}"),
            });
            match effect {
                Effect::Client(range) => {
                    let client = &mut self.clients[id];
                    let bytes = split(Side::SERVER, &client.relay.client_bytes()[range]);
                    bytes.iter().for_each(|message| client.receive(message));
                }
                Effect::ClientInput => self.clients[id].receive(input),
                Effect::Server(range) => {
                    let bytes = &self.clients[id].relay.server_bytes()[range];
                    let messages = split(Side::client(1 << 20), bytes);
                    let at = self.clients[id].link.unwrap();
                    self.servers[at].input.extend(messages);
                }
                Effect::ServerInput => {
                    let at = self.clients[id].link.unwrap();
                    self.servers[at].input.push_back(input.to_vec());
                }
                Effect::Check => self.checked(id),
                effect => self.manage(id, effect),
            }
        }
    }

    fn checked(&mut self, id: usize) {
        let client = &mut self.clients[id];
        let rejection = (self.dice.roll(12) == 0).then_some("42501");
        client.decide(rejection);
        client.relay.checked(rejection.map(report));
    }

    fn manage(&mut self, id: usize, effect: Effect) {
        let client = &mut self.clients[id];
        match effect {
            Effect::Admit => {
                client.admits += 1;
                client.is_waiting = true;
            }
            Effect::Link => client.is_waiting = true,
            Effect::Settle => client.settles += 1,
            Effect::CancelUpstream => {
                let at = client.link.unwrap();
                client.cancels += 1;
                self.cancels.push((id, at, self.servers[at].generation, false));
            }
            Effect::Release(server, reuse) => {
                let at = client.link.take().unwrap();
                let upstream = &mut self.servers[at];
                client.runs = upstream.session.runs;
                client.canceled.append(&mut upstream.session.cuts);
                if reuse == Reuse::Close {
                    *upstream = Upstream::new(upstream.generation + 1);
                    return;
                }
                // A server reads and ignores what it is sent of a COPY that has failed.
                let late = [client::COPY_DATA, client::COPY_DONE, client::COPY_FAIL];
                assert!(upstream.input.iter().all(|message| late.contains(&message[0])));
                assert!(upstream.session.out.is_empty());
                assert!(upstream.session.is_quiet(), "released within a transaction");
                assert!(!upstream.session.is_listening, "Q2: released while it listens");
                assert_eq!(upstream.session.statements_len(), server.statements_len(), "no leak");
                (upstream.owner, upstream.server) = (None, Some(server));
            }
            Effect::Reshaped | Effect::Close => {}
            effect => panic!("{effect:?}"),
        }
    }
}

impl Upstream {
    fn new(generation: u64) -> Self {
        Self {
            session: Session::new("app"),
            input: VecDeque::new(),
            // Few, so that statements leave while batches with errors are under way.
            server: Some(Box::new(Server::new(parameters()).with_statements_max(2))),
            owner: None,
            generation,
        }
    }
}
