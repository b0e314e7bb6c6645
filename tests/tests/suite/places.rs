//! Waiters keep their places over an orderly end of the daemon: those that ask again are served in the order in which they
//! first came, and before those that came later. Nobody else gains anything by it.

use paceline_client::{Client, LockOptions, Options, PermitRequest, Target, WhenAway};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take; a busy machine is no reason to fail.
const LONG: Duration = Duration::from_secs(60);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what} in time");
        thread::yield_now();
    }
}

/// A daemon with a resource that waiters claim, which turns waiters away as soon as it is told to end.
fn launch(scratch: &Scratch) -> Launch {
    let file = scratch.path().join("paceline.toml");
    fs::write(&file, "[[resource]]\nname = \"x\"\n").unwrap();
    Launch::new(scratch).option("--config", file).option("--drain-max", "0s")
}

/// A command that waits, and writes its name to a file when its turn comes.
fn waiter(daemon: &Daemon, hold: &[&str], name: &str, order: &Path) -> Child {
    let mut command = Command::new(paceline_binary());
    command.args(hold).arg("--data").arg(daemon.data());
    let script = format!("echo {name} >> {}", order.display());
    command.args(["--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// What runs and waits, as `ps` shows it: states and texts.
fn listed(daemon: &Daemon) -> Vec<(String, String)> {
    let mut command = Command::new(paceline_binary());
    command.args(["ps", "--json", "--data"]).arg(daemon.data());
    let shown = command.output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let text = |request: &Value, name: &str| request[name].as_str().unwrap_or_default().to_owned();
    let list = shown.as_array().unwrap();
    list.iter().map(|one| (text(one, "state"), text(one, "text"))).collect()
}

fn waiting(daemon: &Daemon) -> usize {
    listed(daemon).iter().filter(|(state, _)| state == "waiting").count()
}

fn in_line(api: &mut Api, lock: &str) -> u64 {
    api.get(&format!("/v1/locks/{lock}")).expect(200)["waiting"].as_u64().unwrap()
}

fn order_of(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn all_end_well(children: Vec<Child>) {
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{told}");
    }
}

/// A holder, three waiters that came in a known order, and after the restart one more.
struct Scene {
    daemon: Daemon,
    children: Vec<Child>,
    order: PathBuf,
}

/// Three commands wait. The daemon ends, starts again, and another one comes, before `release` ends the holder.
fn restarted(launch: &Launch, hold: &[&str], count: impl Fn(&Daemon) -> u64) -> Scene {
    let daemon = launch.start().unwrap();
    let order = daemon.data().join("order");
    // The holder goes on over the restart: a permit and a lock with leases.
    let mut api = daemon.api();
    let held = json!({"claims": [{"resource": "x"}], "lease": "10m"});
    let _ = api.call("PUT", "/v1/permits/holder", &held).expect(201);
    let session = api.call("POST", "/v1/sessions", &json!({"lease": "10m"})).expect(201);
    let locked = json!({"session": session["session"]});
    let _ = api.call("PUT", "/v1/locks/x", &locked).expect(200);
    fs::write(daemon.data().join("session"), session["session"].as_str().unwrap()).unwrap();
    let mut children = vec![];
    for (number, name) in (1..).zip(["first", "second", "third"]) {
        children.push(waiter(&daemon, hold, name, &order));
        until("it waits", || count(&daemon) == number);
    }
    // They ask again in another order than they came, and after the newcomer.
    children.iter().for_each(|child| signal(child, Signal::STOP));
    let ended = daemon.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    let daemon = launch.start().unwrap();
    children.push(waiter(&daemon, hold, "newcomer", &order));
    until("it waits", || count(&daemon) == 1);
    for (number, at) in (2..).zip([2, 0, 1]) {
        signal(&children[at], Signal::CONT);
        until("it waits again", || count(&daemon) == number);
    }
    assert_eq!(order_of(&order), [""; 0]);
    Scene { daemon, children, order }
}

const ORDER: [&str; 4] = ["first", "second", "third", "newcomer"];

#[test]
fn commands_that_wait_for_a_permit_keep_their_places_over_a_restart() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let hold = ["permit", "--claim", "x", "--max-wait", "10m"];
    let scene = restarted(&launch, &hold, |daemon| waiting(daemon) as u64);
    let _ = scene.daemon.api().delete("/v1/permits/holder").expect(204);
    all_end_well(scene.children);
    assert_eq!(order_of(&scene.order), ORDER);
}

/// The same without --max-wait, and with two restarts one after the other.
#[test]
fn two_restarts_count_together() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let Scene { daemon, mut children, order } =
        restarted(&launch, &["permit", "--claim", "x"], |daemon| waiting(daemon) as u64);
    let ended = daemon.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    let daemon = launch.start().unwrap();
    children.push(waiter(&daemon, &["permit", "--claim", "x"], "last", &order));
    until("all wait", || waiting(&daemon) == 5);
    let _ = daemon.api().delete("/v1/permits/holder").expect(204);
    all_end_well(children);
    assert_eq!(order_of(&order), ["first", "second", "third", "newcomer", "last"]);
}

#[test]
fn commands_that_wait_for_a_lock_keep_their_places_over_a_restart() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let count = |daemon: &Daemon| in_line(&mut daemon.api(), "x");
    let Scene { daemon, children, order } =
        restarted(&launch, &["lock", "x", "--wait", "10m"], count);
    let session = fs::read_to_string(daemon.data().join("session")).unwrap();
    let _ = daemon.api().delete(&format!("/v1/locks/x?session={session}")).expect(204);
    all_end_well(children);
    assert_eq!(order_of(&order), ORDER);
}

