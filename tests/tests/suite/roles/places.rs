//! A user without a role cannot lock out others by opening connections.

use super::{World, is_root, uid};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens connections until one is refused, prints their number and the refusal, and keeps them open until its input
/// ends.
const OPENER: &str = r"
import json, resource, socket, sys
path, ask = sys.argv[1], sys.argv[2].encode()
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kept, answer = [], ''
while len(kept) < 11000:
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(30)
    one.connect(path)
    try:
        one.send(ask)
    except BrokenPipeError:
        pass
    answer = one.recv(4096).decode()
    if 'too many' in answer:
        break
    kept.append(one)
print(json.dumps([len(kept), answer]), flush=True)
sys.stdin.read()
";

/// How many connections a user without a role gets at this socket, and the response to the next one. Calls
/// `meanwhile` while they are open.
fn open(socket: &Path, ask: &str, meanwhile: impl FnOnce()) -> (u64, String) {
    let mut command = Command::new("python3");
    command.uid(uid(None)).gid(uid(None)).current_dir("/").env("HOME", "/");
    command.arg("-c").arg(OPENER).arg(socket).arg(ask);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    meanwhile();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let told: Value = serde_json::from_str(&line).unwrap();
    (told[0].as_u64().unwrap(), told[1].as_str().unwrap().to_owned())
}

#[test]
fn a_user_without_a_role_does_not_shut_out_root() {
    if !is_root() {
        return;
    }
    let world = World::new("viewer");
    let ask = "GET /healthz HTTP/1.1\r\nhost: p\r\n\r\n";
    let (opened, refusal) = open(&world.socket(), ask, || {
        assert_eq!(world.admin("GET", "/v1/status", &Value::Null).0, 200);
    });
    assert!((1..=100).contains(&opened), "{opened}: {refusal}");
    assert!(
        refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("of user 424204"),
        "{refusal}"
    );
    let ask = json!({ "id": 1, "method": "echo", "params": [] }).to_string();
    let (opened, refusal) = open(&world.daemon.socket(), &ask, || {
        let mut root = world.daemon.connect();
        assert_eq!(root.call("echo", &json!([7])).unwrap(), json!([7]));
    });
    assert!((1..=100).contains(&opened), "{opened}: {refusal}");
    assert!(refusal.contains("resources exhausted"), "{refusal}");
}
