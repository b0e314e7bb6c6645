//! SIGTERM under load: requests on accepted connections are answered, waiting requests proceed, and then the daemon
//! exits with success.

use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const FEW: &str = "[[checkpoint]]\nname = \"few\"\nat = \"frontend web\"\nconcurrency = 2\n\
                   queue = { max_len = 100, max_delay = \"60s\" }\n";

#[test]
fn those_who_run_and_those_who_wait_are_served_before_the_end() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let proxy = Proxy::before(upstream.address(), FEW);
    let address = proxy.address("web").to_owned();
    let idle = proxy.connect();
    let mut clients: Vec<Web> = (0..10).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|web| web.ask("/", ""));
    proxy.wait_for_counts(8, 2);
    proxy.daemon.signal(Signal::TERM);
    until(|| Web::try_connect(&address).is_err(), |is_refused| *is_refused);
    assert!(idle.is_closed(), "nobody asks there");
    latch.open();
    let mut ends = 0;
    for web in &mut clients {
        let answer = web.answer();
        assert_eq!((answer.status, answer.text()), (200, "ok"));
        ends += usize::from(answer.field("connection") == Some("close"));
    }
    assert!(ends >= 8, "those who waited are told that the connection ends: {ends}");
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    assert_eq!(upstream.count(), 10);
}

/// A client that sends requests until its connection is closed in order or refused.
fn ask_on(address: &str, answered: &AtomicUsize, keeps: bool) -> Result<(), String> {
    loop {
        let Ok(mut web) = Web::try_connect(address) else { return Ok(()) };
        loop {
            let sent = web.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = match sent.and_then(|()| web.try_answer(false)) {
                Ok(answer) => answer,
                Err(error) => return Err(format!("{error} ({:?})", error.kind())),
            };
            if answer.status != 200 {
                return Err(format!("{} {}", answer.status, answer.text()));
            }
            answered.fetch_add(1, Ordering::SeqCst);
            match answer.field("connection") {
                Some("close") => return Ok(()),
                _ if keeps => {}
                _ => break,
            }
        }
    }
}

/// Stops a daemon that twelve clients send requests to as fast as they can; returns the failures they saw.
fn end_under_load(keeps: bool) -> Vec<String> {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), FEW);
    let address = proxy.address("web").to_owned();
    let answered = AtomicUsize::new(0);
    let failures = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..12).map(|_| scope.spawn(|| ask_on(&address, &answered, keeps))).collect();
        until(|| answered.load(Ordering::SeqCst), |count| *count > 300);
        proxy.daemon.signal(Signal::TERM);
        clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect()
    });
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    failures
}

/// On persistent connections, clients see only responses; the last one announces that the connection closes.
#[test]
fn kept_connections_end_in_good_order_under_load() {
    assert_eq!(end_under_load(true), [""; 0]);
}

/// The same with a new connection for each request: an accepted connection is served.
#[test]
fn new_connections_are_served_or_refused_under_load() {
    // When the socket is closed, the system resets connections that were not accepted; this also counts as refused.
    let failures = end_under_load(false);
    let is_reset = |failure: &&String| !failure.contains("ConnectionReset");
    assert_eq!(failures.iter().find(is_reset), None, "{failures:?}");
}

/// A request on a connection that was accepted before is answered, even if it arrives after the signal.
#[test]
fn a_request_that_was_on_its_way_is_answered() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), "");
    let mut clients: Vec<Web> = (0..10).map(|_| proxy.connect()).collect();
    for web in &mut clients {
        assert_eq!(web.get("/").status, 200);
    }
    proxy.daemon.signal(Signal::TERM);
    let answers: Vec<io::Result<u16>> = clients
        .iter_mut()
        .map(|web| {
            web.send("GET /late HTTP/1.1\r\nHost: a\r\n\r\n")?;
            web.try_answer(false).map(|answer| answer.status)
        })
        .collect();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(200))), "{answers:?}");
    assert!(proxy.daemon.wait().status.success());
}

/// A long response in progress, and one over HTTP/2, are completed.
#[test]
fn long_answers_and_http2_go_to_their_end() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        call.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin");
        theirs.pass();
        call.send(vec![b'x'; 999_995]);
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    web.ask("/", "");
    let url = proxy.url("/");
    let lengths = thread::scope(|scope| {
        let curl = scope.spawn(|| {
            let words = ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{size_download}"];
            super::curl(&[&words[..], &[&url]].concat())
        });
        let _ = upstream.wait_for(2);
        proxy.daemon.signal(Signal::TERM);
        until(|| Web::try_connect(proxy.address("web")).is_err(), |is_refused| *is_refused);
        latch.open();
        (web.answer().body.bytes.len(), curl.join().unwrap())
    });
    assert_eq!(lengths, (1_000_000, "1000000".to_owned()));
    assert!(proxy.daemon.wait().status.success());
}

/// The daemon does not wait for a client that has not sent any HTTP: neither for a PROXY header nor for a TLS
/// handshake.
#[test]
fn a_connection_that_has_not_begun_does_not_hold_up_the_end() {
    let upstream = Upstream::saying("ok");
    let settings =
        "proxy_protocol = true\ntrusted = [\"127.0.0.1\"]\ntimeouts = { header = \"1h\" }\n";
    let proxy = Proxy::before(upstream.address(), settings);
    let mut silent = proxy.connect();
    silent.send("PROXY ").unwrap();
    let mut other = proxy.connect();
    other.send("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n").unwrap();
    assert_eq!(other.get("/").status, 200);
    proxy.daemon.signal(Signal::TERM);
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    // Connections that are closed at the end of `--drain-max` are logged.
    assert!(!ended.log.contains("--drain-max has passed"), "{}", ended.log);
}

/// One log line counts what is cut off when the time is up: waiting requests, requests being served, and connections.
#[test]
fn what_the_end_cuts_is_counted_in_the_log() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let scratch = paceline_tests::Scratch::new();
    let file = scratch.write("http.toml", Proxy::config(upstream.address(), FEW));
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let launch = paceline_tests::Launch::new(&scratch).option("--config", file);
    let daemon = launch.option("--ovsdb", socket).option("--drain-max", "0s").start().unwrap();
    let (_, address) = daemon.ready.split_once("http web ").unwrap();
    let address = address.split([',', ';']).next().unwrap();
    let mut ovsdb = daemon.connect();
    let _ = ovsdb.call("echo", &serde_json::json!([])).unwrap();
    let mut clients: Vec<Web> = (0..5).map(|_| Web::connect(address)).collect();
    clients.iter_mut().for_each(|web| web.ask("/", ""));
    let count = || daemon.api().get("/v1/requests").expect(200).as_array().unwrap().len();
    until(count, |count| *count == 5);
    let ended = daemon.terminate();
    let lines: Vec<&str> =
        ended.log.lines().filter(|line| line.contains("--drain-max has passed")).collect();
    let [line] = lines[..] else { panic!("{}", ended.log) };
    for figure in ["requests=5", "sessions=1", "connections=5"] {
        assert!(line.contains(figure), "{figure}: {line}");
    }
    latch.open();
}
