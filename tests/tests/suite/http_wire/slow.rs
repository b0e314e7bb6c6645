//! Clients that are slow, silent or many: they are disconnected after their timeout, cost little, and block no other
//! client.

use super::door::{Door, Played, get, ok};
use super::recorder::Recorder;
use super::wire::Wire;
use paceline_tests::{Latch, Upstream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits up to `millis` for something to read.
fn is_readable(stream: &TcpStream, millis: i64) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut polled, Some(&wait)).unwrap() > 0
}

/// Sends byte after byte, one every few milliseconds, until there is a response.
fn trickle(client: &mut Wire, text: &str) {
    let bytes = text.bytes().chain(std::iter::repeat(b'x'));
    for byte in bytes {
        client.send([byte]);
        if is_readable(&client.stream, 10) {
            return;
        }
    }
}

#[test]
fn heads_that_trickle_are_cut_off_d2() {
    let server = Recorder::start();
    let more = "timeouts = { header = \"300ms\", idle = \"1m\" }";
    let door = Door::plain(server.address, more);
    let mut client = door.connect();
    let start = Instant::now();
    trickle(&mut client, "GET /slow HTTP/1.1\r\nHost: a.example\r\nX-Slow: ");
    let answer = client.response();
    assert_eq!((answer.status, answer.field("connection")), (408, Some("close")), "{answer:?}");
    assert!(start.elapsed() >= Duration::from_millis(300), "not before its time");
    client.ends();
    // On a connection that was used before, and on one whose bytes are still incomplete.
    for begun in ["G", "\r\nGET /x HTTP/1.1\r\n", "PRI * HTTP/2", "GET / HTTP/1.1\r\nHost: a"] {
        let mut client = door.connect();
        client.send(get("/first"));
        assert_eq!(client.response().status, 200);
        client.send(begun);
        assert_eq!(client.response().status, 408, "{begun:?}");
        client.ends();
    }
    // A client that never sends anything gets no response.
    door.connect().ends();
    door.serves();
    assert_eq!(server.take().requests.len(), 5, "nothing of them reached the server");
    door.ends_well();
}

#[test]
fn idle_connections_are_closed() {
    let server = Recorder::start();
    let door = Door::plain(server.address, "timeouts = { header = \"1m\", idle = \"200ms\" }");
    let mut client = door.connect();
    client.send(get("/first"));
    assert_eq!(client.response().status, 200);
    client.ends();
}

