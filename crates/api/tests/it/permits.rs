//! Permits: waited for, refused, renewed, settled, and released when a client dies.

use crate::world::World;
use paceline_host::registry::HoldLimits;
use serde_json::{Value, json};

/// One slot at the checkpoint `one`, for all clients.
fn one_at_a_time() -> World {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1 }));
    world
}

#[test]
fn a_permit_says_what_it_is() {
    let world = World::new();
    let mut client = world.unix();
    let permit = client
        .post("/v1/permits", json!({ "attributes": { "task": "etl" }, "lease": "20s" }))
        .expect(201);
    let name = permit["permit"].as_str().unwrap();
    assert_eq!(name, format!("p-{}", permit["request"]));
    assert_eq!((&permit["priority"], &permit["pool"]), (&json!(0), &json!("default")));
    assert_eq!(permit["waited"], "0s");
    for time in ["granted_at", "expires_at"] {
        let text = permit[time].as_str().unwrap();
        assert!(text.len() == 27 && text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text}");
    }
    assert!(permit["expires_at"].as_str() > permit["granted_at"].as_str());
    assert_eq!(client.get(&format!("/v1/permits/{name}")).expect(200), permit);
    assert_eq!(client.get("/v1/permits").expect(200), json!([permit]));
    let why = client.get(&format!("/v1/why/{}", permit["request"])).expect(200);
    assert_eq!(why["state"], "running");
    client.delete(&format!("/v1/permits/{name}")).expect(204);
    client.delete(&format!("/v1/permits/{name}")).expect_error(404, "not_found");
    client.get(&format!("/v1/permits/{name}")).expect_error(404, "not_found");
    client.post(&format!("/v1/permits/{name}/renew"), json!({})).expect_error(404, "not_found");
    assert_eq!(client.get("/v1/permits").expect(200), json!([]));
}

