//! The access log: the content of each line, in both formats, and log rotation.

use paceline_tests::{Latch, Proxy, Upstream, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_line_of_json_says_what_was_asked_answered_and_waited_for() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        call.body();
        theirs.pass();
        call.answer(201, "hello");
    });
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        log_values = { tenant = 'header["x-tenant"]', here = 'inflight("one")' }
        [[checkpoint]]
        name = "one"
        at = "backend app"
        concurrency = 1
        queue = { max_len = 5, max_delay = "60s" }
        "#,
    );
    let mut clients = [proxy.connect(), proxy.connect()];
    for (number, web) in clients.iter_mut().enumerate() {
        web.send(format!(
            "POST /up?n={number} HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: \"quoted\\ \u{e9}\r\n\
             Referer: http://x/\r\nX-Tenant: blue\r\nContent-Length: 4\r\n\r\nbody"
        ))
        .unwrap();
        proxy.wait_for_counts(number, 1);
    }
    let slept = std::time::Instant::now();
    until(|| slept.elapsed(), |slept| *slept >= Duration::from_millis(50));
    latch.open();
    clients.iter_mut().for_each(|web| assert_eq!(web.answer().status, 201));
    let mut records = proxy.records(2);
    // Each worker writes its own lines.
    records.sort_by_key(|record| record["target"].to_string());
    for (number, record) in records.iter().enumerate() {
        for (name, expected) in [
            ("frontend", "web"),
            ("client", "127.0.0.1"),
            ("method", "POST"),
            ("target", &*format!("/up?n={number}")),
            ("authority", "shop.test"),
            ("protocol", "HTTP/1.1"),
            ("server", "app/one"),
            ("user_agent", "\"quoted\\ \u{e9}"),
            ("referer", "http://x/"),
        ] {
            assert_eq!(record[name], expected, "{name} in {record}");
        }
        assert_eq!((&record["status"], &record["bytes_in"]), (&201.into(), &4.into()));
        assert_eq!(record["bytes_out"], 5);
        assert_eq!(record["values"]["tenant"], "blue");
        assert!(record["values"]["here"].is_string(), "{record}");
    }
    assert!(records[0]["queues"].is_null(), "it did not wait: {}", records[0]);
    let (waited, queue) = (&records[1]["waited"], &records[1]["queues"]["one"]);
    assert!(queue.as_f64().unwrap() >= 0.05, "{}", records[1]);
    assert!(waited.as_f64() >= queue.as_f64() && records[1]["seconds"].as_f64() >= waited.as_f64());
}

#[test]
fn a_common_line_is_what_other_tools_read() {
    let upstream = Upstream::saying("hello");
    let config =
        Proxy::config(upstream.address(), "[[rule]]\nmatch.path = \"/no\"\nreject = true\n");
    let proxy = Proxy::start(&config.replace("\"json\"", "\"common\""));
    let mut web = proxy.connect();
    let agent = "User-Agent: probe/1.0 \"x\"\r\n";
    let (passed, refused) = (web.get_with("/a?b=c", agent), web.get("/no"));
    assert_eq!((passed.status, refused.status), (200, 403));
    let lines = proxy.log_lines(2);
    let (start, rest) = lines[0].split_once("] ").unwrap();
    let date = start.strip_prefix("127.0.0.1 - - [").unwrap();
    assert!(date.ends_with(" +0000") && date.split('/').count() == 3, "{date}");
    let expected = "\"GET /a?b=c HTTP/1.1\" 200 5 \"-\" \"probe/1.0 \\\"x\\\"\" frontend=web \
                    server=app/one seconds=0.";
    assert!(rest.starts_with(expected), "{rest}");
    let expected = format!("\"GET /no HTTP/1.1\" 403 {} ", refused.body.bytes.len());
    assert!(lines[1].contains(&expected), "{}", lines[1]);
    assert!(lines[1].contains("server=- "), "{}", lines[1]);
    assert!(lines[1].ends_with("error=rejected reason=\"rejected by rule 10\""), "{}", lines[1]);
}

