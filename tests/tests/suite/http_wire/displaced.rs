//! Connections that end for others: how many a client has, of all frontends and of one, is bounded whatever it does
//! while they end (D1, D4).

use paceline_tests::{Latch, Proxy, Upstream, Web};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::sync::Arc;

/// Open files, and how many of them are for connections of clients.
const FILES: u64 = 900;
const CONNECTIONS: u64 = FILES / 6;

/// Connections of the frontend `web` that are open.
fn connections(proxy: &Proxy) -> u64 {
    let frontend = proxy.daemon.api().get("/v1/frontends/web").expect(200);
    frontend["figures"]["connections"].as_u64().unwrap()
}

/// A client that opens as many new connections as it has idle ones, and asks on each of these in the same moment, has no
/// more than before: each idle one ends or is kept, but no place is given away twice.
#[test]
fn a_displaced_connection_begins_no_request_d1() {
    let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        if call.target() == "/held" {
            theirs.pass();
        }
        call.answer(200, "here");
    });
    let config = Proxy::config(upstream.address(), "");
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    // Fewer than its share, so that all are accepted.
    let mut idle: Vec<Web> = (0..CONNECTIONS * 2 / 3).map(|_| proxy.connect()).collect();
    let mut held = vec![];
    for _ in 0..3 {
        idle.retain_mut(is_answered);
        // The daemon finds both at once: a connection to accept, and a request on the one that it would end for it.
        proxy.daemon.signal(Signal::STOP);
        let new: Vec<Web> = idle.iter().map(|_| proxy.connect()).collect();
        for client in &mut idle {
            client.ask("/held", "");
        }
        proxy.daemon.signal(Signal::CONT);
        held.append(&mut idle);
        idle = new;
        idle.retain_mut(is_answered);
        let count = connections(&proxy);
        assert!(count <= CONNECTIONS, "{count} connections of {CONNECTIONS} for all clients");
    }
    latch.open();
}

/// Whether a request is answered, or its connection closed instead.
fn is_answered(client: &mut Web) -> bool {
    let sent = client.send("GET /quick HTTP/1.1\r\nHost: test\r\n\r\n");
    sent.is_ok() && client.try_answer(false).is_ok()
}

/// A frontend that may have so few connections, whose clients a trusted proxy names.
const MAX: usize = 8;

fn small(upstream: &Upstream) -> Proxy {
    // No connection ends by itself while a test waits for an answer.
    let more = format!(
        "max_connections = {MAX}\nproxy_protocol = true\ntrusted = [\"127.0.0.1\"]\n\
         timeouts = {{ idle = \"1h\" }}\n"
    );
    Proxy::start(&format!("[http]\nthreads = 1\n{}", Proxy::config(upstream.address(), &more)))
}

/// A connection of this client that has had an answer and is kept.
fn kept(proxy: &Proxy, client: &str) -> Web {
    let mut web = proxy.connect();
    web.send(format!("PROXY TCP4 {client} 127.0.0.1 1 2\r\n")).unwrap();
    assert_eq!(web.get("/").status, 200, "{client}");
    web
}

#[test]
fn idle_connections_of_one_client_leave_room_at_a_frontend_d1() {
    let upstream = Upstream::saying("here");
    let proxy = small(&upstream);
    let greedy: Vec<Web> = (0..MAX).map(|_| kept(&proxy, "192.0.2.1")).collect();
    let other = kept(&proxy, "192.0.2.2");
    drop((greedy, other));
}

#[test]
fn idle_connections_of_many_clients_make_room_at_a_frontend_d1() {
    let upstream = Upstream::saying("here");
    let proxy = small(&upstream);
    let many = |number| kept(&proxy, &format!("192.0.2.{number}"));
    // All that it may have, and as many again.
    let all: Vec<Web> = (1..=2 * MAX).map(many).collect();
    assert_eq!(connections(&proxy), MAX as u64);
    drop(all);
}
