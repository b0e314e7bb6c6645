//! Inactivity probes: a silent TCP client is sent an echo request, and loses its locks if it does not reply. Nothing
//! here measures time; every step waits for its event.

use std::time::Instant;

use paceline_tests::client::Frame;
use paceline_tests::{Client, Daemon, Launch, Scratch};
use serde_json::{Value, json};

/// A daemon with a TCP remote and the unix socket, which probes after this many seconds.
fn start(scratch: &Scratch, interval: &str) -> Daemon {
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    let remotes = Launch::new(scratch).option("--ovsdb", socket).option("--ovsdb", "ptcp:0");
    remotes.option("--probe-interval", interval).start().unwrap()
}

fn tcp(daemon: &Daemon) -> Client {
    Client::connect_tcp(daemon.port("ptcp")).unwrap()
}

fn lock(client: &mut Client) -> Value {
    client.call("lock", &json!(["l"])).unwrap()
}

/// Receives an echo request, and returns its id.
fn take_probe(client: &mut Client) -> Value {
    let message = client.message().unwrap();
    assert_eq!(message["method"], "echo", "{message}");
    assert!(!message["id"].is_null() && message["params"].is_array(), "{message}");
    message["id"].clone()
}

fn answer_probe(client: &mut Client) {
    let id = take_probe(client);
    client.send(json!({"id": id, "result": [], "error": null}).to_string().as_bytes()).unwrap();
}

/// The next message that is not a probe; probes are answered.
fn message_but_probes(client: &mut Client) -> Value {
    loop {
        let message = client.message().unwrap();
        if message["method"] != "echo" {
            return message;
        }
        let answer = json!({"id": message["id"], "result": [], "error": null});
        client.send(answer.to_string().as_bytes()).unwrap();
    }
}

#[test]
fn a_silent_client_is_cut_off_and_its_lock_passes_on_l3_l5() {
    let scratch = Scratch::new();
    let daemon = start(&scratch, "1");
    let (mut silent, mut waiting) = (tcp(&daemon), daemon.connect());
    assert_eq!(lock(&mut silent), json!({"locked": true}));
    assert_eq!(lock(&mut waiting), json!({"locked": false}));
    let begin = Instant::now();
    take_probe(&mut silent);
    assert_eq!(silent.frame().unwrap(), Frame::Closed);
    // The other one is a unix client: it is notified that it has the lock, and gets no probe before.
    let granted = waiting.message().unwrap();
    assert_eq!(granted, json!({"id": null, "method": "locked", "params": ["l"]}));
    // Two intervals are two seconds; the rest allows for a busy machine.
    assert!(begin.elapsed().as_secs() < 8, "it took {:?}", begin.elapsed());
}

#[test]
fn a_client_that_answers_stays_and_a_unix_client_is_never_asked_l3() {
    let scratch = Scratch::new();
    // Two seconds leave a busy machine time to reply.
    let daemon = start(&scratch, "2");
    let (mut local, mut remote, mut waiting) = (daemon.connect(), tcp(&daemon), tcp(&daemon));
    local.call("echo", &json!([])).unwrap();
    assert_eq!(lock(&mut remote), json!({"locked": true}));
    assert_eq!(lock(&mut waiting), json!({"locked": false}));
    // A reply to each probe keeps both connected.
    for _ in 0..2 {
        answer_probe(&mut remote);
        answer_probe(&mut waiting);
    }
    remote.request("unlock", r#"["l"]"#).unwrap();
    assert_eq!(message_but_probes(&mut remote)["result"], json!({}));
    assert_eq!(message_but_probes(&mut waiting)["method"], "locked");
    // In all that time the unix client got nothing: the next message replies to its request.
    assert_eq!(local.call("echo", &json!(["still"])).unwrap(), json!(["still"]));
}

#[test]
fn zero_means_never() {
    let scratch = Scratch::new();
    let remotes = Launch::new(&scratch).option("--ovsdb", "ptcp:0");
    let never = remotes.option("--probe-interval", "0").start().unwrap();
    let mut quiet = Client::connect_tcp(never.port("ptcp")).unwrap();
    // The probes of another daemon show that time has passed.
    let elsewhere = Scratch::new();
    let neighbour = start(&elsewhere, "1");
    let mut silent = tcp(&neighbour);
    take_probe(&mut silent);
    assert_eq!(silent.frame().unwrap(), Frame::Closed);
    assert_eq!(quiet.call("echo", &json!(["still"])).unwrap(), json!(["still"]));
}

#[test]
fn a_closed_connection_frees_its_locks_l3_l5() {
    let scratch = Scratch::new();
    let daemon = start(&scratch, "1");
    let (mut owner, mut waiting) = (tcp(&daemon), daemon.connect());
    assert_eq!(lock(&mut owner), json!({"locked": true}));
    assert_eq!(lock(&mut waiting), json!({"locked": false}));
    drop(owner);
    assert_eq!(waiting.message().unwrap()["method"], "locked");
}
