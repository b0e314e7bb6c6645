//! Tokens and users: created, listed, revoked, expired; and which object belongs to which user.

use crate::client::Client;
use crate::world::World;
use serde_json::{Value, json};

impl World {
    /// A client on TCP with a new token of this name and role.
    fn with_token(&self, name: &str, role: &str) -> Client {
        self.tcp_with(Some(&self.new_token(json!({ "name": name, "role": role }))))
    }

    fn new_token(&self, body: Value) -> String {
        let made = self.unix().post("/v1/tokens", body).expect(201);
        made["token"].as_str().unwrap().to_owned()
    }

    fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory.join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The audit records, when everything is written.
    fn audit_at_end(self) -> Vec<Value> {
        self.host.shut_down();
        self.audit()
    }
}

#[test]
fn a_token_is_shown_once_and_lists_have_no_secret() {
    let world = World::new();
    let mut admin = world.unix();
    let body = json!({ "name": "ci", "role": "client", "user": "build", "expires": "2d" });
    let made = admin.post("/v1/tokens", body).expect(201);
    let token = made["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 64, "256 bits");
    for (member, value) in [("name", "ci"), ("role", "client"), ("user", "build")] {
        assert_eq!(made[member], value);
    }
    assert!(made["expires"].as_str().unwrap() > made["created"].as_str().unwrap(), "{made}");
    admin
        .post("/v1/tokens", json!({ "name": "ever", "role": "viewer", "expires": "never" }))
        .expect(201);

    let mut client = world.tcp_with(Some(&token));
    let me = json!({ "user": "build", "role": "client", "host": "127.0.0.1" });
    assert_eq!(client.get("/v1/whoami").expect(200), me);
    client.get("/v1/tokens").expect_error(403, "permission");

    let list = admin.get("/v1/tokens").expect(200);
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["admin", "ci", "ever"], "the first token is listed too");
    assert_eq!(list[2].get("expires"), None);
    let text = list.to_string();
    assert!(!text.contains("hash") && !text.contains(&token) && !text.contains(&world.token));
}

