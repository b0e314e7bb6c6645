//! Locks, events, and the questions about requests.

use crate::world::World;
use serde_json::{Value, json};

#[test]
fn a_lock_goes_to_one_at_a_time_with_a_growing_number_l1_l2() {
    let world = World::new();
    let mut client = world.unix();
    let (one, two) = (client.session(json!({ "name": "one" })), client.session(json!({})));
    let first = client.put("/v1/locks/leader", json!({ "session": one })).expect(200);
    assert_eq!(first["lock"], "leader");
    client.put("/v1/locks/leader", json!({ "session": one })).expect_error(409, "conflict");
    let error =
        client.put("/v1/locks/leader", json!({ "session": two })).expect_error(409, "conflict");
    assert!(error["owner"].as_str().unwrap().starts_with("one:"), "{error}");
    let shown = client.get("/v1/locks/leader").expect(200);
    assert_eq!((&shown["fencing"], &shown["waiters"]), (&first["fencing"], &json!([])));
    assert_eq!(client.get("/v1/locks").expect(200), json!([shown]));
    client.delete(&format!("/v1/locks/leader?session={two}")).expect_error(409, "conflict");
    client.call("DELETE", "/v1/locks/leader", json!({ "session": one })).expect(204);
    let second = client.put("/v1/locks/leader", json!({ "session": two })).expect(200);
    assert!(second["fencing"].as_u64() > first["fencing"].as_u64());
    client.put("/v1/locks/no%20name", json!({ "session": one })).expect_error(400, "bad_request");
    client.put("/v1/locks/x", json!({})).expect_error(400, "bad_request");
    client.put("/v1/locks/x", json!({ "session": "s-0" })).expect_error(404, "not_found");
    client.get("/v1/locks/x").expect_error(404, "not_found");
}

#[test]
fn who_waits_for_a_lock_gets_it_and_who_leaves_leaves_the_line() {
    let world = World::new();
    let mut client = world.unix();
    let sessions = [(); 3].map(|()| client.session(json!({ "lease": "1h" })));
    client.put("/v1/locks/l", json!({ "session": sessions[0] })).expect(200);
    let mut events = world.events();
    let waiters = |client: &mut crate::client::Client| -> usize {
        client.get("/v1/locks/l").expect(200)["waiters"].as_array().unwrap().len()
    };
    let mut leaver = world.unix();
    leaver.send(
        "PUT",
        "/v1/locks/l",
        Some(&json!({ "session": sessions[1], "wait": "1h" }).to_string()),
    );
    while waiters(&mut client) != 1 {}
    drop(leaver);
    while waiters(&mut client) != 0 {}
    let mut stayer = world.unix();
    stayer.send(
        "PUT",
        "/v1/locks/l",
        Some(&json!({ "session": sessions[2], "wait": "1h" }).to_string()),
    );
    while waiters(&mut client) != 1 {}
    client
        .put("/v1/locks/l", json!({ "session": sessions[1], "wait": "10ms" }))
        .expect_error(409, "conflict");
    assert_eq!(waiters(&mut client), 1);
    client.delete(&format!("/v1/locks/l?session={}", sessions[0])).expect(204);
    stayer.answer().expect(200);
    let event = events.next("lock");
    assert_eq!((&event["lock"], &event["what"]), (&json!("l"), &json!("locked")));
}

#[test]
fn a_stolen_lock_is_told_and_stops_requests_that_require_it() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1 }));
    let mut client = world.unix();
    client.post("/v1/permits", json!({})).expect(201);
    let (victim, thief) = (client.session(json!({ "name": "victim" })), client.session(json!({})));
    client.put("/v1/locks/l", json!({ "session": victim })).expect(200);
    let mut events = world.events();
    let mut waiter = world.unix();
    let wanted = json!({ "session": victim, "require_locks": ["l"] });
    waiter.send("POST", "/v1/permits", Some(&wanted.to_string()));
    events.next("waiting");
    client.put("/v1/locks/l", json!({ "session": thief, "steal": true })).expect(200);
    let error = waiter.answer().expect_error(409, "refused");
    assert_eq!(error["reason"], "not_owner");
    let event = events.next("lock");
    assert_eq!(event["what"], "stolen");
    assert!(event["session"].as_str().unwrap().starts_with("victim:"), "{event}");
}

#[test]
fn whatever_waits_says_why() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/pools/night", json!({ "priority": [5, 5] })).expect(201);
    client.post("/v1/rules", json!({ "match": { "task": "backup" }, "set": 5 })).expect(201);
    let mut events = world.events();
    let mut waiter = world.unix();
    let wanted = json!({ "attributes": { "task": "backup", "text": "tar" }, "max_wait": "1h" });
    waiter.send("POST", "/v1/permits", Some(&wanted.to_string()));
    let id = events.next("waiting")["request"].clone();
    let why = client.get(&format!("/v1/why/{id}")).expect(200);
    assert_eq!(why["waits_for"], json!({ "kind": "start", "pool": "night" }));
    assert_eq!(
        (&why["state"], &why["priority"], &why["pool"]),
        (&json!("waiting"), &json!(5), &json!("night"))
    );
    assert!(why["message"].as_str().unwrap().contains("to be started"), "{why}");
    assert!(why["deadline"].as_str() > why["arrived_at"].as_str(), "{why}");
    let list = client.get("/v1/requests").expect(200);
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!((&list[0]["request"], &list[0]["text"]), (&id, &json!("tar")));
    assert_eq!(list[0]["waits_for"]["kind"], "start");
    assert_eq!(client.get("/v1/requests?count=0").expect(200), json!([]));
    client.get("/v1/requests?count=many").expect_error(400, "bad_request");
    client.put("/v1/pools/night", json!({ "priority": [5, 5], "started": true })).expect(200);
    assert_eq!(waiter.answer().expect(201)["request"], id);
    client.get("/v1/why/999999999").expect_error(404, "not_found");
    client.get("/v1/why/soon").expect_error(400, "bad_request");
}

