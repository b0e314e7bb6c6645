//! Edits under load: no waiter is lost, no request gets two answers, and no more requests run than allowed.
//!
//! Running requests are counted from the daemon's own events, which it sends in order.

use super::doors::launch;
use paceline_tests::api::{Events, micros};
use paceline_tests::{Api, Client, Daemon, Scratch};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;

const BUSY: usize = 40;
const PATIENT: usize = 20;
const EDITS: usize = 210;

/// Maximum threads that the pool ever has.
const THREADS_MAX: i64 = 6;

/// Starts that are checked after the limit was lowered to one.
const AFTERWARDS: usize = 100;

/// Two pools, one of them stopped, with a rate and a gate before the first.
fn prepare(api: &mut Api) {
    let queue = json!({"max_len": 100_000, "max_delay": "1h"});
    for (path, body) in [
        ("/v1/pools/work", json!({"priority": [1, 50], "threads": {"max": 4}, "queue": queue})),
        ("/v1/pools/later", json!({"priority": [51, 99], "threads": {"max": 1}, "queue": queue})),
        ("/v1/rules/10", json!({"match": {"task": "busy"}, "set": 5, "then": "stop"})),
        ("/v1/rules/20", json!({"match": {"task": "patient"}, "set": 60, "then": "stop"})),
        (
            "/v1/checkpoints/pace",
            json!({"at": "frontend api", "number": 1, "rate": "2000/s",
            "burst": 100, "when": "task == \"busy\"", "queue": queue}),
        ),
        ("/v1/checkpoints/gate-0", gate(12)),
    ] {
        let _ = api.call("PUT", path, &body).expect(201);
    }
    let _ = api.call("POST", "/v1/pools/work/start", &json!({})).expect(200);
}

/// A checkpoint that admits some of the busy requests at a time, more than the pool has threads for.
fn gate(concurrency: u32) -> Value {
    json!({"at": "frontend api", "number": 2, "concurrency": concurrency,
        "when": "task == \"busy\"", "queue": {"max_len": 100_000, "max_delay": "1h"}})
}

/// One edit after another, each of a different kind, through both doors.
struct Editor {
    api: Api,
    ovsdb: Client,
    gate: usize,
}

impl Editor {
    fn edit(&mut self, number: usize) {
        let step = number / 7;
        match number % 7 {
            0 => self.patch("/v1/pools/work", &json!({"threads": {"max": 3 + step % 4}})),
            1 => {
                let name = format!("gate-{}", self.gate);
                self.update("Checkpoint", &name, &json!({"concurrency": 8 + step % 8}));
            }
            2 => self.rename_in_one(),
            3 => self.rename_in_two(),
            4 => {
                let rate = ["300/s", "5000/s", "1000/s"][step % 3];
                self.patch("/v1/checkpoints/pace", &json!({"rate": rate}));
            }
            5 => {
                let _ = self.api.call("POST", "/v1/pools/work/stop", &json!({})).expect(200);
                self.let_line_form();
                self.update("Pool", "work", &json!({"state": "started"}));
            }
            _ => {
                // The stopped pool is changed, too; its waiters must not be affected.
                self.patch("/v1/pools/later", &json!({"threads": {"max": 1 + step % 5}}));
                self.patch("/v1/rules/20", &json!({"set": 51 + step % 40}));
            }
        }
    }

    /// Waits until more requests wait for the stopped pool than it ever has threads, so that all of its threads are
    /// taken at once when it is started.
    fn let_line_form(&mut self) {
        let in_line =
            |request: &&Value| request["pool"] == "work" && request["waits_for"]["kind"] == "start";
        loop {
            let requests = self.api.get("/v1/requests").expect(200);
            let line = requests.as_array().unwrap().iter().filter(in_line).count();
            if line as i64 > THREADS_MAX {
                return;
            }
        }
    }

    fn patch(&mut self, path: &str, body: &Value) {
        let _ = self.api.call("PATCH", path, body).expect(200);
    }

    fn update(&mut self, table: &str, name: &str, row: &Value) {
        let update = json!({"op": "update", "table": table, "where": [["name", "==", name]],
            "row": row});
        let result = self.ovsdb.call("transact", &json!(["Paceline", update])).unwrap();
        assert_eq!(result, json!([{"count": 1}]));
    }

    /// Replaces the old gate with a new one in one transaction.
    fn rename_in_one(&mut self) {
        let (old, new) = (self.next_gate(), format!("gate-{}", self.gate));
        let delete = json!({"op": "delete", "table": "Checkpoint", "where": [["name", "==", old]]});
        let insert = json!({"op": "insert", "table": "Checkpoint", "row": {"name": new,
            "at": "frontend api", "number": 2, "concurrency": 10, "when": "task == \"busy\"",
            "queue_max_len": 100_000, "queue_max_delay": "1h"}});
        let result = self.ovsdb.call("transact", &json!(["Paceline", delete, insert])).unwrap();
        assert_eq!(result[0], json!({"count": 1}), "{result}");
        assert!(result[1]["uuid"].is_array(), "{result}");
    }

