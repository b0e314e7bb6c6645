//! What clients hold when the daemon ends is still theirs in the next run (P3, L5, C4), and SIGTERM drains.

use paceline_tests::api::{ANSWER_TIMEOUT, Answer};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

const CONFIG: &str = r#"
[[checkpoint]]
name = "few"
at = "frontend api"
when = 'task == "few"'
concurrency = 3
queue = { max_len = 100, max_delay = "1m" }

[[resource]]
name = "disk:a"

[[resource]]
name = "disk:b"

[[resource]]
name = "pool:tank"
parents = ["disk:a", "disk:b"]
"#;

fn launch(scratch: &Scratch) -> Launch {
    let file = scratch.path().join("paceline.toml");
    std::fs::write(&file, CONFIG).unwrap();
    Launch::new(scratch).option("--config", file)
}

fn claim(resource: &str) -> Value {
    json!({"claims": [{"resource": resource}], "max_wait": "0s", "lease": "20s"})
}

#[test]
fn what_is_held_is_held_after_kill_9_and_given_back_once_p3() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let tank = api.call("POST", "/v1/permits", &claim("pool:tank")).expect(201);
    let few = json!({"attributes": {"task": "few"}, "max_wait": "0s"});
    let counted: Vec<Value> =
        (0..3).map(|_| api.call("POST", "/v1/permits", &few).expect(201)).collect();
    let named = api.call("PUT", "/v1/permits/nightly", &claim("disk:x").clone());
    assert_eq!(named.status, 409, "there is no such resource: {}", named.text);
    let gone = api.call("POST", "/v1/permits", &json!({})).expect(201);
    let _ = api.delete(&path(&gone)).expect(204);
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let held = api.get("/v1/permits").expect(200);
    let names = |list: &[Value]| -> Vec<String> {
        let mut names: Vec<String> =
            list.iter().map(|permit| permit["permit"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let mut before = counted.clone();
    before.push(tank.clone());
    assert_eq!(names(held.as_array().unwrap()), names(&before), "held, and nothing else is");
    let again = held.as_array().unwrap().iter().find(|p| p["permit"] == tank["permit"]).unwrap();
    for member in ["request", "priority", "pool", "granted_at", "waited", "user"] {
        assert_eq!(again[member], tank[member], "{member}");
    }
    for resource in ["pool:tank", "disk:a", "disk:b"] {
        let refused = api.call("POST", "/v1/permits", &claim(resource));
        assert_eq!((refused.status, refused.body["reason"].as_str()), (503, Some("expired")));
    }
    assert_eq!(api.call("POST", "/v1/permits", &few).status, 503, "all three counts are held");
    let tree = api.get("/v1/tree").expect(200);
    let holders = |name: &str| {
        let node = tree.as_array().unwrap().iter().find(|node| node["name"] == name).unwrap();
        node["holders"].clone()
    };
    assert_eq!(holders("pool:tank"), json!([tank["request"]]));
    // Renewing and releasing work as before.
    let _ = api.call("POST", &format!("{}/renew", path(&tank)), &json!({})).expect(200);
    let _ = api.delete(&path(&tank)).expect(204);
    let disk = api.call("POST", "/v1/permits", &claim("disk:a")).expect(201);
    assert!(disk["request"].as_u64() > tank["request"].as_u64(), "numbers are not used again");
    let _ = api.delete(&path(&counted[0])).expect(204);
    let _ = api.call("POST", "/v1/permits", &few).expect(201);
    assert_eq!(api.call("POST", "/v1/permits", &few).status, 503, "one was given back, not two");
    daemon.kill();
    let daemon = launch.start().unwrap();
    let held = daemon.api().get("/v1/permits").expect(200);
    let held = names(held.as_array().unwrap());
    assert!(!held.contains(&tank["permit"].as_str().unwrap().to_owned()), "given back for good");
    assert_eq!(held.len(), 4);
}

fn path(permit: &Value) -> String {
    format!("/v1/permits/{}", permit["permit"].as_str().unwrap())
}

/// Clients compete for two disks and the pool above them, under ids of their own, while the daemon is killed
/// repeatedly: each records what it was granted, and no two ever hold the same.
#[test]
fn under_load_and_kill_9_nothing_is_granted_twice_p3() {
    const CLIENTS: usize = 6;
    const ROUNDS: usize = 4;
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = Mutex::new(Some(launch.start().unwrap()));
    let socket = daemon.lock().unwrap().as_ref().unwrap().data().join("api.sock");
    // The holder of each disk; the holder of the pool holds both.
    let disks = [const { AtomicUsize::new(0) }; 2];
    let (stop, grants) = (AtomicBool::new(false), AtomicUsize::new(0));
    let up = Barrier::new(CLIENTS + 1);
    thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let (socket, disks, stop, grants, up) = (&socket, &disks, &stop, &grants, &up);
            scope.spawn(move || {
                let mine: &[usize] = [&[0][..], &[1], &[0, 1]][client % 3];
                let resource = ["disk:a", "disk:b", "pool:tank"][client % 3];
                let body = json!({"claims": [{"resource": resource}], "lease": "1m"});
                let mut api = Some(Api::unix(socket));
                let mut turn = 0;
                while !stop.load(Ordering::SeqCst) {
                    turn += 1;
                    let path = format!("/v1/permits/c{client}-{turn}");
                    // An unanswered request is repeated after the daemon is back.
                    let status = retry(socket, &mut api, up, stop, |api| {
                        api.try_send("PUT", &path, Some(&body.to_string()))
                            .map_err(|error| error.to_string())?;
                        api.try_answer()
                    });
                    match status {
                        Some(200 | 201) => {}
                        None => return,
                        other => panic!("{other:?}"),
                    }
                    grants.fetch_add(1, Ordering::SeqCst);
                    for disk in mine {
                        let before = disks[*disk].swap(client, Ordering::SeqCst);
                        assert_eq!(before, 0, "{client} was given disk {disk} of {before}");
                    }
                    for disk in mine {
                        assert_eq!(disks[*disk].swap(0, Ordering::SeqCst), client);
                    }
                    let status = retry(socket, &mut api, up, stop, |api| {
                        api.try_send("DELETE", &path, None).map_err(|error| error.to_string())?;
                        api.try_answer()
                    });
                    // The unanswered attempt may already have released it.
                    assert!(matches!(status, None | Some(204 | 404)), "{status:?}");
                }
            });
        }
        for round in 0..ROUNDS {
            let enough = (round + 1) * 200;
            until("grants", || grants.load(Ordering::SeqCst) >= enough);
            daemon.lock().unwrap().take().unwrap().kill();
            *daemon.lock().unwrap() = Some(launch.start().unwrap());
            if round + 1 == ROUNDS {
                stop.store(true, Ordering::SeqCst);
            }
            up.wait();
        }
    });
    let mut api = daemon.lock().unwrap().as_ref().unwrap().api();
    let held = api.get("/v1/permits").expect(200);
    for permit in held.as_array().unwrap() {
        let _ = api.delete(&path(permit)).expect(204);
    }
    let tank = api.call("POST", "/v1/permits", &claim("pool:tank"));
    assert_eq!(tank.status, 201, "everything was given back: {}", tank.text);
}