#[test]
fn what_is_no_token_is_refused_and_changes_nothing() {
    let world = World::new();
    let mut admin = world.unix();
    for (body, part) in [
        (json!({}), "name: expected a text"),
        (json!({ "name": "a" }), "role: expected viewer"),
        (json!({ "name": "a", "role": "root" }), "role: expected \"viewer\" or"),
        (json!({ "name": "a b", "role": "client" }), "name: expected 1 to 128"),
        (json!({ "name": "a", "role": "client", "expires": "0s" }), "expires: expected"),
        (json!({ "name": "a", "role": "client", "expires": "soon" }), "expires: expected"),
        (json!({ "name": "a", "role": "client", "user": "" }), "user: expected"),
        (json!({ "name": "a", "role": "client", "token": "x" }), "token: there is no such member"),
    ] {
        let error = admin.post("/v1/tokens", body).expect_error(400, "bad_request");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let taken = json!({ "name": "admin", "role": "client" });
    admin.post("/v1/tokens", taken).expect_error(409, "conflict");
    world.new_token(json!({ "name": "a", "role": "client" }));
    let again = json!({ "name": "a", "role": "admin" });
    admin.post("/v1/tokens", again).expect_error(409, "conflict");
    admin.delete("/v1/tokens/b").expect_error(404, "not_found");
    assert_eq!(admin.get("/v1/tokens").expect(200).as_array().unwrap().len(), 2);
}

#[test]
fn a_revoked_token_ends_on_open_connections_and_its_events_end() {
    let world = World::new();
    let mut client = world.with_token("ci", "client");
    let mut events =
        world.tcp_with(Some(&world.new_token(json!({ "name": "e", "role": "viewer" }))));
    client.get("/v1/permits").expect(200);
    events.send("GET", "/v1/events", None);
    assert_eq!(events.head().0, 200);
    world.unix().delete("/v1/tokens/ci").expect(204);
    client.get("/v1/permits").expect_error(401, "unauthenticated");
    world.unix().delete("/v1/tokens/e").expect(204);
    let last_chunk = (0..20).any(|_| events.line() == "0");
    assert!(last_chunk, "the stream ends with its token");
    // The name is free again, and the old token stays invalid.
    world.new_token(json!({ "name": "ci", "role": "client" }));
    client.get("/v1/permits").expect_error(401, "unauthenticated");
}

#[test]
fn a_revoked_token_gets_nothing_of_what_it_waits_for() {
    let world = World::new();
    let mut admin = world.unix();
    world.checkpoint("one", json!({ "at": "frontend api", "concurrency": 1 }));
    let held = admin.post("/v1/permits", json!({})).expect(201);
    let owner = admin.session(json!({ "name": "owner" }));
    admin.put("/v1/locks/leader", json!({ "session": owner })).expect(200);
    let mut permit = world.with_token("ci", "client");
    let session = permit.session(json!({ "lease": "1h" }));
    let mut lock = world.tcp_with(Some(&world.new_token(json!({ "name": "l", "role": "client" }))));
    let mut events = world.events();
    permit.send("POST", "/v1/permits", Some(r#"{"lease": "1h"}"#));
    events.next("waiting");
    let body = json!({ "session": session, "wait": "50s" }).to_string();
    lock.send("PUT", "/v1/locks/leader", Some(&body));
    while admin.get("/v1/locks/leader").expect(200)["waiters"] == json!([]) {
        std::thread::yield_now();
    }
    for name in ["ci", "l"] {
        admin.delete(&format!("/v1/tokens/{name}")).expect(204);
    }
    permit.answer().expect_error(401, "unauthenticated");
    lock.answer().expect_error(401, "unauthenticated");
    assert_eq!(admin.get("/v1/requests").expect(200).as_array().unwrap().len(), 1);
    assert_eq!(admin.get("/v1/locks/leader").expect(200)["waiters"], json!([]));
    let name = held["permit"].as_str().unwrap();
    admin.delete(&format!("/v1/permits/{name}")).expect(204);
}

#[test]
fn a_token_whose_time_is_over_is_no_token() {
    let world = World::new();
    let mut client = world.with_token("ci", "client");
    client.get("/v1/permits").expect(200);
    // An hour ago by the wall clock; no test should wait for it.
    let own = world.host.database("Paceline").unwrap();
    let author = paceline_host::Author { name: "a test", role: paceline_types::Role::Admin };
    own.edit(author, |_| {
        let update = r#"[{"op": "update", "table": "Token", "where": [], "row": {"expires": 1}}]"#;
        let json = paceline_tables::json::parse(update.as_bytes(), 9).unwrap();
        json.as_array().unwrap().to_vec()
    })
    .unwrap();
    client.get("/v1/permits").expect_error(401, "unauthenticated");
    let list = world.unix().get("/v1/tokens").expect(200);
    assert_eq!(list[1]["expires"], "1970-01-01T00:00:00.001000Z", "it is listed until deleted");
}

#[test]
fn the_first_token_is_replaced_and_never_comes_back() {
    let world = World::new();
    let (mut old, mut other) = (world.tcp(), world.tcp());
    old.get("/v1/tokens").expect(200);
    other.delete("/v1/tokens/admin").expect(204);
    old.get("/v1/tokens").expect_error(401, "unauthenticated");
    let next = std::fs::read_to_string(world.directory.join("token")).unwrap();
    assert_ne!(next.trim(), world.token);
    world.tcp_with(Some(next.trim())).get("/v1/tokens").expect(200);
    let audit = world.audit_at_end();
    let first = audit.first().unwrap();
    assert_eq!((&first["what"], &first["object"]), (&json!("token replaced"), &json!("admin")));
}

#[test]
fn however_many_replace_the_first_token_the_file_has_the_one_that_counts() {
    let world = World::new();
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| world.unix().delete("/v1/tokens/admin").expect(204));
            }
        });
        let token = std::fs::read_to_string(world.directory.join("token")).unwrap();
        world.tcp_with(Some(token.trim())).get("/v1/tokens").expect(200);
    }
}

#[test]
fn events_do_not_tell_the_names_of_tokens() {
    let world = World::new();
    let mut events = world.events();
    drop(world.new_token(json!({ "name": "hush", "role": "viewer" })));
    world.unix().delete("/v1/tokens/hush").expect(204);
    world.unix().put("/v1/users/eva", json!({ "role": "viewer" })).expect(201);
    // The next event is the one after it.
    let event = events.next("config");
    assert_eq!(event["changes"], json!([{ "op": "insert", "table": "User", "row": "eva" }]));
    let audit = format!("{:?}", world.audit_at_end());
    assert!(audit.contains("hush"), "the audit log does tell them: {audit}");
}

