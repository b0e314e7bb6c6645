//! Waiting requests that operators cancel.

use crate::world::World;
use serde_json::{Value, json};

#[test]
fn a_request_that_waits_is_cancelled_and_its_client_is_refused_with_the_reason() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1 }));
    let mut events = world.events();
    let mut operator = world.unix();
    let held = operator.post("/v1/permits", json!({ "lease": "1m" })).expect(201);
    let mut waiter = world.unix();
    let body = json!({ "attributes": { "task": "late" } }).to_string();
    waiter.send("POST", "/v1/permits", Some(&body));
    let waiting = events.next("waiting")["request"].clone();
    let path = |request: &Value| format!("/v1/requests/{request}/cancel");

    let error = operator.post(&path(&held["request"]), json!({})).expect_error(409, "conflict");
    assert!(error["message"].as_str().unwrap().contains("runs; "), "{error}");
    operator.post(&path(&json!(4_000_000)), json!({})).expect_error(404, "not_found");
    operator.post("/v1/requests/x/cancel", json!({})).expect_error(400, "bad_request");
    operator.post(&path(&waiting), json!({ "reason": "" })).expect_error(400, "bad_request");
    operator.post(&path(&waiting), json!({ "reason": "a\nb" })).expect_error(400, "bad_request");
    let made = operator.post("/v1/tokens", json!({ "name": "c", "role": "client" })).expect(201);
    let mut client = world.tcp_with(made["token"].as_str());
    client.post(&path(&waiting), json!({})).expect_error(403, "permission");

    operator.post(&path(&waiting), json!({ "reason": "maintenance" })).expect(204);
    let refused = waiter.answer().expect_error(409, "refused");
    assert_eq!((&refused["reason"], &refused["request"]), (&json!("cancelled"), &waiting));
    let message = refused["message"].as_str().unwrap();
    let by = operator.get("/v1/whoami").expect(200);
    let by = format!("api:{}@unix", by["user"].as_str().unwrap());
    assert_eq!(message, format!("cancelled by {by}: maintenance"));
    assert_eq!(events.next("refused")["request"], waiting);
    operator.post(&path(&waiting), json!({})).expect_error(404, "not_found");
    operator.delete(&format!("/v1/permits/{}", held["permit"].as_str().unwrap())).expect(204);
    waiter.post("/v1/permits", json!({ "once": true })).expect(200);
}
