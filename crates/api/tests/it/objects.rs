//! Pools, rules, checkpoints and resources through the API, and the errors for invalid ones.

use crate::client::Client;
use crate::world::World;
use serde_json::{Value, json};

fn without_figures(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("figures");
    object
}

#[test]
fn a_pool_is_created_configured_started_stopped_and_kept() {
    let world = World::new();
    let mut client = world.unix();
    let pool = client.put("/v1/pools/batch", json!({})).expect(201);
    let bare = json!({ "name": "batch", "state": "stopped", "persistent": false });
    assert_eq!(without_figures(pool), bare);
    let error = client.post("/v1/pools/batch/start", json!({})).expect_error(422, "constraint");
    assert_eq!(error["place"], json!({ "table": "Pool", "row": "batch", "column": "state" }));
    let members = json!({
        "priority": [-127, -1], "threads": { "min": 0, "max": 8 },
        "queue": { "max_len": 10, "max_delay": "10m" }, "persistent": true,
    });
    let pool = client.put("/v1/pools/batch", members.clone()).expect(200);
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&pool[name], value, "{name}");
    }
    assert_eq!(pool["figures"]["waiting"], 0);
    assert_eq!(client.post("/v1/pools/batch/start", json!({})).expect(200)["state"], "started");
    assert_eq!(client.post("/v1/pools/batch/start", json!({})).expect(200)["state"], "started");
    assert_eq!(client.post("/v1/pools/batch/drain", json!({})).expect(200)["state"], "draining");
    assert_eq!(client.post("/v1/pools/batch/stop", json!({})).expect(200)["state"], "stopped");
    let error = client.post("/v1/pools/batch/persist", json!({})).expect_error(409, "conflict");
    assert!(error["message"].as_str().unwrap().contains("persistent already"), "{error}");
    assert_eq!(
        client.post("/v1/pools/batch/unpersist", json!({})).expect(200)["persistent"],
        false
    );
    client.post("/v1/pools/batch/unpersist", json!({})).expect_error(409, "conflict");
    client.post("/v1/pools/none/start", json!({})).expect_error(404, "not_found");
    let names: Vec<Value> = client.get("/v1/pools").expect(200).as_array().unwrap().clone();
    let names: Vec<&Value> = names.iter().map(|pool| &pool["name"]).collect();
    assert_eq!(names, ["batch", "default"]);
    client.delete("/v1/pools/batch").expect(204);
    client.delete("/v1/pools/batch").expect_error(404, "not_found");
    client.get("/v1/pools/batch").expect_error(404, "not_found");
}

#[test]
fn a_patch_changes_what_it_names_and_null_is_the_default() {
    let world = World::new();
    let mut client = world.unix();
    let members = json!({ "priority": [1, 5], "queue": { "max_len": 10, "max_delay": "1m" }, "started": true });
    client.put("/v1/pools/p", members).expect(201);
    let change = json!({ "queue": { "max_len": null }, "threads": { "max": 2 } });
    let pool = client.call("PATCH", "/v1/pools/p", change).expect(200);
    assert_eq!(pool["queue"], json!({ "max_delay": "1m" }));
    assert_eq!((&pool["priority"], &pool["state"]), (&json!([1, 5]), &json!("started")));
    let pool = client.call("PATCH", "/v1/pools/p", json!({ "queue": null })).expect(200);
    assert_eq!(pool.get("queue"), None);
    // State that verbs set stays when the rest is replaced.
    let pool = client.put("/v1/pools/p", json!({ "priority": [2, 3] })).expect(200);
    assert_eq!((&pool["state"], pool.get("threads")), (&json!("started"), None));
    client.call("PATCH", "/v1/pools/none", json!({})).expect_error(404, "not_found");
    // An object can be sent back as a GET shows it.
    let shown = client.get("/v1/pools/p").expect(200);
    assert_eq!(client.put("/v1/pools/p", shown.clone()).expect(200), shown);
}

#[test]
fn the_default_pool_is_always_there() {
    let world = World::new();
    let mut client = world.unix();
    let default = client.get("/v1/pools/default").expect(200);
    assert_eq!((&default["state"], &default["persistent"]), (&json!("started"), &json!(true)));
    client.post("/v1/pools/default/start", json!({})).expect(200);
    for verb in ["stop", "drain", "unpersist"] {
        client
            .post(&format!("/v1/pools/default/{verb}"), json!({}))
            .expect_error(422, "constraint");
    }
    client.post("/v1/pools/default/persist", json!({})).expect_error(409, "conflict");
    client.delete("/v1/pools/default").expect_error(422, "constraint");
    client.call("PATCH", "/v1/pools/default", json!({ "threads": { "max": 3 } })).expect(201);
    assert_eq!(client.get("/v1/pools/default").expect(200)["threads"], json!({ "max": 3 }));
}

