//! Connections on which a response is still being sent: they do not end for others, and the client gets all of it (D1).

use super::frames::{DATA, Frame, GOAWAY, Http2, WINDOW_UPDATE};
use super::wire::Wire;
use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use std::sync::Arc;

/// A body that the system takes at once, and a client that does not read leaves unsent for the most part.
const BODY_BYTES: usize = 100 << 10;

/// Connections that the frontend may have. A client may have as many.
const MAX: usize = 4;

/// A server with a large response, which holds up requests for `/held` until the latch lets them.
fn server() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| match call.target() {
        "/large" => call.answer(200, &"x".repeat(BODY_BYTES)),
        "/held" => {
            theirs.pass();
            call.answer(200, "held");
        }
        _ => call.answer(200, "here"),
    });
    (latch, upstream)
}

fn proxy(upstream: &Upstream, more: &str) -> Proxy {
    // No connection ends by itself while a test waits for an answer.
    let timeouts = "timeouts = { idle = \"1h\", body = \"1h\" }";
    let more = format!("max_connections = {MAX}\n{timeouts}\n{more}");
    let config = Proxy::config(upstream.address(), &more);
    Proxy::start(&format!("[http]\nthreads = 1\n{config}"))
}

/// A client that has asked for the large response over HTTP/2 and reads nothing. Its response is logged, so it is sent as far
/// as the daemon knows.
fn large_over_http2(proxy: &Proxy) -> Http2 {
    let wire = Wire::connect_narrow(proxy.address("web").parse().unwrap());
    let window = 1 << 20;
    let mut client = Http2::greet(wire, &[(1, 0), (4, window)]);
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, window.to_be_bytes()));
    client.ask(1, "/large");
    is_logged(proxy);
    client
}

fn is_logged(proxy: &Proxy) {
    let record = proxy.records(1).remove(0);
    assert_eq!((&record["status"], &record["bytes_out"]), (&200.into(), &BODY_BYTES.into()));
}

/// The bytes of the large response. The client answers each piece with a window update, as clients do.
fn read_large(client: &mut Http2) -> usize {
    let mut bytes = 0;
    while let Some(frame) = client.next() {
        if frame.kind == DATA {
            bytes += frame.payload.len();
            let len = (frame.payload.len() as u32).to_be_bytes();
            client.send(&Frame::new(WINDOW_UPDATE, 0, 0, len));
        }
        if frame.ends() {
            break;
        }
    }
    bytes
}

/// All other connections of the frontend, busy.
fn busy(proxy: &Proxy, upstream: &Upstream) -> Vec<Web> {
    let mut busy: Vec<Web> = (1..MAX).map(|_| proxy.connect()).collect();
    busy.iter_mut().for_each(|client| client.ask("/held", ""));
    let _ = upstream.wait_for(MAX);
    busy
}

/// Whether a new connection is answered, and not closed because none of its client's connections is idle.
fn is_served(proxy: &Proxy) -> bool {
    let mut client = proxy.connect();
    let sent = client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    sent.is_ok() && client.try_answer(false).is_ok()
}

/// Once it is sent, the connection ends for others, and its client is told.
#[test]
fn a_response_that_is_being_sent_is_not_cut_for_another_connection_d1() {
    let (latch, upstream) = server();
    let proxy = proxy(&upstream, "");
    let mut client = large_over_http2(&proxy);
    let busy = busy(&proxy, &upstream);
    let is_served_early = is_served(&proxy);
    assert_eq!(read_large(&mut client), BODY_BYTES);
    assert!(!is_served_early, "no connection was idle");
    until(|| is_served(&proxy), |is_served| *is_served);
    client.ends_with(&[0], "it is idle");
    latch.open();
    drop(busy);
}

/// A client that sends its next request before it has read the response.
#[test]
fn a_response_that_is_being_sent_is_not_cut_over_http_1_either_d1() {
    let (latch, upstream) = server();
    let proxy = proxy(&upstream, "");
    let mut client = Wire::connect_narrow(proxy.address("web").parse().unwrap());
    client.send("GET /large HTTP/1.1\r\nHost: test\r\n\r\n");
    is_logged(&proxy);
    let busy = busy(&proxy, &upstream);
    let is_served_early = is_served(&proxy);
    client.send("GET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response().body.len(), BODY_BYTES);
    assert_eq!(client.response().text(), "here");
    assert!(!is_served_early, "no connection was idle");
    until(|| is_served(&proxy), |is_served| *is_served);
    client.ends();
    latch.open();
    drop(busy);
}

/// A connection of a client that may have more waits until the response is sent, and no longer.
#[test]
fn a_connection_waits_until_a_response_is_sent_d1() {
    let (latch, upstream) = server();
    let proxy = proxy(&upstream, "trusted = [\"127.0.0.1\"]\n");
    let mut client = large_over_http2(&proxy);
    let busy = busy(&proxy, &upstream);
    let mut new = proxy.connect();
    new.ask("/", "");
    assert_eq!(read_large(&mut client), BODY_BYTES);
    assert_eq!(new.answer().status, 200);
    assert_eq!(client.next().expect("the client is told").kind, GOAWAY);
    latch.open();
    drop(busy);
}

/// A client that reads nothing for `timeouts.body` keeps its connection no longer than it takes until that is needed.
#[test]
fn a_client_that_does_not_read_makes_room_in_the_end_d2() {
    let (latch, upstream) = server();
    let timeouts = "max_connections = 4\ntimeouts = { idle = \"1h\", body = \"1s\" }\n";
    let config = Proxy::config(upstream.address(), timeouts);
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    let client = large_over_http2(&proxy);
    let busy = busy(&proxy, &upstream);
    assert!(!is_served(&proxy), "no connection is idle");
    until(|| is_served(&proxy), |is_served| *is_served);
    latch.open();
    drop((client, busy));
}
