//! Connections that are closed for others: the number of connections of a client, in total and at one frontend, is
//! bounded whatever the client does while they close (D1, D4).

use paceline_tests::{Latch, Proxy, Upstream, Web};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::sync::Arc;

/// Open files, and how many of them are for client connections.
const FILES: u64 = 900;
const CONNECTIONS: u64 = FILES / 6;

/// Open connections of the frontend `web`.
fn connections(proxy: &Proxy) -> u64 {
    let frontend = proxy.daemon.api().get("/v1/frontends/web").expect(200);
    frontend["figures"]["connections"].as_u64().unwrap()
}

/// A client that opens as many new connections as it has idle ones, and at the same moment sends a request on each
/// idle one, has no more than before: each idle connection is closed or kept, but no place is given away twice.
#[test]
fn a_displaced_connection_begins_no_request_d1() {
    let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let (latch, upstream) = holding();
    let config = Proxy::config(upstream.address(), "");
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    // Fewer than its share, so that all are accepted.
    let mut idle: Vec<Web> = (0..CONNECTIONS * 2 / 3).map(|_| proxy.connect()).collect();
    let mut held = vec![];
    for _ in 0..3 {
        idle.retain_mut(is_answered);
        // The daemon finds both at once: a connection to accept, and a request on the connection that it would close
        // for it.
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

/// The maximum of connections of a frontend whose clients a trusted proxy names.
const MAX: usize = 8;

/// So many that two connections rarely have the same one.
const THREADS: usize = 8;

const PROXIED: &str = "proxy_protocol = true\ntrusted = [\"127.0.0.1\"]\n";

fn small(upstream: &Upstream) -> Proxy {
    frontend(upstream, 1, MAX, PROXIED)
}

/// A frontend that may have `max` connections.
fn frontend(upstream: &Upstream, threads: usize, max: usize, more: &str) -> Proxy {
    // No connection ends by itself while a test waits for an answer.
    let more = format!("max_connections = {max}\ntimeouts = {{ idle = \"1h\" }}\n{more}");
    let config = Proxy::config(upstream.address(), &more);
    Proxy::start(&format!("[http]\nthreads = {threads}\n{config}"))
}

/// A server that holds up requests for `/held` until the latch lets them.
fn holding() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        if call.target() == "/held" {
            theirs.pass();
        }
        call.answer(200, "here");
    });
    (latch, upstream)
}

/// A connection of this client.
fn connect(proxy: &Proxy, client: &str) -> Web {
    let mut web = proxy.connect();
    web.send(format!("PROXY TCP4 {client} 127.0.0.1 1 2\r\n")).unwrap();
    web
}

/// The same, which has had an answer and is kept.
fn kept(proxy: &Proxy, client: &str) -> Web {
    let mut web = connect(proxy, client);
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
    // Its maximum, and as many again.
    let all: Vec<Web> = (1..=2 * MAX).map(many).collect();
    assert_eq!(connections(&proxy), MAX as u64);
    drop(all);
}

/// Whichever worker has the idle connection, and whichever accepts the new one.
#[test]
fn idle_connections_of_all_workers_make_room_d1() {
    let upstream = Upstream::saying("here");
    let proxy = frontend(&upstream, THREADS, MAX, PROXIED);
    let many = |number| kept(&proxy, &format!("192.0.2.{number}"));
    let all: Vec<Web> = (1..=5 * MAX).map(many).collect();
    assert_eq!(connections(&proxy), MAX as u64);
    drop(all);
}

/// However many clients have more connections, all of them busy.
#[test]
fn a_client_with_few_connections_makes_room_where_all_others_are_busy_d1() {
    const BUSY: usize = 12;
    let (latch, upstream) = holding();
    let proxy = frontend(&upstream, 1, 2 * BUSY + 1, PROXIED);
    let mut busy: Vec<Web> =
        (0..2 * BUSY).map(|n| connect(&proxy, &format!("192.0.2.{}", n % BUSY))).collect();
    busy.iter_mut().for_each(|client| client.ask("/held", ""));
    let _ = upstream.wait_for(2 * BUSY);
    let idle = kept(&proxy, "198.51.100.1");
    let other = kept(&proxy, "198.51.100.2");
    assert!(idle.is_closed());
    latch.open();
    drop((busy, other));
}

/// A client that has its share of a frontend gets another connection for an idle one of its own, whichever worker has that.
#[test]
fn a_client_at_its_share_gives_an_idle_connection_of_any_worker_d1() {
    let upstream = Upstream::saying("here");
    let proxy = frontend(&upstream, THREADS, 5, "");
    let mut all = vec![];
    for _ in 0..5 * MAX {
        let mut client = proxy.connect();
        assert_eq!(client.get("/").status, 200);
        all.push(client);
    }
    assert_eq!(connections(&proxy), 4, "one is for other clients");
}

/// However many of its connections are busy.
#[test]
fn a_client_at_its_share_gives_an_idle_connection_beside_many_busy_ones_d1() {
    const IDLE: usize = 5;
    const SHARE: usize = 75;
    let (latch, upstream) = holding();
    let proxy = frontend(&upstream, 1, SHARE / 3 * 4, "");
    let mut busy: Vec<Web> = (0..SHARE - IDLE).map(|_| proxy.connect()).collect();
    busy.iter_mut().for_each(|client| client.ask("/held", ""));
    let _ = upstream.wait_for(busy.len());
    let mut idle: Vec<Web> = (0..IDLE).map(|_| proxy.connect()).collect();
    assert!(idle.iter_mut().all(is_answered));
    for _ in 0..IDLE {
        let mut client = proxy.connect();
        client.ask("/held", "");
        busy.push(client);
        let _ = upstream.wait_for(busy.len() + IDLE);
    }
    assert!(idle.into_iter().all(Web::is_closed));
    assert_eq!(connections(&proxy), SHARE as u64);
    assert!(proxy.connect().is_closed(), "none of its connections is idle");
    latch.open();
}
