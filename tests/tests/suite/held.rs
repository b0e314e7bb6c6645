//! What is held is decided in one place, and written from there: clients that disconnect during a grant, tokens that
//! expire, roles that change, resources that are renamed, and disks that are full. Each test then kills or stops the
//! daemon.

use paceline_tests::caller::Caller;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const CONFIG: &str = "[[resource]]\nname = \"a\"\n";

fn launch(scratch: &Scratch) -> Launch {
    Launch::new(scratch).option("--config", scratch.write("paceline.toml", CONFIG))
}

fn claim(resource: &str) -> Value {
    json!({"claims": [{"resource": resource}], "lease": "1h"})
}

fn path(permit: &Value) -> String {
    format!("/v1/permits/{}", permit["permit"].as_str().unwrap())
}

/// A session that lasts longer than the test.
fn begin_session(api: &mut Api) -> String {
    let session = api.call("POST", "/v1/sessions", &json!({"lease": "1h"})).expect(201);
    session["session"].as_str().unwrap().to_owned()
}

/// How many requests wait.
fn waiting(api: &mut Api) -> usize {
    let requests = api.get("/v1/requests").expect(200);
    let requests = requests["requests"].as_array().or(requests.as_array()).unwrap().clone();
    requests.iter().filter(|request| request["state"] == "waiting").count()
}

fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

/// The owner and the fencing number of each lock.
fn owners(daemon: &Daemon) -> BTreeMap<String, (Value, Value)> {
    let locks = daemon.api().get("/v1/locks").expect(200);
    let locks = locks.as_array().or_else(|| locks["locks"].as_array()).unwrap().clone();
    let owner = |lock: &Value| {
        let name = lock["name"].as_str().unwrap().to_owned();
        (name, (lock["owner"].clone(), lock["fencing"].clone()))
    };
    locks.iter().map(owner).filter(|(_, (owner, _))| !owner.is_null()).collect()
}

/// Two clients wait for one permit. The token of the first one expires before the grant (D4).
#[test]
fn a_token_that_expires_leaves_the_permit_to_the_next_one_d4() {
    let scratch = Scratch::new();
    let daemon = launch(&scratch).api("127.0.0.1:0").start().unwrap();
    let mut api = daemon.api();
    let held = api.call("POST", "/v1/permits", &claim("a")).expect(201);
    let token = json!({"name": "short", "role": "client", "user": "same", "expires": "1s"});
    let short = api.call("POST", "/v1/tokens", &token).expect(201);
    let token = json!({"name": "long", "role": "client", "user": "same"});
    let long = api.call("POST", "/v1/tokens", &token).expect(201);
    let connect = |token: &Value| Api::tcp(daemon.api_address(), token["token"].as_str());
    let (mut first, mut second) = (connect(&short), connect(&long));
    first.send("PUT", "/v1/permits/x", Some(&claim("a").to_string()));
    until(|| waiting(&mut api) == 1);
    second.send("PUT", "/v1/permits/x", Some(&claim("a").to_string()));
    until(|| connect(&short).get("/v1/whoami").status == 401);
    assert_eq!(waiting(&mut api), 1, "one request for both");
    let _ = api.delete(&path(&held)).expect(204);
    assert_eq!(first.answer().status, 401);
    let permit = second.answer().expect(201);
    assert_eq!(api.get("/v1/permits/x").expect(200)["request"], permit["request"]);
}

/// A waiter is granted a resource that was renamed while it waited (C1).
#[test]
fn a_claim_that_was_renamed_is_held_after_kill_9_c1_p3() {
    let scratch = Scratch::new();
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let daemon = Launch::new(&scratch).option("--ovsdb", socket).start().unwrap();
    let mut api = daemon.api();
    let _ = api.call("PUT", "/v1/resources/a", &json!({"persistent": true})).expect(201);
    let held = api.call("POST", "/v1/permits", &claim("a")).expect(201);
    let mut other = daemon.api();
    other.send("POST", "/v1/permits", Some(&claim("a").to_string()));
    until(|| waiting(&mut api) == 1);
    let rename = json!(["Paceline", {"op": "update", "table": "Resource", "row": {"name": "b"},
        "where": [["name", "==", "a"]]}]);
    assert_eq!(daemon.connect().call("transact", &rename).unwrap(), json!([{"count": 1}]));
    let _ = api.delete(&path(&held)).expect(204);
    let _ = other.answer().expect(201);
    daemon.kill();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut want = claim("b");
    want["max_wait"] = "0s".into();
    let refused = daemon.api().call("POST", "/v1/permits", &want);
    assert_eq!((refused.status, refused.body["reason"].as_str()), (503, Some("expired")));
}