#[test]
fn what_is_no_request_is_said_and_changes_nothing() {
    let world = World::new();
    let mut client = world.unix();
    let session = client.session(json!({}));
    for (body, part) in [
        (json!({ "cost": 0 }), "cost: "),
        (json!({ "cost": -1 }), "cost: expected a whole number, found -1"),
        (json!({ "cost": "1" }), "cost: expected a whole number, found \"1\""),
        (json!({ "claim": [] }), "claim: there is no such member, did you mean claims?"),
        (json!({ "claims": [{}] }), "claims[0].resource: expected a text, but it is missing"),
        (
            json!({ "claims": [{ "resource": "r", "mode": "both" }] }),
            "claims[0].mode: expected \"exclusive\" or \"shared\", found \"both\"",
        ),
        (json!({ "claims": [{ "resource": "r", "mood": "shared" }] }), "claims[0].mood: "),
        (json!({ "claims": "r" }), "claims: expected a list"),
        (json!({ "attributes": { "a b": "c" } }), "attributes.a b: "),
        (json!({ "attributes": { "n": 5 } }), "attributes.n: expected a text"),
        (json!({ "attributes": { "priority": "5" } }), "attributes.priority: "),
        (json!({ "unknown": "ask" }), "unknown: expected "),
        (json!({ "max_wait": "5 parsecs" }), "max_wait: "),
        (json!({ "lease": "10ms" }), "lease: expected 1s to 1d"),
        (json!({ "lease": "25h" }), "lease: expected 1s to 1d"),
        (json!({ "require_locks": ["l"] }), "require_locks: "),
        (json!({ "session": session, "lease": "5s" }), "lease: "),
    ] {
        let error = client.post("/v1/permits", body.clone()).expect_error(400, "bad_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(part), "{body}: {message}");
    }
    client.post("/v1/permits", json!({ "session": "s-none" })).expect_error(404, "not_found");
    assert_eq!(client.get("/v1/permits").expect(200), json!([]));
    assert_eq!(client.get("/v1/requests").expect(200), json!([]));
}

#[test]
fn a_permit_that_is_given_back_goes_to_the_next_in_line() {
    let world = one_at_a_time();
    let mut holder = world.unix();
    let first = holder.post("/v1/permits", json!({})).expect(201);
    let mut events = world.events();
    let mut waiter = world.unix();
    waiter.send("POST", "/v1/permits", Some("{}"));
    let waiting = events.next("waiting")["request"].clone();
    let why = holder.get(&format!("/v1/why/{waiting}")).expect(200);
    assert_eq!(why["waits_for"], json!({ "kind": "checkpoint", "checkpoint": "one" }));
    assert_eq!(why["ahead"], json!([first["request"]]));
    holder.delete(&format!("/v1/permits/{}", first["permit"].as_str().unwrap())).expect(204);
    let second = waiter.answer().expect(201);
    assert_eq!(second["request"], waiting);
    assert_ne!(second["waited"], "0s");
}

#[test]
fn refusals_say_why_and_when_to_come_back() {
    let world = World::new();
    world.checkpoint("slow", json!({ "rate": "1/m", "burst": 1, "status": 429 }));
    let mut client = world.unix();
    client.post("/v1/permits", json!({})).expect(201);
    let answer = client.post("/v1/permits", json!({ "max_wait": "1s" }));
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    let error = answer.expect_error(429, "refused");
    assert_eq!((&error["reason"], &error["retry_after"]), (&json!("too_long"), &json!(after)));
    assert_eq!(error["place"], json!({ "checkpoint": "slow" }));
    assert!(error["request"].as_u64().is_some());
    let error = client.post("/v1/permits", json!({ "cost": 2 })).expect_error(409, "refused");
    assert_eq!(error["reason"], "cost_too_high");
    let claim = json!({ "claims": [{ "resource": "disk" }] });
    let error = client.post("/v1/permits", claim).expect_error(409, "refused");
    assert_eq!(
        (&error["reason"], &error["place"]),
        (&json!("unknown_resource"), &json!({ "resource": "disk" }))
    );
    client.put("/v1/rules/10", json!({ "match": { "user": "eve" }, "reject": true })).expect(201);
    let eve = json!({ "attributes": { "user": "eve" } });
    let error = client.post("/v1/permits", eve).expect_error(409, "refused");
    assert_eq!((&error["reason"], &error["rule"]), (&json!("rejected"), &json!(10)));
    let session = client.session(json!({}));
    let locks = json!({ "session": session, "require_locks": ["leader"] });
    let error = client.post("/v1/permits", locks).expect_error(409, "refused");
    assert_eq!(
        (&error["reason"], &error["place"]),
        (&json!("not_owner"), &json!({ "lock": "leader" }))
    );
}

#[test]
fn a_queue_that_is_full_or_too_slow_is_503() {
    let world = World::new();
    world.checkpoint(
        "one",
        json!({ "concurrency": 1, "queue": { "max_len": 1, "max_delay": "200ms" } }),
    );
    let mut holder = world.unix();
    holder.post("/v1/permits", json!({})).expect(201);
    let mut events = world.events();
    let mut waiter = world.unix();
    waiter.send("POST", "/v1/permits", Some("{}"));
    events.next("waiting");
    let error = holder.post("/v1/permits", json!({})).expect_error(503, "refused");
    assert_eq!(error["reason"], "queue_full");
    let error = waiter.answer().expect_error(503, "refused");
    assert_eq!(error["reason"], "expired");
}

#[test]
fn a_client_that_disconnects_while_waiting_leaves_the_queue() {
    let world = one_at_a_time();
    let mut holder = world.unix();
    let first = holder.post("/v1/permits", json!({})).expect(201);
    let mut events = world.events();
    for mut waiter in [world.unix(), world.tcp()] {
        waiter.send("POST", "/v1/permits", Some("{}"));
        let id = events.next("waiting")["request"].clone();
        drop(waiter);
        let left = events.next("settled");
        assert_eq!((&left["request"], &left["left"]), (&id, &json!(true)));
        holder.get(&format!("/v1/why/{id}")).expect_error(404, "not_found");
    }
    holder.delete(&format!("/v1/permits/{}", first["permit"].as_str().unwrap())).expect(204);
    holder.post("/v1/permits", json!({ "max_wait": "0s" })).expect(201);
}

#[test]
fn an_expired_lease_frees_and_a_late_renewal_fails_with_its_own_error_p2() {
    let world = one_at_a_time();
    let mut client = world.unix();
    let mut events = world.events();
    let permit = client.post("/v1/permits", json!({ "lease": "1s" })).expect(201);
    let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
    let renewed = client.post(&format!("{path}/renew"), json!({})).expect(200);
    assert!(renewed["expires_at"].as_str() > permit["expires_at"].as_str());
    assert_eq!(events.next("settled")["request"], permit["request"]);
    client.post(&format!("{path}/renew"), json!({})).expect_error(410, "expired");
    client.get(&path).expect_error(404, "not_found");
    client.post("/v1/permits", json!({ "max_wait": "0s" })).expect(201);
}

#[test]
fn a_session_ends_with_its_lease_and_gives_everything_back_p2() {
    let world = one_at_a_time();
    let mut client = world.unix();
    let mut events = world.events();
    let session = client.session(json!({ "lease": "1s" }));
    let permit = client.post("/v1/permits", json!({ "session": session })).expect(201);
    client.put("/v1/locks/l", json!({ "session": session })).expect(200);
    let mut waiter = world.unix();
    waiter.send("POST", "/v1/permits", Some(&json!({ "session": session }).to_string()));
    events.next("waiting");
    assert_eq!(events.next("settled")["request"], permit["request"]);
    waiter.answer().expect_error(410, "expired");
    client.post(&format!("/v1/sessions/{session}/renew"), json!({})).expect_error(410, "expired");
    client.post("/v1/permits", json!({ "session": session })).expect_error(410, "expired");
    client.delete(&format!("/v1/sessions/{session}")).expect_error(404, "not_found");
    client.post("/v1/permits", json!({ "max_wait": "0s" })).expect(201);
    // The locks are released after the permits.
    while client.get("/v1/locks").expect(200) != json!([]) {}
}

#[test]
fn a_session_that_is_ended_gives_everything_back() {
    let world = one_at_a_time();
    let mut client = world.tcp();
    let session = client.session(json!({ "name": "deploy", "lease": "1h" }));
    client.post("/v1/permits", json!({ "session": session })).expect(201);
    client.put("/v1/locks/l", json!({ "session": session })).expect(200);
    let owner = client.get("/v1/locks/l").expect(200)["owner"].clone();
    assert!(owner.as_str().unwrap().starts_with("deploy:"), "{owner}");
    assert_ne!(owner, json!(session), "the secret is not shown");
    client.post(&format!("/v1/sessions/{session}/renew"), json!({})).expect(200);
    client.delete(&format!("/v1/sessions/{session}")).expect(204);
    client.get("/v1/locks/l").expect_error(404, "not_found");
    client.post(&format!("/v1/sessions/{session}/renew"), json!({})).expect_error(404, "not_found");
    client.post("/v1/permits", json!({ "max_wait": "0s" })).expect(201);
}

#[test]
fn a_dead_holder_on_the_unix_socket_frees_at_once_p4() {
    let world = one_at_a_time();
    let mut holder = world.unix();
    let session = holder.session(json!({ "bound": true }));
    let permit = holder.post("/v1/permits", json!({ "session": session })).expect(201);
    assert_eq!(permit.get("expires_at"), None);
    let mut other = world.unix();
    // Another connection may use the session too; only the end of its own connection ends it.
    other.put("/v1/locks/l", json!({ "session": session })).expect(200);
    let mut waiter = world.unix();
    let mut events = world.events();
    waiter.send("POST", "/v1/permits", Some("{}"));
    events.next("waiting");
    drop(holder);
    waiter.answer().expect(201);
    while other.get("/v1/locks").expect(200) != json!([]) {}
    other.post(&format!("/v1/sessions/{session}/renew"), json!({})).expect_error(404, "not_found");
    let error = world.tcp().post("/v1/sessions", json!({ "bound": true }));
    error.expect_error(400, "bad_request");
}

#[test]
fn bound_sessions_and_sessions_are_limited() {
    let holding = HoldLimits { sessions_max: 3, ..Default::default() };
    let limits = paceline_api::Limits { holding, bound_max: 2, ..Default::default() };
    let world = World::with(limits);
    let mut client = world.unix();
    let first = client.session(json!({ "bound": true }));
    client.session(json!({ "bound": true }));
    let error = client.post("/v1/sessions", json!({ "bound": true })).expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    client.delete(&format!("/v1/sessions/{first}")).expect(204);
    client.session(json!({ "bound": true }));
    client.session(json!({}));
    client.post("/v1/sessions", json!({})).expect_error(503, "refused");
}

#[test]
fn asking_again_under_the_same_id_gives_the_same_permit() {
    let world = World::new();
    let mut client = world.unix();
    let body = json!({ "attributes": { "task": "etl", "job": "7" }, "cost": 2 });
    let permit = client.put("/v1/permits/job-7", body.clone()).expect(201);
    assert_eq!(permit["permit"], "job-7");
    assert_eq!(client.put("/v1/permits/job-7", body.clone()).expect(200), permit);
    let reordered = r#"{"cost":2,"attributes":{"job":"7","task":"etl"}}"#;
    client.send("PUT", "/v1/permits/job-7", Some(reordered));
    assert_eq!(client.answer().expect(200), permit);
    client.put("/v1/permits/job-7", json!({ "cost": 3 })).expect_error(409, "conflict");
    assert_eq!(client.get("/v1/requests").expect(200).as_array().unwrap().len(), 1);
    client.delete("/v1/permits/job-7").expect(204);
    let next = client.put("/v1/permits/job-7", body).expect(201);
    assert_ne!(next["request"], permit["request"]);
    for wrong in ["a%20b", "a%2Fb", &"x".repeat(129)] {
        client.put(&format!("/v1/permits/{wrong}"), json!({})).expect_error(400, "bad_request");
    }
}

#[test]
fn those_who_ask_for_the_same_id_wait_along() {
    let world = one_at_a_time();
    let mut holder = world.unix();
    holder.put("/v1/permits/first", json!({})).expect(201);
    let mut events = world.events();
    let mut waiters = [world.unix(), world.unix(), world.unix()];
    for waiter in &mut waiters {
        waiter.send("PUT", "/v1/permits/second", Some("{}"));
    }
    let request = events.next("waiting")["request"].clone();
    holder.put("/v1/permits/second", json!({ "cost": 2 })).expect_error(409, "conflict");
    let [one, mut two, mut three] = waiters;
    drop(one);
    holder.delete("/v1/permits/first").expect(204);
    let (second, third) = (two.answer(), three.answer());
    let statuses = [second.status, third.status];
    // It is new to one of them at most: to the other, or to the one that left.
    assert!(statuses.iter().all(|status| [200, 201].contains(status)), "{statuses:?}");
    assert_ne!(statuses, [201, 201]);
    assert_eq!(second.body["request"], request);
    assert_eq!(third.body["request"], request);
}

#[test]
fn when_all_who_wait_along_leave_the_request_leaves() {
    let world = one_at_a_time();
    let mut holder = world.unix();
    holder.put("/v1/permits/first", json!({})).expect(201);
    let mut events = world.events();
    let mut waiters = [world.unix(), world.unix()];
    for waiter in &mut waiters {
        waiter.send("PUT", "/v1/permits/second", Some("{}"));
    }
    let request = events.next("waiting")["request"].clone();
    drop(waiters);
    assert_eq!(events.next("settled")["request"], request);
    holder.get("/v1/permits/second").expect_error(404, "not_found");
    holder.delete("/v1/permits/first").expect(204);
    holder.put("/v1/permits/second", json!({ "max_wait": "0s" })).expect(201);
}

#[test]
fn an_expired_name_can_be_asked_for_again() {
    let world = one_at_a_time();
    let mut client = world.unix();
    let mut events = world.events();
    let permit = client.put("/v1/permits/job", json!({ "lease": "1s" })).expect(201);
    assert_eq!(events.next("settled")["request"], permit["request"]);
    client.post("/v1/permits/job/renew", json!({})).expect_error(410, "expired");
    let next = client.put("/v1/permits/job", json!({ "lease": "1s" })).expect(201);
    assert_ne!(next["request"], permit["request"]);
    client.post("/v1/permits/job/renew", json!({})).expect(200);
}

#[test]
fn claims_are_held_by_one_at_a_time() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/resources/disk", json!({})).expect(201);
    client.put("/v1/resources/tank", json!({ "parents": ["disk"] })).expect(201);
    let claim = |resource: &str, mode: &str| json!({ "claims": [{ "resource": resource, "mode": mode }], "max_wait": "0s" });
    client.put("/v1/permits/a", claim("tank", "shared")).expect(201);
    client.put("/v1/permits/b", claim("disk", "shared")).expect(201);
    let error =
        client.put("/v1/permits/c", claim("disk", "exclusive")).expect_error(503, "refused");
    assert_eq!(error["reason"], "expired");
    client.delete("/v1/permits/a").expect(204);
    client.delete("/v1/permits/b").expect(204);
    client.put("/v1/permits/c", claim("disk", "exclusive")).expect(201);
    let list: Value = client.get("/v1/requests").expect(200);
    assert_eq!(list[0]["permit"], "c");
    let mut events = world.events();
    let mut waiter = world.unix();
    let wanted = json!({ "claims": [{ "resource": "tank" }] });
    waiter.send("POST", "/v1/permits", Some(&wanted.to_string()));
    let waiting = events.next("waiting")["request"].clone();
    let tree = client.get("/v1/tree").expect(200);
    let holder = &list[0]["request"];
    let disk = json!({ "name": "disk", "parents": [], "holders": [holder], "waiters": [] });
    let tank = json!({ "name": "tank", "parents": ["disk"], "holders": [], "waiters": [waiting] });
    assert_eq!(tree, json!([disk, tank]));
}

