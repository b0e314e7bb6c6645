//! Clients that disconnect while a server works on their requests: the server is notified, and limited resources stay
//! in use until it is done, so that no client can evade a limit by disconnecting.

use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that does not notice disconnects: it answers when the latch lets it, even if the client is gone.
fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    (latch, upstream)
}

/// A server that begins to answer at once, and ends when the latch lets it, even if the client is gone.
fn streaming(beginning: &'static str, end: &'static str) -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        call.send(beginning);
        theirs.pass();
        call.leave();
        call.send(end);
        call.close();
    });
    (latch, upstream)
}

/// Resets its connection instead of closing it.
fn reset(client: Web) {
    rustix::net::sockopt::set_socket_linger(client.socket(), Some(Duration::ZERO)).unwrap();
}

/// Sends a request, and reads the response up to `what`.
fn read_to(client: &mut Web, target: &str, fields: &str, what: &str) {
    client.ask(target, fields);
    let mut seen = vec![];
    while !seen.ends_with(what.as_bytes()) {
        let piece = client.read(1).unwrap();
        assert!(!piece.is_empty(), "{:?}", String::from_utf8_lossy(&seen));
        seen.extend(piece);
    }
}

/// A daemon whose server takes `max` requests at a time; `more` are settings of the backend.
fn limited(upstream: &Upstream, max: u32, more: &str) -> Proxy {
    let address = upstream.address();
    let one = format!("{{ name = \"one\", address = \"{address}\", max_connections = {max} }}");
    let backend = format!("[[backend]]\nname = \"app\"\nservers = [{one}]\n{more}\n");
    Proxy::start(&format!("{backend}{}", Proxy::FRONTEND))
}

/// How many requests ended because their client disconnected.
fn left(proxy: &Proxy) -> u64 {
    let frontend = proxy.daemon.api().get("/v1/frontends/web").expect(200);
    frontend["figures"]["left"].as_u64().unwrap()
}

#[test]
fn a_server_has_no_more_than_it_may_however_many_leave_p1() {
    let (latch, upstream) = held();
    let proxy = limited(&upstream, 2, "");
    for number in 1..=2 {
        let mut gone = proxy.connect();
        gone.ask("/gone", "");
        let _ = upstream.wait_for(number);
        drop(gone);
    }
    until(|| left(&proxy), |left| *left == 2);
    let mut next = proxy.connect();
    next.ask("/next", "");
    proxy.wait_for_counts(1, 2);
    assert_eq!(upstream.count(), 2, "it is at work for two who have left");
    latch.open();
    assert_eq!(next.answer().status, 200);
    assert_eq!(upstream.in_flight_max(), 2);
    proxy.wait_for_counts(0, 0);
    assert_eq!(left(&proxy), 2, "each is counted once");
}

/// With every way to mark the end of the body, and both with a closed and a reset connection.
#[test]
fn leaving_within_the_response_does_not_free_the_place_p1() {
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
    const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npart";
    const CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart";
    for (beginning, end) in [(CHUNKS, "2\r\nok\r\n0\r\n\r\n"), (LENGTH, "ok"), (CLOSE, "ok")] {
        for leave in [drop, reset] {
            let (latch, upstream) = streaming(beginning, end);
            let proxy = limited(&upstream, 2, "");
            for _ in 1..=2 {
                let mut gone = proxy.connect();
                read_to(&mut gone, "/gone", "", "part");
                leave(gone);
            }
            until(|| left(&proxy), |left| *left == 2);
            let mut next = proxy.connect();
            next.ask("/next", "");
            proxy.wait_for_counts(1, 2);
            assert_eq!(upstream.count(), 2, "it is at work for two who have left");
            latch.open();
            assert_eq!(next.answer().status, 200);
            assert_eq!(upstream.in_flight_max(), 2);
            proxy.wait_for_counts(0, 0);
            assert_eq!(left(&proxy), 2, "each is counted once");
        }
    }
}

/// A malformed response is not forwarded, but its server still works.
#[test]
fn a_wrong_response_does_not_free_the_place_of_a_server_at_work_p1() {
    for wrong in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nwrong\r\n",
        "HTTP/1.1 200 OK\r\nwrong\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n",
    ] {
        let (latch, upstream) = streaming(wrong, "");
        let proxy = limited(&upstream, 1, "");
        let mut first = proxy.connect();
        first.ask("/first", "");
        let _ = first.try_answer(false);
        let mut next = proxy.connect();
        next.ask("/next", "");
        proxy.wait_for_counts(1, 1);
        latch.open();
        let _ = next.try_answer(false);
        assert_eq!((upstream.count(), upstream.in_flight_max()), (2, 1), "{wrong}");
    }
}

/// A client of a tunnel that resets its connection.
#[test]
fn a_broken_tunnel_does_not_free_the_place_of_a_server_at_work_p1() {
    let switched = "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
    let (latch, upstream) = streaming(switched, "");
    let proxy = limited(&upstream, 1, "");
    let mut gone = proxy.connect();
    let fields = "Upgrade: websocket\r\nConnection: upgrade\r\n";
    read_to(&mut gone, "/gone", fields, "\r\n\r\n");
    reset(gone);
    let mut next = proxy.connect();
    next.ask("/next", fields);
    proxy.wait_for_counts(1, 1);
    // The request has ended in the log, but its slot is not free.
    assert_eq!(proxy.records(1)[0]["target"], "/gone");
    assert_eq!(upstream.count(), 1);
    latch.open();
    assert_eq!(next.try_answer(true).unwrap().status, 101);
    assert_eq!(upstream.in_flight_max(), 1);
}