/// Waiters for a lock disconnect just as they get it. Whichever happens first, the lock has the same owner after a
/// kill as before (L5).
#[test]
fn a_waiter_that_leaves_as_it_is_granted_owns_nothing_after_kill_9_l5() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let (owner, waiter) = (begin_session(&mut api), begin_session(&mut api));
    let ask = json!({"session": waiter, "wait": "1m"}).to_string();
    let mut told = BTreeSet::new();
    for number in 0..60 {
        let lock = format!("/v1/locks/l{number}");
        let _ = api.call("PUT", &lock, &json!({"session": owner})).expect(200);
        let mut waits = daemon.api();
        waits.send("PUT", &lock, Some(&ask));
        until(|| api.get(&lock).expect(200)["waiters"] != json!([]));
        api.send("DELETE", &format!("{lock}?session={owner}"), None);
        // It closes only its sending side, so it still reads a response that was sent before.
        if waits.rest().starts_with(b"HTTP/1.1 200") {
            told.insert(format!("l{number}"));
        }
        assert_eq!(api.answer().status, 204);
    }
    // Clients that got no response have released what they were granted.
    until(|| owners(&daemon).into_keys().collect::<BTreeSet<_>>() == told);
    // This request is written after all of these releases.
    let _ = api.call("PUT", "/v1/locks/last", &json!({"session": owner})).expect(200);
    let before = owners(&daemon);
    daemon.kill();
    let daemon = Launch::new(&scratch).start().unwrap();
    assert_eq!(owners(&daemon), before);
}

/// A session leaves a queue, and owns the lock through a later request before the first request notices. The first
/// request then releases nothing that is not its own (L1).
#[test]
fn a_place_in_line_that_was_given_up_takes_no_later_lock_along_l1() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let [first, second, third] = [(); 3].map(|()| begin_session(&mut api));
    for number in 0..20 {
        let lock = format!("/v1/locks/l{number}");
        let _ = api.call("PUT", &lock, &json!({"session": first})).expect(200);
        let mut waits = daemon.api();
        let ask = json!({"session": second, "wait": "1m"}).to_string();
        waits.send("PUT", &lock, Some(&ask));
        until(|| api.get(&lock).expect(200)["waiters"] != json!([]));
        let mut other = daemon.api();
        other.send("DELETE", &format!("{lock}?session={second}"), None);
        other.send("DELETE", &format!("{lock}?session={first}"), None);
        other.send("PUT", &lock, Some(&json!({"session": second}).to_string()));
        assert_eq!([other.answer().status, other.answer().status], [204, 204]);
        let _ = other.answer().expect(200);
        assert_eq!(waits.answer().status, 409, "it gave its place up");
        let taken = api.call("PUT", &lock, &json!({"session": third}));
        assert_eq!(taken.status, 409, "{}", taken.text);
    }
}

/// A full disk: the response to a release says that it is not written. It is written when there is room, so that
/// nothing is held again in the next run (J5).
#[test]
fn what_is_given_back_on_a_full_disk_stays_given_back_j5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let key = begin_session(&mut api);
    let permits: Vec<Value> = (0..20)
        .map(|_| api.call("POST", "/v1/permits", &json!({"lease": "1h"})).expect(201))
        .collect();
    let lock = json!({"session": key});
    let _ = api.call("PUT", "/v1/locks/leader", &lock).expect(200);
    let size = std::fs::metadata(daemon.data().join("paceline.db")).unwrap().len();
    daemon.limit_file_size(Some(size));
    for permit in &permits {
        let released = api.delete(&path(permit)).expect(200);
        assert_eq!(released, json!({"released": true, "written": false}));
    }
    let _ = api.delete(&format!("/v1/locks/leader?session={key}")).expect(200);
    assert_eq!(api.get("/v1/permits").expect(200), json!([]));
    let refused = api.call("POST", "/v1/permits", &json!({}));
    assert!([500, 507].contains(&refused.status), "{}", refused.text);
    daemon.limit_file_size(None);
    let ended = daemon.terminate();
    assert!(ended.status.success(), "{}", ended.log);
    let told = ended
        .log
        .lines()
        .filter(|line| line.contains("cannot write sessions, locks and permits to disk"));
    assert_eq!(told.count(), 1, "one line, however many were refused: {}", ended.log);
    let daemon = launch.start().unwrap();
    assert_eq!(daemon.api().get("/v1/permits").expect(200), json!([]));
    assert!(owners(&daemon).is_empty());
}