#[test]
fn an_explanation_holds_nothing() {
    let world = World::new();
    world.checkpoint("rate", json!({ "rate": "1/m", "burst": 1, "key": "user" }));
    let mut client = world.unix();
    client.post("/v1/rules", json!({ "match": { "user": "eve" }, "reject": true })).expect(201);
    client.post("/v1/rules", json!({ "raise": 7 })).expect(201);
    let ann = json!({ "attributes": { "user": "ann" } });
    for _ in 0..2 {
        let explained = client.post("/v1/explain", ann.clone()).expect(200);
        assert_eq!(explained["foreseen"], json!({ "outcome": "start" }));
        assert_eq!((&explained["priority"], &explained["pool"]), (&json!(7), &json!("default")));
        let outcomes: Vec<(&Value, &Value)> = explained["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| (&r["number"], &r["outcome"]))
            .collect();
        assert_eq!(outcomes, [(&json!(10), &json!("criterion")), (&json!(20), &json!("matched"))]);
        let checkpoint = &explained["checkpoints"][0];
        assert_eq!(checkpoint["place"], json!({ "checkpoint": "rate", "key": "ann" }));
        assert_eq!(checkpoint["outlook"], "pass");
    }
    client.post("/v1/permits", ann.clone()).expect(201);
    let explained = client.post("/v1/explain", ann).expect(200);
    assert_eq!(explained["foreseen"]["outcome"], "refuse", "{explained}");
    let explained =
        client.post("/v1/explain", json!({ "attributes": { "user": "eve" } })).expect(200);
    assert_eq!(explained["foreseen"]["reason"], "rejected");
    assert!(explained["message"].as_str().unwrap().contains("rule 10 matched"), "{explained}");
    client.post("/v1/explain", json!({ "cost": 0 })).expect_error(400, "bad_request");
}

#[test]
fn events_tell_what_happens_and_followers_are_limited() {
    let world = World::with(paceline_api::Limits { followers_max: 1, ..Default::default() });
    let mut client = world.unix();
    client
        .post("/v1/rules", json!({ "match": { "user": "eve" }, "reject": true, "log": true }))
        .expect(201);
    let mut events = world.events();
    let error = client.get("/v1/events").expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    let permit = client.put("/v1/permits/a", json!({})).expect(201);
    client.delete("/v1/permits/a").expect(204);
    assert_eq!(events.next("started")["request"], permit["request"]);
    assert_eq!(events.next("settled")["request"], permit["request"]);
    client
        .post("/v1/permits", json!({ "attributes": { "user": "eve" } }))
        .expect_error(409, "refused");
    let (mut refused, mut logged) = (Value::Null, Value::Null);
    while refused.is_null() || logged.is_null() {
        match events.0.event() {
            (name, data) if name == "refused" => refused = data,
            (name, data) if name == "log" => logged = data,
            _ => {}
        }
    }
    assert_eq!((&refused["reason"], &logged["rule"]), (&json!("rejected"), &json!(10)));
    drop(events);
    while client.get("/metrics").text.lines().any(|line| line == "paceline_api_followers 1") {}
    world.events();
}

#[test]
fn metrics_and_the_description_are_served() {
    let world = World::new();
    world.checkpoint("quote%22d", json!({ "concurrency": 1 }));
    let mut client = world.unix();
    client.put("/v1/permits/a", json!({})).expect(201);
    let answer = client.get("/metrics");
    assert!(answer.header("content-type").unwrap().starts_with("text/plain"));
    let text = answer.text;
    assert!(text.contains("\npaceline_api_permits 1\n"), "{text}");
    assert!(text.contains("# TYPE paceline_checkpoint_passed_total counter"), "{text}");
    assert!(text.contains("paceline_checkpoint_inflight{checkpoint=\"quote\\\"d\"} "), "{text}");
    let document = client.get("/v1/openapi.json").expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/permits/{permit}"]["put"]["requestBody"].is_object());
}

/// It is unknown which of two values is meant.
#[test]
fn an_attribute_that_is_given_twice_is_refused_by_name() {
    let world = World::new();
    let mut client = world.unix();
    for path in ["/v1/explain", "/v1/permits"] {
        client.send("POST", path, Some(r#"{"attributes": {"a": "b", "c": "d", "a": "c"}}"#));
        let error = client.answer().expect_error(400, "bad_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("the member \"a\" is given twice"), "{message}");
    }
}
