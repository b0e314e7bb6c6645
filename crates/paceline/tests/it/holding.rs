//! `permit` and `lock`: what is held while a command runs, whichever process dies.

use crate::fake::{Asked, Fake, Reply, World};
use crate::{ended, paceline};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Stdio};

/// Starts a command that prints that it runs and then waits for the end of its input.
fn start(fake: &Fake, arguments: &[&str]) -> (Child, ChildStdin) {
    let mut command = paceline(fake.dir.path(), arguments);
    command.args(["--", "sh", "-c", "echo runs; exec cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "runs\n");
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

/// How many permits and locks are held.
fn held(fake: &Fake) -> usize {
    let world = fake.world();
    world.permits.len() + world.locks.len()
}

fn asked<'a>(world: &'a World, line: &str) -> Option<&'a Asked> {
    world.asked.iter().find(|asked| asked.line() == line)
}

#[test]
fn a_permit_is_held_while_the_command_runs() {
    let fake = Fake::start(|_| None);
    let arguments = [
        "permit",
        "--attr",
        "user=etl",
        "--claim",
        "disk:da0",
        "--claim",
        "tank:shared",
        "--max-wait",
        "5s",
    ];
    let (mut child, stdin) = start(&fake, &arguments);
    assert_eq!(fake.world().permits.len(), 1);
    let body = asked(&fake.world(), "POST /v1/permits").unwrap().body.clone();
    assert_eq!(body["attributes"]["user"], "etl");
    assert_eq!(body["attributes"]["task"], "sh");
    assert_eq!(body["attributes"]["text"], "sh -c echo runs; exec cat");
    assert_eq!(body["claims"][0]["resource"], "disk:da0");
    assert_eq!(body["claims"][0]["mode"], "exclusive");
    assert_eq!(body["claims"][1]["mode"], "shared");
    assert_eq!(body["max_wait"], "5s");
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(fake.world().permits.is_empty());
    assert!(fake.world().sessions.is_empty());
}

/// P4, and the reverse: a killed holder releases, a living one does not.
#[test]
fn p4_a_permit_outlives_the_command_line_but_not_the_command() {
    let fake = Fake::start(|_| None);
    for arguments in [&["permit"][..], &["lock", "deploy"]] {
        let (mut child, stdin) = start(&fake, arguments);
        let path =
            if arguments[0] == "permit" { "POST /v1/permits" } else { "PUT /v1/locks/deploy" };
        let connection = asked(&fake.world(), path).unwrap().connection;
        child.kill().unwrap();
        child.wait().unwrap();
        // Its own connection has ended, the one that the command inherited has not.
        fake.wait_until(|world| world.ended.contains(&connection));
        assert_eq!(held(&fake), 1, "{arguments:?}");
        assert_eq!(fake.world().sessions.len(), 1);
        drop(stdin);
        fake.wait_until(|world| world.sessions.is_empty());
        assert_eq!(held(&fake), 0, "{arguments:?}");
    }
}

#[test]
fn what_the_command_leaves_behind_holds_nothing() {
    let fake = Fake::start(|_| None);
    let mut command = paceline(fake.dir.path(), &["permit", "--", "sh", "-c", "cat & exit 3"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(fake.world().permits.is_empty());
    assert!(fake.world().sessions.is_empty());
    drop(stdin);
}

#[test]
fn signals_are_passed_on_and_exit_codes_through() {
    let fake = Fake::start(|_| None);
    let (mut child, _stdin) = start(&fake, &["permit"]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    for (script, expected) in [("exit 7", 7), ("exit 0", 0), ("kill -9 $$", 128 + 9)] {
        for held in [&["permit"][..], &["lock", "l"]] {
            let mut command = paceline(fake.dir.path(), held);
            let (code, _, stderr) = ended(command.args(["--", "sh", "-c", script]));
            assert_eq!((code, stderr.as_str()), (Some(expected), ""), "{script}");
        }
    }
    for (program, expected) in [("/nonexistent", 127), ("/", 126)] {
        let (code, _, stderr) = ended(&mut paceline(fake.dir.path(), &["permit", "--", program]));
        assert_eq!(code, Some(expected), "{stderr}");
    }
    assert_eq!(held(&fake), 0);
}

/// A daemon whose disk hangs does not answer that it has recorded the command's process. The command receives
/// its signals meanwhile.
#[test]
fn signals_are_passed_on_while_the_daemon_hangs() {
    let is_it = |asked: &Asked| asked.path.ends_with("/processes");
    let fake = Fake::start(move |asked| is_it(asked).then_some(Reply::Silence));
    let script = "trap 'echo got; exec cat' TERM; echo runs; while :; do read line; done";
    for held in [&["permit"][..], &["lock", "l"]] {
        fake.world().asked.clear();
        let mut command = paceline(fake.dir.path(), held);
        command.args(["--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "runs");
        fake.wait_until(|world| world.asked.iter().any(is_it));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "got");
        let world = fake.world();
        let connection = world.asked.iter().find(|asked| is_it(asked)).unwrap().connection;
        assert!(!world.ended.contains(&connection), "nobody gave up on the daemon for that");
        drop((world, stdin));
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!(held(&fake), 0);
}

/// A daemon that does not answer a release does not block: a signal ends the command line, and what it holds is
/// released when its connection ends.
#[test]
fn a_signal_ends_the_wait_for_a_daemon_that_hangs() {
    let fake = Fake::start(|asked| (asked.method == "DELETE").then_some(Reply::Silence));
    for (held, signal) in [(&["permit"][..], Signal::TERM), (&["lock", "l"], Signal::INT)] {
        fake.world().asked.clear();
        let mut child = paceline(fake.dir.path(), held).args(["--", "true"]).spawn().unwrap();
        fake.wait_until(|world| world.asked.iter().any(|asked| asked.method == "DELETE"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        fake.wait_until(|world| world.sessions.is_empty());
    }
    assert_eq!(held(&fake), 0);
}

#[test]
fn the_command_is_told_what_it_holds() {
    let fake = Fake::start(|_| None);
    let say = "echo $PACELINE_PERMIT $PACELINE_REQUEST; ls -l /proc/self/fd | grep -c socket";
    let (_, stdout, _) = ended(&mut paceline(fake.dir.path(), &["permit", "--", "sh", "-c", say]));
    assert_eq!(stdout, "p-2 17\n1\n", "one connection is inherited and no more");
    let say = "echo $PACELINE_LOCK $PACELINE_FENCING";
    let mut command =
        paceline(fake.dir.path(), &["lock", "deploy", "--json", "--", "sh", "-c", say]);
    let (_, stdout, stderr) = ended(&mut command);
    assert_eq!(stdout, "deploy 4\n");
    assert_eq!(stderr, "{\"fencing\":4,\"lock\":\"deploy\"}\n");
}

#[test]
fn a_permit_inside_a_lock_has_a_session_of_its_own_and_finds_the_lock() {
    let fake = Fake::start(|_| None);
    let program = env!("CARGO_BIN_EXE_paceline");
    let inner = [program, "permit", "--require-lock", "deploy", "--", "true"];
    let mut command = paceline(fake.dir.path(), &["lock", "deploy", "--"]);
    assert_eq!(ended(command.args(inner)).0, Some(0));
    let world = fake.world();
    let session = &asked(&world, "PUT /v1/locks/deploy").unwrap().body["session"];
    let body = &asked(&world, "POST /v1/permits").unwrap().body;
    assert_ne!(&body["session"], session);
    assert_eq!(&body["locks_of"], session);
    assert_eq!(body["require_locks"][0], "deploy");
    assert_eq!(world.asked.iter().filter(|asked| asked.path == "/v1/sessions").count(), 2);
}

#[test]
fn a_lock_that_somebody_has_is_75_unless_it_is_stolen() {
    let fake = Fake::start(|_| None);
    let (mut child, stdin) = start(&fake, &["lock", "deploy"]);
    let mut command = paceline(fake.dir.path(), &["lock", "deploy", "--wait", "0s", "--", "true"]);
    let (code, _, stderr) = ended(&mut command);
    assert_eq!(code, Some(75));
    assert!(stderr.contains("--wait"), "{stderr}");
    let mut command = paceline(fake.dir.path(), &["lock", "deploy", "--steal", "--", "true"]);
    assert_eq!(ended(&mut command).0, Some(0));
    drop(stdin);
    child.wait().unwrap();
}

/// As under `nohup`, and in the background of a shell without job control.
#[test]
fn what_we_are_to_ignore_the_command_ignores_too() {
    let fake = Fake::start(|_| None);
    let program = env!("CARGO_BIN_EXE_paceline");
    let line = format!("trap '' HUP INT; exec '{program}' permit -- grep SigIgn /proc/self/status");
    let mut command = std::process::Command::new("sh");
    let (code, stdout, stderr) =
        ended(command.args(["-c", &line]).env("PACELINE_DATA", fake.dir.path()));
    assert_eq!(code, Some(0), "{stderr}");
    let bits = u64::from_str_radix(stdout.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(bits & 0b100_0000_0000_0111, 0b011, "HUP and INT, not QUIT nor TERM: {stdout}");
}