/// Repeats a request until there is a response; none if the test is over.
fn retry(
    socket: &std::path::Path,
    api: &mut Option<Api>,
    up: &Barrier,
    stop: &AtomicBool,
    mut ask: impl FnMut(&mut Api) -> Result<Answer, String>,
) -> Option<u16> {
    loop {
        if let Some(open) = api
            && let Ok(answer) = ask(open)
        {
            return Some(answer.status);
        }
        // The daemon was killed: all clients wait until it is up again.
        up.wait();
        *api = Some(Api::unix(socket));
        if stop.load(Ordering::SeqCst) {
            return None;
        }
    }
}

#[test]
fn leased_locks_survive_the_daemon_l5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let begin = |api: &mut Api, body: &Value| -> String {
        let session = api.call("POST", "/v1/sessions", body).expect(201);
        session["session"].as_str().unwrap().to_owned()
    };
    let leased = begin(&mut api, &json!({"name": "a", "lease": "20s"}));
    let bound = begin(&mut api, &json!({"name": "b", "bound": true}));
    let lock = |api: &mut Api, name: &str, session: &str| {
        api.call("PUT", &format!("/v1/locks/{name}"), &json!({"session": session}))
    };
    let leader = lock(&mut api, "leader", &leased).expect(200)["fencing"].as_u64().unwrap();
    let _ = lock(&mut api, "given_back", &leased).expect(200);
    let _ = api.delete(&format!("/v1/locks/given_back?session={leased}")).expect(204);
    let _ = lock(&mut api, "bound", &bound).expect(200);
    let mut ovsdb = paceline_tests::Client::connect(&daemon.data().join("ovsdb.sock")).unwrap();
    ovsdb.call("lock", &json!(["plain"])).unwrap();
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let shown = api.get("/v1/locks").expect(200);
    let names: Vec<&str> =
        shown.as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bound", "leader"], "a bound one as long as its process lives: {shown}");
    assert_eq!(shown[1]["fencing"], json!(leader));
    let other = begin(&mut api, &json!({"name": "c"}));
    assert_eq!(lock(&mut api, "leader", &other).status, 409, "somebody has it");
    let _ = api.call("POST", &format!("/v1/sessions/{leased}/renew"), &json!({})).expect(200);
    let _ = api.delete(&format!("/v1/locks/leader?session={leased}")).expect(204);
    let next = lock(&mut api, "leader", &other).expect(200)["fencing"].as_u64().unwrap();
    assert!(next > leader, "fencing numbers grow: {next} after {leader}");
    daemon.kill();
    let daemon = launch.start().unwrap();
    let shown = daemon.api().get("/v1/locks/leader").expect(200);
    assert_eq!(shown["fencing"], json!(next), "the last grant counts");
}

