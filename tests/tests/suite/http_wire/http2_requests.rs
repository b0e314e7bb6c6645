//! HTTP/2 requests (RFC 9113 8): a malformed request is refused, and a forwarded one is an HTTP/1.1 request with one
//! reading (H1, H2).

use super::door::{Door, Played};
use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, Http2, RST_STREAM, block,
    request,
};
use super::recorder::Recorder;
use super::rewritten::FORWARDED;

fn door() -> (Door, Recorder) {
    let server = Recorder::start();
    (Door::plain(server.address, "max_body = 1000"), server)
}

/// How a request was refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Status(u16),
    Reset(u32),
    Ended(u32),
}

fn refusal(client: &mut Http2, stream: u32) -> Refused {
    loop {
        let frame = client.next().expect("a refusal comes");
        match frame.kind {
            HEADERS if frame.stream == stream => return Refused::Status(frame.status()),
            RST_STREAM if frame.stream == stream => return Refused::Reset(frame.code()),
            GOAWAY => return Refused::Ended(frame.code()),
            _ => {}
        }
    }
}

#[test]
fn malformed_requests_reach_no_server_h1() {
    let (door, server) = door();
    let usual = |more: &[(&'static str, &'static str)]| request("GET", "/x", more);
    let without = |name: &str| {
        let mut fields = usual(&[]);
        fields.retain(|(own, _)| *own != name);
        fields
    };
    let authority = |authority: &'static str, more: &[(&'static str, &'static str)]| {
        let mut fields = without(":authority");
        fields.insert(0, (":authority", authority));
        fields.extend(more);
        fields
    };
    let path = |path: &'static str| request("GET", path, &[]);
    let mut late = without(":path");
    late.extend([("x-a", "b"), (":path", "/x")]);
    let cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("no :method", without(":method")),
        ("no :path", without(":path")),
        ("no :scheme", without(":scheme")),
        ("neither :authority nor host", without(":authority")),
        ("two :method", usual(&[]).into_iter().chain([(":method", "POST")]).collect()),
        ("two :path", [(":path", "/y")].into_iter().chain(usual(&[])).collect()),
        ("a pseudo-header behind a field", late),
        ("an unknown pseudo-header", [(":x", "y")].into_iter().chain(usual(&[])).collect()),
        (
            "a pseudo-header of responses",
            [(":status", "200")].into_iter().chain(usual(&[])).collect(),
        ),
        ("a name in upper case", usual(&[("X-A", "b")])),
        ("a name with a colon", usual(&[("x:a", "b")])),
        ("a name with a blank", usual(&[("x a", "b")])),
        ("an empty name", usual(&[("", "b")])),
        ("connection", usual(&[("connection", "close")])),
        ("keep-alive", usual(&[("keep-alive", "1")])),
        ("proxy-connection", usual(&[("proxy-connection", "close")])),
        ("transfer-encoding", usual(&[("transfer-encoding", "chunked")])),
        ("upgrade", usual(&[("upgrade", "websocket")])),
        ("TE other than trailers", usual(&[("te", "gzip")])),
        ("TE list", usual(&[("te", "trailers, gzip")])),
        ("CR LF in a value", usual(&[("x-a", "b\r\nx-smuggled: c")])),
        ("LF in a value", usual(&[("x-a", "b\nc")])),
        ("NUL in a value", usual(&[("x-a", "b\0c")])),
        ("CR LF in :path", path("/x HTTP/1.1\r\nHost: b\r\n\r\n")),
        ("blank in :path", path("/x y")),
        ("an empty :path", path("")),
        ("no slash in :path", path("x")),
        ("star without OPTIONS", path("*")),
        ("encoded NUL in :path", path("/%00")),
        ("bad percent in :path", path("/%zz")),
        ("an absolute :path", path("http://b.example/x")),
        ("blank in :method", request("GET /y", "/x", &[])),
        ("CR LF in :method", request("GET / HTTP/1.1\r\nHost: b\r\n\r\nGET", "/x", &[])),
        ("CONNECT", request("CONNECT", "/x", &[])),
        ("user in :authority", authority("u@a.example", &[])),
        ("path in :authority", authority("a.example/y", &[])),
        ("CR LF in :authority", authority("a.example\r\nx-smuggled: b", &[])),
        ("host is another", usual(&[("host", "b.example")])),
        ("two hosts", usual(&[("host", "a.example"), ("host", "a.example")])),
        ("host is no host", {
            let mut fields = without(":authority");
            fields.push(("host", "a b"));
            fields
        }),
        ("content-length is no number", usual(&[("content-length", "+5")])),
        ("content-length twice", usual(&[("content-length", "0"), ("content-length", "0")])),
        ("content-length without data", usual(&[("content-length", "5")])),
        ("another expectation", usual(&[("expect", "200-ok")])),
    ];
    for (why, fields) in cases {
        let mut client = Http2::connect(door.address("web"));
        client.headers(1, &fields, END_STREAM);
        let refused = refusal(&mut client, 1);
        match refused {
            Refused::Status(status) => assert!((400..500).contains(&status), "{why}: {status}"),
            Refused::Reset(code) | Refused::Ended(code) => assert_eq!(code, 1, "{why}"),
        }
    }
    door.serves();
    let seen = server.take();
    assert_eq!(seen.requests.len(), 1, "only the one that is right: {seen:?}");
    assert!(seen.broken.is_empty(), "{seen:?}");
    door.ends_well();
}

