//! Runs the corpus against the daemon: no message ever has two readings (H1 to H5).

use super::door::{Door, Played, config, get};
use super::recorder::{Recorder, Seen};
use super::refused::{BEHIND, CHUNKS, FIELDS, HEADS, LINES};
use super::rewritten::{FORWARDED, PASSED};
use super::wire::Wire;

/// The daemon, a server that records, and a way to check between two cases.
struct Bench {
    door: Door,
    server: Recorder,
    /// A well-behaved client.
    good: Wire,
    cases: usize,
}

impl Bench {
    fn new() -> Self {
        let server = Recorder::start();
        let door = Door::plain(server.address, "upgrades = [\"websocket\"]");
        let good = door.connect();
        Self { door, server, good, cases: 0 }
    }

    /// What the server has received until now.
    fn seen(&mut self) -> Seen {
        self.good.send(get("/between"));
        assert_eq!(self.good.response().status, 200);
        let mut seen = self.server.take();
        seen.requests.retain(|request| !request.starts_with("GET /between "));
        seen
    }

    /// Checks that `pieces`, sent one by one, get only a response with `status`, and that the connection ends. A
    /// refused head leaves no trace at the server, and a refused body no complete request.
    fn refuses(&mut self, name: &str, pieces: &[&[u8]], status: u16, is_body: bool) {
        self.cases += 1;
        let mut client = self.door.connect();
        for piece in pieces {
            client.send(piece);
        }
        let answer = client.response();
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert_eq!(answer.field("connection"), Some("close"), "{name}: {answer:?}");
        let rest = client.rest();
        assert!(rest.is_empty(), "{name}: {}", String::from_utf8_lossy(&rest));
        let seen = self.seen();
        assert!(seen.requests.is_empty(), "{name}: {seen:?}");
        assert!(is_body || seen.broken.is_empty(), "{name}: {seen:?}");
        assert!(!format!("{seen:?}").contains("smuggled"), "{name}: {seen:?}");
    }
}

fn head(line: &[u8], fields: &[u8]) -> Vec<u8> {
    [line, b"Host: a.example\r\n", fields, b"\r\n", BEHIND.as_bytes()].concat()
}

const POST: &[u8] = b"POST /x HTTP/1.1\r\n";

#[test]
fn heads_with_two_readings_are_refused_h1() {
    let mut bench = Bench::new();
    for (name, fields) in FIELDS {
        bench.refuses(name, &[&head(POST, fields)], 400, false);
        // The same after a valid request, which is answered.
        let mut client = bench.door.connect();
        client.send([get("/right").as_bytes(), &head(POST, fields)].concat());
        assert_eq!(client.response().status, 200, "{name}");
        assert_eq!(client.response().status, 400, "{name}");
        client.ends();
        let seen = bench.seen();
        assert_eq!(seen.requests.len(), 1, "{name}: {seen:?}");
        assert!(seen.broken.is_empty(), "{name}: {seen:?}");
    }
    for (name, line) in LINES {
        bench.refuses(name, &[&head(line, b"")], 400, false);
    }
    for (name, status, head) in HEADS {
        bench.refuses(name, &[head, BEHIND.as_bytes()], *status, false);
    }
    assert!(bench.cases >= 100, "{}", bench.cases);
    bench.door.ends_well();
}

#[test]
fn bodies_with_two_readings_are_refused_h1() {
    let mut bench = Bench::new();
    for (name, body) in CHUNKS {
        let head = b"POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = [&head[..], body, BEHIND.as_bytes()].concat();
        bench.refuses(name, &[&whole], 400, true);
        bench.refuses(name, &[head, body, BEHIND.as_bytes()], 400, true);
    }
    bench.door.ends_well();
}

/// Every line end of a message with all features, corrupted in every way.
#[test]
fn bare_line_ends_are_refused_everywhere_h1() {
    const HEAD: &[u8] = b"POST /x HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\n\
                          Transfer-Encoding: chunked\r\n\r\n";
    const BODY: &[u8] = b"5;a=b\r\nhello\r\n1\r\n!\r\n0;c\r\nX-T: 1\r\n\r\n";
    let mut bench = Bench::new();
    let message = [HEAD, BODY].concat();
    let ends = (0..message.len()).filter(|at| message[*at..].starts_with(b"\r\n"));
    for at in ends {
        for end in [&b"\n"[..], b"\r", b"\r\r\n", b"\n\r", b"\0\r\n", b"\x0b\r\n"] {
            let spoilt = [&message[..at], end, &message[at + 2..], BEHIND.as_bytes()].concat();
            let is_body = at >= HEAD.len();
            bench.refuses(&format!("{end:?} at {at}"), &[&spoilt], 400, is_body);
        }
    }
    bench.door.ends_well();
}

