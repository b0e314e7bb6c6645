//! Servers that refuse, die, or never answer: the client always knows.

use super::door::{Door, Played, config, get, ok};
use super::frames::{END_STREAM, HEADERS, Http2, request};
use super::wire::Wire;
use std::net::Shutdown;
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
    // Where the end of the connection is the end of the body, that is passed on as chunks.
    let (mut client, mut server) = asked(&played, &door);
    server.send("HTTP/1.1 200 OK\r\n\r\nhello");
    server.close();
    let answer = client.response();
    assert!(answer.is_whole && answer.text() == "hello", "{answer:?}");
    door.ends_well();
}

/// A client of HTTP/1.0 has no chunks to count: its connection is reset, not closed.
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
    // The same where it has begun.
    client.send(get("/again"));
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send("HTTP/1.1 200 OK\r\n");
    assert_eq!(client.response().status, 504);
    server.ends();
    // And with a request that it got a body with.
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

/// A server may close a connection just as it is used again.
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
    // Once again, and it is told.
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
    // One that was closed before is not used at all.
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

/// A server that has answered something, if only that it goes on, is at work on the request.
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

/// The time is for the whole head, not for its next byte.
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
                // Ten seconds, if nobody is told before.
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

/// A response before the last one shows that the server is at work: its time begins anew.
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
