//! The command line against the daemon, as users run it: verbs, flags, the display while it waits, and its messages.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The exit code and output of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect(&self.out)
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(paceline_binary());
    command.args(arguments).stdin(Stdio::null());
    for name in ["PACELINE_DATA", "PACELINE_API", "PACELINE_TOKEN", "PACELINE_WITHIN", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a command against this daemon.
pub(crate) fn paceline(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(command(arguments).env("PACELINE_DATA", daemon.data()))
}

pub(crate) fn start(scratch: &Scratch) -> Daemon {
    Launch::new(scratch).start().unwrap()
}

/// Holds a permit until its input ends.
pub(crate) fn hold(daemon: &Daemon, arguments: &[&str]) -> (Child, ChildStdin) {
    let mut command = command(arguments);
    command.args(["--", "sh", "-c", "echo holds; exec cat"]).env("PACELINE_DATA", daemon.data());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "holds\n");
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

pub(crate) fn let_go((mut child, stdin): (Child, ChildStdin)) {
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn common_options_stand_before_and_after_the_command() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).api("127.0.0.1:0").start().unwrap();
    let data = daemon.data();
    let (data, api) = (data.to_str().unwrap(), format!("http://{}", daemon.api_address()));
    let token = format!("{data}/token");
    let unix = ["--data", data, "--json", "--log", "error"];
    let tcp = ["--api", &api, "--token-file", &token, "--json"];
    for (options, host) in [(&unix[..], "unix"), (&tcp, "127.0.0.1")] {
        for words in [[options, &["whoami"]].concat(), [&["whoami"], options].concat()] {
            let who = said(&mut command(&words)).expect(0).json();
            assert_eq!((&who["host"], &who["role"]), (&json!(host), &json!("admin")), "{words:?}");
        }
        for words in [
            [options, &["pools", "start", "nowhere"]].concat(),
            [&["pools"], options, &["start", "nowhere"]].concat(),
            [&["pools", "start", "nowhere"], options].concat(),
        ] {
            let failed = said(&mut command(&words)).expect(4);
            let told: Value = serde_json::from_str(&failed.err).expect(&failed.err);
            assert_eq!(told["error"], "not_found", "{words:?}");
        }
    }
    // The daemon itself is also a command.
    let other = scratch.path().join("other");
    let words = ["--data", other.to_str().unwrap(), "serve", "--api", "none"];
    let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains(other.to_str().unwrap()), "{line}");
}

