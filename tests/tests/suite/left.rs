//! Clients that leave while they wait.

use paceline_tests::{Api, Launch, Scratch};
use serde_json::{Value, json};

/// A permit, for which the client waits if that is necessary.
fn ask(api: &mut Api, max_wait: &str) -> Value {
    let body = json!({"lease": "60s", "max_wait": max_wait});
    api.call("POST", "/v1/permits", &body).expect(201)["permit"].clone()
}

/// A client that has closed its connection is not granted what it waited for: that goes to the next one.
#[test]
fn what_a_client_waited_for_that_has_left_is_free_p4() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).api("127.0.0.1:0").start().unwrap();
    let mut api = daemon.api();
    let checkpoint = json!({"at": "frontend api", "concurrency": 1});
    let _ = api.call("PUT", "/v1/checkpoints/one", &checkpoint).expect(201);
    for round in 0..100 {
        let held = ask(&mut api, "20s");
        let mut waiter = if round % 2 == 0 { daemon.api() } else { daemon.api_tcp() };
        waiter.send("POST", "/v1/permits", Some(r#"{"lease": "60s"}"#));
        let waits = |api: &mut Api| {
            let requests = api.get("/v1/requests").expect(200);
            requests.as_array().unwrap().iter().any(|request| request["state"] == "waiting")
        };
        while !waits(&mut api) {
            std::thread::yield_now();
        }
        drop(waiter);
        let held = held.as_str().unwrap();
        let _ = api.delete(&format!("/v1/permits/{held}")).expect(204);
        let next = ask(&mut api, "20s");
        let _ = api.delete(&format!("/v1/permits/{}", next.as_str().unwrap())).expect(204);
    }
}