/// A length that the data does not match: the server never gets a complete request.
#[test]
fn lengths_that_lie_reach_no_server_h1() {
    let (door, server) = door();
    for (length, data) in [("5", "hell"), ("5", "hello!"), ("0", "x"), ("5", "")] {
        let mut client = Http2::connect(door.address("web"));
        let head = block(&request("POST", "/lie", &[("content-length", length)]));
        client.send_at_once(&[
            Frame::new(HEADERS, END_HEADERS, 1, head),
            Frame::new(DATA, END_STREAM, 1, data),
        ]);
        let refused = refusal(&mut client, 1);
        assert_eq!(refused, Refused::Reset(1), "{length} {data}");
        client.serves(3);
    }
    let seen = server.take();
    let lies = || seen.requests.iter().filter(|request| request.contains("/lie "));
    // There may be one without a body, with nothing of the data, but none that waits for data.
    assert!(lies().all(|request| request.ends_with("Content-Length: 0\r\n\r\n")), "{seen:?}");
    assert!(lies().count() <= 1, "{seen:?}");
    door.ends_well();
}

#[test]
fn what_passes_is_one_request_of_http_1_1_h2() {
    let (door, server) = door();
    let mut client = Http2::connect(door.address("web"));
    let host = "X-Forwarded-Host: a.example\r\n";
    let forwarded = format!("{FORWARDED}a.example\r\n");
    assert!(forwarded.ends_with(host));
    let mut ask = |stream: u32, fields: &[(&str, &str)], frames: &[Frame]| {
        client.headers(stream, fields, if frames.is_empty() { END_STREAM } else { 0 });
        frames.iter().for_each(|frame| client.send(frame));
        assert_eq!(client.response(stream).0, 200, "{fields:?}");
        server.take().requests.pop().unwrap()
    };
    // Cookies arrive in several fields, a path is normalized, and TE is kept as far as it is allowed.
    let more = [("cookie", "a=1"), ("x-a", "b"), ("cookie", "c=2"), ("te", "trailers")];
    let got = ask(1, &request("GET", "/a/../%62?c", &more), &[]);
    let expected = format!(
        "GET /b?c HTTP/1.1\r\nHost: a.example\r\nx-a: b\r\ncookie: a=1; c=2\r\n{forwarded}\
         TE: trailers\r\nConnection: TE\r\n\r\n"
    );
    assert_eq!(got, expected);
    // A body without a length is chunked, with its trailers.
    let trailers = block(&[("x-sum", "1"), ("content-length", "9"), ("host", "b")]);
    let frames = [
        Frame::new(DATA, 0, 3, "hello"),
        Frame::new(HEADERS, END_HEADERS | END_STREAM, 3, trailers),
    ];
    let got = ask(3, &request("POST", "/up", &[]), &frames);
    let expected = format!(
        "POST /up HTTP/1.1\r\nHost: a.example\r\n{forwarded}Transfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"
    );
    assert_eq!(got, expected);
    // A body with a length keeps it.
    let fields = request("POST", "/up", &[("content-length", "5")]);
    let got = ask(5, &fields, &[Frame::new(DATA, END_STREAM, 5, "hello")]);
    assert!(got.ends_with("Content-Length: 5\r\n\r\nhello"), "{got}");
    // A host in place of the authority, and forwarding fields from untrusted clients.
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/x"),
        ("host", "a.example"),
        ("x-forwarded-for", "192.0.2.1"),
    ];
    let got = ask(7, &fields, &[]);
    assert_eq!(got, format!("GET /x HTTP/1.1\r\nHost: a.example\r\n{forwarded}\r\n"));
    // A header block in many pieces.
    let whole = block(&request("GET", "/pieces", &[]));
    client.send(&Frame::new(HEADERS, END_STREAM, 9, &whole[..7]));
    client.send(&Frame::new(CONTINUATION, 0, 9, &whole[7..8]));
    client.send(&Frame::new(CONTINUATION, 0, 9, &whole[8..whole.len() - 1]));
    client.send(&Frame::new(CONTINUATION, END_HEADERS, 9, &whole[whole.len() - 1..]));
    assert_eq!(client.response(9), (200, "GET /pieces HTTP/1.1".into()));
    door.ends_well();
}

