//! What a refused client is sent: status, time to retry, limit, checkpoint and reason.

use paceline_tests::{Latch, Proxy, Scratch, Upstream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const JSON: &str = "Accept: application/json\r\n";

/// One request an hour: the first is admitted, the second is refused.
fn hourly(status: &str) -> String {
    format!(
        "[[checkpoint]]\nname = \"pace\"\nat = \"frontend web\"\nkey = \"header[\\\"x-user\\\"]\"\n\
         rate = \"1/h\"\nburst = 1\nqueue = {{ max_len = 0 }}\n{status}"
    )
}

#[test]
fn a_refusal_says_when_to_come_back_and_which_limit_it_was() {
    let upstream = Upstream::saying("ok");
    for (config, status) in [("", 503), ("status = 429\n", 429)] {
        let proxy = Proxy::before(upstream.address(), &hourly(config));
        let mut web = proxy.connect();
        let user = "X-User: ann\r\n";
        assert_eq!(web.get_with("/", user).status, 200);
        let answer = web.get_with("/", &format!("{user}{JSON}"));
        assert_eq!(answer.status, status);
        let after: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((3590..=3600).contains(&after), "{after}");
        assert_eq!(answer.field("ratelimit-policy"), Some("\"pace\";q=1;w=3600"));
        assert_eq!(answer.field("ratelimit"), Some(&*format!("\"pace\";r=0;t={after}")));
        assert_eq!(answer.field("content-type"), Some("application/json"));
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        let body = answer.json();
        assert_eq!((&body["checkpoint"], &body["key"]), (&"pace".into(), &"ann".into()));
        assert_eq!((&body["status"], &body["retry_after"]), (&status.into(), &after.into()));
        assert!(body["message"].as_str().unwrap().contains("pace"), "{body}");
        // Unless the client accepts JSON, it is text. The connection stays open, and other requests on it are served.
        let answer = web.get_with("/", user);
        assert!(answer.field("content-type").unwrap().starts_with("text/plain"));
        assert!(answer.text().starts_with(&format!("{status} ")), "{}", answer.text());
        assert!(answer.text().contains("pace"), "{}", answer.text());
        assert_eq!(web.get_with("/", "X-User: bob\r\n").status, 200);
        web.send(format!("HEAD / HTTP/1.1\r\nHost: a\r\n{user}\r\n")).unwrap();
        assert_eq!(web.try_answer(true).unwrap().status, status);
        assert_eq!(web.get_with("/", "X-User: eve\r\n").status, 200, "a HEAD has no body");
    }
    assert_eq!(upstream.count(), 6);
}

#[test]
fn clients_of_http2_are_told_the_same() {
    let upstream = Upstream::saying("ok");
    let proxy = Proxy::before(upstream.address(), &hourly("status = 429\n"));
    assert_eq!(proxy.connect().get("/").status, 200);
    let words = ["--http2-prior-knowledge", "--include", "-H", "Accept: application/json"];
    let shown = super::curl(&[&words[..], &[&proxy.url("/")]].concat());
    assert!(shown.starts_with("HTTP/2 429 "), "{shown}");
    for part in ["\r\nretry-after: 3", "\r\nratelimit-policy: \"pace\";q=1;w=3600\r\n", "\"pace\""]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_frontend_may_have_pages_of_its_own() {
    let upstream = Upstream::saying("ok");
    let scratch = Scratch::new();
    let _ = scratch.write("busy.html", "<h1>later</h1>");
    let config = Proxy::config(
        upstream.address(),
        &format!("errors = {{ 503 = \"busy.html\" }}\n{}", hourly("")),
    );
    let proxy = Proxy::start_in(scratch, &config);
    let mut web = proxy.connect();
    assert_eq!(web.get("/").status, 200);
    let answer = web.get_with("/", JSON);
    assert_eq!((answer.status, answer.text()), (503, "<h1>later</h1>"));
    assert!(answer.field("content-type").unwrap().starts_with("text/html"));
    assert!(answer.field("retry-after").is_some());
    // A changed page is used after a reload.
    let _ = proxy.scratch.write("busy.html", "<h1>tomorrow</h1>");
    proxy.reload(&config);
    let page = || web.get("/").text().to_owned();
    paceline_tests::until(page, |page| page == "<h1>tomorrow</h1>");
}

#[test]
fn without_a_backend_or_a_server_the_refusal_says_so() {
    let proxy = Proxy::start(
        r#"
        [[frontend]]
        name = "web"
        listen = "127.0.0.1:0"
        use_backend = [{ when = 'path == "/empty"', backend = "empty" },
                       { when = 'path == "/resting"', backend = "resting" }]
        [[backend]]
        name = "empty"
        servers = []
        [[backend]]
        name = "resting"
        servers = [{ address = "127.0.0.1:1", weight = 0 }]
        "#,
    );
    let mut web = proxy.connect();
    for (target, word) in [("/", "no_backend"), ("/empty", "no_server"), ("/resting", "no_server")]
    {
        let answer = web.get_with(target, JSON);
        assert_eq!((answer.status, &answer.json()["error"]), (503, &word.into()), "{target}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_or_says_nonsense_is_a_bad_gateway() {
    let upstream = Upstream::start(|call| {
        match call.target() {
            "/nonsense" => call.send("what?\r\n\r\n"),
            "/two" => {
                call.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx")
            }
            "/cut" => call.send("HTTP/1.1 200 OK\r\nConte"),
            _ => true,
        };
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    for target in ["/nonsense", "/two", "/cut", "/silent"] {
        let answer = proxy.connect().get_with(target, JSON);
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (502, &"bad_gateway".into()),
            "{target}"
        );
    }
    upstream.stop();
    let answer = proxy.connect().get_with("/", JSON);
    assert_eq!(answer.status, 502);
    // Servers and their addresses are not disclosed to clients.
    let address = upstream.address().to_string();
    let tells = |text: &str| answer.text().contains(text);
    assert!(tells("connected") && !tells("app/one") && !tells(&address), "{}", answer.text());
}

/// A truncated response is not presented as complete.
#[test]
fn a_body_that_breaks_off_breaks_off_for_the_client_too() {
    let upstream = Upstream::start(|call| {
        match call.target() {
            "/length" => call.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
            _ => call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
        };
        call.close();
    });
    let proxy = Proxy::before(upstream.address(), "");
    for target in ["/length", "/chunks"] {
        let mut web = proxy.connect();
        web.ask(target, "");
        let error = web.try_answer(false).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{target}: {error}");
        let words = ["-sS", "--http2-prior-knowledge", &proxy.url(target)];
        assert!(paceline_tests::tool::run("curl", &words).is_err(), "{target}");
    }
    assert!(proxy.records(4).iter().all(|record| record["error"] == "bad_gateway"));
}

/// Servers that take too long, and bodies that are too long.
#[test]
fn what_takes_too_long_or_is_too_long_is_answered() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        if call.target() == "/slow" {
            theirs.pass();
        }
        call.body();
        call.answer(200, "ok");
    });
    let config = Proxy::config(upstream.address(), "max_body = 10\n");
    let slow = "name = \"app\"\ntimeouts = { response = \"300ms\" }";
    let proxy = Proxy::start(&config.replacen("name = \"app\"", slow, 1));
    let began = Instant::now();
    let answer = proxy.connect().get_with("/slow", JSON);
    assert_eq!((answer.status, &answer.json()["error"]), (504, &"gateway_timeout".into()));
    assert!(began.elapsed() >= Duration::from_millis(300));
    latch.open();
    let post = |body: &str| {
        let mut web = proxy.connect();
        web.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}")).unwrap();
        web.answer().status
    };
    assert_eq!(post("Content-Length: 10\r\n\r\n0123456789"), 200);
    let before = upstream.count();
    assert_eq!(post("Content-Length: 11\r\n\r\n0123456789a"), 413);
    assert_eq!(upstream.count(), before, "the length alone tells");
    assert_eq!(post("Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n"), 413);
}

/// One running request, and a queue with these settings behind it.
fn behind_one(queue: &str, frontend: &str) -> (Arc<Latch>, Upstream, Proxy) {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let one = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n";
    let more = format!("{frontend}\n{one}queue = {{ {queue} }}\n");
    let proxy = Proxy::before(upstream.address(), &more);
    (latch, upstream, proxy)
}

/// S2: no request waits longer than the queue or the frontend allows.
#[test]
fn a_queue_and_a_frontend_bound_the_wait_s2() {
    for (queue, frontend) in [
        ("max_len = 5, max_delay = \"400ms\"", ""),
        ("max_len = 5, max_delay = \"60s\"", "timeouts = { queue = \"400ms\" }"),
    ] {
        let (latch, upstream, proxy) = behind_one(queue, frontend);
        let mut first = proxy.connect();
        first.ask("/", "");
        let _ = upstream.wait_for(1);
        let began = Instant::now();
        let answer = proxy.connect().get_with("/", JSON);
        let waited = began.elapsed();
        assert_eq!(answer.status, 503, "{queue} {frontend}");
        let body = answer.json();
        assert_eq!((&body["error"], &body["checkpoint"]), (&"expired".into(), &"one".into()));
        assert!(answer.field("retry-after").is_some());
        assert!(waited >= Duration::from_millis(400), "{waited:?}");
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        latch.open();
        assert_eq!(first.answer().status, 200);
        assert_eq!(upstream.count(), 1);
    }
}

#[test]
fn a_full_queue_refuses_at_once() {
    let (latch, upstream, proxy) = behind_one("max_len = 1, max_delay = \"60s\"", "");
    let mut clients = [proxy.connect(), proxy.connect()];
    for (index, web) in clients.iter_mut().enumerate() {
        web.ask("/", "");
        proxy.wait_for_counts(index, 1);
    }
    let answer = proxy.connect().get_with("/", JSON);
    assert_eq!((answer.status, &answer.json()["error"]), (503, &"queue_full".into()));
    assert_eq!(answer.field("ratelimit-policy"), Some("\"one\";q=1"));
    latch.open();
    for web in &mut clients {
        assert_eq!(web.answer().status, 200);
    }
    assert_eq!(upstream.count(), 2);
}

/// If the expected wait is too long, the request is refused at once, not after the wait.
#[test]
fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let upstream = Upstream::saying("ok");
    let pace = "[[checkpoint]]\nname = \"pace\"\nat = \"frontend web\"\nrate = \"1/m\"\nburst = 1\n\
                queue = { max_len = 10, max_delay = \"30s\" }\n";
    let proxy = Proxy::before(upstream.address(), pace);
    assert_eq!(proxy.connect().get("/").status, 200);
    let began = Instant::now();
    let answer = proxy.connect().get_with("/", JSON);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!((answer.status, &answer.json()["error"]), (503, &"too_long".into()));
    let after: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((20..=60).contains(&after), "{after}");
}