#[test]
fn users_get_roles_by_admins() {
    let world = World::new();
    let mut admin = world.unix();
    let eva = json!({ "name": "eva", "role": "viewer" });
    let mut made = admin.put("/v1/users/eva", json!({ "role": "viewer" })).expect(201);
    // No machine that runs this has such a user.
    let warnings = made.as_object_mut().unwrap().remove("warnings").unwrap_or_default();
    assert!(warnings[0].as_str().unwrap_or_default().contains("knows no user"), "{warnings}");
    assert_eq!(made, eva);
    assert_eq!(admin.get("/v1/users").expect(200), json!([eva]));
    admin.put("/v1/users/eva", json!({ "role": "operator" })).expect(200);
    assert_eq!(admin.get("/v1/users/eva").expect(200)["role"], "operator");
    admin.put("/v1/users/max", json!({ "role": "king" })).expect_error(422, "constraint");
    let mut operator = world.with_token("o", "operator");
    operator.get("/v1/users").expect(200);
    operator.delete("/v1/users/eva").expect_error(403, "permission");
    operator.put("/v1/users/o", json!({ "role": "admin" })).expect_error(403, "permission");
    admin.delete("/v1/users/eva").expect(204);
    admin.delete("/v1/users/eva").expect_error(404, "not_found");
}

/// A user may have a password for SQL clients and no role. The verifier is never shown, and only admins read its table.
#[test]
fn users_have_passwords_that_are_never_shown() {
    const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
                            $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=\
                            :wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let world = World::new();
    let mut admin = world.unix();
    assert_eq!(admin.put("/v1/users/max", json!({})).expect(201), json!({ "name": "max" }));
    let app = admin.put("/v1/users/app", json!({ "sql_verifier": VERIFIER })).expect(201);
    assert_eq!(app, json!({ "name": "app", "sql_password": true }));
    // What is not given stays, and what was shown can be sent back.
    let with_role = json!({ "name": "app", "role": "client", "sql_password": true });
    let mut changed = admin.put("/v1/users/app", json!({ "role": "client" })).expect(200);
    changed.as_object_mut().unwrap().remove("warnings");
    assert_eq!(changed, with_role);
    assert_eq!(admin.put("/v1/users/app", changed).expect(200)["sql_password"], true);
    let mut viewer = world.with_token("v", "viewer");
    let list = viewer.get("/v1/users").expect(200);
    assert_eq!(list, json!([with_role, { "name": "max" }]));
    let exported = viewer.get("/v1/config").text;
    assert!(exported.contains("name = \"app\"") && !exported.contains("SCRAM"), "{exported}");
    for bad in [json!("secret"), json!("SCRAM-SHA-256$1:a$b:c")] {
        let body = json!({ "sql_verifier": bad });
        let error = admin.put("/v1/users/app", body).expect_error(422, "constraint");
        assert!(error.to_string().contains("sql_password"), "{error}");
    }
    admin.put("/v1/users/app", json!({ "sql_verifier": 7 })).expect_error(400, "bad_request");
    let body = json!({ "sql_verifier": VERIFIER });
    world.with_token("o", "operator").put("/v1/users/max", body).expect_error(403, "permission");
    let without = json!({ "sql_verifier": null, "role": null });
    assert_eq!(admin.put("/v1/users/app", without).expect(200), json!({ "name": "app" }));
    admin.delete("/v1/users/app").expect(204);
}