    /// Creates a new gate, and then deletes the old one.
    fn rename_in_two(&mut self) {
        let (old, new) = (self.next_gate(), format!("gate-{}", self.gate));
        let _ = self.api.call("PUT", &format!("/v1/checkpoints/{new}"), &gate(14)).expect(201);
        let _ = self.api.delete(&format!("/v1/checkpoints/{old}")).expect(204);
    }

    fn next_gate(&mut self) -> String {
        self.gate += 1;
        format!("gate-{}", self.gate - 1)
    }

    /// Lowers the limit to one thread, and causes a refusal event after that edit.
    fn lower_to_one(&mut self) {
        self.patch("/v1/pools/work", &json!({"threads": {"max": 1}}));
        let nowhere = json!({"claims": [{"resource": "nowhere"}]});
        let refused = self.api.call("POST", "/v1/permits", &nowhere).expect(409);
        assert_eq!(refused["reason"], "unknown_resource");
    }
}

/// Counts running requests until enough requests have started after the limit was lowered to one.
fn watch(mut events: Events, running_max: &AtomicI64) {
    let (mut running, mut is_lowered, mut is_drained, mut afterwards) = (0, false, false, 0);
    while afterwards < AFTERWARDS {
        match events.event() {
            (name, _) if name == "started" => {
                running += 1;
                afterwards += usize::from(is_drained);
            }
            (name, data) if name == "settled" => running -= i64::from(data["left"] != true),
            // Only the editor's own request is refused.
            (name, _) if name == "refused" => is_lowered = true,
            (name, data) if name == "missed" => panic!("events are missing: {data}"),
            _ => {}
        }
        is_drained |= is_lowered && running <= 1;
        running_max.fetch_max(running, Ordering::Relaxed);
        assert!(running <= if is_drained { 1 } else { THREADS_MAX }, "{running} run");
    }
}

/// Sends requests until `is_over` is set; returns how many were admitted.
fn busy(daemon: &Daemon, is_over: &AtomicBool) -> usize {
    let mut api = daemon.api();
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let permit = api.call("POST", "/v1/permits", &json!({"attributes": {"task": "busy"}}));
        let permit = permit.expect(201);
        assert_eq!(permit["pool"], "work");
        let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
        let _ = api.delete(&path).expect(204);
        count += 1;
    }
    assert_eq!(String::from_utf8_lossy(&api.rest()), "", "one answer to each request");
    count
}

/// Clients that wait for the stopped pool, in order of arrival.
fn stand_in_line(daemon: &Daemon) -> Vec<Api> {
    let mut events = daemon.api().follow();
    let stand = |_| {
        let mut api = daemon.api();
        api.send("POST", "/v1/permits", Some(r#"{"attributes": {"task": "patient"}}"#));
        events.next_of("waiting");
        api
    };
    (0..PATIENT).map(stand).collect()
}

/// Admits them one by one; returns the times of admission.
fn let_through(daemon: &Daemon, line: Vec<Api>) -> Vec<i64> {
    let mut api = daemon.api();
    let one = json!({"threads": {"max": 1}});
    let _ = api.call("PATCH", "/v1/pools/later", &one).expect(200);
    let _ = api.call("POST", "/v1/pools/later/start", &json!({})).expect(200);
    let through = |mut waiter: Api| {
        let permit = waiter.answer().expect(201);
        assert_eq!(permit["pool"], "later");
        let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
        let _ = waiter.delete(&path).expect(204);
        assert_eq!(String::from_utf8_lossy(&waiter.rest()), "", "one answer to each request");
        micros(&permit["granted_at"])
    };
    thread::scope(|scope| {
        let waiters: Vec<_> =
            line.into_iter().map(|waiter| scope.spawn(move || through(waiter))).collect();
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect()
    })
}

#[test]
fn edits_under_load_lose_nobody_and_let_nobody_in_above_the_limit_p1() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    prepare(&mut daemon.api());
    let line = stand_in_line(&daemon);
    let (is_over, running_max) = (AtomicBool::new(false), AtomicI64::new(0));
    let granted = AtomicUsize::new(0);
    thread::scope(|scope| {
        let events = daemon.api().follow();
        let watcher = scope.spawn(|| watch(events, &running_max));
        for _ in 0..BUSY {
            scope.spawn(|| granted.fetch_add(busy(&daemon, &is_over), Ordering::Relaxed));
        }
        let mut editor = Editor { api: daemon.api(), ovsdb: daemon.connect(), gate: 0 };
        (0..EDITS).for_each(|number| editor.edit(number));
        editor.lower_to_one();
        let watched = watcher.join();
        is_over.store(true, Ordering::Relaxed);
        watched.unwrap();
    });
    let (granted, running) = (granted.into_inner(), running_max.into_inner());
    assert!(granted > BUSY, "no load: {granted} grants");
    assert_eq!(running, THREADS_MAX, "the limit was never reached");

    let times = let_through(&daemon, line);
    assert!(times.is_sorted(), "the line keeps its order: {times:?}");
    let mut api = daemon.api();
    assert_eq!(api.get("/v1/permits").expect(200), json!([]));
    assert_eq!(api.get("/v1/requests").expect(200), json!([]));
}