/// An endless stream is ended: by a server that notices the disconnect, or else after the maximum number of discarded
/// bytes.
#[test]
fn a_stream_without_an_end_does_not_hold_its_place_for_ever() {
    let upstream = Upstream::start(|call| {
        match call.target() {
            "/attentive" => {
                call.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart");
                while !call.read(1).is_empty() {}
            }
            "/endless" => {
                let piece = [b'x'; 64 << 10];
                call.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart");
                while call.send(piece) {}
            }
            _ => return call.answer(200, "ok"),
        }
        call.close();
    });
    let proxy = limited(&upstream, 1, "timeouts = { response = \"1h\" }");
    for target in ["/attentive", "/endless"] {
        read_to(&mut proxy.connect(), target, "", "part");
        assert_eq!(proxy.connect().get("/next").status, 200, "{target}");
    }
}

/// A server that sends little and notices only by a failed write, such as a loop that polls and prints.
#[test]
fn a_stream_that_goes_on_for_nobody_gives_its_place_back() {
    let upstream = Upstream::start(|call| {
        if call.target() != "/ticks" {
            return call.answer(200, "ok");
        }
        call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n");
        while call.send("4\r\ntick\r\n") {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        call.close();
    });
    let proxy = limited(&upstream, 1, "timeouts = { response = \"1h\" }");
    read_to(&mut proxy.connect(), "/ticks", "", "part");
    assert_eq!(proxy.connect().get("/next").status, 200);
    until(|| upstream.in_flight(), |count| *count == 0);
}

/// A request with a malformed body gets its response at once; its server already has the part before.
#[test]
fn a_wrong_body_does_not_free_the_place_of_a_server_at_work() {
    let (latch, upstream) = held();
    let proxy = limited(&upstream, 1, "");
    let mut wrong = proxy.connect();
    wrong
        .send("POST /wrong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        .unwrap();
    let _ = upstream.wait_for(1);
    wrong.send("wrong\r\n").unwrap();
    assert_eq!(wrong.answer().status, 400);
    let mut next = proxy.connect();
    next.ask("/next", "");
    proxy.wait_for_counts(1, 1);
    latch.open();
    assert_eq!(next.answer().status, 200);
    assert_eq!(upstream.in_flight_max(), 1);
}

/// A concurrency slot is held in the same way, and released by a server that stops when it is notified.
#[test]
fn a_server_that_gives_up_frees_the_place() {
    let upstream = Upstream::start(|call| {
        if call.target() == "/gone" {
            while !call.read(1).is_empty() {}
            call.close();
            return;
        }
        call.answer(200, "ok");
    });
    let one = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n\
               queue = { max_len = 10, max_delay = \"60s\" }\n";
    let proxy = Proxy::before(upstream.address(), one);
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    let _ = upstream.wait_for(1);
    let mut next = proxy.connect();
    next.ask("/next", "");
    proxy.wait_for_counts(1, 1);
    drop(gone);
    assert_eq!(next.answer().status, 200);
}

/// The timeout for a response continues after the client has disconnected.
#[test]
fn a_server_that_never_answers_frees_the_place_in_its_time() {
    let (latch, upstream) = held();
    let proxy = limited(&upstream, 1, "timeouts = { response = \"500ms\" }");
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    let _ = upstream.wait_for(1);
    drop(gone);
    let mut next = proxy.connect();
    next.ask("/next", "");
    let seen = upstream.wait_for(2);
    let between = seen[1].at - seen[0].at;
    assert!(between > Duration::from_millis(400), "{between:?}");
    assert_eq!(next.answer().status, 504);
    latch.open();
}

/// The rest of a body also has that timeout, from the moment when the client disconnects.
#[test]
fn a_stream_that_never_ends_frees_the_place_in_its_time() {
    let beginning = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart";
    let (latch, upstream) = streaming(beginning, "");
    let proxy = limited(&upstream, 1, "timeouts = { response = \"500ms\" }");
    read_to(&mut proxy.connect(), "/gone", "", "part");
    let mut next = proxy.connect();
    read_to(&mut next, "/next", "", "part");
    let seen = upstream.wait_for(2);
    let between = seen[1].at - seen[0].at;
    assert!(between > Duration::from_millis(400), "{between:?}");
    latch.open();
}

/// A request without limits ends at once.
#[test]
fn one_that_holds_nothing_limited_is_over_at_once() {
    let (latch, upstream) = held();
    let proxy = Proxy::before(upstream.address(), "");
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    let _ = upstream.wait_for(1);
    drop(gone);
    proxy.wait_for_counts(0, 0);
    assert_eq!(upstream.in_flight(), 1);
    latch.open();
}

/// A daemon that ends waits for connected clients, not for servers whose clients have disconnected.
#[test]
fn a_daemon_that_ends_does_not_wait_for_those_who_left() {
    let (latch, upstream) = held();
    let proxy = limited(&upstream, 1, "");
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    let _ = upstream.wait_for(1);
    drop(gone);
    until(|| left(&proxy), |left| *left == 1);
    assert_eq!(proxy.counts(), (0, 1), "it runs");
    let begun = Instant::now();
    proxy.daemon.signal(Signal::TERM);
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    latch.open();
}