/// Two hundred clients at once on a rate of 500 a second: all get through, in order of arrival.
#[test]
fn two_hundred_clients_get_through_in_order() {
    let world = World::new();
    world.checkpoint("rate", json!({ "rate": "500/s", "burst": 1 }));
    let mut events = world.events();
    let mut clients: Vec<_> = (0..200).map(|_| world.unix()).collect();
    let began = std::time::Instant::now();
    for client in &mut clients {
        client.send("POST", "/v1/permits", Some("{}"));
    }
    let requests: Vec<u64> = clients
        .iter_mut()
        .map(|client| client.answer().expect(201)["request"].as_u64().unwrap())
        .collect();
    let took = began.elapsed();
    assert!(took.as_millis() >= 390, "199 more at 500 a second take 398 ms, not {took:?}");
    let mut started: Vec<u64> = Vec::new();
    while started.len() < 200 {
        started.push(events.next("started")["request"].as_u64().unwrap());
    }
    assert!(started.is_sorted(), "{started:?}");
    let mut all = requests.clone();
    all.sort_unstable();
    assert_eq!(all, started);
}

/// P4: a permit may require locks of another session than the one it belongs to, and ends with either.
#[test]
fn a_permit_under_a_lock_of_another_session_ends_with_either_p4() {
    let world = World::new();
    let mut client = world.unix();
    for ends_inner in [true, false] {
        let (outer, inner) = (client.session(json!({})), client.session(json!({})));
        client.put("/v1/locks/deploy", json!({ "session": outer })).expect(200);
        let mut ask = json!({ "session": inner, "require_locks": ["deploy"] });
        client.post("/v1/permits", ask.clone()).expect_error(409, "refused");
        ask["locks_of"] = outer.clone().into();
        client.post("/v1/permits", ask).expect(201);
        let (ended, other) = if ends_inner { (inner, outer) } else { (outer, inner) };
        client.delete(&format!("/v1/sessions/{ended}")).expect(204);
        assert_eq!(client.get("/v1/permits").expect(200), json!([]));
        client.delete(&format!("/v1/sessions/{other}")).expect(204);
    }
    let alone = json!({ "locks_of": "s-0", "require_locks": ["deploy"] });
    client.post("/v1/permits", alone).expect_error(400, "bad_request");
}
