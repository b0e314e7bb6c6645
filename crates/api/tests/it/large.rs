//! Lists that would be large, and clients that do not read them.

use crate::client::Client;
use crate::world::World;
use paceline_api::Limits;
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most bytes of a text that a list shows.
const SHOWN: usize = 4_096;

/// Large answers are bounded for the whole process, so tests with large answers take turns.
static LARGE: Mutex<()> = Mutex::new(());

/// Requests whose list has more than a megabyte.
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
    // The daemon notices the end after a while.
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
    // What is bound to the connection ends with it, although the client never closes it.
    let mut other = world.unix();
    while other.get("/v1/locks/held").status != 404 {}
    drop(lazy);
    // A client that reads gets all of it.
    assert_eq!(other.get("/v1/requests").expect(200).as_array().unwrap().len(), 300);
}

/// A few slow readers do not keep all places: a large answer has a time limit.
#[test]
fn a_large_answer_must_be_read_in_time_d1() {
    let _turn = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = Limits {
        write_pause_max: Duration::from_secs(3_600),
        large_max: Duration::from_millis(200),
        large_bytes_per_second_min: 1 << 30,
        ..Limits::default()
    };
    let world = World::with(limits);
    fill(&world);
    let slow: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = world.unix();
            client.send("GET", "/v1/requests", None);
            client.head();
            client
        })
        .collect();
    // The places are free again, although no client has left or reads.
    let mut other = world.unix();
    while other.get("/v1/requests").status != 200 {}
    drop(slow);
}

/// Locks of one session, with long names.
fn lock_many(world: &World, count: usize) {
    let mut client = world.unix();
    let session = client.session(json!({ "lease": "1h" }));
    for number in 0..count {
        let path = format!("/v1/locks/{}{number:05}", "x".repeat(240));
        client.put(&path, json!({ "session": session })).expect(200);
    }
}

#[test]
fn the_list_of_locks_is_bounded_and_goes_on_where_it_ended_d1() {
    let _turn = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    lock_many(&world, 5_000);
    let mut client = world.unix();
    let name = |number: usize| format!("{}{number:05}", "x".repeat(240));
    let part = client.get(&format!("/v1/locks?first={}&count=2", name(4_000))).expect(200);
    let names: Vec<_> = part.as_array().unwrap().iter().map(|lock| lock["name"].clone()).collect();
    assert_eq!(names, [name(4_000), name(4_001)]);
    let past = format!("/v1/locks?first={}", name(4_999) + "z");
    assert_eq!(client.get(&past).expect(200), json!([]));
    let lazy = || {
        let mut client = world.unix();
        client.send("GET", "/v1/locks", None);
        (client.head().0 == 200).then_some(client)
    };
    let held: Vec<Client> = (0..8).map_while(|_| lazy()).collect();
    assert_eq!(held.len(), 8, "so many are sent at a time");
    client.get("/v1/locks").expect_error(503, "refused");
}

/// A list of rows takes a place like any other large answer.
#[test]
fn lists_of_objects_are_bounded_d1() {
    let _turn = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::new();
    let mut text = String::new();
    for number in 0..2_000 {
        text += &format!("[[resource]]\nname = \"{}{number}\"\n", "x".repeat(600));
    }
    let mut client = world.unix();
    client.raw(
        format!(
            "POST /v1/apply HTTP/1.1\r\nhost: p\r\ncontent-type: application/toml\r\n\
             content-length: {}\r\n\r\n{text}",
            text.len()
        )
        .as_bytes(),
    );
    client.answer().expect(200);
    for path in ["/v1/resources", "/v1/tree"] {
        let lazy = || {
            let mut client = world.unix();
            client.send("GET", path, None);
            (client.head().0 == 200).then_some(client)
        };
        let held: Vec<Client> = (0..8).map_while(|_| lazy()).collect();
        assert_eq!(held.len(), 8, "so many are sent at a time");
        client.get(path).expect_error(503, "refused");
        drop(held);
        // The daemon notices the end after a while.
        while client.get(path).status != 200 {}
    }
}
