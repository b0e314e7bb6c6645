//! Concurrent streams: a stream that is unread, reset or slow does not affect the others, and connections end in
//! order.

use super::door::{Door, Played, config, get, ok};
use super::frames::{
    CANCEL, DATA, Frame, GOAWAY, HEADERS, Http2, RST_STREAM, WINDOW_UPDATE, request,
};
use super::wire::Wire;
use rustix::process::Signal;
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// The next request at a server, on a new connection.
fn asked(played: &Played, path: &str) -> Wire {
    let mut server = played.accept();
    let request = server.request().unwrap();
    assert!(request.head.starts_with(&format!("GET {path} ")), "{request:?}");
    server
}

#[test]
fn a_stream_that_is_not_read_does_not_stop_another() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = Http2::connect(door.address("web"));
    // A window for the connection, not for the stream.
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, 10_000_000u32.to_be_bytes()));
    client.ask(1, "/large");
    let mut large = asked(&played, "/large");
    let body = "x".repeat(4 << 20);
    let server = std::thread::spawn(move || {
        large.send(ok(&body));
        large
    });
    let mut got = 0;
    while got < 65_535 {
        got += client.next_of(DATA).payload.len();
    }
    assert_eq!(got, 65_535, "the window is kept to");
    client.ask(3, "/small");
    asked(&played, "/small").send(ok("small"));
    assert_eq!(client.response(3), (200, "small".into()));
    assert!(door.memory() < 100 << 10, "{} KiB", door.memory());
    // With a window the rest arrives.
    client.send(&Frame::new(WINDOW_UPDATE, 0, 1, 10_000_000u32.to_be_bytes()));
    loop {
        let frame = client.next().unwrap();
        got += if frame.kind == DATA { frame.payload.len() } else { 0 };
        if frame.ends() {
            break;
        }
    }
    assert_eq!(got, 4 << 20);
    drop(server.join().unwrap());
}

/// D2: the timeout applies to the next piece of a body, so a client that continues to read is not disconnected. The
/// system reports room to the daemon only when a good part of its buffers was read. A client is therefore safe if it
/// reads as much as they hold within half the timeout, and only then: if the machine delays it for longer, the
/// disconnect is correct. (The door has its own test of this on a simulated clock.)
#[test]
fn a_client_that_reads_slowly_but_steadily_gets_all() {
    const BODY_MAX: Duration = Duration::from_secs(3);
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { body = \"3s\" }");
    // Very large windows: only the system's buffers limit.
    let mut client = Http2::connect_with(door.address("web"), &[(1, 0), (4, 1 << 30)]);
    let ahead = client.takes_little_ahead();
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, (1u32 << 30).to_be_bytes()));
    client.ask(1, "/large");
    let mut large = asked(&played, "/large");
    let server = std::thread::spawn(move || {
        large.send(ok(&"x".repeat(16 << 20)));
        large
    });
    let (begun, mut got, mut count) = (Instant::now(), 0, 0);
    // When as much was read as the buffers hold, and the longest time that this took.
    let (mut mark, mut longest) = ((begun, 0), Duration::ZERO);
    loop {
        let Some(frame) = client.next() else {
            longest = longest.max(mark.0.elapsed());
            assert!(longest > BODY_MAX / 2, "cut off though it read {ahead} bytes in {longest:?}");
            break;
        };
        got += if frame.kind == DATA { frame.payload.len() } else { 0 };
        if frame.ends() {
            assert_eq!(got, 16 << 20);
            break;
        }
        if got >= mark.1 + ahead {
            longest = longest.max(mark.0.elapsed());
            mark = (Instant::now(), got);
        }
        count += 1;
        // A little at a time, until a timeout that is not renewed would expire.
        if count % 2 == 0 && begun.elapsed() < BODY_MAX * 4 / 3 {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
    drop(server.join().unwrap());
}

/// A body that the server does not read is not read without bound; other streams are served.
#[test]
fn a_body_that_is_not_taken_does_not_stop_another() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = Http2::connect(door.address("web"));
    client.headers(1, &request("POST", "/stuck", &[]), 0);
    let mut stuck = played.accept();
    assert!(stuck.head().unwrap().starts_with("POST /stuck "));
    // What may be sent without a window update is sent; updates arrive as long as the sockets take data.
    for _ in 0..3 {
        client.send(&Frame::new(DATA, 0, 1, vec![b'x'; 16_000]));
    }
    client.ask(3, "/beside");
    asked(&played, "/beside").send(ok("beside"));
    assert_eq!(client.response(3), (200, "beside".into()));
}

fn queueing(played: &Played) -> Door {
    let rest = "[[checkpoint]]\nname = \"one\"\nat = \"backend app\"\nconcurrency = 1\n\
                queue = { max_len = 10 }\n";
    Door::start(&config(played.address(), "", rest))
}