/// The owner of a lock when the daemon is killed still owns it afterwards, however it got the lock.
#[test]
fn a_lock_that_was_stolen_and_regained_is_kept_l5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let mut begin = |name: &str| -> String {
        let session = api.call("POST", "/v1/sessions", &json!({"name": name})).expect(201);
        session["session"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (begin("ann"), begin("bob"));
    let path = "/v1/locks/leader";
    let _ = api.call("PUT", path, &json!({"session": ann})).expect(200);
    let stolen = api.call("PUT", path, &json!({"session": bob, "steal": true})).expect(200);
    let _ = api.delete(&format!("{path}?session={bob}")).expect(204);
    let regained = api.get(path).expect(200);
    assert!(regained["owner"].as_str().unwrap().starts_with("ann"), "{regained}");
    assert!(regained["fencing"].as_u64() > stolen["fencing"].as_u64());
    // A client of another door also steals a lock, and is gone with the daemon.
    let _ = api.call("PUT", "/v1/locks/other", &json!({"session": ann})).expect(200);
    let mut ovsdb = paceline_tests::Client::connect(&daemon.data().join("ovsdb.sock")).unwrap();
    ovsdb.call("steal", &json!(["other"])).unwrap();
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let shown = api.get("/v1/locks").expect(200);
    assert_eq!(shown.as_array().unwrap().len(), 1, "who was robbed is not the owner: {shown}");
    for member in ["owner", "fencing"] {
        assert_eq!(shown[0][member], regained[member], "{member}");
    }
}

#[test]
fn a_start_that_fails_loses_nothing_p3() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let held = api.call("POST", "/v1/permits", &claim("disk:a")).expect(201);
    let session = api.call("POST", "/v1/sessions", &json!({"name": "a"})).expect(201);
    let session = json!({"session": session["session"]});
    let _ = api.call("PUT", "/v1/locks/leader", &session).expect(200);
    daemon.kill();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let failed = launch.clone().api(&address).start().unwrap_err();
    assert!(failed.log.contains("the address is taken"), "{}", failed.log);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    assert_eq!(api.get(&path(&held)).expect(200)["permit"], held["permit"]);
    assert_eq!(api.get("/v1/locks").expect(200)[0]["name"], "leader");
}

