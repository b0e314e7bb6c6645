//! TLS to servers: everything else works as without it, from persistent connections to WebSocket.

use super::curl;
use paceline_tests::authority::{Authority, Relay};
use paceline_tests::tool::{self, Running};
use paceline_tests::{Latch, Proxy, Scratch, Upstream, until};
use std::net::TcpListener;
use std::sync::Arc;

/// A backend `app` with servers `0`, `1` and so on, behind the frontend `web`.
pub fn backend(addresses: &[&str], more: &str) -> String {
    let server = |(number, address): (usize, &&str)| {
        format!("{{ name = \"{number}\", address = \"{address}\" }}")
    };
    let servers: Vec<String> = addresses.iter().enumerate().map(server).collect();
    let servers = servers.join(", ");
    format!("{}[[backend]]\nname = \"app\"\nservers = [{servers}]\n{more}", Proxy::FRONTEND)
}

pub fn start(scratch: Scratch, config: &str) -> Proxy {
    Proxy::start_in(scratch, config)
}

const TLS: &str = "tls = { ca = \"ca.pem\", name = \"api.test\" }\n";

fn certified() -> Scratch {
    let scratch = Scratch::new();
    Authority::new(&scratch, "ca").certify("server", "DNS:api.test");
    scratch
}

/// The daemon before TLS before this server; `more` are further settings of the backend.
fn world(address: &str, more: &str) -> (Relay, Proxy) {
    let scratch = certified();
    let relay = Relay::start(&scratch, "server", address, &[]);
    let proxy = start(scratch, &backend(&[relay.address()], &format!("{TLS}{more}")));
    (relay, proxy)
}

/// One client at a time uses one worker, so one connection carries all of its requests.
#[test]
fn connections_are_kept_and_sessions_taken_up_again() {
    let upstream = Upstream::start(|call| {
        if call.target() == "/last" {
            call.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            call.close();
        } else {
            call.answer(200, "hello");
        }
    });
    let (relay, proxy) = world(upstream.address(), "");
    let mut web = proxy.connect();
    for _ in 0..20 {
        assert_eq!(web.get("/").text(), "hello");
    }
    assert_eq!(web.get("/last").status, 200);
    assert_eq!(relay.connection(), "tls api.test http/1.1 new -");
    assert_eq!(relay.more(), [""; 0], "the first was kept");
    assert_eq!(web.get("/").text(), "hello");
    assert_eq!(relay.connection(), "tls api.test http/1.1 resumed -");
}

/// An idle connection that the server closed is not used: the next request gets a new one.
#[test]
fn a_connection_that_ended_while_it_was_kept_is_not_used() {
    let upstream = Upstream::start(|call| {
        call.body();
        call.answer(200, "hello");
        call.close();
    });
    let scratch = certified();
    let relay = Relay::start(&scratch, "server", upstream.address(), &["--ends"]);
    let proxy = start(scratch, &backend(&[relay.address()], TLS));
    let mut web = proxy.connect();
    for count in 1..10 {
        // A POST is not repeated, so the test would see it if it were sent on a closed connection.
        web.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        let answer = web.answer();
        assert_eq!((answer.status, answer.text()), (200, "hello"), "{count}");
        assert!(relay.connection().starts_with("tls api.test"));
        assert_eq!(relay.connection(), "end");
    }
}

#[test]
fn twenty_megabytes_go_up_and_come_back_over_tls() {
    let upstream = Upstream::start(|call| {
        let body = call.body().bytes;
        call.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
        call.send(&body);
    });
    let (_relay, proxy) = world(upstream.address(), "");
    let data: Vec<u8> = (0..20_u32 << 20).map(|n| (n ^ (n >> 9)) as u8).collect();
    let sent = proxy.scratch.write("sent", &data);
    let (at, back) = (format!("@{}", sent.display()), proxy.scratch.join("back"));
    let back_name = back.display().to_string();
    for (version, chunked) in [
        ("--http1.1", ""),
        ("--http1.1", "Transfer-Encoding: chunked"),
        ("--http2-prior-knowledge", ""),
    ] {
        let url = proxy.url("/");
        curl(&[
            version,
            "-H",
            "Expect:",
            "-H",
            chunked,
            "--data-binary",
            &at,
            "-o",
            &back_name,
            &url,
        ]);
        assert!(std::fs::read(&back).unwrap() == data, "{version} {chunked}");
    }
}

#[test]
fn websocket_passes_over_tls() {
    let script = |name: &str| format!("{}/python/{name}", env!("CARGO_MANIFEST_DIR"));
    let echo = Running::start("/usr/bin/python3", &[&script("websocket_echo.py")]);
    let (_relay, proxy) = world(&format!("127.0.0.1:{}", echo.line()), "");
    let url = format!("ws://{}/chat", proxy.address("web"));
    let talked = tool::run("/usr/bin/python3", &[&script("websocket_client.py"), &url, "talk"]);
    assert_eq!(talked.unwrap(), "closed 1000\n");
    assert_eq!((echo.line(), echo.line()), ("open /chat".into(), "close /chat".into()));
    assert_eq!(proxy.records(1)[0]["status"], 101);
}

