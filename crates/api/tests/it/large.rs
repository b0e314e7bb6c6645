//! Lists that would be large, and clients that do not read them.

use crate::client::Client;
use crate::world::World;
use paceline_api::Limits;
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Most bytes of a text that a list shows.
const SHOWN: usize = 4_096;

/// Large answers are bounded for the whole process, so tests that get some take turns.
static LARGE: Mutex<()> = Mutex::new(());

/// Requests whose list is of more than a megabyte.
fn fill(world: &World) {
    let mut client = world.unix();
    for _ in 0..300 {
        let attributes = json!({ "text": "x".repeat(5_000) });
        client.post("/v1/permits", json!({ "attributes": attributes, "lease": "1h" })).expect(201);
    }
}

#[test]
fn lists_show_the_beginning_of_a_long_text() {
    let world = World::new();
    let mut client = world.unix();
    let long = "x".to_owned() + &"ä".repeat(400_000);
    for text in ["short", &long] {
        let attributes = json!({ "text": text });
        client.post("/v1/permits", json!({ "attributes": attributes, "lease": "1h" })).expect(201);
    }
    let list = client.get("/v1/requests").expect(200);
    assert_eq!(list[0]["text"], "short");
    let shown = list[1]["text"].as_str().unwrap();
    assert!(shown.ends_with('…') && shown.len() <= SHOWN + '…'.len_utf8(), "{}", shown.len());
    assert!(long.starts_with(shown.trim_end_matches('…')));
    assert_eq!(client.get("/v1/permits").expect(200).as_array().unwrap().len(), 2);
}

#[test]
fn few_large_answers_are_in_memory_at_a_time() {
    let _turn = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    fill(&world);
    let lazy = || {
        let mut client = world.unix();
        client.send("GET", "/v1/requests", None);
        (client.head().0 == 200).then_some(client)
    };
    let mut held: Vec<Client> = (0..8).map_while(|_| lazy()).collect();
    assert_eq!(held.len(), 8, "so many are sent at a time");
    let error = world.unix().get("/v1/requests").expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    world.unix().get("/v1/requests?count=10").expect(200);
    held.pop();
    // The daemon hears of the end when it hears of it.
    while world.unix().get("/v1/requests").status != 200 {}
}

#[test]
fn a_client_that_takes_nothing_is_closed() {
    let _turn = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = Limits { write_pause_max: Duration::from_millis(200), ..Limits::default() };
    let world = World::with(limits);
    fill(&world);
    let mut lazy = world.unix();
    let session = lazy.session(json!({ "bound": true }));
    lazy.put("/v1/locks/held", json!({ "session": session })).expect(200);
    lazy.send("GET", "/v1/requests", None);
    // What is bound to the connection ends with it, though the client never closes it.
    let mut other = world.unix();
    while other.get("/v1/locks/held").status != 404 {}
    drop(lazy);
    // One that reads gets all of it.
    assert_eq!(other.get("/v1/requests").expect(200).as_array().unwrap().len(), 300);
}