/// A program that waits by the library, and has it wait for the daemon, goes on waiting in its place when the daemon ends
/// in order.
#[test]
fn the_library_asks_again_and_keeps_its_place() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let order = daemon.data().join("order");
    let mut api = daemon.api();
    let held = json!({"claims": [{"resource": "x"}], "lease": "10m"});
    let _ = api.call("PUT", "/v1/permits/holder", &held).expect(201);
    let session = api.call("POST", "/v1/sessions", &json!({"lease": "10m"})).expect(201);
    let session = session["session"].as_str().unwrap().to_owned();
    let _ = api.call("PUT", "/v1/locks/x", &json!({"session": session})).expect(200);
    let options = Options { when_away: WhenAway::Wait(LONG), ..Options::default() };
    let client = Client::connect_with(&Target::in_data_directory(&daemon.data()), options).unwrap();
    let other = client.clone();
    let permit = thread::spawn(move || client.permit(PermitRequest::new().claim("x")));
    let wait = LockOptions { wait: LONG, ..LockOptions::default() };
    let lock = thread::spawn(move || other.lock("x", &wait));
    until("both wait", || waiting(&daemon) == 1 && in_line(&mut api, "x") == 1);
    drop(daemon.terminate());
    let daemon = launch.start().unwrap();
    let permits = waiter(&daemon, &["permit", "--claim", "x"], "newcomer", &order);
    let locks = waiter(&daemon, &["lock", "x", "--wait", "10m"], "newcomer", &order);
    let mut api = daemon.api();
    until("all wait", || waiting(&daemon) == 2 && in_line(&mut api, "x") == 2);
    let _ = api.delete("/v1/permits/holder").expect(204);
    let _ = api.delete(&format!("/v1/locks/x?session={session}")).expect(204);
    let (permit, lock) = (permit.join().unwrap().unwrap(), lock.join().unwrap().unwrap());
    assert_eq!(order_of(&order), [""; 0], "the newcomers wait");
    drop((permit, lock));
    all_end_well(vec![permits, locks]);
}

/// After kill -9 nothing is known: all are new.
#[test]
fn a_daemon_that_was_killed_knows_no_places() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let held = json!({"claims": [{"resource": "x"}], "lease": "10m"});
    let _ = daemon.api().call("PUT", "/v1/permits/holder", &held).expect(201);
    let mut old = ask(&daemon, "a-place-of-mine-1");
    until("it waits", || waiting(&daemon) == 1);
    drop(daemon.kill());
    assert!(old.try_answer().is_err());
    let daemon = launch.start().unwrap();
    let mut newcomer = ask(&daemon, "another-place-of-mine");
    until("it waits", || waiting(&daemon) == 1);
    let mut old = ask(&daemon, "a-place-of-mine-1");
    until("both wait", || waiting(&daemon) == 2);
    let _ = daemon.api().delete("/v1/permits/holder").expect(204);
    give_back(&daemon, &newcomer.answer().expect(201));
    give_back(&daemon, &old.answer().expect(201));
}

/// Asks for the resource, on a connection of its own.
fn ask(daemon: &Daemon, place: &str) -> Api {
    let mut api = daemon.api();
    let body = json!({"claims": [{"resource": "x"}], "place": place});
    api.send("POST", "/v1/permits", Some(&body.to_string()));
    api
}

/// A daemon that was restarted in order while `a-place-of-mine-1` waited for what another permit still holds.
fn restarted_with_a_waiter(scratch: &Scratch) -> Daemon {
    let launch = launch(scratch);
    let daemon = launch.start().unwrap();
    let held = json!({"claims": [{"resource": "x"}], "lease": "10m"});
    let _ = daemon.api().call("PUT", "/v1/permits/holder", &held).expect(201);
    let mut waits = ask(&daemon, "a-place-of-mine-1");
    until("it waits", || waiting(&daemon) == 1);
    drop(daemon.terminate());
    assert_eq!(waits.answer().status, 503);
    launch.start().unwrap()
}

