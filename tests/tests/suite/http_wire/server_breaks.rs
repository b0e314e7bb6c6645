//! Servers that refuse, die, or never answer: the client always gets a clear result.

use super::door::{Door, Played, config, get, ok};
use super::frames::{DATA, END_STREAM, Frame, HEADERS, Http2, RST_STREAM, WINDOW_UPDATE, request};
use super::wire::Wire;
use paceline_tests::{Latch, Proxy, Upstream, until};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n")
}

fn asked(played: &Played, door: &Door) -> (Wire, Wire) {
    let mut client = door.connect();
    client.send(get("/asked"));
    let mut server = played.accept();
    assert!(server.request().is_some());
    (client, server)
}

#[test]
fn a_server_that_dies_within_its_head_is_told() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    for begun in ["", "H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"] {
        let (mut client, mut server) = asked(&played, &door);
        server.send(begun);
        server.close();
        let answer = client.response();
        assert_eq!(answer.status, 502, "{begun:?}: {answer:?}");
        assert!(!answer.text().contains("app/a"), "which server is not for clients: {answer:?}");
        assert!(!played.is_called_now(), "what was new is not sent again");
    }
    door.ends_well();
}

#[test]
fn a_response_that_is_cut_short_is_seen_to_be() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    for begun in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let (mut client, mut server) = asked(&played, &door);
        server.send(begun);
        let head = client.head().unwrap();
        server.close();
        let text = String::from_utf8(client.rest()).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{begun:?}: {head}");
        assert!(!text.ends_with("0\r\n\r\n"), "{begun:?}: no end is made up: {text:?}");
        assert!(!text.contains("502"), "{begun:?}: nothing is mixed in: {text:?}");
    }
    // If the end of the connection marks the end of the body, the body is forwarded as chunks.
    let (mut client, mut server) = asked(&played, &door);
    server.send("HTTP/1.1 200 OK\r\n\r\nhello");
    server.close();
    let answer = client.response();
    assert!(answer.is_whole && answer.text() == "hello", "{answer:?}");
    door.ends_well();
}

/// An HTTP/1.0 client has no chunks to detect truncation: its connection is reset, not closed.
#[test]
fn a_cut_is_seen_by_http_1_0_too() {
    use std::io::Read as _;
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = door.connect();
    client.send("GET /asked HTTP/1.0\r\n\r\n");
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    assert!(client.head().unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.take(5), b"hello");
    server.close();
    let end = client.stream.read(&mut [0; 16]);
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_server_that_never_answers_gets_504() {
    let played = Played::new();
    let rest = "timeouts = { response = \"200ms\" }";
    let door = Door::start(&config(played.address(), "", rest));
    let (mut client, mut server) = asked(&played, &door);
    assert_eq!(client.response().status, 504);
    server.ends();
    // The same after the response has begun.
    client.send(get("/again"));
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send("HTTP/1.1 200 OK\r\n");
    assert_eq!(client.response().status, 504);
    server.ends();
    // And with a request that has a body.
    client.send("POST /up HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab");
    let mut server = played.accept();
    assert_eq!(server.request().unwrap().body, b"ab");
    assert_eq!(client.response().status, 504);
    server.ends();
    door.ends_well();
}

#[test]
fn a_server_that_refuses_gets_502() {
    let played = Played::new();
    let address = played.address();
    drop(played);
    let door = Door::plain(address, "");
    let mut client = door.connect();
    for path in ["/1", "/2"] {
        client.send(get(path));
        let answer = client.response();
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(!answer.text().contains("app/a"), "which server is not for clients: {answer:?}");
    }
    door.ends_well();
}

/// A server may close a connection at the moment it is reused.
#[test]
fn what_may_be_sent_twice_is_when_a_used_connection_breaks() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let (mut client, mut server) = asked(&played, &door);
    server.send(ok("first"));
    assert_eq!(client.response().text(), "first");
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let text = format!("{method} /twice HTTP/1.1\r\nHost: a.example\r\n\r\n");
        client.send(&text);
        let request = server.request().expect("the connection is used again");
        server.close();
        server = played.accept();
        assert_eq!(server.request().unwrap(), request, "{method} is sent again, just the same");
        server.send(if method == "HEAD" { ok("") } else { ok("well") });
        assert_eq!(client.response_to(method).status, 200, "{method}");
    }
    // If it breaks once more, the client gets an error.
    client.send(get("/thrice"));
    assert!(server.request().is_some());
    server.close();
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.close();
    assert_eq!(client.response().status, 502);
    assert!(!played.is_called_now());
}

