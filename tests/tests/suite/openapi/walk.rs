//! Calls the whole API: every response is one that the document describes, and every operation succeeds once.

use super::start;
use paceline_tests::api::Answer;
use paceline_tests::schema::Document;
use paceline_tests::{Api, Daemon, Scratch};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const RULESET: &str =
    "version 2\npool imported threads 1\nrule 1 action SET_POOL pool imported user x\n";

const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
                        $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=\
                        :wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

/// A connection whose responses are compared with the document.
struct Walk {
    api: Api,
    document: Document,
    done: BTreeSet<String>,
}

impl Walk {
    #[track_caller]
    fn seen(&mut self, method: &str, path: &str, answer: Answer, status: u16) -> Value {
        if let Err(error) = self.document.check(method, path, &answer) {
            panic!("{method} {path}: {error}: {}", answer.text);
        }
        if answer.status < 400 {
            self.done.insert(self.document.operation(method, path).id().to_owned());
        }
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        answer.body
    }

    #[track_caller]
    fn call(&mut self, method: &str, path: &str, body: Value, status: u16) -> Value {
        let operation = self.document.operation(method, path).operation;
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if status < 400 && !schema.is_null() {
            // What the daemon accepts is what the document allows.
            self.document.fits(schema, &body, "body").unwrap();
        }
        let answer = self.api.call(method, path, &body);
        self.seen(method, path, answer, status)
    }

    #[track_caller]
    fn get(&mut self, path: &str, status: u16) -> Value {
        let answer = self.api.get(path);
        self.seen("GET", path, answer, status)
    }

    #[track_caller]
    fn delete(&mut self, path: &str, status: u16) -> Value {
        let answer = self.api.delete(path);
        self.seen("DELETE", path, answer, status)
    }

    fn text(&mut self, path: &str, body: &str, status: u16) -> Value {
        self.send_text(path, "application/toml", body, status)
    }

    fn plain(&mut self, path: &str, body: &str, status: u16) -> Value {
        self.send_text(path, "text/plain", body, status)
    }

    fn send_text(&mut self, path: &str, media: &str, body: &str, status: u16) -> Value {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: paceline\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.api.raw(head.as_bytes()).unwrap();
        let answer = self.api.answer();
        self.seen("POST", path, answer, status)
    }

    fn daemon(&mut self) {
        for path in
            ["/healthz", "/metrics", "/v1/whoami", "/v1/status", "/v1/openapi.json", "/v1/backup"]
        {
            self.get(path, 200);
        }
        self.get("/v1/backup?database=none", 404);
        self.get("/v1/status?x=1", 400);
        self.text("/v1/apply?dry_run=true", "[[pool]]\nname = 'a'\nstarted = false\n", 200);
        self.text("/v1/apply", "[[pool]]\nname = 'a'\nstarted = false\n", 200);
        self.text("/v1/apply", "[[pool]]\nnam = 'a'\n", 422);
        let files =
            |text: &str| json!({ "files": [{ "file": "x.toml", "directory": "/", "text": text }] });
        self.call("POST", "/v1/apply-files", files("[[resource]]\nname = 'x'\n"), 200);
        self.call("POST", "/v1/apply-files?dry_run=true", files("[[rule]]\n"), 200);
        self.call("POST", "/v1/apply-files", files("[[pool]]\nnam = 'a'\n"), 422);
        self.call("POST", "/v1/apply-files", json!({ "files": [] }), 400);
        self.get("/v1/config", 200);
    }