/// Every setting of these objects is set by a flag, and read back.
#[test]
fn objects_are_made_changed_and_deleted_with_flags() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let ask = |words: &[&str]| paceline(&daemon, &[words, &["--json"]].concat());
    let made = |words: &[&str], expected: Value| {
        let object = ask(words).expect(0).json();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&object[name], value, "{words:?}: {name}");
        }
    };
    made(
        &[
            "pools",
            "create",
            "batch",
            "--priority=-20..-1",
            "--threads-max",
            "4",
            "--persistent",
            "--queue-max-len",
            "9",
            "--queue-max-delay",
            "90s",
            "--started",
        ],
        json!({"priority": [-20, -1], "threads": {"max": 4}, "state": "started", "persistent": true,
            "queue": {"max_len": 9, "max_delay": "90s"}}),
    );
    made(
        &["pools", "set", "batch", "--threads", "0..2", "--reset", "queue.max_delay"],
        json!({"threads": {"min": 0, "max": 2}, "queue": {"max_len": 9}}),
    );
    made(
        &[
            "checkpoints",
            "create",
            "c",
            "--at",
            "frontend api",
            "--on",
            "request",
            "--number",
            "3",
            "--when",
            "user != \"\"",
            "--key",
            "user",
            "--fair",
            "task",
            "--weight",
            "2",
            "--rate",
            "5/s",
            "--burst",
            "7",
            "--queue-max-len",
            "1",
            "--queue-max-total",
            "2",
            "--queue-max-delay",
            "3s",
            "--keys-max",
            "4",
            "--status",
            "429",
            "--mode",
            "watch",
        ],
        json!({"at": "frontend api", "number": 3, "when": "user != \"\"", "key": "user", "fair": "task",
            "weight": "2", "rate": "5/s", "burst": 7, "keys_max": 4, "status": 429, "mode": "watch",
            "queue": {"max_len": 1, "max_total": 2, "max_delay": "3s"}, "persistent": false}),
    );
    made(
        &["checkpoints", "set", "c", "--reset", "rate", "--reset", "burst", "--concurrency", "2"],
        json!({"rate": null, "concurrency": 2, "key": "user"}),
    );
    made(&["resources", "create", "disk"], json!({"parents": []}));
    made(&["resources", "create", "tank", "--parents", "disk"], json!({"parents": ["disk"]}));
    made(
        &[
            "rules", "new", "--match", "user=a*", "--match", "user=*b", "--mode", "glob",
            "--raise", "2",
        ],
        json!({"number": 10, "raise": 2, "then": "continue"}),
    );
    made(
        &["rules", "set", "10", "--reject", "--when", "true", "--log-matches"],
        json!({"reject": true, "when": "true", "log": true, "raise": null}),
    );
    made(&["users", "set", "nobody", "--role", "viewer"], json!({"role": "viewer"}));
    made(
        &["backends", "create", "app", "--balance", "power-of-two", "--health-path", "/up"],
        json!({"balance": "power-of-two", "health": {"path": "/up"}}),
    );
    made(
        &["servers", "create", "app/a", "--address", "127.0.0.1:1", "--weight", "3"],
        json!({"address": "127.0.0.1:1", "weight": 3}),
    );
    made(
        &[
            "frontends",
            "create",
            "web",
            "--listen",
            "127.0.0.1:0",
            "--backend",
            "app",
            "--upgrades",
            "[]",
            "--http2=false",
            "--log-values",
            "who=user",
        ],
        json!({"backend": "app", "upgrades": [], "http2": false, "log_values": {"who": "user"}}),
    );
    made(
        &["frontends", "set", "web", "--timeouts-idle", "5s"],
        json!({"timeouts": {"idle": "5s"}}),
    );
    for words in [
        ["frontends", "delete", "web"],
        ["backends", "delete", "app"],
        ["rules", "delete", "10"],
        ["users", "delete", "nobody"],
        ["resources", "delete", "tank"],
        ["checkpoints", "delete", "c"],
        ["pools", "delete", "batch"],
    ] {
        paceline(&daemon, &words).expect(0);
        let again = paceline(&daemon, &words).expect(4);
        assert_eq!(again.err.lines().count(), 2, "a message and what to try: {}", again.err);
    }
    let there = paceline(&daemon, &["resources", "create", "disk"]).expect(1);
    assert!(there.err.contains("paceline resources set disk"), "{}", there.err);
}

#[test]
fn rules_that_are_overwritten_or_come_back_are_told() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let rules = |words: &[&str]| paceline(&daemon, &[&["rules"], words].concat()).expect(0).err;
    assert!(rules(&["clear"]).contains("no rules are saved"));
    rules(&["new", "--match", "user=etl", "--lower", "20"]);
    rules(&["new", "--reject", "--when", "false"]);
    assert!(rules(&["save"]).contains("2 rules are saved"));
    assert!(rules(&["clear"]).contains("the 2 saved rules are in use again after the next start"));
    let told = rules(&["save"]);
    assert!(told.contains("overwrote 2 saved rules"), "{told}");
    assert!(
        told.contains("10  user=") && told.contains("etl") && told.contains("lower 20"),
        "{told}"
    );
    assert!(rules(&["save"]).contains("so was the saved one"));
}

/// Runs a command in a terminal, which `script` of util-linux creates.
pub(crate) fn in_terminal(daemon: &Daemon, line: &str) -> Child {
    let program = paceline_binary();
    Command::new("script")
        .args(["-qefc", &format!("exec '{}' {line}", program.display()), "/dev/null"])
        .env("PACELINE_DATA", daemon.data())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux can be run")
}