fn give_back(daemon: &Daemon, permit: &Value) {
    let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
    let _ = daemon.api().delete(&path).expect(204);
}

/// What is shown of one that waited before a restart: it came then, and its wait is the whole wait.
#[test]
fn the_time_before_a_restart_is_shown() {
    let scratch = Scratch::new();
    let daemon = restarted_with_a_waiter(&scratch);
    let mut newcomer = ask(&daemon, "another-place-of-mine");
    until("it waits", || waiting(&daemon) == 1);
    let mut waits = ask(&daemon, "a-place-of-mine-1");
    until("both wait", || waiting(&daemon) == 2);
    let mut api = daemon.api();
    let list = api.get("/v1/requests").expect(200);
    let waiters: Vec<&Value> =
        list.as_array().unwrap().iter().filter(|one| one["state"] == "waiting").collect();
    let why = |api: &mut Api, one: &Value| api.get(&format!("/v1/why/{}", one["request"]));
    let (new, old) = (why(&mut api, waiters[0]).expect(200), why(&mut api, waiters[1]).expect(200));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    assert!(text(&old, "arrived_at") < text(&new, "arrived_at"), "{old} {new}");
    assert_eq!(text(&old, "since"), text(&old, "arrived_at"), "it waits since then");
    assert_eq!(text(waiters[1], "since"), text(&old, "since"), "the list says the same");
    assert_eq!(new["ahead"][0], list[0]["request"], "the holder is nearest");
    assert_eq!(new["ahead"][1], waiters[1]["request"], "then the one that came back");
    let _ = api.delete("/v1/permits/holder").expect(204);
    let permit = waits.answer().expect(201);
    let runs = why(&mut api, waiters[1]).expect(200);
    assert!(text(&runs, "arrived_at") < text(&new, "arrived_at"), "what it waited says the same");
    give_back(&daemon, &permit);
    give_back(&daemon, &newcomer.answer().expect(201));
}

/// Places that are of no use: of another request, one that was used, and one that nobody had.
#[test]
fn a_place_gives_nothing_that_its_client_did_not_have() {
    let scratch = Scratch::new();
    let daemon = restarted_with_a_waiter(&scratch);
    let mut shared = daemon.api();
    let body =
        json!({"claims": [{"resource": "x", "mode": "shared"}], "place": "a-place-of-mine-1"});
    let mut others = vec![ask(&daemon, "another-place-of-mine")];
    until("it waits", || waiting(&daemon) == 1);
    shared.send("POST", "/v1/permits", Some(&body.to_string()));
    until("it waits", || waiting(&daemon) == 2);
    let mut first = ask(&daemon, "a-place-of-mine-1");
    until("it waits", || waiting(&daemon) == 3);
    others.push(shared);
    others.push(ask(&daemon, "a-place-of-mine-1"));
    until("it waits", || waiting(&daemon) == 4);
    let _ = daemon.api().delete("/v1/permits/holder").expect(204);
    give_back(&daemon, &first.answer().expect(201));
    for mut other in others {
        give_back(&daemon, &other.answer().expect(201));
    }
    let long = "x".repeat(129);
    for wrong in ["", "fifteen-letters", "sixteen letters!", "sixteen/letters/", long.as_str()] {
        let body = json!({"place": wrong});
        let refused = daemon.api().call("POST", "/v1/permits", &body);
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
        assert!(refused.text.contains("place: "), "{}", refused.text);
    }
}

/// A full disk as the daemon ends: it says so, and ends as it would.
#[test]
fn an_end_on_a_full_disk_loses_places_and_nothing_else_j5() {
    let scratch = Scratch::new();
    let launch = launch(&scratch);
    let daemon = launch.start().unwrap();
    let held = json!({"claims": [{"resource": "x"}], "lease": "10m"});
    let _ = daemon.api().call("PUT", "/v1/permits/holder", &held).expect(201);
    let mut waits = ask(&daemon, "a-place-of-mine-1");
    until("it waits", || waiting(&daemon) == 1);
    let size = fs::metadata(daemon.data().join("paceline.db")).unwrap().len();
    daemon.limit_file_size(Some(size));
    let ended = daemon.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(ended.log.contains("cannot write the waiting requests"), "{}", ended.log);
    assert_eq!(waits.answer().status, 503);
    let daemon = launch.start().unwrap();
    let mut newcomer = ask(&daemon, "another-place-of-mine");
    until("it waits", || waiting(&daemon) == 1);
    let mut old = ask(&daemon, "a-place-of-mine-1");
    until("both wait", || waiting(&daemon) == 2);
    let _ = daemon.api().delete("/v1/permits/holder").expect(204);
    give_back(&daemon, &newcomer.answer().expect(201));
    give_back(&daemon, &old.answer().expect(201));
}