    fn objects(&mut self) {
        let frontend = json!({
            "listen": ["127.0.0.1:0"], "backend": "b", "use_backend": [{ "when": "path == \"/\"", "backend": "b" }],
            "timeouts": { "idle": "3s" }, "log_values": { "who": "user" }, "upgrades": [],
        });
        let backend = json!({ "health": { "rise": 1 }, "tls": true, "queue": { "max_len": 1 } });
        let rule = json!({ "match": { "user": ["eve", { "glob": "e*", "nocase": true }] }, "reject": true });
        let all = [
            (
                "/v1/pools",
                "p",
                json!({ "priority": [1, 2], "threads": { "max": 1 } }),
                json!({ "queue": { "max_len": 3 }, "group": null }),
            ),
            ("/v1/rules", "10", rule, json!({ "log": true })),
            (
                "/v1/checkpoints",
                "c",
                json!({ "at": "pool p", "rate": "1/s" }),
                json!({ "burst": 5 }),
            ),
            ("/v1/resources", "r", json!({}), json!({ "parents": null })),
            ("/v1/backends", "b", backend, json!({ "health": true, "tls": { "name": "n" } })),
            ("/v1/servers", "b/s", json!({ "address": "127.0.0.1:1" }), json!({ "weight": 3 })),
            ("/v1/frontends", "f", frontend, json!({ "trusted": "10.0.0.0/8" })),
            (
                "/v1/sql-targets",
                "app",
                json!({ "upstream": "postgresql://db/app", "login": { "user": "web" }, "connections": { "max": 3 } }),
                json!({ "login": "client", "pooling": "session", "notice": false }),
            ),
        ];
        for (list, name, new, change) in &all {
            let path = format!("{list}/{name}");
            self.get(&path, 404);
            self.call("PATCH", &path, json!({}), 404);
            self.call("PUT", &path, new.clone(), 201);
            self.call("PATCH", &path, change.clone(), 200);
            let shown = self.get(&path, 200);
            self.call("PUT", &path, shown, 200);
            self.get(list, 200);
            self.call("PUT", &path, json!({ "persistent": "x" }), 400);
        }
        self.call("PUT", "/v1/resources/s", json!({ "parents": ["r"] }), 201);
        self.get("/v1/tree", 200);
        self.call("PATCH", "/v1/pools/default", json!({ "queue": { "max_len": 9 } }), 201);
        self.verbs();
        self.delete("/v1/resources/r", 409);
        self.call("PATCH", "/v1/resources/s", json!({ "parents": [] }), 200);
        for (list, name, ..) in all.iter().rev() {
            self.delete(&format!("{list}/{name}"), 204);
            self.delete(&format!("{list}/{name}"), 404);
        }
        self.get("/v1/api", 200);
        self.call("PATCH", "/v1/api", json!({ "show_text": true }), 201);
        self.call("PUT", "/v1/api", json!({ "show_text": 1 }), 400);
        self.call("PUT", "/v1/api", json!({}), 200);
        self.get("/v1/http", 200);
        self.call("PATCH", "/v1/http", json!({ "threads": 1 }), 201);
        self.call("PUT", "/v1/http", json!({ "threads": 0 }), 422);
        self.call("PUT", "/v1/http", json!({}), 200);
    }

    fn verbs(&mut self) {
        for verb in ["start", "drain", "stop", "persist", "unpersist"] {
            self.call("POST", &format!("/v1/pools/p/{verb}"), json!({}), 200);
        }
        self.call("POST", "/v1/pools/p/unpersist", json!({}), 409);
        self.call("POST", "/v1/pools/default/stop", json!({}), 422);
        self.call("POST", "/v1/rules/10/enable", json!({}), 200);
        self.call("POST", "/v1/rules/10/disable", json!({}), 200);
        self.call("POST", "/v1/rules", json!({ "raise": 1, "then": "stop" }), 201);
        self.plain("/v1/rules/import?dry_run=true", RULESET, 200);
        self.plain("/v1/rules/import", RULESET, 200);
        self.plain("/v1/rules/import", "version 3\n", 422);
        self.get("/v1/rules/export", 409);
        self.call("POST", "/v1/rules/save", json!({}), 204);
        self.get("/v1/saved-rules", 200);
        self.get("/v1/saved-rules/10", 200);
        self.call("POST", "/v1/rules/clear", json!({}), 204);
        self.get("/v1/rules/export", 200);
        self.delete("/v1/pools/imported", 204);
        self.call("PUT", "/v1/rules/10", json!({}), 201);
    }

    fn roles(&mut self) {
        self.call("PUT", "/v1/users/eva", json!({ "role": "viewer" }), 201);
        self.call("PUT", "/v1/users/eva", json!({ "sql_verifier": VERIFIER }), 200);
        self.get("/v1/users", 200);
        self.get("/v1/users/eva", 200);
        self.delete("/v1/users/eva", 204);
        self.call(
            "POST",
            "/v1/tokens",
            json!({ "name": "t", "role": "client", "expires": "1d" }),
            201,
        );
        self.call("POST", "/v1/tokens", json!({ "name": "t", "role": "client" }), 409);
        self.get("/v1/tokens", 200);
        self.delete("/v1/tokens/t", 204);
    }