/// Reads the terminal's output until it has shown all of `parts`.
pub(crate) fn shown(terminal: &mut Child, parts: &[&str]) -> String {
    let mut text = String::new();
    let stdout = terminal.stdout.as_mut().unwrap();
    while !parts.iter().all(|part| text.contains(part)) {
        let mut piece = [0; 256];
        let count = stdout.read(&mut piece).unwrap();
        assert_ne!(count, 0, "{parts:?} in {text:?}");
        text.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    text
}

#[test]
fn a_terminal_shows_what_is_waited_for_and_behind_whom() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    paceline(&daemon, &["resources", "create", "tank", "--parents", "disk"]).expect(0);
    let user = paceline(&daemon, &["whoami", "--json"]).expect(0).json()["user"].clone();
    let user = user.as_str().unwrap();

    let holder = hold(&daemon, &["permit", "--claim", "disk"]);
    let behind = format!("behind {user}: sh -c echo holds; exec cat (");
    let mut terminal = in_terminal(&daemon, "permit --claim tank -- echo granted");
    let text = shown(&mut terminal, &["waiting ", "for resource \"tank\"", &behind, "waiting 1s"]);
    assert!(!text.contains('\n'), "it is one line: {text:?}");
    // Other commands show the same name.
    let ps = paceline(&daemon, &["ps"]).expect(0).out;
    let name = format!("{user}: sh -c echo holds; exec cat (");
    assert!(ps.lines().any(|line| line.contains("waiting") && line.contains(&name)), "{ps}");
    let list = paceline(&daemon, &["ps", "--json"]).expect(0).json();
    let waiting = list.as_array().unwrap().iter().find(|one| one["state"] == "waiting").unwrap();
    let why = paceline(&daemon, &["why", &waiting["request"].to_string()]).expect(0).out;
    let name = format!("{user}: sh -c echo holds; exec cat, runs ");
    assert!(why.contains(&name), "{why}");
    let_go(holder);
    let text = shown(&mut terminal, &["granted"]);
    assert!(text.contains("\r\x1b[K"), "the line is gone before the command runs: {text:?}");
    assert!(terminal.wait().unwrap().success());

    let holder = hold(&daemon, &["lock", "deploy"]);
    let mut terminal = in_terminal(&daemon, "lock deploy --wait 10m -- echo granted");
    shown(&mut terminal, &[&format!("for lock deploy, behind {user}: sh")]);
    let_go(holder);
    shown(&mut terminal, &["granted"]);
    assert!(terminal.wait().unwrap().success());
}

#[test]
fn nothing_is_drawn_where_there_is_no_terminal() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    let holder = hold(&daemon, &["permit", "--claim", "disk"]);
    let words = ["permit", "--claim", "disk", "--max-wait", "1500ms", "--", "true"];
    let waited = paceline(&daemon, &words).expect(75);
    assert!(!waited.err.contains("waiting") && !waited.err.contains('\x1b'), "{}", waited.err);
    let_go(holder);
}

/// The inner command would wait for a permit that the outer one releases only after it.
#[test]
fn a_permit_inside_a_permit_that_blocks_it_is_refused_at_once() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    for words in [
        &["resources", "create", "disk"][..],
        &["resources", "create", "tank", "--parents", "disk"],
        &["resources", "create", "other"],
    ] {
        paceline(&daemon, words).expect(0);
    }
    let program = paceline_binary();
    let program = program.to_str().unwrap();
    let inside = |outer: &[&str], inner: &[&str]| {
        let words = [outer, &["--", program], inner, &["--", "true"]].concat();
        paceline(&daemon, &words)
    };
    let disk = ["permit", "--claim", "disk"];
    for inner in ["disk", "tank"] {
        let refused = inside(&disk, &["permit", "--claim", inner]).expect(3);
        assert!(refused.err.contains("blocks itself"), "{}", refused.err);
    }
    inside(&disk, &["permit", "--claim", "other"]).expect(0);
    inside(&["permit", "--claim", "disk:shared"], &["permit", "--claim", "disk:shared"]).expect(0);
    // At any depth, and through a lock.
    let deep = ["permit", "--claim", "disk", "--", program, "permit", "--claim", "other"];
    inside(&deep, &["permit", "--claim", "tank"]).expect(3);
    let locked = ["permit", "--claim", "disk", "--", program, "lock", "l"];
    inside(&locked, &["permit", "--require-lock", "l", "--claim", "tank"]).expect(3);
    let under = ["lock", "l", "--", program, "permit", "--require-lock", "l", "--claim", "disk"];
    inside(&under, &["permit", "--claim", "tank"]).expect(3);
    // Two commands beside each other wait for each other as usual.
    let both = format!(
        "'{program}' permit --claim disk -- true & '{program}' permit --claim disk -- true; wait $!"
    );
    paceline(&daemon, &["permit", "--claim", "other", "--", "sh", "-c", &both]).expect(0);
    // A reference to a permit that has ended does not block a command that inherited it.
    let holder = hold(&daemon, &disk);
    let mut late = command(&["permit", "--claim", "disk", "--max-wait", "0s", "--", "true"]);
    let place =
        format!("unix:{}", daemon.data().canonicalize().unwrap().join("api.sock").display());
    late.env("PACELINE_DATA", daemon.data()).env("PACELINE_WITHIN", format!("s-gone {place}"));
    said(&mut late).expect(75);
    let_go(holder);
}

