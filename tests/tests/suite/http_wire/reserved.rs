//! Connections that are kept for a backend are for its requests (D1): whichever worker they lie idle at, and when they are
//! used up by requests whose client has disconnected.

use super::frames::Http2;
use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::Arc;

/// Open files; a sixth of them are for connections to servers.
const FILES: u64 = 900;

/// Backends that use up what they may have, and requests of each.
const GREEDY: usize = 4;
const REQUESTS: u32 = 200;

/// What is kept for each of five backends: a fifth of a half of a sixth.
const KEPT: usize = 15;

/// A daemon of many threads with the backend `app` and greedy ones that hold all their requests.
struct Kit {
    proxy: Proxy,
    upstream: Upstream,
    latch: Arc<Latch>,
    /// For requests to `/first`.
    first: Arc<Latch>,
}

impl Kit {
    fn start() -> Self {
        let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let (latch, first) = (Latch::new(), Latch::new());
        let theirs = [Arc::clone(&latch), Arc::clone(&first)];
        let upstream = Upstream::start(move |call| {
            match call.target() {
                "/" => {}
                "/first" => theirs[1].pass(),
                _ => theirs[0].pass(),
            }
            call.answer(200, "here");
        });
        let backend = |name: &str, connect: &str| {
            let address = upstream.address();
            format!(
                "[[backend]]\nname = \"{name}\"\n\
                 timeouts = {{ connect = \"{connect}\", idle = \"1h\" }}\n\
                 servers = [{{ name = \"one\", address = \"{address}\", max_connections = 1000 }}]\n"
            )
        };
        let names: Vec<String> = (0..GREEDY).map(|number| format!("greedy{number}")).collect();
        let backends: String = names.iter().map(|name| backend(name, "1m")).collect();
        let switches: Vec<String> = names
            .iter()
            .map(|name| format!("{{ when = 'path == \"/{name}\"', backend = \"{name}\" }}"))
            .collect();
        let proxy = Proxy::start(&format!(
            "[http]\nthreads = 8\n{backends}{}{}use_backend = [{}]\n",
            backend("app", "10s"),
            Proxy::FRONTEND,
            switches.join(", ")
        ));
        Self { proxy, upstream, latch, first }
    }

    /// A connection with so many requests.
    fn ask(&self, path: &str, count: u32) -> Http2 {
        let mut client = Http2::connect(self.proxy.address("web").parse().unwrap());
        (0..count).for_each(|number| client.ask(2 * number + 1, path));
        client
    }

    /// The backend `app` has all that is kept for it.
    fn fill(&self) -> Http2 {
        let client = self.ask("/first", KEPT as u32);
        let _ = self.upstream.wait_for(KEPT);
        client
    }

    /// The greedy backends take what they may have, one after the other. So many requests of others run.
    fn overrun(&self, others: usize) -> Vec<Http2> {
        let mut clients = vec![];
        for number in 0..GREEDY {
            for _ in 0..2 {
                clients.push(self.ask(&format!("/greedy{number}"), REQUESTS / 2));
            }
            let running = others + (number + 1) * REQUESTS as usize;
            self.proxy.wait_for_counts(0, running);
        }
        clients
    }

    /// Clients of `app` are served, each on a connection of its own.
    fn serves(&self, count: usize) {
        let clients: Vec<Web> = (0..count)
            .map(|number| {
                let mut client = self.proxy.connect();
                let answer = client.get("/");
                assert_eq!((answer.status, answer.text()), (200, "here"), "client {number}");
                client
            })
            .collect();
        drop(clients);
    }
}

#[test]
fn idle_connections_of_a_backend_are_for_its_requests_on_any_worker_d1() {
    let kit = Kit::start();
    let first = kit.fill();
    kit.first.open();
    kit.proxy.wait_for_counts(0, 0);
    let greedy = kit.overrun(0);
    kit.serves(16);
    kit.latch.open();
    drop((first, greedy));
}

#[test]
fn the_oldest_of_a_backends_requests_without_a_client_makes_room_for_its_others_d1() {
    let kit = Kit::start();
    drop(kit.fill());
    let left = || {
        let frontend = kit.proxy.daemon.api().get("/v1/frontends/web").expect(200);
        frontend["figures"]["left"].as_u64().unwrap()
    };
    until(left, |left| *left == KEPT as u64);
    let greedy = kit.overrun(KEPT);
    kit.serves(3);
    // No more of them than there were requests that needed a connection.
    let (_, running) = kit.proxy.counts();
    assert!(running >= KEPT - 3 + GREEDY * REQUESTS as usize, "{running} requests");
    kit.first.open();
    kit.latch.open();
    drop(greedy);
}