/// A request that is reset while it waits ends at once: no server sees it, and the next one gets its turn.
#[test]
fn a_reset_in_the_queue_leaves_it_at_once() {
    let played = Played::new();
    let door = queueing(&played);
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/first");
    let mut first = asked(&played, "/first");
    client.ask(3, "/reset");
    client.ask(5, "/last");
    client.send(&Frame::new(RST_STREAM, 0, 3, CANCEL.to_be_bytes()));
    // The response to a ping arrives after what was sent before it.
    client.send(&Frame::new(super::frames::PING, 0, 0, *b"in order"));
    client.next_of(super::frames::PING);
    first.send(ok("first"));
    assert_eq!(client.response(1), (200, "first".into()));
    let next = first.request().expect("the connection is used again");
    assert!(next.head.starts_with("GET /last "), "{next:?}");
    first.send(ok("last"));
    assert_eq!(client.response(5), (200, "last".into()));
    assert!(!played.is_called_now(), "nobody else has called");
    door.ends_well();
}

/// The same for a connection that ends, with all its waiting requests.
#[test]
fn a_connection_that_ends_takes_its_queue_along() {
    let played = Played::new();
    let door = queueing(&played);
    let mut other = door.connect();
    other.send(get("/first"));
    let mut first = asked(&played, "/first");
    let mut client = Http2::connect(door.address("web"));
    for stream in [1, 3, 5] {
        client.ask(stream, "/gone");
    }
    client.send(&Frame::new(super::frames::PING, 0, 0, *b"in order"));
    client.next_of(super::frames::PING);
    client.wire.stream.shutdown(Shutdown::Both).unwrap();
    first.send(ok("first"));
    assert_eq!(other.response().text(), "first");
    other.send(get("/second"));
    let next = first.request().unwrap();
    assert!(next.head.starts_with("GET /second "), "{next:?}");
    first.send(ok("second"));
    assert_eq!(other.response().text(), "second");
    assert!(!played.is_called_now(), "nobody else has called");
    door.ends_well();
}

/// A reset while the server works on a request also ends it there; its slot is free when the server stops.
#[test]
fn a_reset_ends_the_request_at_its_server() {
    let played = Played::new();
    let door = queueing(&played);
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/long");
    let mut long = asked(&played, "/long");
    client.send(&Frame::new(RST_STREAM, 0, 1, CANCEL.to_be_bytes()));
    long.ends();
    long.close();
    client.ask(3, "/next");
    asked(&played, "/next").send(ok("next"));
    assert_eq!(client.response(3), (200, "next".into()));
}

#[test]
fn idle_connections_are_told_goodbye() {
    let played = Played::new();
    let more = "timeouts = { idle = \"200ms\", header = \"300ms\" }";
    let door = Door::plain(played.address(), more);
    let mut client = Http2::connect(door.address("web"));
    client.ends_with(&[0], "idle");
    // A connection without any request, and one that does not answer.
    let mut silent = Http2::connect(door.address("web"));
    silent.is_polite = false;
    silent.ends_with(&[0], "idle and silent");
    // A connection with an active request is not idle.
    let mut busy = Http2::connect(door.address("web"));
    busy.ask(1, "/slow");
    let mut slow = asked(&played, "/slow");
    let mut idle = Http2::connect(door.address("web"));
    idle.ends_with(&[0], "one that came later");
    slow.send(ok("slow"));
    assert_eq!(busy.response(1), (200, "slow".into()));
    busy.ends_with(&[0], "at last");
}

/// A client that begins a connection and does not continue.
#[test]
fn half_greetings_are_cut_off_d2() {
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { header = \"200ms\", idle = \"300ms\" }");
    for begun in [&super::frames::PREFACE[..10], super::frames::PREFACE] {
        let mut wire = Wire::connect(door.address("web"));
        wire.send(begun);
        wire.rest();
    }
    // A header block that never ends.
    let mut client = Http2::connect(door.address("web"));
    client.send(&Frame::new(HEADERS, 0, 1, super::frames::block(&request("GET", "/x", &[]))));
    while client.next().is_some() {}
    assert!(!played.is_called_now());
    door.ends_well();
}

/// The daemon ends: active streams are completed, new ones are not accepted.
#[test]
fn streams_in_flight_finish_when_the_daemon_ends() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/flying");
    let mut flying = asked(&played, "/flying");
    let mut idle = Http2::connect(door.address("web"));
    idle.is_polite = false;
    door.daemon.signal(Signal::TERM);
    let goodbye = loop {
        let frame = client.next().unwrap();
        if frame.kind == GOAWAY {
            break frame;
        }
    };
    assert_eq!(goodbye.code(), 0);
    flying.send(ok("landed"));
    assert_eq!(client.response(1), (200, "landed".into()));
    while client.next().is_some() {}
    idle.ends_with(&[0], "one without a request");
    let ended = door.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
}