/// The route accepts an operator; the changes of the edit decide.
#[test]
fn an_edit_is_judged_by_what_it_changes() {
    let world = World::new();
    world.unix().put("/v1/pools/p", json!({ "priority": [-9, -1] })).expect(201);
    let mut operator = world.with_token("o", "operator");
    let configured = operator.put("/v1/pools/p", json!({ "priority": [-8, -1] })).expect(200);
    assert_eq!(configured["priority"], json!([-8, -1]));
    operator.call("PATCH", "/v1/pools/default", json!({ "threads": { "max": 3 } })).expect(201);
    operator.call("PATCH", "/v1/pools/p", json!({ "persistent": false })).expect(200);
    for (method, path, body) in [
        ("PUT", "/v1/pools/q", json!({})),
        ("PATCH", "/v1/pools/p", json!({ "persistent": true })),
        ("DELETE", "/v1/pools/p", Value::Null),
        ("PUT", "/v1/resources/r", json!({ "persistent": true })),
    ] {
        let answer = match method {
            "DELETE" => operator.delete(path),
            _ => operator.call(method, path, body),
        };
        let error = answer.expect_error(403, "permission");
        assert_eq!(error["message"], "caller does not have the necessary permission", "{path}");
    }
    operator.put("/v1/resources/r", json!({})).expect(201);
    assert_eq!(world.unix().get("/v1/pools/p").expect(200)["persistent"], false);
    let refused: Vec<Value> =
        world.audit_at_end().into_iter().filter(|r| r["what"] == "refused permission").collect();
    let told: Vec<&str> = refused.iter().map(|record| record["object"].as_str().unwrap()).collect();
    assert_eq!(told, ["insert Pool q", "update Pool p", "delete Pool p", "insert Resource r"]);
    assert!(refused[0]["who"].as_str().unwrap().starts_with("api:o@127.0.0.1#"), "{}", refused[0]);
}

#[test]
fn an_operators_text_makes_and_deletes_what_an_operator_may() {
    let world = World::new();
    let mut operator = world.with_token("o", "operator");
    let token = operator.token.clone().unwrap();
    let mut apply = |text: &str| {
        let length = text.len();
        let head = format!(
            "POST /v1/apply HTTP/1.1\r\nhost: p\r\nauthorization: Bearer {token}\r\n\
             content-type: application/toml\r\ncontent-length: {length}\r\n\r\n{text}"
        );
        operator.raw(head.as_bytes());
        operator.answer()
    };
    let passing = "[[resource]]\nname = \"r\"\npersistent = false\n";
    let told = |op: &str| json!([{ "op": op, "kind": "resource", "name": "r" }]);
    assert_eq!(apply(passing).expect(200), told("create"));
    assert_eq!(apply("# nothing").expect(200), told("delete"));
    // An object made by hand becomes the text's, and is deleted with the next: an operator may do that too.
    world.unix().put("/v1/resources/r", json!({})).expect(201);
    assert_eq!(apply(passing).expect(200)[0]["taken_over"], true);
    assert_eq!(apply("# nothing").expect(200), told("delete"));
    // A persistent object would be deleted by the next text of an admin.
    world.unix().put("/v1/resources/r", json!({ "persistent": true })).expect(201);
    apply("[[resource]]\nname = \"r\"\n").expect_error(403, "permission");
    assert_eq!(world.unix().get("/v1/resources/r").expect(200)["persistent"], true);
}

#[test]
fn a_permit_belongs_to_whoever_asked_for_it() {
    let world = World::new();
    let mut eva = world.with_token("eva", "client");
    let mut max = world.with_token("max", "client");
    let mut operator = world.with_token("o", "operator");
    let body = json!({ "attributes": { "task": "t" } });
    let held = eva.put("/v1/permits/job", body.clone()).expect(201);
    assert_eq!((&held["permit"], &held["user"]), (&json!("job"), &json!("eva")));
    eva.put("/v1/permits/job", body.clone()).expect(200);
    max.put("/v1/permits/job", body.clone()).expect_error(403, "permission");
    max.post("/v1/permits/job/renew", json!({})).expect_error(403, "permission");
    max.delete("/v1/permits/job").expect_error(403, "permission");

    for path in ["/v1/permits", "/v1/requests"] {
        for (client, sees) in [(&mut eva, true), (&mut max, false), (&mut operator, true)] {
            let list = client.get(path).expect(200);
            assert_eq!(list[0]["request"], held["request"], "{path}: {list}");
            assert_eq!(list[0].get("permit").is_some(), sees, "{path}: {list}");
        }
    }
    operator.put("/v1/permits/job", body).expect(200);
    operator.post("/v1/permits/job/renew", json!({})).expect(200);
    operator.delete("/v1/permits/job").expect(204);
    max.delete("/v1/permits/job").expect_error(404, "not_found");
    let own = eva.put("/v1/permits/job", json!({})).expect(201);
    eva.delete("/v1/permits/job").expect(204);
    assert_ne!(own["request"], held["request"]);
    let records = world.audit_at_end();
    let given: Vec<_> = records.iter().filter(|record| record["what"] == "give back").collect();
    assert_eq!(given.len(), 1, "what someone gives back of their own is not told: {given:?}");
    assert!(given[0]["who"].as_str().unwrap().starts_with("api:o@127.0.0.1"), "{given:?}");
    let object = format!("the permit of request {} of eva", held["request"]);
    assert_eq!(given[0]["object"], object);
    let text = format!("{records:?}");
    assert!(text.contains("give back the permit of request") && !text.contains("job"), "{text}");
}

