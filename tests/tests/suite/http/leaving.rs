//! When a client disconnects while its request waits, the request ends at once: it uses up nothing, it never reaches
//! a server, and the next request takes its place.

use paceline_tests::{Latch, Proxy, Upstream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const ONE: &str = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n\
                   queue = { max_len = 10, max_delay = \"60s\" }\n";

fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.body();
        call.answer(200, "ok");
    });
    (latch, upstream)
}

/// With only a head, with part of a long body, and with a request sent ahead.
#[test]
fn one_that_leaves_while_queued_never_reaches_the_server() {
    // As much as the smallest socket buffer takes: a disconnect behind unread bytes does not arrive before they are
    // read (docs/http.md).
    let long = format!(
        "POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n{}",
        "x".repeat(40_000)
    );
    let chunks =
        "POST /gone HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n";
    let two = "GET /gone HTTP/1.1\r\nHost: a\r\n\r\nGET /gone2 HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in ["GET /gone HTTP/1.1\r\nHost: a\r\n\r\n", &long, chunks, two] {
        let (latch, upstream) = held();
        let proxy = Proxy::before(upstream.address(), ONE);
        let mut first = proxy.connect();
        first.ask("/first", "");
        proxy.wait_for_counts(0, 1);
        let mut gone = proxy.connect();
        gone.send(request).unwrap();
        proxy.wait_for_counts(1, 1);
        let mut last = proxy.connect();
        last.ask("/last", "");
        proxy.wait_for_counts(2, 1);
        drop(gone);
        proxy.wait_for_counts(1, 1);
        latch.open();
        assert_eq!((first.answer().status, last.answer().status), (200, 200));
        assert_eq!(upstream.lines(), ["GET /first", "GET /last"], "{request:.40}");
        proxy.wait_for_counts(0, 0);
        // Each worker writes its own lines, in any order.
        let mut statuses: Vec<_> =
            proxy.records(3).iter().map(|line| line["status"].as_u64().unwrap()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 499]);
    }
}

/// The same over HTTP/2 and TLS, where the socket alone does not show it.
#[test]
fn clients_of_http2_that_leave_take_their_requests_along() {
    let (latch, upstream) = held();
    let proxy = Proxy::before(upstream.address(), ONE);
    let mut first = proxy.connect();
    first.ask("/first", "");
    proxy.wait_for_counts(0, 1);
    for words in [&["--http2-prior-knowledge"][..], &["--http2-prior-knowledge", "-T", "/dev/zero"]]
    {
        let mut gone = Command::new("curl")
            .args(["-sS"])
            .args(words)
            .arg(proxy.url("/gone"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        proxy.wait_for_counts(1, 1);
        gone.kill().unwrap();
        let _ = gone.wait();
        proxy.wait_for_counts(0, 1);
    }
    latch.open();
    assert_eq!(first.answer().status, 200);
    assert_eq!(upstream.lines(), ["GET /first"]);
}

/// At a rate, the next request is admitted when the cancelled one would have been, not later.
#[test]
fn one_that_leaves_spends_nothing_of_a_rate() {
    let upstream = Upstream::saying("ok");
    let pace = "[[checkpoint]]\nname = \"pace\"\nat = \"frontend web\"\nrate = \"1/s\"\nburst = 1\n\
                queue = { max_len = 10, max_delay = \"60s\" }\n";
    let proxy = Proxy::before(upstream.address(), pace);
    assert_eq!(proxy.connect().get("/first").status, 200);
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    proxy.wait_for_counts(1, 0);
    let mut last = proxy.connect();
    last.ask("/last", "");
    proxy.wait_for_counts(2, 0);
    drop(gone);
    assert_eq!(last.answer().status, 200);
    let seen = upstream.seen();
    assert_eq!(upstream.lines(), ["GET /first", "GET /last"]);
    let between = seen[1].at - seen[0].at;
    assert!(between < Duration::from_millis(1_900), "one second, not two: {between:?}");
}

/// A client that disconnects while a server works on its request frees its slot; the closed connection notifies the
/// server.
#[test]
fn one_that_leaves_while_it_is_served_frees_its_slot() {
    let upstream = Upstream::start(|call| {
        if call.target() == "/gone" {
            // Until the daemon closes its side.
            while !call.read(1).is_empty() {}
            return;
        }
        call.answer(200, "ok");
    });
    let proxy = Proxy::before(upstream.address(), ONE);
    let mut gone = proxy.connect();
    gone.ask("/gone", "");
    let _ = upstream.wait_for(1);
    let mut next = proxy.connect();
    next.ask("/next", "");
    proxy.wait_for_counts(1, 1);
    drop(gone);
    assert_eq!(next.answer().status, 200);
    paceline_tests::until(|| upstream.in_flight(), |count| *count == 0);
}

/// Half of a hundred clients disconnect: the others are served one after the other, and no request of a disconnected
/// client is served.
#[test]
fn half_of_a_hundred_leave() {
    let (latch, upstream) = held();
    let config = ONE.replace("max_len = 10", "max_len = 100");
    let proxy = Proxy::before(upstream.address(), &config);
    let mut clients: Vec<_> = (0..100).map(|_| proxy.connect()).collect();
    for (number, web) in clients.iter_mut().enumerate() {
        web.ask(&format!("/{number}"), "");
    }
    proxy.wait_for_counts(99, 1);
    let first: usize = upstream.wait_for(1)[0].line()[5..].parse().unwrap();
    let mut stay = Vec::new();
    for (number, web) in clients.into_iter().enumerate() {
        if number % 2 == 0 || number == first {
            stay.push((number, web));
        }
    }
    proxy.wait_for_counts(stay.len() - 1, 1);
    latch.open();
    for (number, web) in &mut stay {
        assert_eq!(web.answer().status, 200, "{number}");
    }
    let mut served: Vec<usize> =
        upstream.lines().iter().map(|line| line[5..].parse().unwrap()).collect();
    served.sort_unstable();
    assert_eq!(served, stay.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    assert_eq!(upstream.in_flight_max(), 1);
}
