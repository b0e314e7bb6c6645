//! Servers that send ambiguous responses, or more than was requested: nothing of it reaches a client as the response
//! to another request.

use super::door::{Door, Played, get, ok};
use super::wire::{Message, Wire};

/// A daemon with one server that the test controls, and a client whose request the server has received.
struct Asked {
    door: Door,
    played: Played,
    client: Wire,
    server: Wire,
}

fn asked() -> Asked {
    let played = Played::new();
    let door = Door::plain(played.address(), "timeouts = { body = \"500ms\" }");
    let mut client = door.connect();
    client.send(get("/asked"));
    let mut server = played.accept();
    assert!(server.request().is_some());
    Asked { door, played, client, server }
}

impl Asked {
    /// Sends a request on a new client connection, for which the server must also get a new connection.
    fn asks_afresh(&mut self) -> Message {
        let mut other = self.door.connect();
        other.send(get("/afresh"));
        let mut server = self.played.accept();
        let request = server.request().unwrap();
        assert!(request.head.starts_with("GET /afresh "), "{request:?}");
        server.send(ok("fresh"));
        other.response()
    }
}

#[test]
fn responses_with_two_readings_are_not_passed_on_h1() {
    let Asked { door, played, mut client, mut server } = asked();
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101));
    let cases: [&str; 25] = [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\nX: y\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: \0\r\n\r\nhello",
        "garbage\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello",
        &long,
        &many,
    ];
    for text in cases {
        server.send(text);
        let answer = client.response();
        assert_eq!(answer.status, 502, "{text:.80}: {answer:?}");
        assert!(!answer.head.contains("hello") && !answer.text().contains("hello"), "{text:.80}");
        server.ends();
        // The client's own connection stays open, the server's is gone.
        client.send(get("/again"));
        server = played.accept();
        assert!(server.request().is_some());
    }
    server.send(ok("well"));
    assert_eq!(client.response().text(), "well");
    door.ends_well();
}

#[test]
fn bad_chunks_of_a_server_cut_the_response() {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "x\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5;\n\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "ffffffffffffffffff\r\nhello\r\n",
        "5\r\nhello\r\n0\r\n\n",
    ] {
        let mut asked = asked();
        asked.server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
        let head = asked.client.head().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(asked.client.take(7), b"2\r\nab\r\n");
        asked.server.send(body);
        let rest = String::from_utf8(asked.client.rest()).unwrap();
        assert!(!rest.contains("0\r\n"), "{body:?}: no end is made up: {rest:?}");
        asked.server.ends();
        assert_eq!(asked.asks_afresh().text(), "fresh");
    }
}

/// Data that a server sends after a response belongs to no request, whenever it arrives.
#[test]
fn a_second_response_reaches_nobody_h1() {
    let second = ok("not asked for");
    // In one piece with the first.
    let mut asked = asked();
    asked.server.send(ok("first") + &second);
    assert_eq!(asked.client.response().text(), "first");
    assert_eq!(asked.asks_afresh().text(), "fresh");
    // After the client has got the first.
    let mut asked = self::asked();
    asked.server.send(ok("first"));
    assert_eq!(asked.client.response().text(), "first");
    asked.server.send(&second);
    assert_eq!(asked.asks_afresh().text(), "fresh");
    // After a response that has no body, whatever its fields say.
    for (method, first) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"),
    ] {
        let mut asked = self::asked();
        asked.server.send(ok("first"));
        assert_eq!(asked.client.response().text(), "first");
        asked.client.send(format!("{method} /bare HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        assert!(asked.server.request().is_some());
        asked.server.send(first);
        let answer = asked.client.response_to(method);
        assert!(answer.is_whole && answer.body.is_empty(), "{answer:?}");
        assert_eq!(asked.asks_afresh().text(), "fresh");
        asked.client.send(get("/next"));
        let mut server = asked.played.accept();
        assert!(server.request().is_some());
        server.send(ok("next"));
        assert_eq!(asked.client.response().text(), "next", "the client is not led astray");
    }
}

/// Interim responses are forwarded, but not without limit.
#[test]
fn a_flood_of_interim_responses_is_cut_off_d4() {
    let mut asked = asked();
    asked.server.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    let early = asked.client.response();
    assert_eq!((early.status, early.field("link")), (103, Some("</a>")));
    let flood = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    let mut count = 0;
    let answer = loop {
        asked.server.send(&flood);
        let answer = asked.client.response();
        if answer.status != 100 {
            break answer;
        }
        count += 1;
        assert!(count < 1_000, "it goes on for ever");
    };
    assert_eq!(answer.status, 502, "{answer:?}");
    asked.server.ends();
    assert_eq!(asked.asks_afresh().text(), "fresh");
}

/// A response that arrives before the request is complete reaches the client, and the rest of the request is dropped.
#[test]
fn an_early_response_ends_the_request() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = door.connect();
    client.send("POST /up HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\nbegin");
    let mut server = played.accept();
    assert!(server.head().unwrap().starts_with("POST /up "));
    assert_eq!(server.take(5), b"begin");
    server.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nfull");
    let answer = client.response();
    assert_eq!((answer.status, answer.text()), (413, "full".into()));
    client.send(get("/smuggled"));
    client.ends();
    server.ends();
    door.serves_with(&played);
}
