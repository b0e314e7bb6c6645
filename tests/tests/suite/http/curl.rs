//! curl as the client, with HTTP/1 and HTTP/2 without TLS: what it sends arrives, and it understands the response.

use super::curl;
use paceline_tests::{Proxy, Upstream, tool};

const VERSION: &str = "%{http_version} ";
const STATUS: &str = "%{http_code} ";

/// Answers with the content of the request.
fn echo() -> Upstream {
    Upstream::start(|call| {
        let body = call.body();
        let text = format!("{} {}", call.target(), body.bytes.len());
        call.answer(200, &text);
    })
}

#[test]
fn connections_are_kept_on_both_sides() {
    let upstream = echo();
    let proxy = Proxy::before(upstream.address(), "");
    let urls: Vec<String> = ["/1", "/2", "/3"].iter().map(|target| proxy.url(target)).collect();
    let words = ["--write-out", " %{num_connects}\n", &urls[0], &urls[1], &urls[2]];
    assert_eq!(curl(&words), "/1 0 1\n/2 0 0\n/3 0 0\n");
    assert_eq!(upstream.lines(), ["GET /1", "GET /2", "GET /3"]);
    assert_eq!(upstream.connections(), 1);
    let record = &proxy.records(3)[2];
    assert_eq!((&record["target"], &record["status"]), (&"/3".into(), &200.into()));
}

#[test]
fn a_head_has_the_length_and_no_body() {
    let upstream = echo();
    let proxy = Proxy::before(upstream.address(), "");
    // The second request would take an unexpected body for its response.
    let url = proxy.url("/x");
    let shown = curl(&["--head", &url, "--next", "--silent", &url]);
    let (head, body) = shown.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 4"), "{head}");
    assert_eq!(body, "/x 0");
    assert_eq!(upstream.lines(), ["HEAD /x", "GET /x"]);
    let shown = curl(&["--http2-prior-knowledge", "--head", &url]);
    assert_eq!(shown, "HTTP/2 200 \r\ncontent-length: 4\r\n\r\n");
}

#[test]
fn uploads_arrive_with_a_length_and_in_chunks() {
    let upstream = echo();
    let proxy = Proxy::before(upstream.address(), "");
    let data: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    let file = proxy.scratch.write("body", &data);
    let at = format!("@{}", file.display());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let words = ["--header", "Expect:", version, "--data-binary", &at, &proxy.url("/up")];
        assert_eq!(curl(&words), "/up 300000", "{version}");
        let url = proxy.url("/chunks");
        let words = ["-sS", version, "--header", "Expect:", "--upload-file", "-", &url];
        assert_eq!(tool::run_with_file("curl", &words, &file).unwrap(), "/chunks 300000");
    }
    let seen = upstream.seen();
    let lengths: Vec<_> = seen.iter().map(|seen| seen.field("content-length")).collect();
    assert_eq!(lengths, [Some("300000"), None, Some("300000"), None]);
    assert_eq!(seen[1].field("transfer-encoding"), Some("chunked"));
    for seen in [&seen[0], &seen[2]] {
        assert!(seen.raw.ends_with(&data), "byte by byte");
    }
}