#[test]
fn a_resource_with_children_is_taken_and_deleted_with_care() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    for (name, parent) in [("tank", "disk"), ("home", "tank")] {
        paceline(&daemon, &["resources", "create", name, "--parents", parent]).expect(0);
    }
    let holder = hold(&daemon, &["permit", "--claim", "disk"]);
    let tree = paceline(&daemon, &["tree"]).expect(0).out;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].starts_with("disk  held by"), "{tree}");
    assert!(lines[1].contains("tank  taken with disk"), "{tree}");
    assert!(lines[2].contains("home  taken with disk"), "{tree}");
    let_go(holder);
    let refused = paceline(&daemon, &["resources", "delete", "tank"]).expect(1);
    assert!(
        refused.err.contains("\"home\"") && refused.err.contains("--orphan"),
        "{}",
        refused.err
    );
    paceline(&daemon, &["resources", "delete", "tank", "--orphan"]).expect(0);
    let left = paceline(&daemon, &["resources", "--json"]).expect(0).json();
    let left: Vec<_> =
        left.as_array().unwrap().iter().map(|r| (&r["name"], &r["parents"])).collect();
    assert_eq!(left, [(&json!("disk"), &json!([])), (&json!("home"), &json!([]))]);
}

#[test]
fn tokens_that_end_soon_are_told_and_90_days_are_90_days() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let made = paceline(&daemon, &["token", "new", "ci", "--role", "client"]).expect(0);
    assert!(made.err.contains("in 90d"), "{}", made.err);
    assert!(paceline(&daemon, &["token"]).expect(0).out.contains("in 90d"));
    paceline(&daemon, &["token", "new", "soon", "--role", "viewer", "--expires", "14d"]).expect(0);
    paceline(&daemon, &["token", "new", "later", "--role", "viewer", "--expires", "15d"]).expect(0);
    for words in [["doctor"], ["status"]] {
        let told = paceline(&daemon, &words).expect(0).out;
        assert!(told.contains("token soon expires in 14d"), "{told}");
        assert!(!told.contains("token later") && !told.contains("token ci"), "{told}");
    }
    let status = paceline(&daemon, &["status", "--json"]).expect(0).json();
    assert_eq!(status["tokens_ending"][0]["name"], "soon", "{status}");
}

#[test]
fn a_refused_permission_names_the_role_that_would_do() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).api("127.0.0.1:0").start().unwrap();
    let api = format!("http://{}", daemon.api_address());
    let token = paceline(&daemon, &["token", "new", "eye", "--role", "operator"]).expect(0).out;
    for (words, role) in [
        (&["pools", "create", "p"][..], "admin"),
        (&["rules", "save"], "admin"),
        (&["token"], "admin"),
    ] {
        let refused =
            said(command(words).args(["--api", &api]).env("PACELINE_TOKEN", token.trim()));
        let refused = refused.expect(77);
        assert!(refused.err.contains(&format!("the role {role}")), "{words:?}: {}", refused.err);
        assert!(!refused.err.contains("root"), "{words:?}: {}", refused.err);
    }
}