/// The log shows which limit refused a request, or what was wrong with it.
#[test]
fn a_line_of_a_refusal_names_who_refused_and_why() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        [[rule]]
        number = 7
        match.path = "/no"
        reject = true
        [[checkpoint]]
        name = "per-tenant"
        at = "frontend web"
        key = 'header["x-tenant"]'
        rate = "1 per 1h"
        queue = { max_len = 0 }
        "#,
    );
    let mut web = proxy.connect();
    assert_eq!(web.get_with("/", "X-Tenant: blue\r\n").status, 200);
    assert_eq!(web.get_with("/", "X-Tenant: blue\r\n").status, 503);
    assert_eq!(web.get("/no").status, 403);
    web.send("GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(web.answer().status, 400);
    let records = proxy.records(4);
    assert!(records[0]["reason"].is_null() && records[0]["checkpoint"].is_null(), "{}", records[0]);
    let full = "checkpoint \"per-tenant\" (key \"blue\"): the queue is full, 0 may wait";
    assert_eq!((&records[1]["error"], &records[1]["reason"]), (&"queue_full".into(), &full.into()));
    assert_eq!(records[1]["checkpoint"], "per-tenant");
    assert_eq!(records[1]["key"], "blue");
    assert_eq!((&records[2]["error"], &records[2]["rule"]), (&"rejected".into(), &7.into()));
    assert_eq!(records[3]["reason"], "there is no Host field");
}

/// The values help an operator to find out why requests are refused.
#[test]
fn a_line_of_a_refusal_has_the_values_and_counters() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        log_values = { tenant = 'header["x-tenant"]', rate = 'rate("seen")' }
        [[rule]]
        match.path = "/no"
        reject = true
        [[checkpoint]]
        name = "seen"
        at = "frontend web"
        count = true
        [[checkpoint]]
        name = "closed"
        at = "backend app"
        rate = "1 per 1h"
        queue = { max_len = 0 }
        "#,
    );
    let mut web = proxy.connect();
    let mut get = |path: &str| web.get_with(path, "X-Tenant: blue\r\n").status;
    assert_eq!([get("/"), get("/"), get("/no")], [200, 503, 403]);
    let http2 = ["--http2-prior-knowledge", "-H", "X-Tenant: blue", &proxy.url("/no")];
    assert!(super::curl(&http2).starts_with("403"));
    for record in proxy.records(4) {
        let values = &record["values"];
        assert!(values["tenant"] == "blue" && values["rate"].is_string(), "{record}");
    }
}

/// A connection that a checkpoint refuses gets no response, so only the log can give the reason.
#[test]
fn a_refused_connection_has_a_line() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(
        upstream.address(),
        r#"
        log_values = { from = 'client' }
        [[checkpoint]]
        name = "connections"
        at = "frontend web"
        on = "connection"
        concurrency = 1
        queue = { max_len = 0 }
        "#,
    );
    let mut first = proxy.connect();
    assert_eq!(first.get("/").status, 200);
    assert!(proxy.connect().is_closed());
    let mut records = proxy.records(2);
    // Each worker writes its own lines.
    records.sort_by_key(|record| record["status"].as_u64());
    let refused = &records[0];
    assert_eq!((&refused["status"], &refused["error"]), (&0.into(), &"queue_full".into()));
    assert_eq!((&refused["frontend"], &refused["client"]), (&"web".into(), &"127.0.0.1".into()));
    assert_eq!(refused["checkpoint"], "connections");
    assert_eq!(refused["reason"], "checkpoint \"connections\": the queue is full, 0 may wait");
    assert_eq!(refused["values"]["from"], "127.0.0.1");
    assert!(refused["method"].is_null() && refused["target"].is_null(), "{refused}");
}

