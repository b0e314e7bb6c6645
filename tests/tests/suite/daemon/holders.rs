//! Holders that die: what they held is released (promises P2 and P4).
//!
//! A session that is bound to its connection has no lease, so only the end of its holder can release what it held.
//! The answer to the next waiter proves it.

use paceline_tests::api::{Events, micros};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A daemon that admits one request at a time.
fn one_at_a_time(launch: &Launch) -> Daemon {
    let daemon = launch.start().unwrap();
    let gate = json!({"at": "frontend api", "concurrency": 1,
        "queue": {"max_len": 10, "max_delay": "1h"}});
    let _ = daemon.api().call("PUT", "/v1/checkpoints/gate", &gate).expect(201);
    daemon
}

/// A client that waits in the queue.
fn waiter(daemon: &Daemon, events: &mut Events) -> Api {
    let mut api = daemon.api();
    api.send("POST", "/v1/permits", Some("{}"));
    events.next_of("waiting");
    api
}

/// A process in its own process group, which has written the line `held`.
fn holder(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("held"), "{line:?}");
    (child, lines)
}

/// `paceline permit` around a shell that prints its process id and then waits for ever.
fn permit_command(daemon: &Daemon) -> Command {
    let mut command = Command::new(paceline_binary());
    command.args(["permit", "--data"]).arg(daemon.data());
    command.args(["--", "sh", "-c", "echo held; echo $$; exec sleep 1000"]);
    command
}

fn held(daemon: &Daemon) -> Vec<Value> {
    daemon.api().get("/v1/permits").expect(200).as_array().unwrap().clone()
}

#[test]
fn killing_the_group_of_a_holder_frees_its_permit_p4() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch));
    let mut events = daemon.api().follow();
    let (mut child, _lines) = holder(&mut permit_command(&daemon));
    let first = held(&daemon);
    assert_eq!(first.len(), 1);
    assert!(first[0]["expires_at"].is_null(), "a lease could free it too: {first:?}");
    let mut next = waiter(&daemon, &mut events);

    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    let permit = next.answer().expect(201);
    assert_ne!(permit["permit"], first[0]["permit"]);
    assert_eq!(held(&daemon), [permit]);
    child.wait().unwrap();
}

#[test]
fn killing_the_command_line_alone_frees_nothing_until_the_command_ends_p4() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch));
    let mut events = daemon.api().follow();
    let (mut child, mut lines) = holder(&mut permit_command(&daemon));
    let mut number = String::new();
    lines.read_line(&mut number).unwrap();
    let command = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
    let first = held(&daemon);
    let mut next = waiter(&daemon, &mut events);

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(held(&daemon), first, "the command runs on");
    kill_process(command, Signal::KILL).unwrap();
    let _ = next.answer().expect(201);
    // Between the two, no request was admitted: one permit was released, then one was granted.
    assert_eq!(events.event().0, "settled");
    assert_eq!(events.event().0, "started");
}

/// Begins a bound session, requests a permit in it, reports this, and waits to be killed.
const CLIENT: &str = r#"
import json, socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
def ask(path, body):
    text = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n"
    stream.sendall(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
    head, body = stream.recv(65536).decode().split("\r\n\r\n")
    assert " 201 " in head, head
    return json.loads(body)
session = ask("/v1/sessions", {"bound": True})["session"]
ask("/v1/permits", {"session": session})
print("held", flush=True)
sys.stdin.read()
"#;

#[test]
fn killing_a_client_with_a_bound_session_frees_its_permit_p4() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch));
    let mut events = daemon.api().follow();
    for _ in 0..5 {
        let socket = daemon.data().join("api.sock");
        let (mut child, _lines) = holder(Command::new("python3").arg("-c").arg(CLIENT).arg(socket));
        events.next_of("started");
        let mut next = waiter(&daemon, &mut events);
        child.kill().unwrap();
        let permit = next.answer().expect(201);
        child.wait().unwrap();
        let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
        let _ = next.delete(&path).expect(204);
    }
    assert_eq!(held(&daemon), [] as [Value; 0]);
}

#[test]
fn over_tcp_a_lease_frees_and_a_late_renewal_is_410_p2_p4() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch).api("127.0.0.1:0"));
    let mut events = daemon.api().follow();
    let mut gone = daemon.api_tcp();
    let permit = gone.call("POST", "/v1/permits", &json!({"lease": "1s"})).expect(201);
    let mut next = waiter(&daemon, &mut events);
    drop(gone);
    let following = next.answer().expect(201);
    let (ends, granted) = (micros(&permit["expires_at"]), micros(&following["granted_at"]));
    assert!(granted >= ends, "given {} us before the lease ran out", ends - granted);

    let renew = format!("/v1/permits/{}/renew", permit["permit"].as_str().unwrap());
    let late = daemon.api_tcp().call("POST", &renew, &json!({}));
    assert_eq!((late.status, &late.body["error"]), (410, &json!("expired")), "{}", late.text);
    // What the late session lost still belongs to the other one.
    assert_eq!(held(&daemon), [following]);
}

#[test]
fn the_permits_of_a_session_over_tcp_go_with_its_lease_p2() {
    let scratch = Scratch::new();
    let daemon = one_at_a_time(&Launch::new(&scratch).api("127.0.0.1:0"));
    let mut events = daemon.api().follow();
    let mut gone = daemon.api_tcp();
    let session = gone.call("POST", "/v1/sessions", &json!({"lease": "1s"})).expect(201);
    let ask = json!({"session": session["session"]});
    let permit = gone.call("POST", "/v1/permits", &ask).expect(201);
    let bound = gone.call("POST", "/v1/sessions", &json!({"bound": true}));
    assert!(bound.status >= 400, "only the kernel tells of a dead holder: {}", bound.text);
    let mut next = waiter(&daemon, &mut events);
    drop(gone);
    let following = next.answer().expect(201);
    assert!(micros(&following["granted_at"]) >= micros(&session["expires_at"]));
    for path in [
        format!("/v1/permits/{}/renew", permit["permit"].as_str().unwrap()),
        format!("/v1/sessions/{}/renew", session["session"].as_str().unwrap()),
    ] {
        let late = daemon.api_tcp().call("POST", &path, &json!({}));
        assert!([404, 410].contains(&late.status), "{path}: {}", late.text);
        if path.contains("sessions") {
            assert_eq!(late.status, 410, "{}", late.text);
        }
    }
}
