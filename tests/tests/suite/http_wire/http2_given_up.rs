//! HTTP/2 clients that cancel their requests: this evades no limit, and a client that only sends requests to cancel
//! them is disconnected.

use super::frames::{CANCEL, DATA, ENHANCE_YOUR_CALM, Frame, Http2, PING, RST_STREAM};
use paceline_tests::{Latch, Proxy, Upstream, until};
use std::sync::Arc;

/// A server that answers `/answered` at once, and everything else when the latch lets it.
fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        if call.target() != "/answered" {
            theirs.pass();
        }
        call.answer(200, "ok");
    });
    (latch, upstream)
}

fn connect(proxy: &Proxy) -> Http2 {
    Http2::connect(proxy.address("web").parse().unwrap())
}

fn give_up(client: &mut Http2, stream: u32) {
    client.send(&Frame::new(RST_STREAM, 0, stream, CANCEL.to_be_bytes()));
}

/// P1: a cancelled request counts at the server until the server is done with it.
#[test]
fn a_server_has_no_more_than_it_may_however_many_are_given_up_p1() {
    let (latch, upstream) = held();
    let address = upstream.address();
    let server = format!("{{ name = \"one\", address = \"{address}\", max_connections = 2 }}");
    let backend = format!("[[backend]]\nname = \"app\"\nservers = [{server}]\n");
    let proxy = Proxy::start(&format!("{backend}{}", Proxy::FRONTEND));
    let mut client = connect(&proxy);
    for number in 0..20 {
        let stream = number * 2 + 1;
        client.ask(stream, "/gone");
        // The first two are forwarded; later ones wait.
        match number {
            0 | 1 => drop(upstream.wait_for(number as usize + 1)),
            _ => proxy.wait_for_counts(1, 2),
        }
        give_up(&mut client, stream);
    }
    proxy.wait_for_counts(0, 2);
    client.ask(41, "/last");
    proxy.wait_for_counts(1, 2);
    latch.open();
    assert_eq!(client.response(41), (200, "ok".into()));
    assert_eq!((upstream.count(), upstream.in_flight_max()), (3, 2));
}

/// The same after the response has begun: a stream that is reset, and a connection that is closed.
#[test]
fn giving_up_within_the_response_does_not_free_the_place_p1() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n");
        theirs.pass();
        call.leave();
        call.send("2\r\nok\r\n0\r\n\r\n");
    });
    let address = upstream.address();
    let server = format!("{{ name = \"one\", address = \"{address}\", max_connections = 2 }}");
    let backend = format!("[[backend]]\nname = \"app\"\nservers = [{server}]\n");
    let proxy = Proxy::start(&format!("{backend}{}", Proxy::FRONTEND));
    let (mut client, mut other) = (connect(&proxy), connect(&proxy));
    client.ask(1, "/gone");
    assert_eq!(client.next_of(DATA).payload, b"part");
    give_up(&mut client, 1);
    other.ask(1, "/gone");
    assert_eq!(other.next_of(DATA).payload, b"part");
    drop(other);
    let left = || {
        let frontend = proxy.daemon.api().get("/v1/frontends/web").expect(200);
        frontend["figures"]["left"].as_u64().unwrap()
    };
    until(left, |left| *left == 2);
    client.ask(3, "/last");
    proxy.wait_for_counts(1, 2);
    assert_eq!(upstream.count(), 2, "it is at work for two who have left");
    latch.open();
    assert_eq!(client.response(3), (200, "partok".into()));
    assert_eq!((upstream.count(), upstream.in_flight_max()), (3, 2));
}

/// A hundred more than are answered, and one.
#[test]
fn whoever_only_gives_up_is_sent_away() {
    let (latch, upstream) = held();
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    let (mut stream, mut seen) = (1, 0);
    // Any number, if others are answered.
    for _ in 0..120 {
        client.ask(stream, "/answered");
        assert_eq!(client.response(stream), (200, "ok".into()));
        client.ask(stream + 2, "/gone");
        (stream, seen) = (stream + 4, seen + 2);
        let _ = upstream.wait_for(seen);
        give_up(&mut client, stream - 2);
    }
    // The last of them was cancelled, too.
    for _ in 0..99 {
        client.ask(stream, "/gone");
        (stream, seen) = (stream + 2, seen + 1);
        let _ = upstream.wait_for(seen);
        give_up(&mut client, stream - 2);
    }
    client.send(&Frame::new(PING, 0, 0, *b"pingpong"));
    let _ = client.next_of(PING);
    client.ask(stream, "/gone");
    let _ = upstream.wait_for(seen + 1);
    give_up(&mut client, stream);
    client.ends_with(&[ENHANCE_YOUR_CALM], "only given up");
    latch.open();
    let mut other = connect(&proxy);
    other.ask(1, "/answered");
    assert_eq!(other.response(1), (200, "ok".into()));
}
