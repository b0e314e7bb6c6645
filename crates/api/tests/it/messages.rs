//! Error messages: what is wrong, and what to do about it.

use crate::client::Client;
use crate::world::World;
use serde_json::{Value, json};

fn with_role(world: &World, role: &str) -> Client {
    let body = json!({ "name": role, "role": role });
    let made = world.unix().post("/v1/tokens", body).expect(201);
    world.tcp_with(made["token"].as_str())
}

/// The hint of an error names the change and the role that would suffice. It asks no client to be root, which
/// would not help over TCP.
#[test]
fn a_refused_permission_names_the_role_that_would_do() {
    let world = World::new();
    let mut admin = world.unix();
    admin.put("/v1/pools/p", json!({ "priority": [1, 2] })).expect(201);
    let (mut operator, mut client) = (with_role(&world, "operator"), with_role(&world, "client"));
    let refused = |who: &mut Client, method: &str, path: &str, body: Value| -> String {
        let error = who.call(method, path, body).expect_error(403, "permission");
        let text = error.to_string();
        assert!(!text.contains("root"), "{text}");
        error["hint"].as_str().unwrap().to_owned()
    };
    for (method, path, body, expected) in [
        ("PUT", "/v1/pools/new", json!({}), "pool new: creating it needs the role admin"),
        ("DELETE", "/v1/pools/p", Value::Null, "pool p: deleting it needs the role admin"),
        (
            "PUT",
            "/v1/checkpoints/c",
            json!({ "at": "pool p", "persistent": true }),
            "checkpoint c: keeping it across restarts needs the role admin",
        ),
        (
            "POST",
            "/v1/pools/p/persist",
            json!({}),
            "this needs the role admin, and yours is operator",
        ),
    ] {
        let hint = refused(&mut operator, method, path, body);
        assert!(hint.starts_with(expected), "{method} {path}: {hint}");
    }
    let hint = refused(&mut client, "PUT", "/v1/checkpoints/c", json!({ "at": "pool p" }));
    assert!(hint.starts_with("this needs the role operator, and yours is client"), "{hint}");
    let other = json!({ "attributes": { "user": "eve" } });
    let hint = refused(&mut client, "POST", "/v1/permits", other);
    assert!(hint.starts_with("the attribute `user` needs the role operator"), "{hint}");
}

#[test]
fn deleting_what_is_used_says_who_uses_it() {
    let world = World::new();
    let mut client = world.unix();
    client.put("/v1/pools/p", json!({ "priority": [1, 2] })).expect(201);
    client.put("/v1/checkpoints/c", json!({ "at": "pool p", "rate": "1/s" })).expect(201);
    let error = client.delete("/v1/pools/p").expect_error(422, "constraint");
    assert_eq!(error["message"], "pool \"p\" is used by checkpoint c in `at`");
    assert_eq!(error["hint"], "change or delete checkpoint c first");
    client.put("/v1/rules/10", json!({ "when": "queued(\"c\") > 5", "reject": true })).expect(201);
    let error = client.delete("/v1/checkpoints/c").expect_error(422, "constraint");
    assert_eq!(error["message"], "checkpoint \"c\" is used by rule 10 in `when`");
    client.delete("/v1/rules/10").expect(204);
    client.delete("/v1/checkpoints/c").expect(204);
    client.put("/v1/rules/20", json!({ "when": "running(\"p\") > 5", "reject": true })).expect(201);
    let error = client.delete("/v1/pools/p").expect_error(422, "constraint");
    assert_eq!(error["message"], "pool \"p\" is used by rule 20 in `when`");
}

#[test]
fn the_number_of_rejected_requests_is_no_priority() {
    let world = World::new();
    let mut client = world.unix();
    for (path, body) in [
        ("/v1/pools/p", json!({ "priority": [-128, -1] })),
        ("/v1/rules/10", json!({ "set": -128 })),
    ] {
        let error = client.put(path, body).expect_error(422, "constraint");
        assert!(
            error["message"].as_str().unwrap().contains("-128 is reserved for rejected"),
            "{error}"
        );
    }
}

#[test]
fn a_full_queue_does_not_suggest_to_wait_longer() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1, "queue": { "max_len": 0 } }));
    let mut client = world.unix();
    client.post("/v1/permits", json!({ "lease": "1m" })).expect(201);
    let error = client.post("/v1/permits", json!({})).expect_error(503, "refused");
    assert_eq!(
        (&error["reason"], &error["hint"]),
        (&json!("queue_full"), &json!("ask again when fewer requests wait"))
    );
}

#[test]
fn paths_without_a_name_or_with_a_slash_in_it_say_so() {
    let world = World::new();
    let mut client = world.unix();
    for path in ["/v1/pools/", "/v1/resources/", "/v1/locks/"] {
        let error = client.call("PUT", path, json!({})).expect_error(404, "not_found");
        assert!(error["message"].as_str().unwrap().contains("is empty"), "{error}");
    }
    let error = client.put("/v1/servers/app/", json!({})).expect_error(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("is empty"), "{error}");
    for (path, expected) in [
        ("/v1/resources/disk:/dev/da0", "/v1/resources/disk:%2Fdev%2Fda0"),
        ("/v1/locks/a/b/c", "/v1/locks/a%2Fb%2Fc"),
    ] {
        let error = client.put(path, json!({})).expect_error(404, "not_found");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("%2F") && hint.ends_with(expected), "{error}");
    }
    for (path, body) in [
        ("/v1/tokens", json!({ "name": "", "role": "viewer" })),
        ("/v1/sessions", json!({ "name": "" })),
    ] {
        let error = client.post(path, body).expect_error(400, "bad_request");
        assert_eq!(error["message"], "name: expected a text, but it is empty");
    }
}

#[test]
fn a_rate_and_a_concurrency_are_two_checkpoints() {
    let world = World::new();
    let body = json!({ "at": "frontend api", "rate": "1/s", "concurrency": 1 });
    let error = world.unix().put("/v1/checkpoints/c", body).expect_error(422, "constraint");
    assert!(error["message"].as_str().unwrap().contains("not both; make a second one"), "{error}");
}

/// Any text of 1 to 255 letters, digits and `_ - . / : @`.
#[test]
fn names_of_locks_are_the_same_at_this_door() {
    let world = World::new();
    let mut client = world.unix();
    let session = client.post("/v1/sessions", json!({})).expect(201)["session"].clone();
    let body = json!({ "session": session });
    let long = "x".repeat(255);
    for name in ["a", "0", "A_b-c.d%2Fe:f@g", "%2F", long.as_str()] {
        client.put(&format!("/v1/locks/{name}"), body.clone()).expect(200);
        let asked = json!({ "session": session, "require_locks": [name.replace("%2F", "/")] });
        client.post("/v1/permits", asked).expect(201);
    }
    for name in ["a%20b", "%C3%A4", "a,b", &"x".repeat(256)] {
        client.put(&format!("/v1/locks/{name}"), body.clone()).expect_error(400, "bad_request");
    }
}