/// When the disk has room again, the release is written without any further request (J5).
#[test]
fn what_could_not_be_written_is_tried_again_by_itself_j5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let permit = api.call("POST", "/v1/permits", &claim("a")).expect(201);
    let file = daemon.data().join("paceline.db");
    let size = || std::fs::metadata(&file).unwrap().len();
    daemon.limit_file_size(Some(size()));
    let _ = api.delete(&path(&permit)).expect(200);
    daemon.limit_file_size(None);
    daemon.log_line(&["writing sessions, locks and permits to disk works again"]).unwrap();
    daemon.kill();
    assert_eq!(launch.start().unwrap().api().get("/v1/permits").expect(200), json!([]));
}

/// A daemon that stops cleanly while its disk is full reports how many released rows it could not write, and the next
/// run holds them (J5).
#[test]
fn an_end_on_a_full_disk_says_what_is_not_written_j5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    let permits = [(); 3].map(|()| api.call("POST", "/v1/permits", &json!({"lease": "1h"})));
    let permits = permits.map(|permit| permit.expect(201));
    let size = std::fs::metadata(daemon.data().join("paceline.db")).unwrap().len();
    daemon.limit_file_size(Some(size));
    for permit in &permits[..2] {
        let _ = api.delete(&path(permit)).expect(200);
    }
    let ended = daemon.terminate();
    let told = |line: &&str| line.contains("cannot write the last releases");
    let told: Vec<&str> = ended.log.lines().filter(told).collect();
    assert!(matches!(told[..], [line] if line.contains("rows=2")), "{}", ended.log);
    let held = launch.start().unwrap().api().get("/v1/permits").expect(200);
    assert_eq!(held.as_array().unwrap().len(), 3);
}

/// A changed role of a user does not end what its processes hold, unless the new role may hold nothing.
#[test]
fn a_role_that_changes_ends_nothing_that_it_may_hold() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let daemon = launch(&scratch).option("--socket-mode", "666").start().unwrap();
    let mut api = daemon.api();
    let name = "nobody";
    let uid = 65_534;
    let path = format!("/v1/users/{name}");
    let user = |role: &str| json!({"role": role});
    let _ = api.call("PUT", &path, &user("client")).expect(201);
    let socket = daemon.data().join("api.sock");
    let caller = Caller::User(socket.clone(), uid);
    let (status, who) = caller.ask("GET", "/v1/whoami", None);
    assert_eq!((status, who["role"].as_str()), (200, Some("client")));
    let mut holder = std::process::Command::new(paceline_tests::server::paceline_binary());
    {
        use std::os::unix::process::CommandExt as _;
        holder.uid(uid).gid(uid).current_dir("/");
    }
    holder.env("PACELINE_DATA", daemon.data());
    holder.args(["permit", "--claim", "a", "--", "cat"]);
    holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut holder = holder.spawn().unwrap();
    let held = |api: &mut Api| api.get("/v1/permits").expect(200).as_array().unwrap().len();
    until(|| held(&mut api) == 1);
    for role in ["operator", "operator", "client"] {
        let _ = api.call("PUT", &path, &user(role)).expect(200);
        assert_eq!(held(&mut api), 1, "{role}");
    }
    let _ = api.call("PUT", &path, &user("viewer")).expect(200);
    until(|| held(&mut api) == 0);
    drop(holder.stdin.take());
    holder.wait().unwrap();
}