#[test]
fn what_may_not_be_sent_twice_is_not() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let bodies = [
        post("/once"),
        "POST /once HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab".into(),
        "PATCH /once HTTP/1.1\r\nHost: a.example\r\n\r\n".into(),
        "get /once HTTP/1.1\r\nHost: a.example\r\n\r\n".into(),
    ];
    for text in bodies {
        let (mut client, mut server) = asked(&played, &door);
        server.send(ok("first"));
        assert_eq!(client.response().text(), "first");
        client.send(&text);
        assert!(server.request().is_some(), "the connection is used again");
        server.close();
        assert_eq!(client.response().status, 502, "{text}");
        assert!(!played.is_called_now(), "{text}");
    }
    // A connection that was closed before is not used at all.
    let (mut client, mut server) = asked(&played, &door);
    server.send(ok("first"));
    assert_eq!(client.response().text(), "first");
    server.stream.shutdown(Shutdown::Write).unwrap();
    client.send(post("/closed"));
    let mut fresh = played.accept();
    assert!(fresh.request().unwrap().head.starts_with("POST /closed "));
    fresh.send(ok("well"));
    assert_eq!(client.response().text(), "well");
    server.ends();
}

/// A server that has sent anything, even an interim response, works on the request.
#[test]
fn what_a_server_has_begun_to_answer_is_not_sent_twice() {
    const EARLY: &str = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let (mut client, mut server) = asked(&played, &door);
    server.send(ok("first"));
    assert_eq!(client.response().text(), "first");
    client.send("DELETE /once HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(server.request().is_some(), "the connection is used again");
    server.send(EARLY);
    assert_eq!(client.response().status, 103);
    server.close();
    assert_eq!(client.response().status, 502);
    assert!(!played.is_called_now());
    // The same over HTTP/2.
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/asked");
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send(ok("first"));
    assert_eq!(client.response(1).0, 200);
    client.headers(3, &request("DELETE", "/once", &[]), END_STREAM);
    assert!(server.request().is_some(), "the connection is used again");
    server.send(EARLY);
    assert_eq!(client.next_of(HEADERS).status(), 103);
    server.close();
    assert_eq!(client.response(3).0, 502);
    assert!(!played.is_called_now());
    door.ends_well();
}

/// The timeout applies to the whole head, not to its next byte.
#[test]
fn a_head_that_comes_byte_by_byte_is_too_late() {
    let played = Played::new();
    let limit = "timeouts = { response = \"1s\" }\n";
    let door = Door::start(&config(played.address(), "", limit));
    for is_http2 in [false, true] {
        let status = std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            let played = &played;
            let pause = Duration::from_millis(50);
            scope.spawn(move || {
                let mut server = played.accept();
                assert!(server.request().is_some());
                server.send("HTTP/1.1 200 OK\r\nX-Long: ");
                // Ten seconds, if the client gets no response before.
                for _ in 0..200 {
                    if is_done.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                        break;
                    }
                    server.send("x");
                }
                server.send("\r\nContent-Length: 2\r\n\r\nok");
            });
            let status = if is_http2 {
                let mut client = Http2::connect(door.address("web"));
                client.ask(1, "/asked");
                client.response(1).0
            } else {
                let mut client = door.connect();
                client.send(get("/asked"));
                client.response().status
            };
            drop(done);
            status
        });
        assert_eq!(status, 504, "HTTP/2: {is_http2}");
    }
    door.ends_well();
}

