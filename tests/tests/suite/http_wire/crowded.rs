//! Clients that use all they can get: clients of another backend still find connections to servers, disconnected
//! clients hold few of them, and waiting requests of one client leave room for those of others (D1).

use super::frames::{END_STREAM, HEADERS, Http2, request};
use paceline_tests::{Latch, Proxy, Upstream, Web};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::Arc;

const STREAMS: u32 = 100;

/// Open files, and how many of them are for connections to servers.
const FILES: u64 = 900;
const CONNECTIONS: usize = FILES as usize / 6;

/// The part of these that orphans may hold.
const ORPHANS: usize = CONNECTIONS / 4;

fn limit_files() {
    let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// A server that answers when the latch lets it, even if the client has disconnected.
fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "late");
    });
    (latch, upstream)
}

/// A backend. Its requests wait for a connection long enough for a server whose backlog is full.
fn backend(name: &str, server: &Upstream) -> String {
    format!(
        "[[backend]]\nname = \"{name}\"\ntimeouts = {{ connect = \"5s\" }}\n\
         servers = [{{ name = \"one\", address = \"{}\" }}]\n",
        server.address()
    )
}

/// The frontends `web` and `other`, each with its own backend.
fn two(app: &Upstream, other: &Upstream, more: &str) -> Proxy {
    let frontend = "[[frontend]]\nname = \"other\"\nlisten = \"127.0.0.1:0\"\nbackend = \"two\"\n";
    let backends = [backend("app", app), backend("two", other)].concat();
    Proxy::start(&format!("{backends}{frontend}{}{more}", Proxy::FRONTEND))
}

/// One request at a time for each key, and clients choose the keys.
const PER_KEY: &str = "[[checkpoint]]\nname = \"per-key\"\nat = \"frontend web\"\n\
                       key = 'header[\"x-key\"]'\nconcurrency = 1\n";

/// Sends `count` requests, each with a new key, and disconnects each time when the server works on it.
fn ask_and_leave(proxy: &Proxy, server: &Upstream, count: usize) {
    for number in 1..=count {
        let mut gone = proxy.connect();
        gone.ask("/gone", &format!("X-Key: {number}\r\n"));
        let _ = server.wait_for(number);
    }
}

/// `count` requests over one connection.
fn ask_all(proxy: &Proxy, frontend: &str, count: u32) -> Http2 {
    let mut client = Http2::connect(proxy.address(frontend).parse().unwrap());
    (0..count).for_each(|number| client.ask(2 * number + 1, "/"));
    client
}

/// Checks that all of them are answered.
fn are_answered(client: &mut Http2, count: u32, statuses: &[u16]) {
    let mut ended = 0;
    while ended < count {
        let frame = client.next().expect("every request is answered");
        ended += u32::from(frame.ends());
        assert!(frame.kind != HEADERS || statuses.contains(&frame.status()), "{frame:?}");
    }
}

#[test]
fn clients_that_left_leave_connections_to_other_backends_d1() {
    limit_files();
    let ((latch, app), other) = (held(), Upstream::saying("other"));
    let proxy = two(&app, &other, PER_KEY);
    ask_and_leave(&proxy, &app, CONNECTIONS);
    let answer = Web::connect(proxy.address("other")).get("/");
    assert_eq!((answer.status, answer.text()), (200, "other"));
    latch.open();
}

