//! HTTP/2 clients that do not finish or do not begin a head: they have the same timeout as HTTP/1 clients (D2).

use super::door::{Door, Played, ok};
use super::frames::{END_HEADERS, END_STREAM, Frame, HEADERS, Http2, PING, block, request};
use std::time::{Duration, Instant};

const LIMIT: &str = "timeouts = { header = \"1s\", idle = \"10m\" }";

/// The beginning of a head.
fn begin(client: &mut Http2, stream: u32) {
    let half = &block(&request("GET", "/half", &[]))[..10];
    client.send(&Frame::new(HEADERS, END_STREAM, stream, half));
}

/// Checks that the daemon closes the connection after a second, not after many.
#[track_caller]
fn ends(mut client: Http2, begun: Instant) {
    while client.next().is_some() {}
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_first_request_that_does_not_come_is_not_waited_for_d2() {
    let played = Played::new();
    let door = Door::plain(played.address(), LIMIT);
    let begun = Instant::now();
    ends(Http2::connect(door.address("web")), begun);
    // Other frames do not count as a request.
    let begun = Instant::now();
    let mut client = Http2::connect(door.address("web"));
    for _ in 0..5 {
        client.send(&Frame::new(PING, 0, 0, *b"pingpong"));
        let _ = client.next_of(PING);
    }
    ends(client, begun);
    let begun = Instant::now();
    let mut client = Http2::connect(door.address("web"));
    begin(&mut client, 1);
    ends(client, begun);
    door.ends_well();
}

/// Also after a request that was answered, and beside one that is being served.
#[test]
fn a_later_head_that_does_not_end_is_not_waited_for_d2() {
    let played = Played::new();
    let door = Door::plain(played.address(), LIMIT);
    for is_beside in [false, true] {
        let mut client = Http2::connect(door.address("web"));
        client.ask(1, "/first");
        let mut server = played.accept();
        assert!(server.request().is_some());
        if !is_beside {
            server.send(ok("first"));
            assert_eq!(client.response(1), (200, "first".into()));
        }
        let begun = Instant::now();
        begin(&mut client, 3);
        ends(client, begun);
        // Not kept for the next request.
        server.close();
    }
    door.ends_well();
}

/// The timeout applies to the whole head: more of it does not extend it.
#[test]
fn a_head_that_comes_piece_by_piece_is_too_late_d2() {
    let played = Played::new();
    let door = Door::plain(played.address(), LIMIT);
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/first");
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send(ok("first"));
    assert_eq!(client.response(1), (200, "first".into()));
    let begun = Instant::now();
    let long = Frame::new(HEADERS, END_STREAM | END_HEADERS, 3, [0; 1_000]).bytes();
    client.wire.send(&long[..9]);
    let mut other = client.wire.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            use std::io::Write as _;
            // Until the daemon has closed the connection, at most ten seconds.
            for byte in &long[9..209] {
                if other.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        ends(client, begun);
    });
    door.ends_well();
}