/// As logrotate does it: the file is renamed, then SIGHUP.
#[test]
fn a_file_that_was_moved_away_is_opened_anew_on_sighup() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    assert_eq!(web.get("/1").status, 200);
    assert_eq!(proxy.records(1)[0]["target"], "/1");
    let moved = proxy.scratch.join("access.log.1");
    std::fs::rename(proxy.access_log(), &moved).unwrap();
    assert_eq!(web.get("/2").status, 200);
    let lines = || std::fs::read_to_string(&moved).unwrap().lines().count();
    until(lines, |count| *count == 2);
    proxy.daemon.signal(Signal::HUP);
    proxy.daemon.log_line(&["applied the configuration"]).unwrap();
    // The signal is acknowledged before the file is reopened; every line is in one of the two files.
    let mut number = 2;
    let is_new = || {
        number += 1;
        assert_eq!(web.get(&format!("/{number}")).status, 200);
        proxy.access_log().exists()
    };
    until(is_new, |is_new| *is_new);
    let all = || {
        let new = std::fs::read_to_string(proxy.access_log()).unwrap_or_default();
        std::fs::read_to_string(&moved).unwrap() + &new
    };
    let all = until(all, |all| all.lines().count() == number);
    let targets: Vec<String> = all
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["target"].to_string())
        .collect();
    let expected: Vec<String> = (1..=number).map(|number| format!("\"/{number}\"")).collect();
    assert_eq!(targets, expected);
}

/// A client that disconnects may or may not have been sent a status: the line shows which.
#[test]
fn the_line_of_a_client_that_left_has_the_status_that_it_was_sent() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        if call.target() == "/begun" {
            call.send("HTTP/1.1 206 Partial Content\r\nContent-Length: 1000\r\n\r\nbegin");
        }
        theirs.pass();
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut begun = proxy.connect();
    begun.ask("/begun", "");
    let mut read = String::new();
    while !read.ends_with("begin") {
        let bytes = begun.read(1_000).unwrap();
        assert!(!bytes.is_empty(), "it ends after {read:?}");
        read.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    let mut silent = proxy.connect();
    silent.ask("/silent", "");
    let _ = upstream.wait_for(2);
    drop((begun, silent));
    let mut records = proxy.records(2);
    records.sort_by_key(|record| record["target"].to_string());
    for (record, target, status, bytes) in
        [(&records[0], "/begun", 206, 5), (&records[1], "/silent", 499, 0)]
    {
        assert_eq!((&record["target"], &record["error"]), (&target.into(), &"client_left".into()));
        assert_eq!((&record["status"], &record["bytes_out"]), (&status.into(), &bytes.into()));
    }
    latch.open();
}

/// Responses of the daemon, with and without a body: the bytes of the body that were written.
#[test]
fn the_line_of_a_refusal_has_the_bytes_of_its_body() {
    let upstream = Upstream::start(|call| call.close());
    let reject = "max_body = 3\n[[rule]]\nnumber = 1\nmatch = { path = \"/no\" }\nreject = true\n";
    let proxy = Proxy::before(upstream.address(), reject);
    let cases = [
        ("GET /no HTTP/1.1\r\nHost: a\r\n\r\n", 403),
        ("GET /no HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n", 403),
        ("HEAD /no HTTP/1.1\r\nHost: a\r\n\r\n", 403),
        ("POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", 413),
        ("GET /wrong HTTP/1.1\r\n\r\n", 400),
        ("POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 502),
    ];
    for (number, (request, status)) in cases.into_iter().enumerate() {
        let mut web = proxy.connect();
        web.send(request).unwrap();
        let is_head = request.starts_with("HEAD");
        let response = web.try_answer(is_head).unwrap();
        assert_eq!(
            (response.status, response.body.bytes.is_empty()),
            (status, is_head),
            "{request}"
        );
        let record = &proxy.records(number + 1)[number];
        let expected = (&status.into(), &response.body.bytes.len().into());
        assert_eq!((&record["status"], &record["bytes_out"]), expected, "{request}");
    }
}