#[test]
fn bodies_that_stop_are_cut_off_d2() {
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { body = \"300ms\" }");
    for (fields, begun) in
        [("Content-Length: 10", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n")]
    {
        let mut client = door.connect();
        client.send(format!("POST /up HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n\r\n{begun}"));
        let mut server = played.accept();
        assert!(server.head().is_some());
        assert_eq!(client.response().status, 408, "{fields}");
        client.ends();
        let got = server.rest();
        assert_eq!(got, begun.as_bytes(), "the server sees that the request is cut");
    }
    door.serves_with(&played);
    door.ends_well();
}

/// A client that never reads: the server is held back, the daemon keeps little, and finally both are disconnected.
#[test]
fn a_client_that_never_reads_is_cut_off_d1() {
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { body = \"500ms\" }");
    let before = door.memory();
    let mut clients = vec![];
    for _ in 0..20 {
        let mut client = door.connect();
        client.send(get("/endless"));
        let mut server = played.accept();
        assert!(server.request().is_some());
        let thread = std::thread::spawn(move || {
            server.send("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n");
            let piece = vec![b'x'; 1 << 20];
            let mut sent = 0;
            while server.stream.write_all(&piece).is_ok() {
                sent += piece.len();
            }
            sent
        });
        clients.push((client, thread));
    }
    door.serves_with(&played);
    let grown = door.memory().saturating_sub(before);
    assert!(grown < 20 * 300, "{grown} KiB for 20 clients");
    for (mut client, thread) in clients {
        // The system's socket buffers hold some megabytes; the rest was never taken.
        let sent = thread.join().unwrap();
        assert!(sent < 100 << 20, "{sent}");
        let answer = client.response();
        assert!(!answer.is_whole, "a cut response is seen to be one");
    }
    door.ends_well();
}

/// Many connections need many descriptors, of this process and of the daemon, which inherits the limit.
fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// Kilobytes that each of `count` waiting connections costs the daemon, after `prepare`.
fn cost_of_idle(count: u64, prepare: impl Fn(&Door, &mut Wire)) -> u64 {
    allow_descriptors();
    let server = Recorder::start();
    let door = Door::plain(server.address, "");
    // Memory that is allocated once for all is allocated first.
    let mut first = door.connect();
    prepare(&door, &mut first);
    door.serves();
    let before = door.memory();
    let idle: Vec<Wire> = (0..count)
        .map(|_| {
            let mut client = door.connect();
            prepare(&door, &mut client);
            client
        })
        .collect();
    let start = Instant::now();
    door.serves();
    assert!(start.elapsed() < Duration::from_secs(5), "others are served");
    let cost = door.memory().saturating_sub(before) / count;
    drop(idle);
    door.serves();
    cost
}

#[test]
fn silent_connections_cost_little_d1() {
    let cost = cost_of_idle(1_000, |_, _| {});
    assert!(cost <= 64, "{cost} KiB each");
}

#[test]
fn used_connections_cost_little_d1() {
    // Large enough in both directions to make every buffer grow.
    let body = "x".repeat(300_000);
    let text = format!(
        "POST /{} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{body}",
        "x".repeat(8_000),
        body.len()
    );
    let cost = cost_of_idle(200, |_, client| {
        client.send(&text);
        assert_eq!(client.response().status, 200);
    });
    assert!(cost <= 64, "{cost} KiB each");
}

#[test]
fn connections_of_http2_cost_little_d1() {
    use super::frames::Http2;
    allow_descriptors();
    let server = Recorder::start();
    let door = Door::plain(server.address, "");
    Http2::connect(door.address("web")).serves(1);
    let before = door.memory();
    let mut idle: Vec<Http2> = (0..300).map(|_| Http2::connect(door.address("web"))).collect();
    idle.iter_mut().for_each(|client| client.serves(1));
    let cost = door.memory().saturating_sub(before) / 300;
    assert!(cost <= 64, "{cost} KiB each");
}

/// If no connection is idle, connections above the maximum wait to be accepted, and each gets its turn, whichever
/// worker it waits for.
#[test]
fn connections_above_the_maximum_wait() {
    for threads in [1, 2] {
        let latch = Latch::new();
        let theirs = Arc::clone(&latch);
        let server = Upstream::start(move |call| {
            if call.target() == "/held" {
                theirs.pass();
            }
            call.answer(200, "here");
        });
        let address = server.address();
        let door = Door::start(&format!(
            "[http]\nthreads = {threads}\n[[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
             backend = \"app\"\nmax_connections = 2\n[[frontend]]\nname = \"other\"\n\
             listen = \"127.0.0.2:0\"\nbackend = \"app\"\n[[backend]]\nname = \"app\"\n\
             servers = [{{ address = \"{address}\" }}]\n"
        ));
        let mut held = vec![];
        for _ in 0..2 {
            let mut client = door.connect();
            client.send(get("/held"));
            held.push(client);
        }
        let _ = server.wait_for(2);
        let mut waiting: Vec<Wire> = (0..16).map(|_| door.connect()).collect();
        for client in &mut waiting {
            client.send("GET /waits HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        }
        let mut other = Wire::connect(door.address("other"));
        other.send(get("/other"));
        assert_eq!(other.response().status, 200, "another frontend has its own maximum");
        let seen = server.lines();
        assert!(!seen.iter().any(|request| request.starts_with("GET /waits ")), "{seen:?}");
        drop(held);
        // All at once: a client that has its response and does not close keeps its place for a while.
        std::thread::scope(|scope| {
            for mut client in waiting {
                scope.spawn(move || {
                    assert_eq!(client.response().status, 200, "{threads} threads");
                    client.ends();
                });
            }
        });
        latch.open();
        door.ends_well();
    }
}

/// A response that is still being sent is not cut off as long as it progresses.
#[test]
fn slow_readers_that_read_are_served() {
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { body = \"2s\" }");
    let mut client = door.connect();
    client.send(get("/long"));
    let mut server = played.accept();
    assert!(server.request().is_some());
    let body = "x".repeat(8 << 20);
    let thread = std::thread::spawn(move || server.send(ok(&body)));
    let head = client.head().unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut got = 0;
    while got < 8 << 20 {
        let piece = client.take(64 << 10).len();
        assert!(piece > 0, "cut off after {got} bytes");
        got += piece;
    }
    thread.join().unwrap();
}