#[test]
fn what_is_too_large_is_refused_d2() {
    let (door, server) = door();
    let mut client = Http2::connect(door.address("web"));
    let long = "x".repeat(9_000);
    client.headers(1, &request("GET", "/x", &[("x-a", &long), ("x-b", &long), ("x-c", &long)]), 0);
    client.send(&Frame::new(DATA, END_STREAM, 1, []));
    assert_eq!(client.response(1).0, 200, "27 KB pass");
    let piece = block(&[("x-a", &"x".repeat(15_000))]);
    client.send(&Frame::new(HEADERS, END_STREAM, 3, block(&request("GET", "/large", &[]))));
    client.send(&Frame::new(CONTINUATION, 0, 3, &piece));
    client.send(&Frame::new(CONTINUATION, 0, 3, &piece));
    client.send(&Frame::new(CONTINUATION, END_HEADERS, 3, &piece));
    assert_eq!(refusal(&mut client, 3), Refused::Status(431));
    let many = vec![("x-a", "b"); 101];
    let mut client = Http2::connect(door.address("web"));
    client.headers(1, &request("GET", "/many", &many), END_STREAM);
    assert_eq!(client.response(1).0, 431);
    let target = format!("/{long}");
    client.headers(3, &request("GET", &target, &[]), END_STREAM);
    assert_eq!(client.response(3).0, 414);
    client.headers(5, &request("POST", "/body", &[("content-length", "1001")]), 0);
    assert_eq!(client.response(5).0, 413);
    client.headers(7, &request("POST", "/body", &[]), 0);
    client.send(&Frame::new(DATA, 0, 7, vec![b'x'; 1_001]));
    assert_eq!(client.response(7).0, 413);
    client.serves(9);
    let seen = server.take();
    assert_eq!(seen.requests.len(), 2, "{seen:?}");
    door.ends_well();
}

/// Fields that are not allowed in an HTTP/2 response, and a response that the server truncates.
#[test]
fn responses_are_cleaned_and_cuts_are_told_h3() {
    let played = Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = Http2::connect(door.address("web"));
    client.ask(1, "/hops");
    let mut server = played.accept();
    assert!(server.request().is_some());
    server.send(
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
         Keep-Alive: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-T: 1\r\n\r\n",
    );
    let (mut blocks, mut body) = (vec![], vec![]);
    loop {
        let frame = client.next().unwrap();
        match frame.kind {
            HEADERS => blocks.push(frame.clone()),
            DATA => body.extend(&frame.payload),
            _ => {}
        }
        if frame.ends() {
            break;
        }
    }
    let [hints, head, trailers] = &blocks[..] else { panic!("{blocks:?}") };
    assert!(!hints.ends() && hints.payload.len() < 10, "an answer before the last one: {hints:?}");
    assert_eq!((head.status(), &body[..]), (200, &b"ab"[..]));
    // The name alone is a byte or two in the encoding; neither value is present.
    assert!(head.payload.len() < 10 && trailers.payload.len() > 3, "{blocks:?}");
    // A truncated response is reset, not ended.
    for begun in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    ] {
        let mut client = Http2::connect(door.address("web"));
        client.ask(1, "/cut");
        if begun.contains("chunked") {
            server = played.accept();
        }
        assert!(server.request().is_some());
        server.send(begun);
        assert_eq!(client.next_of(HEADERS).status(), 200);
        assert!(!client.next_of(DATA).ends());
        let _ = server.stream.shutdown(std::net::Shutdown::Both);
        let last = loop {
            let frame = client.next().unwrap();
            if frame.stream == 1 {
                break frame;
            }
        };
        assert_eq!(last.kind, RST_STREAM, "{last:?}");
    }
    door.ends_well();
}