#[test]
fn a_client_that_asks_first_is_told_by_the_server() {
    let upstream = Upstream::start(|call| {
        assert_eq!(call.field("expect"), Some("100-continue"), "{}", call.head);
        if call.target() == "/no" {
            call.close();
            return call.answer(413, "not that");
        }
        call.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = call.body();
        call.answer(200, &format!("{} bytes", body.bytes.len()));
    });
    let proxy = Proxy::before(upstream.address(), "");
    let file = proxy.scratch.write("body", vec![b'x'; 100_000]);
    let at = format!("@{}", file.display());
    // curl would send the body after a second without an interim response; here it must get one.
    let asked = ["--header", "Expect: 100-continue", "--expect100-timeout", "50"];
    let words = |target: &str| {
        let url = proxy.url(target);
        let more = ["--dump-header", "-", "--data-binary", &at, &url].map(str::to_owned);
        asked.iter().map(|word| (*word).to_owned()).chain(more).collect::<Vec<_>>()
    };
    let run = |target: &str| {
        let words = words(target);
        curl(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let shown = run("/yes");
    assert!(shown.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 "), "{shown}");
    assert!(shown.ends_with("100000 bytes"), "{shown}");
    let shown = run("/no");
    assert!(shown.starts_with("HTTP/1.1 413 ") && shown.ends_with("not that"), "{shown}");
    let refused = upstream.seen().pop().unwrap();
    assert_eq!(refused.raw, refused.head.as_bytes(), "nothing of the body was sent");
}

#[test]
fn a_frontend_without_http2_does_not_speak_it() {
    let upstream = echo();
    let proxy = Proxy::before(upstream.address(), "http2 = false\n");
    let words = ["-sS", "--max-time", "60", "--http2-prior-knowledge", &proxy.url("/")];
    assert!(tool::run("curl", &words).is_err());
    assert_eq!(upstream.count(), 0);
    assert!(curl(&["--write-out", VERSION, &proxy.url("/")]).ends_with("1.1 "));
}

#[test]
fn a_client_of_http_1_0_gets_what_it_can_read() {
    let upstream = Upstream::start(|call| {
        call.send("HTTP/1.1 100 Continue\r\n\r\n");
        call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    });
    let proxy = Proxy::before(upstream.address(), "");
    let url = proxy.url("/");
    let shown = curl(&["--http1.0", "--include", "--write-out", STATUS, &url, &url]);
    assert_eq!(shown.matches("abc200 ").count(), 2, "{shown}");
    assert!(!shown.to_lowercase().contains("chunked") && !shown.contains(" 100 "), "{shown}");
    assert!(upstream.seen()[0].head.starts_with("GET / HTTP/1.1\r\n"));
    let mut web = proxy.connect();
    web.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(web.answer().text(), "abc");
    assert!(web.is_closed());
}

#[test]
fn trailers_pass_both_ways() {
    let upstream = Upstream::start(|call| {
        let sum = call.body().trailers;
        call.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n\
             3\r\nabc\r\n0\r\nSum: 3\r\nContent-Length: 7\r\n\r\n",
        );
        assert_eq!(sum, [("digest".to_owned(), "xyz".to_owned())]);
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut web = proxy.connect();
    web.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\
         Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nDigest: xyz\r\nHost: evil\r\n\r\n",
    )
    .unwrap();
    let answer = web.answer();
    assert_eq!(answer.text(), "abc");
    // A trailer that would change the meaning of the message is not forwarded (RFC 9110 6.5.1).
    assert_eq!(answer.body.trailers, [("sum".to_owned(), "3".to_owned())]);
    assert_eq!(upstream.seen()[0].field("te"), Some("trailers"));
}

#[test]
fn trailers_pass_to_clients_of_http2() {
    let upstream = Upstream::start(|call| {
        call.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\nSum: 3\r\n\r\n",
        );
    });
    let proxy = Proxy::before(upstream.address(), "");
    let shown = curl(&["--http2-prior-knowledge", "--include", &proxy.url("/")]);
    assert!(shown.contains("\r\n\r\nabc") && shown.contains("sum: 3"), "{shown}");
}

#[test]
fn servers_may_end_their_bodies_in_every_way_and_listen_at_a_unix_socket() {
    let script = |call: &mut paceline_tests::Call<'_>| {
        let head = "HTTP/1.1 200 OK\r\n";
        match call.target() {
            "/length" => call.send(format!("{head}Content-Length: 5\r\n\r\nfirst")),
            "/chunks" => call.send(format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nfi\r\n3\r\nrst\r\n0\r\n\r\n"
            )),
            "/none" => call.send("HTTP/1.1 204 No Content\r\n\r\n"),
            _ => {
                call.close();
                call.send("HTTP/1.0 200 OK\r\n\r\nfirst")
            }
        };
    };
    let scratch = paceline_tests::Scratch::new();
    let address = format!("unix:{}", scratch.join("up.sock").display());
    for upstream in [Upstream::start(script), Upstream::start_at(&address, script)] {
        let proxy = Proxy::before(upstream.address(), "");
        let mut web = proxy.connect();
        for target in ["/length", "/chunks", "/close", "/length", "/none", "/chunks"] {
            let answer = web.get(target);
            let text = if target == "/none" { "" } else { "first" };
            assert_eq!(answer.text(), text, "{target}: {}", answer.head);
        }
        assert_eq!(upstream.connections(), 2, "only the one that was closed was replaced");
        let url = proxy.url("/close");
        assert_eq!(curl(&["--http2-prior-knowledge", &url]), "first");
    }
}
