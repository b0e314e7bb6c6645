//! Upgrades: WebSocket between a real client and a real server (Python's `websockets`), and what is held while a
//! tunnel is open.

use paceline_tests::tool::{self, Running};
use paceline_tests::{Proxy, Upstream};
use std::process::{Child, Command, Stdio};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    format!("{}/python/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A WebSocket server, with its address.
fn echo() -> (Running, String) {
    let server = Running::start(PYTHON, &[&script("websocket_echo.py")]);
    let port = server.line();
    (server, format!("127.0.0.1:{port}"))
}

fn url(proxy: &Proxy, path: &str) -> String {
    format!("ws://{}{path}", proxy.address("web"))
}

/// A client that holds its connection open until its standard input is closed.
fn hold(url: &str) -> Child {
    let mut command = Command::new(PYTHON);
    command.args([&script("websocket_client.py"), url, "hold"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn messages_pass_both_ways_and_the_end_does_too() {
    let (server, address) = echo();
    let proxy = Proxy::before(&address, "");
    let client = [&script("websocket_client.py"), &url(&proxy, "/chat?a=b"), "talk"];
    assert_eq!(tool::run(PYTHON, &client).unwrap(), "closed 1000\n");
    assert_eq!((server.line(), server.line()), ("open /chat?a=b".into(), "close /chat?a=b".into()));
    assert_eq!(proxy.records(1)[0]["status"], 101);
}

/// A tunnel counts as one request as long as it is open.
#[test]
fn a_tunnel_holds_its_permit_until_it_closes_p1() {
    let (server, address) = echo();
    let one = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n\
               queue = { max_len = 1 }\n";
    let proxy = Proxy::before(&address, one);
    let mut first = hold(&url(&proxy, "/first"));
    assert_eq!(server.line(), "open /first");
    proxy.wait_for_counts(0, 1);
    let mut second = hold(&url(&proxy, "/second"));
    proxy.wait_for_counts(1, 1);
    let refused = proxy.connect().get("/third");
    assert_eq!(refused.status, 503, "the queue is full: {}", refused.text());
    drop(first.stdin.take());
    let mut lines = [server.line(), server.line()];
    lines.sort();
    assert_eq!(lines, ["close /first", "open /second"]);
    assert!(first.wait().unwrap().success());
    // A client that exits without closing the WebSocket also releases its slot.
    second.kill().unwrap();
    let _ = second.wait();
    assert_eq!(server.line(), "close /second");
    proxy.wait_for_counts(0, 0);
}

/// A tunnel frees the memory that it needed for a large message (D1).
#[test]
fn a_tunnel_that_waits_holds_little_d1() {
    const TUNNELS: usize = 200;
    const BYTES: usize = 200_000;
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n");
        let mut left = BYTES;
        while left > 0 {
            match call.read(left).len() {
                0 => return,
                read => left -= read,
            }
        }
        call.send("y".repeat(BYTES));
        while !call.read(1).is_empty() {}
    });
    let proxy = Proxy::before(upstream.address(), "");
    let before = proxy.resident_bytes();
    let mut tunnels = vec![];
    for _ in 0..TUNNELS {
        let mut web = proxy.connect();
        web.ask("/chat", ASKED);
        let mut got = vec![];
        while !got.ends_with(b"\r\n\r\n") {
            got.extend(web.read(1).unwrap());
        }
        web.send("x".repeat(BYTES)).unwrap();
        let mut left = BYTES;
        while left > 0 {
            left -= web.read(left).unwrap().len();
        }
        tunnels.push(web);
    }
    let each = proxy.resident_bytes().saturating_sub(before) / TUNNELS as u64;
    assert!(each < 64 << 10, "{each} bytes each");
}

/// A client closes its side silently, and its server does not react: only the timeout of a tunnel, an hour by
/// default, would end it.
#[test]
fn a_tunnel_that_one_side_has_left_gives_its_place_back_p1() {
    let upstream = Upstream::start(|call| {
        if call.field("upgrade").is_none() {
            return call.answer(200, "next");
        }
        call.send("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n");
        // To the end of the client's data, and on until the daemon has closed the connection.
        while !call.read(100).is_empty() {}
        while call.send("still here") {
            std::thread::park_timeout(std::time::Duration::from_secs(2));
        }
    });
    let more = "timeouts = { body = \"200ms\", tunnel = \"1h\" }\n[[checkpoint]]\nname = \"one\"\n\
                at = \"frontend web\"\nconcurrency = 1\nqueue = { max_len = 1 }\n";
    let proxy = Proxy::before(upstream.address(), more);
    let mut web = proxy.connect();
    web.ask("/chat", ASKED);
    assert_eq!(web.read(12).unwrap(), b"HTTP/1.1 101");
    web.end_sending();
    let answer = proxy.connect().get("/next");
    assert_eq!((answer.status, answer.text()), (200, "next"), "the place is free");
}

const ASKED: &str = "Upgrade: WebSocket\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

#[test]
fn an_upgrade_that_is_not_allowed_is_not_passed_on_h3() {
    let upstream = Upstream::saying("plain");
    for (allowed, asked) in
        [("[]", ASKED), ("[\"websocket\"]", "Upgrade: h2c\r\nConnection: Upgrade\r\n")]
    {
        let proxy = Proxy::before(upstream.address(), &format!("upgrades = {allowed}\n"));
        let answer = proxy.connect().get_with("/", asked);
        assert_eq!((answer.status, answer.text()), (200, "plain"));
    }
    for seen in upstream.seen() {
        let names = ["upgrade", "connection", "x-hop"].map(|name| seen.field(name));
        assert_eq!(names, [None; 3], "{}", seen.head);
    }
}

#[test]
fn bytes_pass_as_they_are_and_a_refused_upgrade_is_an_answer_as_any() {
    let upstream = Upstream::start(|call| {
        if call.target() == "/no" {
            return call.answer(426, "not me");
        }
        assert_eq!(call.field("upgrade"), Some("WebSocket"), "{}", call.head);
        assert_eq!((call.field("connection"), call.field("x-hop")), (Some("Upgrade"), None));
        // The first bytes of the tunnel may arrive together with the head.
        call.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\
             first",
        );
        loop {
            let bytes = call.read(1000);
            if bytes.is_empty() {
                break;
            }
            call.send(bytes.to_ascii_uppercase());
        }
        call.send("bye");
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    assert_eq!(web.get_with("/no", ASKED).status, 426);
    assert_eq!(web.get_with("/no", "").status, 426, "the connection goes on");
    web.ask("/yes", ASKED);
    // What a client sends ahead belongs to the tunnel.
    web.send("\r\nahead\0\n").unwrap();
    let answer = web.try_answer(false).unwrap();
    assert_eq!((answer.status, answer.field("upgrade")), (101, Some("websocket")));
    let mut came = Vec::new();
    while came.len() < b"first\r\nAHEAD\0\n".len() {
        came.extend(web.read(100).unwrap());
    }
    assert_eq!(came, b"first\r\nAHEAD\0\n");
    // The end of one direction is forwarded, and the other direction continues.
    web.end_sending();
    assert_eq!(web.read(100).unwrap(), b"bye");
    assert!(web.is_closed());
}

/// A protocol is never switched without a request for it.
#[test]
fn a_server_that_switches_unasked_is_a_bad_gateway() {
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    assert_eq!(proxy.connect().get("/").status, 502);
}
