//! The connection that a command inherits from `paceline permit` and `paceline lock` holds what is bound to it and
//! allows nothing else, whatever user the command runs as (the roles, E2, P4).

use paceline_tests::api::ANSWER_TIMEOUT;
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Daemon, Launch, Scratch};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Sends bytes on every socket that it inherits, far more than the system buffers for a reader, so that the daemon
/// has handled the first of them when the last are sent. Then prints the result, and waits for the end of its input.
const CHILD: &str = r#"
LC_ALL=C; export LC_ALL
body='{"name": "stolen", "role": "admin"}'
text=$(printf 'POST /v1/tokens HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s' ${#body} "$body")
[ "$1" = requests ] || text=$(printf '\001\377 garbage')
found=0
for file in /proc/$$/fd/*; do
    case $(readlink "$file") in socket:*) found=$((found + 1)); fd=${file##*/};; esac
done
yes "$text" | head -c 1048576 >&$fd && sent=sent
case $(dd iflag=nonblock bs=1 count=1 <&$fd 2>&1) in *unavailable*) mute=mute;; esac
echo $found $sent $mute
exec cat
"#;

struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

/// Runs the child under a permit or a lock.
fn run(daemon: &Daemon, hold: &[&str], prefix: &[&str], kind: &str) -> Holder {
    let mut command = Command::new(paceline_binary());
    command.args(hold).arg("--data").arg(daemon.data()).arg("--").args(prefix);
    command.args(["sh", "-c", CHILD, "child", kind]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Holder { stdin: child.stdin.take(), child, lines }
}

impl Holder {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn held(api: &mut Api) -> usize {
    let count = |api: &mut Api, path| api.get(path).expect(200).as_array().unwrap().len();
    count(api, "/v1/permits") + count(api, "/v1/locks")
}

/// Whether the child could create a token for itself.
fn has_token(api: &mut Api) -> bool {
    let tokens = api.get("/v1/tokens").expect(200);
    tokens.as_array().unwrap().iter().any(|token| token["name"] == "stolen")
}

#[test]
fn what_a_command_sends_on_the_connection_it_inherits_changes_nothing() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    for hold in [&["permit"][..], &["lock", "deploy"]] {
        for kind in ["requests", "garbage"] {
            let mut holder = run(&daemon, hold, &[], kind);
            assert_eq!(
                holder.line(),
                "1 sent mute",
                "{hold:?} {kind}: one connection, and no answer"
            );
            assert!(!has_token(&mut api), "{hold:?} {kind}");
            assert_eq!(held(&mut api), 1, "{hold:?} {kind}: it is held still");
            holder.end();
            assert_eq!(held(&mut api), 0, "{hold:?} {kind}: it is given back");
        }
    }
}

/// Root runs a command as a user without a role.
#[test]
fn a_command_that_runs_as_another_user_gets_nothing_of_roots_rights() {
    if !rustix::process::geteuid().is_root() {
        // Only root can run a command as another user; the test above needs no other user.
        return;
    }
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut holder = run(&daemon, &["permit"], &nobody, "requests");
    assert_eq!(holder.line(), "1 sent mute");
    assert!(!has_token(&mut api));
    assert_eq!(held(&mut api), 1);
    holder.end();
}

/// The contract of a sealed connection, for a client that writes its requests in one piece.
#[test]
fn a_sealed_connection_takes_no_request_and_its_end_frees_p4() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let lone = api.call("POST", "/v1/sessions", &json!({"sealed": true}));
    assert_eq!(lone.status, 400, "{}", lone.text);
    let mut holder = daemon.api();
    holder.send("POST", "/v1/sessions", Some(r#"{"bound": true, "sealed": true}"#));
    let session = holder.answer().expect(201)["session"].clone();
    let _ = api.call("POST", "/v1/permits", &json!({"session": session})).expect(201);
    // A request that was read together with the one that sealed the connection is refused.
    let mut pipelined = daemon.api();
    let body = r#"{"bound": true, "sealed": true}"#;
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n";
    let second = "DELETE /v1/tokens/none HTTP/1.1\r\nhost: p\r\n\r\n";
    let both = format!("{head}content-length: {}\r\n\r\n{body}{second}", body.len());
    pipelined.raw(both.as_bytes()).unwrap();
    let _ = pipelined.answer().expect(201);
    assert_eq!(pipelined.answer().status, 403);
    assert_eq!(held(&mut api), 1);
    holder.raw(b"\r\nstray bytes").unwrap();
    assert_eq!(held(&mut api), 1);
    drop(holder);
    let end = Instant::now() + ANSWER_TIMEOUT;
    while held(&mut api) > 0 {
        assert!(Instant::now() < end, "its end frees");
        std::thread::yield_now();
    }
}

/// A permit inside a lock ends with its own command, not with the lock: the inner command line and its command are
/// killed while the script that owns the lock continues.
#[test]
fn a_permit_inside_a_lock_ends_with_its_own_command_p4() {
    const SCRIPT: &str = r#"
"$0" permit --require-lock deploy -- sh -c 'echo $PPID $$; exec sleep 1000'
echo goes on
exec cat
"#;
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let mut command = Command::new(paceline_binary());
    command.env("PACELINE_DATA", daemon.data()).args(["lock", "deploy", "--", "sh", "-c", SCRIPT]);
    command.arg(paceline_binary()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut holder = Holder { stdin: child.stdin.take(), child, lines };
    let line = holder.line();
    let pids: Vec<Pid> =
        line.split(' ').map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect();
    assert_eq!(held(&mut api), 2, "a lock and a permit");
    // The command line is killed first: it would release the permit if it saw its command exit.
    for pid in pids {
        kill_process(pid, Signal::KILL).unwrap();
    }
    assert_eq!(holder.line(), "goes on");
    let end = Instant::now() + ANSWER_TIMEOUT;
    while api.get("/v1/permits").expect(200) != json!([]) {
        assert!(Instant::now() < end, "the permit outlives its command");
        std::thread::yield_now();
    }
    assert_eq!(held(&mut api), 1, "the lock is held still");
    holder.end();
    assert_eq!(held(&mut api), 0);
}

/// A command that closes what it inherited, as `sudo` and daemons do, and waits for the end of its input.
const CLOSES: &str =
    "import os, sys; os.closerange(3, 1024); print('closed', flush=True); sys.stdin.read()";

/// Sessions that end with their connections, one after the other: the daemon has seen what ended before them.
fn watch_others_end(daemon: &Daemon, api: &mut Api) {
    for number in 0..20 {
        let mut other = daemon.api();
        let session = other.call("POST", "/v1/sessions", &json!({"bound": true})).expect(201);
        let path = format!("/v1/locks/other-{number}");
        let _ = other.call("PUT", &path, &json!({"session": session["session"]})).expect(200);
        drop(other);
        let end = Instant::now() + ANSWER_TIMEOUT;
        while api.get(&path).status != 404 {
            assert!(Instant::now() < end, "the end of a connection frees");
            std::thread::yield_now();
        }
    }
}

/// A command that closed its descriptors holds until it ends, though its command line was killed, and though the daemon
/// is killed after that.
#[test]
fn a_command_that_closes_its_descriptors_holds_until_it_ends_c4() {
    for hold in [&["permit", "--claim", "disk", "--unknown", "create"][..], &["lock", "deploy"]] {
        for is_killed in [false, true] {
            let scratch = Scratch::new();
            let launch = Launch::new(&scratch);
            let mut daemon = launch.start().unwrap();
            let mut command = Command::new(paceline_binary());
            command.args(hold).arg("--data").arg(daemon.data());
            command.args(["--", "python3", "-c", CLOSES]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap());
            let mut holder = Holder { stdin: child.stdin.take(), child, lines };
            assert_eq!(holder.line(), "closed");
            holder.child.kill().unwrap();
            let _ = holder.child.wait().unwrap();
            watch_others_end(&daemon, &mut daemon.api());
            assert_eq!(held(&mut daemon.api()), 1, "{hold:?}: the command runs");
            if is_killed {
                let _ = daemon.kill();
                daemon = launch.start().unwrap();
                assert_eq!(held(&mut daemon.api()), 1, "{hold:?}: the command runs still");
            }
            // The command ends with its input.
            drop(holder.stdin.take());
            let (mut api, end) = (daemon.api(), Instant::now() + ANSWER_TIMEOUT);
            while held(&mut api) > 0 {
                assert!(Instant::now() < end, "{hold:?}: its end frees");
                std::thread::yield_now();
            }
        }
    }
}