/// A request that finds no connection gets that of a request whose client has disconnected.
#[test]
fn clients_that_left_make_room_for_others_d1() {
    limit_files();
    let (latch, app) = held();
    // One client gets at most three quarters of the connections, unless it stands for many.
    let trusted = "trusted = [\"127.0.0.1\"]\n";
    let proxy =
        Proxy::start(&format!("{}{}{trusted}{PER_KEY}", backend("app", &app), Proxy::FRONTEND));
    ask_and_leave(&proxy, &app, ORPHANS);
    let keyed = |number: u32| format!("X-Key: late{number}\r\n");
    let mut clients: Vec<Web> = (0..CONNECTIONS as u32)
        .map(|number| {
            let mut client = proxy.connect();
            client.ask("/", &keyed(number));
            client
        })
        .collect();
    let _ = app.wait_for(ORPHANS + CONNECTIONS);
    latch.open();
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn one_backend_leaves_connections_to_others_d1() {
    limit_files();
    let ((latch, app), other) = (held(), Upstream::saying("other"));
    let proxy = two(&app, &other, "");
    let mut clients = [(); 2].map(|()| ask_all(&proxy, "web", STREAMS));
    // Requests that get none have waited for one; by then the others have theirs.
    let record = &proxy.records(1)[0];
    assert_eq!((&record["status"], &record["error"]), (&503.into(), &"exhausted".into()));
    assert!(app.count() > CONNECTIONS / 2, "it has most of them");
    assert!(app.count() < CONNECTIONS, "but never the last");
    let answer = Web::connect(proxy.address("other")).get("/");
    assert_eq!((answer.status, answer.text()), (200, "other"));
    latch.open();
    clients.iter_mut().for_each(|client| are_answered(client, STREAMS, &[200, 503]));
}

/// Idle connections of one backend are closed for another one, whichever worker has them.
#[test]
fn idle_connections_make_room_for_another_backend_d1() {
    limit_files();
    let [(latch, app), (late, other)] = [held(), held()];
    let proxy = two(&app, &other, "");
    // Most of what the backend may have alone.
    let many = CONNECTIONS * 2 / 3;
    let mut clients: Vec<Web> = (0..many).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|client| client.ask("/", ""));
    let _ = app.wait_for(many);
    latch.open();
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
    let half = CONNECTIONS / 2;
    let mut client = ask_all(&proxy, "other", half as u32);
    let _ = other.wait_for(half);
    late.open();
    are_answered(&mut client, half as u32, &[200]);
}

/// Waiting requests keep their heads. Those of one client may use a quarter of the total, over all of its
/// connections. A client is identified by the trusted proxy.
#[test]
fn waiting_requests_of_one_client_leave_room_for_others_d1() {
    const LONG: usize = 30_000;
    const EACH: usize = 33;
    const CLIENT_BYTES_MAX: usize = 128 << 20;
    let (latch, app) = held();
    let one = format!("{{ name = \"one\", address = \"{}\", max_connections = 1 }}", app.address());
    let proxy = Proxy::start(&format!(
        "[[backend]]\nname = \"app\"\nservers = [{one}]\nqueue = {{ max_len = 100000 }}\n\
         {}trusted = [\"127.0.0.1\"]\n",
        Proxy::FRONTEND
    ));
    let long = "x".repeat(LONG);
    let fields = [("x-forwarded-for", "192.0.2.1"), ("x-long", &*long)];
    let ask_all = |_| {
        let mut client = Http2::connect(proxy.address("web").parse().unwrap());
        for number in 0..EACH as u32 {
            client.headers(2 * number + 1, &request("GET", "/", &fields), END_STREAM);
        }
        client
    };
    let clients: Vec<Http2> = (0..=CLIENT_BYTES_MAX / LONG / EACH).map(ask_all).collect();
    let record = &proxy.records(1)[0];
    assert_eq!((&record["status"], &record["error"]), (&503.into(), &"exhausted".into()));
    let mut more = Http2::connect(proxy.address("web").parse().unwrap());
    more.headers(1, &request("GET", "/", &fields), END_STREAM);
    let (status, text) = more.response(1);
    assert!(status == 503 && text.contains("one client"), "{status} {text}");
    let mut other = proxy.connect();
    other.ask("/", &format!("X-Forwarded-For: 192.0.2.2\r\nX-Long: {long}\r\n"));
    drop(clients);
    latch.open();
    assert_eq!(other.answer().status, 200);
}
