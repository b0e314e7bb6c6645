//! Checks that the schema of every body lists exactly the members that its handler reads.

use super::start;
use paceline_tests::Scratch;
use paceline_tests::schema::Document;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Members that a body must have before others are checked.
fn needed(name: &str) -> Option<Value> {
    Some(match name {
        "session" => json!("s"),
        "pid" => json!(1),
        "at" => json!("frontend api"),
        "address" => json!("127.0.0.1:1"),
        "role" => json!("viewer"),
        "name" => json!("x"),
        _ => return None,
    })
}

#[test]
fn bodies_have_the_members_that_are_read() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let mut api = daemon.api();
    for (path, body) in [
        ("/v1/pools/x", json!({})),
        ("/v1/rules/10", json!({})),
        ("/v1/checkpoints/x", json!({ "at": "frontend api" })),
        ("/v1/resources/x", json!({})),
        ("/v1/backends/x", json!({})),
        ("/v1/servers/x/x", json!({ "address": "127.0.0.1:1" })),
        ("/v1/frontends/x", json!({ "listen": "127.0.0.1:0", "backend": "x" })),
        ("/v1/sql-targets/x", json!({ "sqlite": "x.db" })),
    ] {
        let _ = api.call("PUT", path, &body).expect(201);
    }
    let document = Document(api.get("/v1/openapi.json").expect(200));
    let mut bodies = 0;
    for one in document.operations() {
        let schema = &one.operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(pointer) = schema["$ref"].as_str() else { continue };
        let schema = document.0.pointer(pointer.trim_start_matches('#')).unwrap();
        assert_eq!(schema["additionalProperties"], false, "{}", one.id());
        let listed: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let required: Vec<&str> =
            schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut body: Map<String, Value> = Map::new();
        for name in &listed {
            let is_needed = required.contains(name) || *name == "session" && one.id() == "unlock";
            if let Some(value) = needed(name).filter(|_| is_needed) {
                body.insert((*name).into(), value);
            }
        }
        body.insert("no_such_member".into(), 1.into());
        let path: Vec<&str> = one.path.split('/').collect();
        let path = path.iter().map(|part| match *part {
            "{number}" => "10",
            "{request}" => "1",
            part if part.starts_with('{') => "x",
            part => part,
        });
        let path: Vec<&str> = path.collect();
        let answer = api.call(&one.method, &path.join("/"), &Value::Object(body));
        let error = answer.expect(400);
        let known = error["hint"].as_str().unwrap_or_else(|| panic!("{}: {error}", one.id()));
        let known = known.strip_prefix("known members: ").unwrap_or_else(|| panic!("{error}"));
        let known: BTreeSet<&str> = known.split(", ").collect();
        assert_eq!(listed, known, "{}", one.id());
        bodies += 1;
    }
    assert!(bodies > 20, "{bodies}");
}
