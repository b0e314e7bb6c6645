//! What viewers see of requests: no query strings, arguments or literals, unless `[api] show_text` is set.

use super::World;
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Latch, Upstream, Web, tool, until};
use serde_json::{Value, json};
use std::sync::Arc;

/// Occurs in every text that viewers may not see.
const SECRET: &str = "hunter2";

/// A daemon with a running command, a statement and an HTTP request, and a request that waits behind the command at a
/// checkpoint whose key is its text.
struct Busy {
    world: World,
    _upstream: Upstream,
    latch: Arc<Latch>,
    _web: Web,
    _waiter: Api,
}

impl Busy {
    fn new() -> Self {
        let world = World::new("operator");
        let latch = Latch::new();
        let held = Arc::clone(&latch);
        let upstream = Upstream::start(move |call| {
            held.pass();
            call.answer(200, "done");
        });
        let put = |path: &str, body: Value| {
            let (status, answer) = world.admin("PUT", path, &body);
            assert!(status < 300, "{path}: {answer}");
        };
        put("/v1/backends/app", json!({}));
        put("/v1/servers/app/one", json!({ "address": upstream.address() }));
        put("/v1/frontends/web", json!({ "listen": ["127.0.0.1:0"], "backend": "app" }));
        put(
            "/v1/checkpoints/by-text",
            json!({ "at": "frontend api", "key": "text", "concurrency": 1 }),
        );
        let frontend = until(
            || world.admin("GET", "/v1/frontends/web", &Value::Null).1["figures"].clone(),
            |figures| figures["listening"][0].is_string(),
        );
        let mut web = Web::connect(frontend["listening"][0].as_str().unwrap());
        web.ask(&format!("/search?q={SECRET}"), "");
        for text in [format!("mysql -p{SECRET}"), format!("UPDATE t SET pin='{SECRET}'")] {
            let permit = json!({ "attributes": { "text": text }, "lease": "1h" });
            assert_eq!(world.admin("POST", "/v1/permits", &permit).0, 201);
        }
        let mut waiter = Api::unix(&world.socket());
        let again = json!({ "attributes": { "text": format!("mysql -p{SECRET}") }, "lease": "1h" });
        waiter.send("POST", "/v1/permits", Some(&again.to_string()));
        let busy = Self { world, _upstream: upstream, latch, _web: web, _waiter: waiter };
        until(|| busy.texts(3).len(), |count| *count == 4);
        busy
    }

    fn api(&self, role: usize) -> Api {
        Api::tcp(self.world.daemon.api_address(), Some(&self.world.tokens[role]))
    }

    /// The texts that a role is shown, sorted.
    fn texts(&self, role: usize) -> Vec<String> {
        let requests = self.api(role).get("/v1/requests").expect(200);
        let requests = requests.as_array().unwrap().iter();
        let mut texts: Vec<String> =
            requests.map(|request| request["text"].as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    }

    /// Everything that a role is shown about requests, at the API and on the command line.
    fn all(&self, role: usize) -> String {
        let mut api = self.api(role);
        let requests = api.get("/v1/requests").expect(200);
        let mut all = requests.to_string();
        for request in requests.as_array().unwrap() {
            let number = &request["request"];
            all += &api.get(&format!("/v1/why/{number}")).expect(200).to_string();
            all += &self.paceline(role, &["why", &number.to_string()]);
        }
        for words in [&["ps"][..], &["ps", "--json"], &["tree"], &["locks"]] {
            all += &self.paceline(role, words);
        }
        all
    }

    fn paceline(&self, role: usize, words: &[&str]) -> String {
        let file = self.world.scratch.write("token-of-the-test", &self.world.tokens[role]);
        let address = format!("http://{}", self.world.daemon.api_address());
        let reach = ["--api", &address, "--token-file", file.to_str().unwrap()];
        tool::run(paceline_binary().to_str().unwrap(), &[words, &reach].concat()).unwrap()
    }

    /// The event that a role gets about a request that is refused at the checkpoint whose key is its text.
    fn refusal(&self, role: usize) -> Value {
        let mut events = self.api(role).follow();
        let text = format!("mysql -p{SECRET}");
        let permit = json!({ "attributes": { "text": text }, "max_wait": "0s" });
        let (_, refused) = self.world.admin("POST", "/v1/permits", &permit);
        assert!(refused.to_string().contains(SECRET), "the client's own: {refused}");
        events.next_of("refused")
    }
}

#[test]
fn viewers_see_no_query_strings_arguments_or_literals() {
    let busy = Busy::new();
    let short = ["/search?…", "UPDATE …", "mysql …", "mysql …"];
    for (role, name) in ["viewer", "client"].iter().enumerate() {
        assert_eq!(busy.texts(role), short, "{name}");
        let all = busy.all(role);
        assert!(!all.contains(SECRET), "{name}: {all}");
        assert!(!busy.refusal(role).to_string().contains(SECRET), "{name}");
    }
    for role in [2, 3] {
        assert!(busy.texts(role).iter().all(|text| text.contains(SECRET)));
        assert!(busy.all(role).contains(&format!("mysql -p{SECRET}")));
        assert!(busy.refusal(role).to_string().contains(SECRET));
    }
    // It takes effect at once, even for clients that already follow events.
    let mut events = busy.api(0).follow();
    assert_eq!(busy.world.admin("PATCH", "/v1/api", &json!({ "show_text": true })).0, 201);
    assert_eq!(busy.texts(0), busy.texts(3));
    assert!(busy.refusal(0).to_string().contains(SECRET));
    assert!(events.next_of("refused").to_string().contains(SECRET));
    assert_eq!(busy.world.admin("PATCH", "/v1/api", &json!({ "show_text": false })).0, 200);
    assert_eq!(busy.texts(0), short);
    busy.latch.open();
}

/// A client sees the full text of its own requests: those that carry its name at the API.
#[test]
fn clients_see_the_texts_of_their_own_requests() {
    let world = World::new("operator");
    let client = world.tcp(Some(&world.tokens[1]));
    let permit = json!({ "attributes": { "text": "mysql -phunter2" }, "lease": "1h" }).to_string();
    assert_eq!(client.ask("POST", "/v1/permits", Some(&permit)).0, 201);
    let text = |role: usize| {
        let (_, requests) = world.tcp(Some(&world.tokens[role])).ask("GET", "/v1/requests", None);
        requests[0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!([0, 1, 2].map(text), ["mysql …", "mysql -phunter2", "mysql -phunter2"]);
}