#[test]
fn rules_are_added_at_the_end_changed_saved_and_cleared() {
    let world = World::new();
    let mut client = world.unix();
    let first = client
        .post(
            "/v1/rules",
            json!({ "match": { "user": "etl-*", "text": { "regex": "(?i)^select" } },
                                   "mode": "glob", "lower": 20, "then": "stop" }),
        )
        .expect(201);
    let expected = json!({
        "number": 10, "match": { "user": { "glob": "etl-*" }, "text": { "regex": "(?i)^select" } },
        "lower": 20, "then": "stop", "disabled": false, "log": false,
    });
    assert_eq!(without_figures(first), expected);
    let second =
        client.post("/v1/rules", json!({ "when": "user == \"eve\"", "reject": true })).expect(201);
    assert_eq!((&second["number"], &second["reject"]), (&json!(20), &json!(true)));
    client.post("/v1/rules", json!({ "number": 15, "raise": 5, "log": true })).expect(201);
    client.post("/v1/rules", json!({ "number": 15 })).expect_error(409, "conflict");
    assert_eq!(client.post("/v1/rules/15/disable", json!({})).expect(200)["disabled"], true);
    assert_eq!(client.post("/v1/rules/15/enable", json!({})).expect(200)["disabled"], false);
    client.post("/v1/rules/99/enable", json!({})).expect_error(404, "not_found");
    let changed =
        client.call("PATCH", "/v1/rules/15", json!({ "set": -3, "raise": null })).expect(200);
    assert_eq!((&changed["set"], changed.get("raise")), (&json!(-3), None));
    let numbers = |client: &mut Client, path: &str| -> Vec<u64> {
        let list = client.get(path).expect(200);
        list.as_array().unwrap().iter().map(|rule| rule["number"].as_u64().unwrap()).collect()
    };
    assert!(numbers(&mut client, "/v1/saved-rules").is_empty());
    client.post("/v1/rules/save", json!({})).expect(204);
    client.post("/v1/rules/clear", json!({})).expect(204);
    assert!(numbers(&mut client, "/v1/rules").is_empty());
    assert_eq!(numbers(&mut client, "/v1/saved-rules"), [10, 15, 20]);
    assert_eq!(client.get("/v1/saved-rules/10").expect(200), expected);
    assert_eq!(client.post("/v1/rules", json!({})).expect(201)["number"], 10);
    client.delete("/v1/rules/10").expect(204);
    client.get("/v1/rules/ten").expect_error(400, "bad_request");
}

#[test]
fn a_rule_changes_the_next_decision() {
    let world = World::new();
    let mut client = world.unix();
    let eve = json!({ "attributes": { "user": "eve" } });
    client.post("/v1/permits", eve.clone()).expect(201);
    client.post("/v1/rules", json!({ "match": { "user": "eve" }, "reject": true })).expect(201);
    client.post("/v1/permits", eve.clone()).expect_error(409, "refused");
    client.delete("/v1/rules/10").expect(204);
    client.post("/v1/permits", eve).expect(201);
}

#[test]
fn resources_know_their_parents_by_name() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/resources/disk:%2Fdev%2Fda0", json!({})).expect(201);
    client.put("/v1/resources/disk:%2Fdev%2Fda1", json!({ "persistent": true })).expect(201);
    let parents = json!(["disk:/dev/da0", "disk:/dev/da1"]);
    let tank = client.put("/v1/resources/tank", json!({ "parents": parents })).expect(201);
    assert_eq!(tank["parents"], parents);
    let home = client.put("/v1/resources/home", json!({ "parents": ["tank"] })).expect(201);
    assert_eq!(home["parents"], json!(["tank"]));
    let error = client
        .put("/v1/resources/x", json!({ "parents": ["nope"] }))
        .expect_error(422, "constraint");
    assert_eq!(error["place"], json!({ "table": "Resource", "row": "x", "column": "parents" }));
    let twice = json!({ "parents": ["tank", "home", "tank"] });
    let error = client.put("/v1/resources/x", twice).expect_error(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("\"tank\" is named twice"), "{error}");
    let cycle = client.put("/v1/resources/disk:%2Fdev%2Fda0", json!({ "parents": ["home"] }));
    let error = cycle.expect_error(422, "constraint");
    assert!(error["message"].as_str().unwrap().contains("cycle"), "{error}");
    let list = client.get("/v1/resources").expect(200);
    let shown: Vec<(&Value, &Value)> =
        list.as_array().unwrap().iter().map(|r| (&r["name"], &r["parents"])).collect();
    let (none, tank) = (json!([]), json!(["tank"]));
    let names = ["disk:/dev/da0", "disk:/dev/da1", "home", "tank"].map(Value::from);
    assert_eq!(
        shown,
        [(&names[0], &none), (&names[1], &none), (&names[2], &tank), (&names[3], &parents)]
    );
    let home = client.call("PATCH", "/v1/resources/home", json!({ "parents": null })).expect(200);
    assert_eq!(home["parents"], json!([]));
    client.delete("/v1/resources/tank").expect(204);
}