/// An interim response shows that the server is working: its timeout starts again.
#[test]
fn a_response_before_the_last_one_gives_more_time() {
    let played = Played::new();
    let limit = "timeouts = { response = \"2s\" }\n";
    let door = Door::start(&config(played.address(), "", limit));
    let (mut client, mut server) = asked(&played, &door);
    for _ in 0..2 {
        std::thread::park_timeout(Duration::from_millis(1_200));
        server.send("HTTP/1.1 103 Early Hints\r\n\r\n");
        assert_eq!(client.response().status, 103);
    }
    server.send(ok("late"));
    assert_eq!(client.response().text(), "late");
    door.ends_well();
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Nothing of such a response was sent, so the client gets another one, over both protocols.
#[test]
fn a_response_that_breaks_together_with_its_head_is_502() {
    let bodies = ["5\r\nhelloXX", "five\r\nhello\r\n", "5\r\nhello\r\n0\r\nno field\r\n\r\n"];
    for body in bodies {
        let upstream = Upstream::start(move |call| {
            call.send(format!("{CHUNKED}{body}"));
        });
        let proxy = Proxy::before(upstream.address(), "");
        assert_eq!(proxy.connect().get("/").status, 502, "{body:?}");
        let mut client = Http2::connect(proxy.address("web").parse().unwrap());
        client.ask(1, "/");
        assert_eq!(client.response(1).0, 502, "{body:?}");
        for record in proxy.records(2) {
            let logged = (&record["status"], &record["error"]);
            assert_eq!(logged, (&502.into(), &"bad_gateway".into()), "{body:?}: {record}");
        }
    }
}

/// If the head was queued behind other responses and has not left, the client is told that the stream is reset, and never
/// of the response. So the log does not have its status.
#[test]
fn a_response_that_breaks_before_its_head_has_left_is_logged_as_502() {
    let (latch, has_begun) = (Latch::new(), Arc::new(AtomicBool::new(false)));
    let (held, theirs) = (Arc::clone(&latch), Arc::clone(&has_begun));
    let upstream = Upstream::start(move |call| match call.target() {
        "/large" => call.answer(200, &"x".repeat(1 << 20)),
        "/breaks" => {
            call.send(format!("{CHUNKED}5\r\nhello\r\n"));
            theirs.store(true, Ordering::SeqCst);
            held.pass();
            call.send("broken");
        }
        _ => call.answer(200, "quick"),
    });
    let config = Proxy::config(upstream.address(), "timeouts = { body = \"1h\" }\n");
    let proxy = Proxy::start(&format!("[http]\nthreads = 1\n{config}"));
    let wire = Wire::connect_narrow(proxy.address("web").parse().unwrap());
    let mut client = Http2::greet(wire, &[(1, 0), (4, 2 << 20)]);
    client.send(&Frame::new(WINDOW_UPDATE, 0, 0, (2u32 << 20).to_be_bytes()));
    client.ask(1, "/large");
    // Its beginning has arrived, so the socket of the daemon is full when the other response comes.
    assert_eq!(client.next_of(DATA).stream, 1);
    client.ask(3, "/breaks");
    until(|| has_begun.load(Ordering::SeqCst), |has_begun| *has_begun);
    // The only thread of the daemon has looked at it.
    assert_eq!(proxy.connect().get("/quick").status, 200);
    latch.open();
    let record = proxy.records(2).remove(1);
    let logged = (&record["target"], &record["status"], &record["error"]);
    assert_eq!(logged, (&"/breaks".into(), &502.into(), &"bad_gateway".into()), "{record}");
    while client.next().expect("the connection goes on").kind != RST_STREAM {}
}
