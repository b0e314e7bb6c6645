//! An operator removes a request of the HTTP door from its queue.

use paceline_tests::{Latch, Proxy, Upstream};
use serde_json::{Value, json};
use std::sync::Arc;

const ONE: &str = "[[checkpoint]]\nname = \"one\"\nat = \"frontend web\"\nconcurrency = 1\n\
                   queue = { max_len = 100, max_delay = \"60s\" }\n";

/// The client gets a response, the server never sees the request, and the audit log records it (A1).
#[test]
fn a_waiting_request_is_cancelled_and_its_client_is_answered_a1() {
    let latch = Latch::new();
    let theirs = Arc::clone(&latch);
    let upstream = Upstream::start(move |call| {
        theirs.pass();
        call.answer(200, "ok");
    });
    let proxy = Proxy::before(upstream.address(), ONE);
    let (mut first, mut second) = (proxy.connect(), proxy.connect());
    first.ask("/first", "");
    proxy.wait_for_counts(0, 1);
    second.ask("/second", "");
    proxy.wait_for_counts(1, 1);
    let mut api = proxy.daemon.api();
    let listed = api.get("/v1/requests").expect(200);
    let of = |state: &str| -> Value {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|one| one["state"] == state).unwrap()["request"].clone()
    };
    let path = |request: &Value| format!("/v1/requests/{request}/cancel");
    let body = json!({ "reason": "not today" });
    let _ = api.call("POST", &path(&of("running")), &body).expect(409);
    let waiting = of("waiting");
    let _ = api.call("POST", &path(&waiting), &body).expect(204);
    let answer = second.answer();
    assert_eq!(answer.status, 503);
    let text = answer.text();
    assert!(text.contains("cancelled by api:") && text.contains(": not today"), "{text}");
    latch.open();
    assert_eq!(first.answer().status, 200);
    assert_eq!(upstream.count(), 1);
    let log = proxy.daemon.data().join("audit.log");
    assert!(proxy.daemon.terminate().status.success());
    let log = std::fs::read_to_string(log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let cancelled: Vec<Value> = lines.filter(|line| line["what"] == "cancel").collect();
    assert_eq!(cancelled.len(), 1, "{log}");
    assert_eq!(cancelled[0]["object"], format!("request {waiting}"));
}
