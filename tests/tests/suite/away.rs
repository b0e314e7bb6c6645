//! Clients whose daemon is killed and started again. The library repeats a release that failed (P3: what a client
//! holds is still its own in the next run, and must not be held for ever), and a command that waits asks again.

use paceline_client::{
    Client, LockOptions, Options, PermitRequest, SessionOptions, Target, WhenAway,
};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take. It is long, because a busy machine is no failure.
const LONG: Duration = Duration::from_secs(60);

/// A daemon that admits one request at a time.
fn one_at_a_time(launch: &Launch) -> Daemon {
    let daemon = launch.start().unwrap();
    let gate = json!({"at": "frontend api", "concurrency": 1, "persistent": true,
        "queue": {"max_len": 10, "max_delay": "1h"}});
    let _ = daemon.api().call("PUT", "/v1/checkpoints/gate", &gate).expect(201);
    daemon
}

fn target(daemon: &Daemon) -> Target {
    Target::in_data_directory(&daemon.data())
}

/// A request that is refused if it cannot run at once.
fn now() -> PermitRequest {
    PermitRequest::new().max_wait(Duration::ZERO)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what} in time");
        thread::yield_now();
    }
}

/// Sessions in the database.
fn sessions(daemon: &Daemon) -> usize {
    let mut client = paceline_tests::Client::connect(&daemon.data().join("ovsdb.sock")).unwrap();
    let select = json!(["Paceline", {"op": "select", "table": "Session", "where": []}]);
    client.call("transact", &select).unwrap()[0]["rows"].as_array().unwrap().len()
}

fn count(api: &mut Api, path: &str) -> usize {
    api.get(path).expect(200).as_array().unwrap().len()
}

#[test]
fn a_permit_is_given_back_after_a_restart_and_does_not_block_its_own_process_p3() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let mut daemon = one_at_a_time(&launch);
    let client = Client::connect(&target(&daemon)).unwrap();
    for settles in [true, false] {
        let permit = client.permit(now()).unwrap();
        daemon.kill();
        daemon = launch.start().unwrap();
        assert_eq!(count(&mut daemon.api(), "/v1/permits"), 1, "it is ours in the next run");
        match settles {
            true => permit.settle().unwrap(),
            false => drop(permit),
        }
        assert_eq!(count(&mut daemon.api(), "/v1/permits"), 0, "it is given back");
        client.permit(now()).unwrap().settle().unwrap();
    }
    let lock = client.lock("deploy", &LockOptions::default()).unwrap();
    daemon.kill();
    daemon = launch.start().unwrap();
    assert_eq!(count(&mut daemon.api(), "/v1/locks"), 1);
    lock.unlock().unwrap();
    assert_eq!(count(&mut daemon.api(), "/v1/locks"), 0);
    client.lock("deploy", &LockOptions::default()).unwrap().unlock().unwrap();
    assert_eq!(sessions(&daemon), 1, "no session is left behind but the one that is kept");
}

/// The daemon is away during the release, and the client makes no request afterwards.
#[test]
fn what_is_given_back_while_the_daemon_is_away_is_told_when_it_is_back_p3() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let mut daemon = launch.start().unwrap();
    let client = Client::connect(&target(&daemon)).unwrap();
    let permits = [client.permit(now()).unwrap(), client.permit(now()).unwrap()];
    let lock = client.lock("deploy", &LockOptions::default()).unwrap();
    let session = client.session(&SessionOptions::default()).unwrap();
    let inner = session.permit(&now()).unwrap();
    let leased = PermitRequest { lease: Some(Duration::from_secs(86_400)), ..now() };
    let leased = client.permit(leased).unwrap();
    daemon.kill();
    let [first, second] = permits;
    assert!(first.settle().unwrap_err().is_unreachable());
    drop((second, lock, inner, session, leased));
    daemon = launch.start().unwrap();
    let mut api = daemon.api();
    until("everything is given back", || {
        count(&mut api, "/v1/permits") + count(&mut api, "/v1/locks") + sessions(&daemon) == 0
    });
    drop(client);
}

/// The daemon is killed while a client waits for a permit, and grants nothing to a connection that is gone.
#[test]
fn a_client_that_waits_for_the_daemon_asks_again_after_a_restart() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = one_at_a_time(&launch);
    let holder = Client::connect(&target(&daemon)).unwrap().permit(now()).unwrap();
    let options = Options { when_away: WhenAway::Wait(LONG), ..Options::default() };
    let client = Client::connect_with(&target(&daemon), options).unwrap();
    let waiter = thread::spawn(move || client.permit(PermitRequest::new().max_wait(LONG)));
    let mut api = daemon.api();
    until("it waits", || count(&mut api, "/v1/requests") == 2);
    daemon.kill();
    let daemon = launch.start().unwrap();
    let mut api = daemon.api();
    until("it waits again", || count(&mut api, "/v1/requests") == 2);
    drop(holder);
    let permit = waiter.join().unwrap().unwrap();
    assert_eq!(count(&mut api, "/v1/permits"), 1);
    permit.settle().unwrap();
    assert_eq!(count(&mut api, "/v1/permits"), 0);
}

