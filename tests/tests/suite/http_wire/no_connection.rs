//! Admitted requests that find no connection to a server wait like any others: what they keep counts for their
//! client, and waiting costs nothing (D1). And one client leaves connections to the others.

use super::frames::{DATA, END_STREAM, Frame, HEADERS, Http2, PING, block, request};
use paceline_tests::{Latch, Proxy, Scratch, Upstream, Web};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::sync::Arc;

const STREAMS: u32 = 100;

/// Open files, and how many of them are for connections to servers, and as many again for clients.
const FILES: u64 = 900;
const CONNECTIONS: usize = FILES as usize / 6;

fn limit_files() {
    let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// A server that answers when the latch lets it.
fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "late");
    });
    (latch, upstream)
}

fn backend(name: &str, server: &Upstream, connect: &str) -> String {
    format!(
        "[[backend]]\nname = \"{name}\"\ntimeouts = {{ connect = \"{connect}\" }}\n\
         servers = [{{ name = \"one\", address = \"{}\" }}]\n",
        server.address()
    )
}

fn connect(proxy: &Proxy) -> Http2 {
    Http2::connect(proxy.address("web").parse().unwrap())
}

/// Waits until the daemon has read everything that the client has sent.
fn is_read(client: &mut Http2) {
    client.send(&Frame::new(PING, 0, 0, *b"in order"));
    client.next_of(PING);
}

/// The bodies of one client may use 64 MiB together until they can be forwarded (1.2 GB in 5 s).
#[test]
fn bodies_of_requests_without_a_connection_are_bounded_d1() {
    const CLIENTS: usize = 40;
    limit_files();
    let (latch, app) = held();
    let proxy = Proxy::start(&format!("{}{}", backend("app", &app, "1m"), Proxy::FRONTEND));
    let mut filling: Vec<Http2> = vec![];
    for _ in 0..2 {
        let mut client = connect(&proxy);
        (0..STREAMS).for_each(|number| client.ask(2 * number + 1, "/"));
        filling.push(client);
    }
    let _ = app.wait_for(CONNECTIONS);
    let before = proxy.resident_bytes();
    let mut frames = vec![];
    for stream in (0..STREAMS).map(|number| 2 * number + 1) {
        frames.push(Frame::new(HEADERS, 4, stream, block(&request("POST", "/", &[]))));
        frames.extend(vec![Frame::new(DATA, 0, stream, [b'x'; 16_000]); 4]);
    }
    let mut clients = vec![];
    for _ in 0..CLIENTS {
        let mut client = connect(&proxy);
        client.send_at_once(&frames);
        clients.push(client);
    }
    // There is no room for the others.
    let refused = CLIENTS * STREAMS as usize - 2 * (64 << 20) / 64_000;
    let records = proxy.records(refused);
    assert!(records.iter().all(|record| record["error"] == "exhausted"), "{records:?}");
    let grown = proxy.resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 160, "{grown} MiB of 256");
    latch.open();
}

/// Their heads, too, may use a quarter of the total.
#[test]
fn heads_of_requests_without_a_connection_count_for_their_client_d1() {
    const LONG: usize = 30_000;
    const EACH: u32 = 33;
    const CLIENT_BYTES_MAX: usize = 128 << 20;
    limit_files();
    let (latch, app) = held();
    let proxy = Proxy::start(&format!(
        "{}{}trusted = [\"127.0.0.1\"]\n",
        backend("app", &app, "1m"),
        Proxy::FRONTEND
    ));
    let long = "x".repeat(LONG);
    let fields = [("x-forwarded-for", "192.0.2.1"), ("x-long", &*long)];
    let ask = |client: &mut Http2, stream| {
        client.headers(stream, &request("GET", "/", &fields), END_STREAM);
    };
    // Requests that have a connection do not count.
    let count = (CLIENT_BYTES_MAX / LONG + CONNECTIONS) / EACH as usize;
    let clients: Vec<Http2> = (0..=count)
        .map(|_| {
            let mut client = connect(&proxy);
            (0..EACH).for_each(|number| ask(&mut client, 2 * number + 1));
            client
        })
        .collect();
    let record = &proxy.records(1)[0];
    assert_eq!((&record["status"], &record["error"]), (&503.into(), &"exhausted".into()));
    let mut more = connect(&proxy);
    ask(&mut more, 1);
    let (status, text) = more.response(1);
    assert!(status == 503 && text.contains("one client"), "{status} {text}");
    let mut other = proxy.connect();
    other.ask("/", &format!("X-Forwarded-For: 192.0.2.2\r\nX-Long: {long}\r\n"));
    drop(clients);
    latch.open();
    assert_eq!(other.answer().status, 200);
}