#[test]
fn what_cannot_work_says_where_and_changes_nothing() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/pools/low", json!({ "priority": [-10, -1] })).expect(201);
    let place = |table: &str, row: &str, column: &str| json!({ "table": table, "row": row, "column": column });
    for (path, body, place) in [
        ("/v1/pools/b", json!({ "priority": [-5, 5] }), place("Pool", "b", "priority_min")),
        ("/v1/pools/b", json!({ "priority": [5, 4] }), place("Pool", "b", "priority_max")),
        (
            "/v1/pools/b",
            json!({ "queue": { "max_delay": "soon" } }),
            place("Pool", "b", "queue_max_delay"),
        ),
        ("/v1/pools/b", json!({ "threads": { "max": -1 } }), place("Pool", "b", "threads_max")),
        ("/v1/pools/b", json!({ "state": "sleepy" }), place("Pool", "b", "state")),
        ("/v1/checkpoints/c", json!({ "at": "everywhere" }), place("Checkpoint", "c", "at")),
        (
            "/v1/checkpoints/c",
            json!({ "at": "frontend api", "rate": "5/x" }),
            place("Checkpoint", "c", "rate"),
        ),
        (
            "/v1/checkpoints/c",
            json!({ "at": "frontend api", "rate": "5/s", "concurrency": 1 }),
            place("Checkpoint", "c", "concurrency"),
        ),
        (
            "/v1/checkpoints/c",
            json!({ "at": "frontend api", "key": "user +" }),
            place("Checkpoint", "c", "key"),
        ),
        (
            "/v1/checkpoints/c",
            json!({ "at": "frontend api", "status": 200 }),
            place("Checkpoint", "c", "status"),
        ),
        (
            "/v1/rules/5",
            json!({ "match": { "text": { "regex": "a(b" } } }),
            place("Rule", "5", "criteria"),
        ),
        ("/v1/rules/5", json!({ "when": "user ==" }), place("Rule", "5", "when")),
        ("/v1/rules/5", json!({ "set": 500 }), place("Rule", "5", "action")),
    ] {
        let error = client.put(path, body.clone()).expect_error(422, "constraint");
        assert_eq!(error["place"], place, "{body}: {error}");
        client.get(path).expect_error(404, "not_found");
    }
    for (path, body, part) in [
        (
            "/v1/rules/5",
            json!({ "match": { "user": [] }, "reject": true }),
            "match.user: expected at least one pattern",
        ),
        (
            "/v1/pools/b",
            json!({ "thread": {} }),
            "thread: there is no such member, did you mean threads?",
        ),
        (
            "/v1/pools/b",
            json!({ "threads": { "mx": 1 } }),
            "threads.mx: there is no such member, did you mean",
        ),
        ("/v1/pools/b", json!({ "priority": 5 }), "priority: expected two whole numbers"),
        ("/v1/pools/b", json!({ "name": "c" }), "name: expected \"b\" as in the path"),
        ("/v1/pools/b", json!({ "persistent": "yes" }), "persistent: expected true or false"),
        ("/v1/checkpoints/c", json!({}), "at: expected a text, but it is missing"),
        ("/v1/rules/5", json!({ "set": 1, "reject": true }), "reject: expected one action"),
        ("/v1/rules/5", json!({ "match": { "user": 5 } }), "match.user: expected a text"),
        (
            "/v1/rules/5",
            json!({ "match": { "user": { "globb": "a" } } }),
            "match.user: expected a text",
        ),
        ("/v1/resources/r", json!({ "parents": "x" }), "parents: expected a list"),
    ] {
        let error = client.put(path, body.clone()).expect_error(400, "bad_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(part), "{body}: {message}");
        client.get(path).expect_error(404, "not_found");
    }
}

#[test]
fn names_that_nothing_can_have_are_the_callers_error() {
    let world = World::new();
    let mut client = world.unix();
    for path in ["users", "pools", "checkpoints", "resources", "rules", "saved-rules"] {
        for name in ["x".repeat(200), "x".repeat(2_000), "%20".repeat(50), "9".repeat(50)] {
            let answer = client.get(&format!("/v1/{path}/{name}"));
            assert!([400, 404, 422].contains(&answer.status), "{path}: {}", answer.text);
        }
    }
}

#[test]
fn of_many_who_add_rules_at_once_nobody_loses_one() {
    let world = World::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = world.unix();
                for _ in 0..5 {
                    // A new number may be taken again and again; then the client gets an error, and asks again.
                    while client.post("/v1/rules", json!({ "raise": 1 })).status != 201 {}
                }
            });
        }
    });
    let list = world.unix().get("/v1/rules").expect(200);
    assert_eq!(list.as_array().unwrap().len(), 20);
}