/// A holder keeps what it holds, whatever happens to the resources, before and after a restart.
#[test]
fn claims_follow_the_resources_c1_p3() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let mut ovsdb = paceline_tests::Client::connect(&daemon.data().join("ovsdb.sock")).unwrap();
    let put = |api: &mut Api, name: &str, parents: &[&str], persistent: bool| {
        let body = json!({"parents": parents, "persistent": persistent});
        let put = api.call("PUT", &format!("/v1/resources/{name}"), &body);
        assert!(put.status < 300, "{}", put.text);
    };
    for name in ["renamed", "whole", "other"] {
        put(&mut api, name, &[], true);
    }
    put(&mut api, "part", &["whole"], true);
    put(&mut api, "passing", &[], false);
    put(&mut api, "lasting", &["passing"], true);
    for name in ["renamed", "whole", "passing"] {
        let _ = api.call("POST", "/v1/permits", &claim(name)).expect(201);
    }
    let rename = json!(["Paceline", {"op": "update", "table": "Resource",
        "where": [["name", "==", "renamed"]], "row": {"name": "called-otherwise"}}]);
    ovsdb.call("transact", &rename).unwrap();
    put(&mut api, "part", &["other"], true);
    let held = ["called-otherwise", "whole", "part", "lasting"];
    for name in held {
        let refused = api.call("POST", "/v1/permits", &claim(name));
        assert_eq!(refused.status, 503, "before: {name}: {}", refused.text);
    }
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    assert_eq!(api.get("/v1/resources/passing").status, 404, "transient ones are gone");
    for name in held {
        let refused = api.call("POST", "/v1/permits", &claim(name));
        assert_eq!(refused.status, 503, "after: {name}: {}", refused.text);
    }
    for permit in api.get("/v1/permits").expect(200).as_array().unwrap() {
        let _ = api.delete(&path(permit)).expect(204);
    }
    for name in held {
        let _ = api.call("POST", "/v1/permits", &claim(name)).expect(201);
    }
}

#[test]
fn a_claim_is_held_until_its_processes_are_dead_c4() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut holder = Command::new(paceline_binary())
        .args(["permit", "--data"])
        .arg(daemon.data())
        .args(["--claim", "pool:tank", "--", "sh", "-c", "echo $$; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let command = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    wait_for_processes(&daemon, 2);
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    assert_eq!(api.call("POST", "/v1/permits", &claim("disk:a")).status, 503, "both live");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(api.call("POST", "/v1/permits", &claim("disk:a")).status, 503, "the command lives");
    let mut waiter = daemon.api();
    let patient = json!({"claims": [{"resource": "disk:a"}], "max_wait": "50s"});
    waiter.send("POST", "/v1/permits", Some(&patient.to_string()));
    kill_process(command, Signal::KILL).unwrap();
    let _ = waiter.answer().expect(201);
}

/// Waits until the only session is bound to `count` processes.
fn wait_for_processes(daemon: &Daemon, count: usize) {
    let mut client = paceline_tests::Client::connect(&daemon.data().join("ovsdb.sock")).unwrap();
    let select = json!(["Paceline", {"op": "select", "table": "Session", "where": [],
        "columns": ["processes"]}]);
    until("processes", || {
        let rows = client.call("transact", &select).unwrap();
        let processes = &rows[0]["rows"][0]["processes"];
        !processes.is_null() && processes[1].as_array().map_or(1, Vec::len) >= count
    });
}

/// Waits until a condition holds, at most for the timeout of a response.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + ANSWER_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "no {what} in time");
        thread::yield_now();
    }
}