/// How often the daemon's threads have slept.
fn sleeps(proxy: &Proxy) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", proxy.daemon.process())).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}

/// A request that waits for a connection is not woken before it has one or times out (each checked 20 times a
/// second).
#[test]
fn requests_that_wait_for_a_connection_do_nothing_d1() {
    const WAITING: usize = 50;
    limit_files();
    let (latch, app) = held();
    let proxy = Proxy::start(&format!(
        "[http]\nthreads = 1\n{}{}",
        backend("app", &app, "10s"),
        Proxy::FRONTEND
    ));
    let mut clients: Vec<Http2> = (0..2).map(|_| connect(&proxy)).collect();
    for client in &mut clients {
        (0..STREAMS).for_each(|number| client.ask(2 * number + 1, "/"));
        is_read(client);
    }
    let _ = app.wait_for(CONNECTIONS);
    let before = sleeps(&proxy);
    assert_eq!(proxy.records(WAITING)[0]["error"], "exhausted");
    // Once or twice for each, when it times out; polling would have woken a thread 200 times.
    let slept = sleeps(&proxy) - before;
    assert!(slept < 190, "{slept} times");
    latch.open();
}

/// A few connections are reserved for each backend, however many others are overloaded.
#[test]
fn several_backends_leave_connections_to_another_d1() {
    const OVERRUN: usize = 5;
    limit_files();
    let ((latch, app), other) = (held(), Upstream::saying("other"));
    let names: Vec<String> = (0..OVERRUN).map(|number| format!("app{number}")).collect();
    let backends: String = names.iter().map(|name| backend(name, &app, "2s")).collect();
    let switches: Vec<String> = names
        .iter()
        .map(|name| format!("{{ when = 'path == \"/{name}\"', backend = \"{name}\" }}"))
        .collect();
    let proxy = Proxy::start(&format!(
        "{backends}{}{}use_backend = [{}]\n",
        backend("app", &other, "1m"),
        Proxy::FRONTEND,
        switches.join(", ")
    ));
    let mut clients = vec![];
    for name in &names {
        for _ in 0..2 {
            let mut client = connect(&proxy);
            (0..STREAMS).for_each(|number| client.ask(2 * number + 1, &format!("/{name}")));
            clients.push(client);
        }
    }
    // By the time the requests without a connection are refused, the others have theirs.
    let refused = clients.len() * STREAMS as usize - CONNECTIONS;
    let _ = proxy.records(refused);
    let answer = proxy.connect().get("/");
    assert_eq!((answer.status, answer.text()), (200, "other"));
    latch.open();
}

/// One client gets at most three quarters of all connections; another one only in place of an idle one of its own.
#[test]
fn one_client_leaves_connections_to_others_d1() {
    limit_files();
    let (app, scratch) = (Upstream::saying("hello"), Scratch::new());
    let socket = format!("unix:{}", scratch.path().join("s").display());
    let proxy = Proxy::start_in(
        scratch,
        &format!(
            "{}[[frontend]]\nname = \"other\"\nlisten = \"{socket}\"\nbackend = \"app\"\n{}",
            backend("app", &app, "5s"),
            Proxy::FRONTEND
        ),
    );
    let mut clients: Vec<Web> = vec![];
    for _ in 0..2 * CONNECTIONS {
        let mut client = proxy.connect();
        assert_eq!(client.get("/").status, 200, "an idle one makes room");
        clients.push(client);
    }
    // A local user on the socket is another client.
    let answer = Web::connect(&socket).get("/");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
}

/// A client whose connections are all busy gets no more than that.
#[test]
fn busy_connections_of_one_client_leave_some_to_others_d1() {
    limit_files();
    let ((latch, app), scratch) = (held(), Scratch::new());
    let socket = format!("unix:{}", scratch.path().join("s").display());
    let other = Upstream::saying("other");
    let proxy = Proxy::start_in(
        scratch,
        &format!(
            "{}{}[[frontend]]\nname = \"other\"\nlisten = \"{socket}\"\nbackend = \"two\"\n{}",
            backend("app", &app, "1m"),
            backend("two", &other, "1m"),
            Proxy::FRONTEND
        ),
    );
    let mut clients: Vec<Web> = vec![];
    for _ in 0..CONNECTIONS {
        let mut client = proxy.connect();
        client.ask("/", "");
        clients.push(client);
    }
    let answer = Web::connect(&socket).get("/");
    assert_eq!((answer.status, answer.text()), (200, "other"));
    assert!(proxy.daemon.log_line(&["refused connections", "127.0.0.1"]).is_ok());
    latch.open();
}
