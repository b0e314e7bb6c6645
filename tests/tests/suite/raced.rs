//! Edits, releases and full disks that race with a grant: each test repeats one such race a fixed number of times,
//! kills the daemon once, and compares what is held before and after (C1, P3).

use paceline_tests::{Api, Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

/// Permits under chosen ids that outlive the test.
fn leased() -> Value {
    json!({"lease": "1h"})
}

/// The ids of all permits.
fn permits(daemon: &Daemon) -> BTreeSet<String> {
    let list = daemon.api().get("/v1/permits").expect(200);
    let id = |permit: &Value| permit["permit"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(id).collect()
}

/// Whether another permit has a claim that conflicts with one on this resource.
fn is_taken(api: &mut Api, resource: &str) -> bool {
    let ask = json!({"claims": [{"resource": resource}], "lease": "1h", "max_wait": "0s"});
    let answer = api.call("PUT", "/v1/permits/probe", &ask);
    match answer.status {
        201 => {
            let _ = api.delete("/v1/permits/probe").expect(204);
            false
        }
        503 => true,
        _ => panic!("{}", answer.text),
    }
}

/// A child is moved out of its parent while a claim on the parent is granted. The order decides whether the claim
/// includes the child; a restart must not change it.
#[test]
fn a_child_that_moves_away_as_its_parent_is_claimed_stays_with_whom_it_was_c1_p3() {
    const ROUNDS: usize = 150;
    let scratch = Scratch::new();
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket);
    let daemon = launch.start().unwrap();
    let mut text = String::new();
    for round in 0..ROUNDS {
        let (parent, child) = (format!("p{round}"), format!("c{round}"));
        text += &format!("[[resource]]\nname = \"{parent}\"\n");
        text += &format!("[[resource]]\nname = \"{child}\"\nparents = [\"{parent}\"]\n");
    }
    apply(&daemon, &text);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = daemon.connect();
            for round in 0..ROUNDS {
                let away = json!(["Paceline", {"op": "update", "table": "Resource",
                    "where": [["name", "==", format!("c{round}")]], "row": {"parents": ["set", []]}}]);
                barrier.wait();
                assert_eq!(client.call("transact", &away).unwrap(), json!([{"count": 1}]));
            }
        });
        let mut api = daemon.api();
        for round in 0..ROUNDS {
            let ask = json!({"claims": [{"resource": format!("p{round}")}], "lease": "1h"});
            barrier.wait();
            let _ = api.call("PUT", &format!("/v1/permits/h{round}"), &ask).expect(201);
        }
    });
    let taken = |daemon: &Daemon| -> Vec<bool> {
        let mut api = daemon.api();
        (0..ROUNDS).map(|round| is_taken(&mut api, &format!("c{round}"))).collect()
    };
    let before = taken(&daemon);
    daemon.kill();
    let after = taken(&launch.start().unwrap());
    let changed: Vec<usize> = (0..ROUNDS).filter(|round| before[*round] != after[*round]).collect();
    assert!(changed.is_empty(), "of {ROUNDS} children these changed hands: {changed:?}");
}

fn apply(daemon: &Daemon, text: &str) {
    let mut api = daemon.api();
    let head = "POST /v1/apply HTTP/1.1\r\nhost: p\r\ncontent-type: application/toml\r\n";
    api.raw(format!("{head}content-length: {}\r\n\r\n{text}", text.len()).as_bytes()).unwrap();
    let _ = api.answer().expect(200);
}

/// A session ends, and the ids of its permits are requested again at once: a permit that is then granted is held
/// after a kill.
#[test]
fn an_id_that_is_asked_for_as_its_session_ends_keeps_its_row_p3() {
    const ROUNDS: usize = 4;
    const EACH: usize = 1_000;
    const EAGER: usize = 50;
    let ask =
        |api: &mut Api, id: &str| api.call("PUT", &format!("/v1/permits/{id}"), &leased()).status;
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (mut api, mut ender) = (daemon.api(), daemon.api());
    let mut held = BTreeSet::new();
    for round in 0..ROUNDS {
        let session = api.call("POST", "/v1/sessions", &json!({"lease": "1h"})).expect(201);
        let ids: Vec<String> = (0..EACH).map(|number| format!("x{round}.{number:03}")).collect();
        for id in &ids {
            let ask = json!({"session": session["session"]});
            let _ = api.call("PUT", &format!("/v1/permits/{id}"), &ask).expect(201);
        }
        let session = session["session"].as_str().unwrap();
        // The last one is requested without a pause, because the session releases them in the order of their names.
        // Until it has, another body is refused.
        let last = format!("/v1/permits/{}", ids.last().unwrap());
        ender.send("DELETE", &format!("/v1/sessions/{session}"), None);
        let mut is_held = false;
        while !is_held {
            (0..EAGER).for_each(|_| api.send("PUT", &last, Some(&leased().to_string())));
            (0..EAGER).for_each(|_| is_held |= api.answer().status == 201);
        }
        for id in ids {
            while ![200, 201].contains(&ask(&mut api, &id)) {}
            held.insert(id);
        }
        assert_eq!(ender.answer().status, 204);
    }
    assert_eq!(permits(&daemon), held);
    daemon.kill();
    let after = permits(&launch.start().unwrap());
    let lost: Vec<&String> = held.difference(&after).collect();
    assert!(lost.is_empty(), "answered with 201, and lost: {lost:?}");
    assert_eq!(after, held);
}

/// Clients release permits while the disk is full, and all request the same ids again as soon as there is room: a
/// permit that is then granted is held after a kill, whatever rows were still to be deleted.
#[test]
fn an_id_that_is_asked_for_after_a_full_disk_keeps_its_row_p3() {
    const ROUNDS: usize = 30;
    const CLIENTS: usize = 8;
    const EACH: usize = 40;
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let barrier = Barrier::new(CLIENTS + 1);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (daemon, barrier) = (&daemon, &barrier);
            scope.spawn(move || {
                let mut api = daemon.api();
                for round in 0..ROUNDS {
                    let id = |number| format!("/v1/permits/x{round}.{client}.{number}");
                    let paths: Vec<String> = (0..EACH).map(id).collect();
                    for path in &paths {
                        let _ = api.call("PUT", path, &leased()).expect(201);
                    }
                    barrier.wait();
                    barrier.wait();
                    for path in &paths {
                        let status = api.delete(path).status;
                        assert!([200, 204].contains(&status), "{status}");
                    }
                    barrier.wait();
                    for path in &paths {
                        // The disk may still be full.
                        while api.call("PUT", path, &leased()).status != 201 {}
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            barrier.wait();
            let size = std::fs::metadata(daemon.data().join("paceline.db")).unwrap().len();
            daemon.limit_file_size(Some(size));
            barrier.wait();
            barrier.wait();
            daemon.limit_file_size(None);
        }
    });
    let held = permits(&daemon);
    assert_eq!(held.len(), ROUNDS * CLIENTS * EACH);
    daemon.kill();
    let after = permits(&launch.start().unwrap());
    let lost: Vec<&String> = held.difference(&after).collect();
    assert!(lost.is_empty(), "answered with 201, and lost: {lost:?}");
    assert_eq!(after, held);
}