/// A1: a client that knows the name of another user's session can end it, and can unlock for it.
#[test]
fn what_is_released_in_the_session_of_another_user_is_recorded_a1() {
    let world = World::new();
    let mut eva = world.with_token("eva", "client");
    let mut max = world.with_token("max", "client");
    let begin = |client: &mut crate::client::Client| {
        let begun = client.post("/v1/sessions", json!({ "lease": "60s" })).expect(201);
        begun["session"].as_str().unwrap().to_owned()
    };
    let (first, own) = (begin(&mut eva), begin(&mut eva));
    for lock in ["l", "m"] {
        eva.put(&format!("/v1/locks/{lock}"), json!({ "session": first })).expect(200);
    }
    max.delete(&format!("/v1/locks/l?session={first}")).expect(204);
    max.delete(&format!("/v1/locks/l?session={first}")).expect_error(409, "conflict");
    max.delete(&format!("/v1/sessions/{first}")).expect(204);
    max.delete(&format!("/v1/sessions/{first}")).expect_error(404, "not_found");
    eva.put("/v1/locks/l", json!({ "session": own })).expect(200);
    eva.delete(&format!("/v1/locks/l?session={own}")).expect(204);
    eva.delete(&format!("/v1/sessions/{own}")).expect(204);
    let records = world.audit_at_end();
    let told = |record: &&Value| ["unlock", "end"].iter().any(|what| record["what"] == *what);
    let told: Vec<_> = records.iter().filter(told).collect();
    assert_eq!(told.len(), 2, "what users release of their own is not recorded: {told:?}");
    for (record, (what, object)) in
        told.iter().zip([("unlock", "the lock l of the session"), ("end", "the session")])
    {
        assert_eq!(record["what"], what);
        let shown = record["object"].as_str().unwrap();
        assert!(shown.starts_with(object) && shown.ends_with("of eva"), "{shown}");
        assert!(record["who"].as_str().unwrap().starts_with("api:max@127.0.0.1"), "{record}");
    }
    let text = format!("{records:?}");
    assert!(!text.contains(&*first) && !text.contains(&*own), "secrets: {text}");
}

#[test]
fn refusals_are_recorded_without_secrets_and_bounded_a1() {
    let world = World::new();
    let session = world.unix().session(json!({}));
    let mut viewer = world.with_token("v", "viewer");
    viewer.delete(&format!("/v1/sessions/{session}")).expect_error(403, "permission");
    viewer.delete(&format!("/v1/locks/x?session={session}")).expect_error(403, "permission");
    world.tcp_with(Some("a-guess")).get("/v1/pools?x=y").expect_error(401, "unauthenticated");
    for _ in 0..300 {
        viewer.post("/v1/rules/clear", json!({})).expect_error(403, "permission");
    }
    let records = world.audit_at_end();
    let text = Value::from(records.clone()).to_string();
    assert!(!text.contains(&session) && !text.contains("a-guess"), "{text}");
    let of = |object: &str| records.iter().filter(|record| record["object"] == object).count();
    assert_eq!(of("DELETE /v1/sessions/{session}"), 1);
    assert_eq!(of("DELETE /v1/locks/x"), 1);
    let unknown = records.iter().find(|record| record["object"] == "GET /v1/pools").unwrap();
    assert_eq!(unknown["who"], "api:unknown@127.0.0.1");
    let written = of("POST /v1/rules/clear");
    assert!((98..=130).contains(&written), "{written}");
    let left_out: u64 = records.iter().filter_map(|record| record["left_out"].as_u64()).sum();
    assert_eq!(written as u64 + left_out, 300, "what was not written is counted");
}