/// The waiting requests of a list, each with the number of requests ahead of it.
fn ahead(daemon: &Daemon) -> Vec<u64> {
    let list = paceline(daemon, &["ps", "--json"]).expect(0).json();
    let waiting = list.as_array().unwrap().iter().filter(|one| one["state"] == "waiting");
    waiting.map(|one| one["ahead_total"].as_u64().unwrap()).collect()
}

#[test]
fn those_ahead_are_counted_alike_at_a_rate_and_at_a_concurrency() {
    for limit in [["--rate", "1 per 1h"], ["--concurrency", "1"]] {
        let scratch = Scratch::new();
        let daemon = start(&scratch);
        let words = ["checkpoints", "create", "c", "--at", "frontend api", "--max-delay", "100h"];
        paceline(&daemon, &[&words[..], &limit].concat()).expect(0);
        let first = hold(&daemon, &["permit"]);
        let mut waiters = vec![];
        for count in 1..=3 {
            let mut waiter = daemon.api();
            let mut events = daemon.api().follow();
            waiter.send("POST", "/v1/permits", Some("{}"));
            let request = events.next_of("waiting")["request"].to_string();
            waiters.push(waiter);
            assert_eq!(ahead(&daemon), (0..count).collect::<Vec<u64>>(), "{limit:?}");
            let why = paceline(&daemon, &["why", &request, "--json"]).expect(0).json();
            assert_eq!(why["ahead_total"], count - 1, "{limit:?}: {why}");
        }
        drop(waiters);
        let_go(first);
    }
}

#[test]
fn figures_are_those_of_the_moment() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(
        &daemon,
        &["checkpoints", "create", "c", "--at", "frontend api", "--concurrency", "9"],
    )
    .expect(0);
    paceline(&daemon, &["pools", "create", "p", "--priority", "1..9", "--started"]).expect(0);
    paceline(&daemon, &["rules", "new", "--set", "5"]).expect(0);
    let shown = |words: &[&str], at: usize, name: &str| {
        let list = paceline(&daemon, &[words, &["--json"]].concat()).expect(0).json();
        list[at]["figures"][name].clone()
    };
    for _ in 0..3 {
        assert_eq!(shown(&["checkpoints"], 0, "inflight"), 0);
        assert_eq!(shown(&["pools"], 1, "running"), 0);
        let held = hold(&daemon, &["permit"]);
        assert_eq!(shown(&["checkpoints"], 0, "inflight"), 1);
        assert_eq!(shown(&["pools"], 1, "running"), 1);
        let_go(held);
    }
}

#[test]
fn ages_survive_a_restart() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let held = hold(&daemon, &["permit"]);
    let since = |daemon: &Daemon| {
        paceline(daemon, &["ps", "--json"]).expect(0).json()[0]["since"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let before = since(&daemon);
    daemon.kill();
    let daemon = launch.start().unwrap();
    assert_eq!(since(&daemon), before);
    let_go(held);
}

#[test]
fn a_waiting_request_is_cancelled_with_a_reason() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    let holder = hold(&daemon, &["permit", "--claim", "disk"]);
    let mut events = daemon.api().follow();
    let mut waiter = command(&["permit", "--claim", "disk", "--", "true"]);
    waiter.env("PACELINE_DATA", daemon.data()).stderr(Stdio::piped());
    let mut waiter = waiter.spawn().unwrap();
    let request = events.next_of("waiting")["request"].to_string();
    let words = ["cancel", &request, "--reason", "maintenance at 5"];
    paceline(&daemon, &words).expect(0);
    let mut told = String::new();
    waiter.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(waiter.wait().unwrap().code(), Some(3), "{told}");
    assert!(told.contains("maintenance at 5"), "{told}");
    // The request is gone, and a running request is not cancelled.
    paceline(&daemon, &words).expect(4);
    let running = paceline(&daemon, &["ps", "--json"]).expect(0).json()[0]["request"].to_string();
    paceline(&daemon, &["cancel", &running]).expect(1);
    let_go(holder);
}
