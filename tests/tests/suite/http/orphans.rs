//! Clients that leave while a server is at work on their requests: the server is told, and what is limited
//! stays in use until it is done, so that nobody gets past a limit by leaving.

use paceline_tests::{Latch, Proxy, Upstream, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that looks after nobody: it answers when the latch lets it, whoever has left.
fn held() -> (Arc<Latch>, Upstream) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    (latch, upstream)
}

/// A daemon whose server takes `max` at a time; `more` are settings of the backend.
fn limited(upstream: &Upstream, max: u32, more: &str) -> Proxy {
    let address = upstream.address();
    let one = format!("{{ name = \"one\", address = \"{address}\", max_connections = {max} }}");
    let backend = format!("[[backend]]\nname = \"app\"\nservers = [{one}]\n{more}\n");
    Proxy::start(&format!("{backend}{}", Proxy::FRONTEND))
}

/// The figures of the frontend.
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

/// One whose body is wrong has its answer at once; its server has what came before.
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

/// A concurrency is held in the same way, and given back by a server that gives up when it is told.
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

/// The time for a response counts on when its client has left.
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

/// Where nothing is limited nobody has to be waited for.
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

/// A daemon that ends waits for those who are there, not for servers at work for nobody.
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