fn waiting(daemon: &Daemon, hold: &[&str]) -> Child {
    let mut command = Command::new(paceline_binary());
    command.args(hold).arg("--data").arg(daemon.data()).args(["--", "true"]);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// After a kill or a clean stop, a command that waits continues to wait.
#[test]
fn a_command_that_waits_asks_again_after_a_restart() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch).option("--drain-max", "0s");
    let mut daemon = one_at_a_time(&launch);
    for is_killed in [true, false] {
        let holder = Client::connect(&target(&daemon)).unwrap();
        let permit = holder.permit(now()).unwrap();
        let session = holder.session(&SessionOptions::default()).unwrap();
        let lock = session.lock("deploy", &LockOptions::default()).unwrap();
        let mut children = vec![
            waiting(&daemon, &["permit"]),
            waiting(&daemon, &["permit", "--max-wait", "10m"]),
            waiting(&daemon, &["lock", "deploy", "--wait", "10m"]),
        ];
        let all_wait = |api: &mut Api| {
            let locks = api.get("/v1/locks/deploy").expect(200);
            count(api, "/v1/requests") == 3 && locks["waiters"].as_array().unwrap().len() == 1
        };
        let mut api = daemon.api();
        until("all wait", || all_wait(&mut api));
        drop(match is_killed {
            true => daemon.kill(),
            false => daemon.terminate(),
        });
        daemon = launch.start().unwrap();
        let mut api = daemon.api();
        until("all wait again", || all_wait(&mut api));
        drop((permit, lock, session));
        for child in children.drain(..) {
            let ended = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(0), "{told}");
            let why =
                if is_killed { "the daemon went away: " } else { "the daemon is shutting down; " };
            assert!(told.contains(why), "{told}");
            assert!(told.contains("; this command asks again when it is back"), "{told}");
        }
        assert_eq!(count(&mut api, "/v1/permits"), 0);
    }
}

/// Its timeout expires while the daemon is away.
#[test]
fn a_command_does_not_wait_longer_for_the_daemon_than_it_may() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch));
    let _holder = Client::connect(&target(&daemon)).unwrap().permit(now()).unwrap();
    let child = waiting(&daemon, &["permit", "--max-wait", "4s", "--json"]);
    let mut api = daemon.api();
    until("it waits", || count(&mut api, "/v1/requests") == 2);
    daemon.kill();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(69), "{told}");
    let lines = told.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let [warned, told] = &lines[..] else { panic!("a warning and an error: {lines:?}") };
    assert!(warned["warning"].as_str().unwrap().contains("went away"), "{warned}");
    assert_eq!((&told["error"], &told["exit"]), (&json!("unreachable"), &json!(69)));
}

/// Threads of one program take turns while the daemon is killed repeatedly: never two run at once, and never do all
/// of them wait for a permit that one of them has released (C1, P3).
#[test]
fn a_program_takes_turns_with_itself_while_the_daemon_is_killed_c1_p3() {
    const THREADS: usize = 4;
    const RESTARTS: usize = 8;
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let mut daemon = launch.start().unwrap();
    let _ =
        daemon.api().call("PUT", "/v1/resources/disk", &json!({"persistent": true})).expect(201);
    let options = Options { when_away: WhenAway::Wait(LONG), ..Options::default() };
    let client = Client::connect_with(&target(&daemon), options).unwrap();
    let (holders, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let daemon = thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        for number in 0..THREADS {
            let (client, holders, turns, stop) = (&client, &holders, &turns, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let asked = PermitRequest::new().claim("disk").max_wait(LONG);
                    let permit = client.permit(asked).unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the disk");
                    turns.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1, "two hold the disk");
                    match number % 2 {
                        0 => drop(permit),
                        _ => permit.settle().unwrap(),
                    }
                }
            });
        }
        for _ in 0..RESTARTS {
            let before = turns.load(Ordering::SeqCst);
            until("turns", || turns.load(Ordering::SeqCst) > before + THREADS);
            daemon.kill();
            daemon = launch.start().unwrap();
        }
        daemon
    });
    let mut api = daemon.api();
    until("all is given back", || count(&mut api, "/v1/permits") == 0);
}

/// Ends the threads, however the test ends.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