    fn held(&mut self) {
        let session = self.call("POST", "/v1/sessions", json!({ "name": "a", "lease": "1m" }), 201);
        let session = session["session"].as_str().unwrap().to_owned();
        self.call("POST", &format!("/v1/sessions/{session}/renew"), json!({}), 200);
        let bound = self.call("POST", "/v1/sessions", json!({ "bound": true }), 201);
        let bound = bound["session"].as_str().unwrap().to_owned();
        let pid = json!({ "pid": std::process::id() });
        self.call("POST", &format!("/v1/sessions/{bound}/processes"), pid, 204);
        self.get("/v1/locks/l", 404);
        self.call("PUT", "/v1/locks/l", json!({ "session": session }), 200);
        self.call("PUT", "/v1/locks/l", json!({ "session": bound }), 409);
        self.get("/v1/locks", 200);
        self.get("/v1/locks/l", 200);
        self.delete(&format!("/v1/locks/l?session={session}"), 204);
        self.delete(&format!("/v1/sessions/{bound}"), 204);
        self.delete(&format!("/v1/sessions/{bound}"), 404);
        self.call("POST", "/v1/permits", json!({ "once": true }), 200);
        self.call("POST", "/v1/permits", json!({ "session": "none" }), 404);
        self.call("POST", "/v1/permits", json!({ "claims": [{ "resource": "none" }] }), 409);
        let asked = json!({ "lease": "1m", "claims": [{ "resource": "s", "mode": "shared" }] });
        let permit = self.call("POST", "/v1/permits", asked, 201)["permit"].clone();
        let path = format!("/v1/permits/{}", permit.as_str().unwrap());
        self.get("/v1/permits", 200);
        self.get(&path, 200);
        self.call("POST", &format!("{path}/renew"), json!({}), 200);
        self.delete(&path, 204);
        self.get(&path, 404);
        self.call("PUT", "/v1/permits/mine", json!({ "lease": "1m" }), 201);
        self.call("PUT", "/v1/permits/mine", json!({ "lease": "1m" }), 200);
        self.call("PUT", "/v1/permits/mine", json!({ "lease": "2m" }), 409);
    }

    /// With a request that waits behind another one.
    fn questions(&mut self, daemon: &Daemon) {
        let mut other = daemon.api();
        self.call(
            "PUT",
            "/v1/checkpoints/one",
            json!({ "at": "frontend api", "concurrency": 1 }),
            201,
        );
        self.call("POST", "/v1/permits", json!({ "lease": "1m" }), 201);
        let mut events = daemon.api().follow();
        other.send("POST", "/v1/permits", Some("{}"));
        let waiting = events.next_of("waiting")["request"].clone();
        self.done.insert("events".into());
        self.get("/v1/requests", 200);
        self.get(&format!("/v1/why/{waiting}"), 200);
        self.get("/v1/why/999999", 404);
        let cancel = |request: &Value| format!("/v1/requests/{request}/cancel");
        self.call("POST", &cancel(&json!(999_999)), json!({}), 404);
        self.call("POST", &cancel(&waiting), json!({ "reason": "a test" }), 204);
        let refused = other.answer();
        self.seen("POST", "/v1/permits", refused, 409);
        self.call(
            "POST",
            "/v1/explain",
            json!({ "attributes": { "user": "x" }, "on": "request" }),
            200,
        );
        self.call("POST", "/v1/permits", json!({ "max_wait": "0s" }), 503);
    }
}

#[test]
fn every_answer_is_as_described() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let mut api = daemon.api();
    let document = Document(api.get("/v1/openapi.json").expect(200));
    let mut walk = Walk { api, document, done: BTreeSet::new() };
    walk.daemon();
    walk.objects();
    walk.roles();
    walk.held();
    walk.questions(&daemon);
    let all: BTreeSet<String> =
        walk.document.operations().iter().map(|one| one.id().to_owned()).collect();
    let missing: Vec<&String> = all.difference(&walk.done).collect();
    assert!(missing.is_empty(), "not walked: {missing:?}");
}