#[test]
fn sigterm_lets_what_waits_go_on_and_takes_nothing_new() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let first = api.call("POST", "/v1/permits", &claim("disk:a")).expect(201);
    let mut waiter = daemon.api();
    let patient = json!({"claims": [{"resource": "disk:a"}], "max_wait": "50s", "lease": "20s"});
    waiter.send("POST", "/v1/permits", Some(&patient.to_string()));
    until("a second request", || {
        api.get("/v1/requests").expect(200).as_array().unwrap().len() >= 2
    });
    daemon.signal(Signal::TERM);
    until("draining", || api.get("/healthz").status != 200);
    let refused = api.call("POST", "/v1/permits", &claim("disk:b"));
    assert_eq!((refused.status, refused.body["reason"].as_str()), (503, Some("draining")));
    let _ = api.delete(&path(&first)).expect(204);
    let second = waiter.answer().expect(201);
    let ended = daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let held = api.get("/v1/permits").expect(200);
    assert_eq!(held.as_array().unwrap().len(), 1);
    assert_eq!(held[0]["permit"], second["permit"], "what was given last is held");
    let next = api.call("POST", "/v1/permits", &json!({})).expect(201);
    let last = second["request"].as_u64().unwrap();
    // One was refused in between.
    assert!(next["request"].as_u64().unwrap() <= last + 2, "no numbers are skipped");
}

/// The command line waits in a session that is bound to its own connection.
#[test]
fn a_command_that_waits_is_run_when_the_daemon_drains() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let first = api.call("POST", "/v1/permits", &claim("disk:a")).expect(201);
    let waiter = Command::new(paceline_binary())
        .args(["permit", "--data"])
        .arg(daemon.data())
        .args(["--claim", "disk:a", "--", "echo", "ran"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a second request", || {
        api.get("/v1/requests").expect(200).as_array().unwrap().len() >= 2
    });
    daemon.signal(Signal::TERM);
    until("draining", || api.get("/healthz").status != 200);
    let _ = api.delete(&path(&first)).expect(204);
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(daemon.wait().status.success());
}

#[test]
fn what_still_waits_when_the_time_is_up_is_turned_away() {
    let scratch = Scratch::new();
    let launch = launch(&scratch).option("--drain-max", "1ms");
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let _ = api.call("POST", "/v1/permits", &claim("disk:a")).expect(201);
    let mut waiter = daemon.api();
    let patient = json!({"claims": [{"resource": "disk:a"}], "max_wait": "50s"});
    waiter.send("POST", "/v1/permits", Some(&patient.to_string()));
    until("a second request", || {
        api.get("/v1/requests").expect(200).as_array().unwrap().len() >= 2
    });
    daemon.signal(Signal::TERM);
    let answer = waiter.answer();
    assert_eq!((answer.status, answer.body["reason"].as_str()), (503, Some("draining")));
    assert!(daemon.wait().status.success());
}

#[test]
fn once_spends_and_holds_nothing() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).start().unwrap();
    let mut api = daemon.api();
    let once = json!({"attributes": {"task": "few"}, "once": true, "max_wait": "0s"});
    for _ in 0..10 {
        let answer = api.call("POST", "/v1/permits", &once).expect(200);
        assert!(answer.get("permit").is_none(), "{answer}");
        assert!(answer["request"].as_u64() > Some(0), "{answer}");
    }
    assert_eq!(api.get("/v1/permits").expect(200), json!([]));
    let refused = api.call("PUT", "/v1/permits/x", &once);
    assert_eq!(refused.status, 400, "{}", refused.text);
}