/// Every control byte in every part of a message.
#[test]
fn control_bytes_are_refused_everywhere_h1() {
    let mut bench = Bench::new();
    for byte in (0..0x20).chain([0x7f]) {
        let b = &[byte][..];
        let places: [(&str, Vec<u8>); 7] = [
            ("method", [b"G", b, b"T /x HTTP/1.1\r\nHost: a.example\r\n\r\n"].concat()),
            ("target", [b"GET /x", b, b"y HTTP/1.1\r\nHost: a.example\r\n\r\n"].concat()),
            ("version", [b"GET /x HTTP/1.1", b, b"\r\nHost: a.example\r\n\r\n"].concat()),
            ("name", [b"GET /x HTTP/1.1\r\nHost: a.example\r\nX", b, b"Y: z\r\n\r\n"].concat()),
            ("host", [b"GET /x HTTP/1.1\r\nHost: a", b, b"b\r\n\r\n"].concat()),
            ("value", [b"GET /x HTTP/1.1\r\nHost: a.example\r\nX: y", b, b"z\r\n\r\n"].concat()),
            (
                "extension",
                [
                    b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a",
                    b,
                    b"b\r\nx\r\n0\r\n\r\n",
                ]
                .concat(),
            ),
        ];
        for (place, text) in places {
            // A tab is allowed as a blank in values and extensions, and nowhere else.
            if byte == b'\t' && matches!(place, "value" | "extension") {
                continue;
            }
            let whole = [&text[..], BEHIND.as_bytes()].concat();
            bench.refuses(&format!("{byte:#x} in {place}"), &[&whole], 400, place == "extension");
        }
    }
    bench.door.ends_well();
}

#[test]
fn what_passes_is_written_anew_h2_h3_h5() {
    let mut bench = Bench::new();
    for case in PASSED {
        let name = case.name;
        let mut client = bench.door.connect();
        client.send(case.sent);
        for _ in case.got {
            assert_eq!(client.response().status, 200, "{name}");
        }
        // Both sides agree where the last request ended.
        client.send(get("/next"));
        assert_eq!(client.response().text(), "GET /next HTTP/1.1", "{name}");
        client.send("GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "GET /last HTTP/1.1", "{name}");
        client.ends();
        let mut got = bench.seen().requests;
        got.truncate(case.got.len());
        let forwarded = format!("{FORWARDED}a.example\r\n");
        let expected: Vec<String> =
            case.got.iter().map(|text| text.replace("{F}", &forwarded)).collect();
        assert_eq!(got, expected, "{name}");
    }
    bench.door.ends_well();
}

/// HTTP/1.0 may omit the host, and its connections end.
#[test]
fn http_1_0_ends_with_its_response_h2() {
    let mut bench = Bench::new();
    let mut client = bench.door.connect();
    client.send(format!("GET /x HTTP/1.0\r\n\r\n{}", get("/smuggled")));
    let answer = client.response();
    assert_eq!((answer.status, answer.field("connection")), (200, Some("close")), "{answer:?}");
    client.ends();
    let expected = format!("GET /x HTTP/1.1\r\nHost: \r\n{FORWARDED}\r\n\r\n");
    assert_eq!(bench.seen().requests, [expected]);
    let mut client = bench.door.connect();
    client.send(format!(
        "GET /y HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n{}",
        get("/smuggled")
    ));
    assert_eq!(client.response().status, 200);
    client.ends();
    assert_eq!(bench.seen().requests.len(), 1, "nothing is read behind a request that closes");
}

/// However a path is written, the rule that guards it sees what the server gets.
#[test]
fn rules_match_what_is_forwarded_h4() {
    let (open, guarded) = (Recorder::start(), Played::new());
    let more = "use_backend = [{ when = 'path.startsWith(\"/admin\")', backend = \"guarded\" }]";
    let server = guarded.address();
    let rest = format!(
        "[[backend]]\nname = \"guarded\"\nservers = [{{ address = \"{server}\" }}]\n\
         [[rule]]\nmatch = {{ path = \"/secret*\" }}\nmode = \"glob\"\nreject = true\nthen = \"stop\"\n"
    );
    let door = Door::start(&config(open.address, more, &rest));
    let ways = [
        "/NAME",
        "/%NAME",
        "/./NAME",
        "//../NAME",
        "/x/../NAME",
        "/x/%2e%2e/NAME",
        "/%2E/NAME",
        "/../../NAME",
        "/x/y/.%2e/../NAME",
        "http://a.example/NAME",
        "http://a.example/x/../%NAME?q",
    ];
    for way in ways {
        let spelt = |name: &str| {
            let encoded = format!("%{:02x}{}", name.as_bytes()[0], &name[1..]);
            way.replace("%NAME", &encoded).replace("NAME", name)
        };
        let mut client = door.connect();
        client.send(get(&spelt("secret")));
        assert_eq!(client.response().status, 403, "{way}");
        client.send(get(&spelt("admin/%41;b")));
        let mut server = guarded.accept();
        let request = server.request().unwrap();
        assert!(request.head.starts_with("GET /admin/A;b"), "{way}: {request:?}");
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().status, 200, "{way}");
    }
    // What the rule does not match is also another path for the server.
    for (path, forwarded) in [
        ("/%2fadmin", "/%2Fadmin"),
        ("/x%2f..%2fadmin", "/x%2F..%2Fadmin"),
        ("/%25%61dmin", "/%25admin"),
        ("/..\\admin", "/..%5Cadmin"),
        ("/Admin", "/Admin"),
    ] {
        let mut client = door.connect();
        client.send(get(path));
        assert_eq!(client.response().text(), format!("GET {forwarded} HTTP/1.1"));
    }
    assert!(!guarded.is_called_now());
}
