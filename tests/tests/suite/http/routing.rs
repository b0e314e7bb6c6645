//! Which backend a request is sent to, which waiting request is first, and checkpoints on connections.

use paceline_tests::{Latch, Proxy, Upstream, Web, until};
use std::sync::Arc;

/// A server that answers `text` when the latch lets it.
fn held(latch: &Arc<Latch>, text: &'static str) -> Upstream {
    let latch = Arc::clone(latch);
    Upstream::start(move |call| {
        latch.pass();
        call.answer(200, text);
    })
}

#[test]
fn the_first_condition_that_holds_names_the_backend() {
    let (app, files) = (Upstream::saying("app"), Upstream::saying("files"));
    let proxy = Proxy::before(
        app.address(),
        &format!(
            r#"
            use_backend = [
                {{ when = 'path.startsWith("/static/")', backend = "files" }},
                {{ when = 'header["x-to"] == "app"', backend = "app" }},
                {{ when = 'header["x-to"] != ""', backend = "files" }},
            ]
            [[backend]]
            name = "files"
            servers = [{{ address = "{}" }}]
            "#,
            files.address()
        ),
    );
    let mut web = proxy.connect();
    for (target, fields, expected) in [
        ("/static/a", "", "files"),
        ("/static/a", "X-To: app\r\n", "files"),
        ("/", "X-To: app\r\n", "app"),
        ("/", "X-To: x\r\n", "files"),
        ("/", "", "app"),
    ] {
        assert_eq!(web.get_with(target, fields).text(), expected, "{target} {fields}");
    }
    let servers: Vec<_> = proxy.records(5).iter().map(|record| record["server"].clone()).collect();
    assert_eq!(servers[4], "app/one");
    assert_eq!(servers[0], format!("files/{}", files.address()));
}

/// Seed 004: traffic is sent elsewhere when a limit is reached, and later returns.
#[test]
fn a_counter_switches_the_backend_when_a_limit_is_reached() {
    let latch = Latch::new();
    let (app, overflow) = (held(&latch, "app"), Upstream::saying("overflow"));
    let proxy = Proxy::before(
        app.address(),
        &format!(
            r#"
            use_backend = [{{ when = 'inflight("app-busy") >= 2', backend = "overflow" }}]
            [[backend]]
            name = "overflow"
            servers = [{{ name = "spare", address = "{}" }}]
            [[checkpoint]]
            name = "app-busy"
            at = "backend app"
            count = true
            "#,
            overflow.address()
        ),
    );
    let mut busy = [proxy.connect(), proxy.connect()];
    for (index, web) in busy.iter_mut().enumerate() {
        web.ask("/", "");
        let _ = app.wait_for(index + 1);
    }
    for _ in 0..3 {
        assert_eq!(proxy.connect().get("/").text(), "overflow");
    }
    latch.open();
    for web in &mut busy {
        assert_eq!(web.answer().text(), "app");
    }
    proxy.wait_for_counts(0, 0);
    assert_eq!(proxy.connect().get("/").text(), "app", "it has room again");
    assert_eq!((app.count(), overflow.count()), (3, 3));
}

const ONE: &str = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n\
                   queue = { max_len = 10, max_delay = \"60s\" }\n";

/// A higher priority is a head start in every queue.
#[test]
fn a_rule_gives_a_priority_that_goes_first() {
    let latch = Latch::new();
    let upstream = held(&latch, "ok");
    let rules = "[[rule]]\nmatch = { \"header.x-class\" = \"gold\" }\nset = 50\nthen = \"stop\"\n\
                 [[rule]]\nmatch = { path = \"/batch*\" }\nmode = \"glob\"\nlower = 20\n";
    let proxy = Proxy::before(upstream.address(), &format!("{rules}{ONE}"));
    let mut clients = Vec::new();
    for (number, (target, fields)) in
        [("/first", ""), ("/batch", ""), ("/a", ""), ("/b", ""), ("/gold", "X-Class: gold\r\n")]
            .into_iter()
            .enumerate()
    {
        let mut web = proxy.connect();
        web.ask(target, fields);
        // Each request is in its queue before the next one arrives.
        proxy.wait_for_counts(number, 1);
        clients.push(web);
    }
    latch.open();
    for web in &mut clients {
        assert_eq!(web.answer().status, 200);
    }
    assert_eq!(upstream.lines(), ["GET /first", "GET /gold", "GET /a", "GET /b", "GET /batch"]);
    assert_eq!(upstream.in_flight_max(), 1);
}

/// `on = "connection"`: one for each client at a time; a further one is closed when it is accepted.
#[test]
fn a_refused_connection_is_closed_at_accept() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        [[checkpoint]]
        name = "connections"
        at = "frontend web"
        on = "connection"
        key = "client"
        concurrency = 1
        queue = { max_len = 0 }
        "#,
    );
    let mut first = proxy.connect();
    assert_eq!(first.get("/").status, 200);
    assert!(proxy.connect().is_closed(), "without a word");
    // Another client has its own count, and requests do not count here.
    let shown = super::curl(&["--interface", "127.0.0.2", &proxy.url("/"), &proxy.url("/")]);
    assert_eq!(shown, "okok");
    assert_eq!((first.get("/").status, first.get("/").status), (200, 200));
    drop(first);
    let again = || {
        let mut web = proxy.connect();
        web.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        web.try_answer(false).ok().map(|answer| answer.status)
    };
    assert_eq!(until(again, Option::is_some), Some(200));
}

/// A connection may also wait in a queue, and one that closes meanwhile makes room for the next.
#[test]
fn connections_wait_in_a_queue() {
    let upstream = Upstream::saying("ok");
    let on = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\non = \"connection\"\n\
              concurrency = 1\nqueue = { max_len = 2, max_delay = \"60s\" }\n";
    let proxy = Proxy::before(upstream.address(), on);
    let mut first = proxy.connect();
    assert_eq!(first.get("/1").status, 200);
    let mut second = proxy.connect();
    second.ask("/2", "");
    proxy.wait_for_counts(1, 1);
    let mut third = proxy.connect();
    third.ask("/3", "");
    proxy.wait_for_counts(2, 1);
    assert!(Web::connect(proxy.address("web")).is_closed(), "the queue is full");
    drop(second);
    proxy.wait_for_counts(1, 1);
    drop(first);
    assert_eq!(third.answer().status, 200);
    assert_eq!(upstream.lines(), ["GET /1", "GET /3"]);
}

/// `max_connections` of a frontend: further connections wait to be accepted and are served later.
#[test]
fn a_frontend_takes_no_more_connections_than_it_may() {
    let latch = Latch::new();
    let upstream = held(&latch, "ok");
    let proxy = Proxy::before(upstream.address(), "max_connections = 2\n[http]\nthreads = 1\n");
    let connect = || {
        let mut web = proxy.connect();
        web.ask("/", "");
        web
    };
    // Both connections have a request before another client arrives: an idle one would be closed for it.
    let mut clients = vec![connect(), connect()];
    let _ = upstream.wait_for(2);
    clients.extend([connect(), connect()]);
    proxy.wait_for_counts(0, 2);
    latch.open();
    for mut web in clients {
        assert_eq!(web.answer().text(), "ok");
    }
    assert_eq!((upstream.count(), upstream.in_flight_max()), (4, 2));
}
