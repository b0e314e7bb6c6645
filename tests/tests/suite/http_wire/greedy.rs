//! Clients of a frontend that ask for more than there is: resources reserved for other doors stay available, and logs
//! do not grow much faster than the traffic (D1).

use super::frames::{ACK, END_STREAM, Frame, HEADERS, Http2, PING, request};
use paceline_tests::{Latch, Proxy, Upstream};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;
use std::sync::Arc;

const STREAMS: u32 = 100;

fn connect(proxy: &Proxy) -> Http2 {
    Http2::connect(proxy.address("web").parse().unwrap())
}

/// One client connection can need a hundred connections to a server: a sixth of all descriptors is for those. A
/// request that finds none in time gets an error that says so, and the other doors have theirs.
#[test]
fn clients_of_a_frontend_leave_descriptors_to_others_d1() {
    const FILES: u64 = 900;
    let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "late");
    });
    let address = upstream.address();
    let proxy = Proxy::start(&format!(
        "[[backend]]\nname = \"app\"\ntimeouts = {{ connect = \"5s\" }}\n\
         servers = [{{ name = \"one\", address = \"{address}\" }}]\n{}",
        Proxy::FRONTEND
    ));
    let mut clients: Vec<Http2> = (0..8).map(|_| connect(&proxy)).collect();
    for client in &mut clients {
        (0..STREAMS).for_each(|number| client.ask(2 * number + 1, "/"));
    }
    let _ = upstream.wait_for(FILES as usize / 6);
    let mut api = proxy.daemon.api();
    let _ = api.call("POST", "/v1/permits", &json!({"attributes": {}, "lease": "5s"})).expect(201);
    // Requests without a connection are refused, none of them before it has waited for one.
    let record = &proxy.records(1)[0];
    assert_eq!((&record["status"], &record["error"]), (&503.into(), &"exhausted".into()));
    assert_eq!(upstream.count(), FILES as usize / 6, "no more connections than may be");
    latch.open();
    let mut answers = vec![];
    for client in &mut clients {
        let mut ended = 0;
        while ended < STREAMS {
            let frame = client.next().expect("every request is answered");
            ended += u32::from(frame.ends());
            answers.extend((frame.kind == HEADERS).then(|| frame.status()));
        }
    }
    assert!(answers.iter().all(|status| [200, 503].contains(status)), "{answers:?}");
    assert!(answers.iter().filter(|status| **status == 200).count() >= FILES as usize / 6);
}

/// Messages of the HTTP/2 library about frames are not logged, because clients could fill the log with them.
#[test]
fn frames_that_nobody_asked_for_are_no_lines_of_the_log() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    client.send_at_once(&vec![Frame::new(PING, ACK, 0, *b"unasked!"); 1_000]);
    client.serves(1);
    let ended = proxy.daemon.terminate();
    assert!(!ended.log.contains("PING"), "{}", ended.log);
}

/// A key, and other text of a client, may be long; over HTTP/2 a byte can name it. A log line is short nevertheless.
#[test]
fn what_a_client_says_is_cut_in_the_access_log_d1() {
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::before(
        upstream.address(),
        "log_values = { key = 'header[\"x-key\"]' }\n\
         [[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nkey = 'header[\"x-key\"]'\n\
         rate = \"1/h\"\nqueue = { max_len = 0 }\n",
    );
    let mut client = connect(&proxy);
    let long = "ä".repeat(2_500);
    let path = format!("/{}", "x".repeat(5_000));
    let fields = [("x-key", &*long), ("user-agent", &long), ("referer", &long)];
    for stream in [1, 3] {
        client.headers(stream, &request("GET", &path, &fields), END_STREAM);
        let (status, body) = client.response(stream);
        assert!(body.len() < 1_000, "{status} {body}");
    }
    for line in proxy.log_lines(2) {
        assert!(line.len() < 8 << 10, "{} bytes", line.len());
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(record["user_agent"].as_str().unwrap().ends_with("ä…"), "{line}");
    }
}

/// Waiting requests keep their heads, which cost a client next to nothing over HTTP/2. A connection may have 1 MiB of
/// them, which is freed when the requests end.
#[test]
fn heads_of_one_connection_are_bounded_d1() {
    const HEAD_BYTES: usize = 30_000;
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "late");
    });
    let proxy = Proxy::before(upstream.address(), "");
    let mut client = connect(&proxy);
    let long = "x".repeat(HEAD_BYTES);
    let ask = |client: &mut Http2, stream| {
        client.headers(stream, &request("GET", "/", &[("x-long", &long)]), END_STREAM);
    };
    (0..STREAMS).for_each(|number| ask(&mut client, 2 * number + 1));
    // A head takes some hundred more bytes.
    let room = (1 << 20) / (HEAD_BYTES + 500);
    let refused = STREAMS as usize - room;
    let (mut statuses, mut ended) = (vec![], 0);
    while ended < STREAMS {
        let frame = client.next().expect("every request is answered");
        statuses.extend((frame.kind == HEADERS).then(|| frame.status()));
        ended += u32::from(frame.ends());
        // The refused requests are answered while the others wait.
        if statuses.len() == refused {
            let _ = upstream.wait_for(room);
            latch.open();
        }
    }
    let is_refused = |status: &&u16| **status == 503;
    assert_eq!(statuses.iter().filter(is_refused).count(), refused, "{statuses:?}");
    let late = 2 * STREAMS + 1;
    ask(&mut client, late);
    assert_eq!(client.response(late).0, 200, "there is room again");
}