/// Health checks perform the handshake and verify: a server with the wrong name is down before any request.
#[test]
fn health_checks_speak_tls() {
    let upstream = Upstream::start(|call| match call.target() {
        "/health" => call.answer(204, ""),
        _ => call.answer(200, "hello"),
    });
    for health in [
        "health = { path = \"/health\", interval = \"50ms\", fall = 1, rise = 1 }\n",
        "health = { interval = \"50ms\", fall = 1, rise = 1 }\n",
    ] {
        let scratch = certified();
        Authority::new(&scratch, "other").certify("wrong", "DNS:api.test");
        let good = Relay::start(&scratch, "server", upstream.address(), &[]);
        let bad = Relay::start(&scratch, "wrong", upstream.address(), &[]);
        let config = backend(&[bad.address(), good.address()], &format!("{TLS}{health}"));
        let proxy = start(scratch, &config);
        let logged = proxy.daemon.log_line(&["a server does not answer", "app/0", "TLS"]).unwrap();
        assert!(logged.contains("UnknownIssuer"), "{logged}");
        let up = |name: &str| {
            let path = format!("/v1/servers/app/{name}");
            proxy.daemon.api().get(&path).expect(200)["figures"]["up"].clone()
        };
        until(|| (up("0"), up("1")), |both| *both == (false.into(), true.into()));
        for _ in 0..4 {
            assert_eq!(proxy.connect().get("/").text(), "hello");
        }
    }
}

/// A server that accepts connections and never completes a handshake cannot be connected to: within the connect
/// timeout the request is sent to another one.
#[test]
fn whoever_never_shakes_hands_is_passed_over() {
    let upstream = Upstream::saying("hello");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (silent, address.to_string())).unwrap();
    let scratch = certified();
    let relay = Relay::start(&scratch, "server", upstream.address(), &[]);
    let connect = "timeouts = { connect = \"200ms\" }\n";
    let config = backend(&[&silent.1, relay.address()], &format!("{TLS}{connect}"));
    let proxy = start(scratch, &config);
    for _ in 0..4 {
        let mut web = proxy.connect();
        // Nothing was sent by then, so this holds for every method.
        web.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        assert_eq!(web.answer().text(), "hello");
    }
    // Without another server, the response gives the reason.
    let alone = start(certified(), &backend(&[&silent.1], &format!("{TLS}{connect}")));
    let answer = alone.connect().get("/");
    let told = "502 the server cannot be connected to: TLS: the handshake took too long";
    assert_eq!((answer.status, answer.text().trim_end()), (502, told));
    // The same with a server that speaks another protocol.
    let plain = Upstream::saying("hello");
    let other = start(certified(), &backend(&[plain.address()], TLS));
    let answer = other.connect().get("/");
    assert!(answer.status == 502 && answer.text().contains("TLS: "), "{}", answer.text());
}

/// If only the end of the connection marks the end of a body, a connection that ends without a TLS close alert means
/// a truncated body (RFC 9112, section 9.8). If the length is known, nothing is missing.
#[test]
fn a_body_without_an_end_is_not_taken_for_whole() {
    let upstream = Upstream::start(|call| {
        match call.target() {
            "/open" => call.send("HTTP/1.1 200 OK\r\n\r\nhello"),
            _ => call.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        };
        call.close();
    });
    for (more, is_whole) in [(&[][..], true), (&["--abrupt"][..], false)] {
        let scratch = certified();
        let relay = Relay::start(&scratch, "server", upstream.address(), more);
        let proxy = start(scratch, &backend(&[relay.address()], TLS));
        assert_eq!(proxy.connect().get("/known").text(), "hello");
        let mut web = proxy.connect();
        web.ask("/open", "");
        assert_eq!(web.try_answer(false).is_ok(), is_whole, "{more:?}");
    }
}

/// A server that answers when the latch is open.
fn held(latch: &Arc<Latch>) -> Upstream {
    let latch = Arc::clone(latch);
    Upstream::start(move |call| {
        latch.pass();
        call.answer(200, "ok");
    })
}

/// SIGTERM: requests that run over TLS are completed.
#[test]
fn a_drain_waits_for_what_runs_over_tls() {
    let latch = Latch::new();
    let upstream = held(&latch);
    let (_relay, proxy) = world(upstream.address(), "");
    let mut web = proxy.connect();
    web.ask("/", "");
    let _ = upstream.wait_for(1);
    proxy.daemon.signal(rustix::process::Signal::TERM);
    latch.open();
    assert_eq!(web.answer().text(), "ok");
    assert!(proxy.daemon.wait().status.success());
}

/// A client that disconnects ends its request at the server, over TLS too.
#[test]
fn a_client_that_leaves_ends_its_request() {
    let latch = Latch::new();
    let upstream = held(&latch);
    let (_relay, proxy) = world(upstream.address(), "");
    let mut web = proxy.connect();
    web.ask("/", "");
    let _ = upstream.wait_for(1);
    drop(web);
    proxy.wait_for_counts(0, 0);
    latch.open();
}
