//! What a new user meets on the first day: refusals, counts and hints that must say what is the case.

use crate::command_line::{hold, let_go, paceline, start};
use paceline_tests::{Launch, Scratch};
use serde_json::json;
use std::net::TcpListener;

/// Locks and edits of a read-only daemon are refused at once, with the reason. Locks used to hang.
#[test]
fn a_read_only_daemon_says_that_it_is() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).arg("--read-only").start().unwrap();
    let said = "the daemon is read-only: it accepts no changes and no locks";
    for words in [
        &["lock", "l", "--", "echo", "1"][..],
        &["lock", "l", "--wait", "1h", "--", "echo", "1"],
        &["lock", "l", "--steal", "--", "echo", "1"],
        &["pools", "create", "p"],
        &["rules", "new", "--reject"],
        &["users", "set", "eva", "--role", "viewer"],
    ] {
        let refused = paceline(&daemon, words).expect(3);
        assert!(refused.err.contains(said), "{words:?}: {}", refused.err);
        assert_eq!(refused.out, "", "{words:?}");
    }
    let body = daemon.api().call("PUT", "/v1/pools/p", &json!({})).expect(409);
    assert_eq!((&body["error"], &body["reason"]), (&json!("refused"), &json!("read_only")));
}

/// All requests that `ps` lists are counted, wherever they wait.
#[test]
fn status_counts_all_requests() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let create = ["checkpoints", "create", "c", "--at", "frontend api", "--concurrency", "1"];
    paceline(&daemon, &create).expect(0);
    let holder = hold(&daemon, &["permit"]);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let mut command = crate::command_line::command(&["permit", "--", "true"]);
            command.env("PACELINE_DATA", daemon.data()).spawn().unwrap()
        })
        .collect();
    let listed = || paceline(&daemon, &["ps", "--json"]).expect(0).json();
    while listed().as_array().unwrap().len() < 4 {
        std::thread::yield_now();
    }
    let status = paceline(&daemon, &["status", "--json"]).expect(0).json();
    assert_eq!(status["requests"], json!({"running": 1, "waiting": 3}));
    let text = paceline(&daemon, &["status"]).expect(0).out;
    assert!(text.contains("1 running, 3 waiting"), "{text}");
    let_go(holder);
    for mut waiter in waiters {
        assert!(waiter.wait().unwrap().success());
    }
    let status = paceline(&daemon, &["status", "--json"]).expect(0).json();
    assert_eq!(status["requests"], json!({"running": 0, "waiting": 0}));
}

/// A reset of an action that the rule does not have leaves the action that it has.
#[test]
fn a_reset_of_another_action_changes_nothing() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["rules", "new", "--number", "10", "--set", "3"]).expect(0);
    let set = |words: &[&str]| {
        let words = [&["rules", "set", "10", "--json"], words].concat();
        paceline(&daemon, &words).expect(0).json()
    };
    for reset in
        [&["--reset", "raise"][..], &["--reset", "reject", "--reset", "lower"], &["--reject=false"]]
    {
        assert_eq!(set(reset)["set"], 3, "{reset:?}");
    }
    assert_eq!(set(&["--raise", "2", "--reset", "lower"])["raise"], 2);
    let bare = set(&["--reset", "raise"]);
    assert!(bare.get("raise").is_none() && bare.get("set").is_none(), "{bare}");
}

/// Two frontends at one address: the error names the other one, whichever name comes first.
#[test]
fn an_address_of_another_frontend_names_it() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let create = |name: &str| paceline(&daemon, &["frontends", "create", name, "--listen", &port]);
    create("mmm").expect(0);
    for name in ["zzz", "aaa"] {
        let refused = create(name).expect(1).err;
        assert!(refused.contains("\"mmm\"") && refused.contains(&port), "{refused}");
        assert!(!refused.contains("1: "), "{refused}");
    }
}

/// A frontend that cannot bind its address is created, and the command says so and fails, as `apply` does.
#[test]
fn a_frontend_that_cannot_bind_is_reported() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let failed = paceline(&daemon, &["frontends", "create", "web", "--listen", &port]).expect(1);
    let said = "frontend web is created, but the HTTP door differs from the configuration: ";
    assert!(failed.err.contains(said) && failed.err.contains(&port), "{}", failed.err);
    assert_eq!(failed.err.matches(&port).count(), 1, "{}", failed.err);
    let changed =
        daemon.api().call("PATCH", "/v1/frontends/web", &json!({"user": "bearer"})).expect(200);
    let warnings = changed["warnings"].to_string();
    assert!(warnings.contains(&port), "{changed}");
    drop(taken);
}

/// Several files and directories are applied in one transaction, each with its own name, as `serve --config` does.
#[test]
fn apply_takes_several_files() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let folder = scratch.path().join("conf.d");
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = write(
        "a.toml",
        "[[resource]]\nname = 'a'\n[[rule]]\nmatch = { user = 'a' }\nreject = true\n",
    );
    let two = write("b.toml", "[[resource]]\nname = 'b'\nparents = ['a']\n");
    let whole = folder.to_str().unwrap();
    let done = paceline(&daemon, &["apply", whole]).expect(0).out;
    assert!(done.contains("+ resource a") && done.contains("+ resource b"), "{done}");
    assert_eq!(paceline(&daemon, &["apply", &one, &two]).expect(0).out, "");
    let owned = paceline(&daemon, &["export", "--owner", "b.toml"]).expect(0).out;
    assert!(owned.contains("\"b\"") && !owned.contains("[[rule]]"), "{owned}");
    // A mistake in one file changes nothing of the other.
    write("a.toml", "[[resource]]\nname = 'a'\n[[resource]]\nname = 'c'\n");
    write("b.toml", "\n[[resource]]\nnam = 'b'\n");
    let wrong = paceline(&daemon, &["apply", whole]).expect(1).err;
    assert!(wrong.contains(&format!("{two}:3:1: ")), "{wrong}");
    let left = paceline(&daemon, &["resources", "--json"]).expect(0).json();
    assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
    // Both files have a rule 10: the hint is that of check.
    write("a.toml", "[[rule]]\nmatch = { user = 'a' }\nreject = true\n");
    write("b.toml", "[[rule]]\nmatch = { user = 'b' }\nreject = true\n");
    let hint = "number the rules of all files so that each has a number of its own";
    for words in [&["check", whole][..], &["apply", whole], &["apply", &two]] {
        let said = paceline(&daemon, words).expect(1).err;
        assert!(said.contains(hint) && !said.contains("--take-over"), "{words:?}: {said}");
    }
    let refused = paceline(&daemon, &["apply", &one, "-"]).expect(2).err;
    assert!(refused.contains("- cannot be given together with other files"), "{refused}");
    let refused = paceline(&daemon, &["apply", &one, &two, "--owner", "x"]).expect(2).err;
    assert!(refused.contains("--owner needs one FILE"), "{refused}");
}

/// A rule that can never match, and a text that only looks like a list, are reported wherever a rule is made or shown.
#[test]
fn rules_that_never_match_are_reported() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let never = "it never matches, because user cannot be both \"a\" and \"b\"; to match any of them, write user = \
                 { regex = '^(a|b)$' }, or a rule for each";
    let both = ["rules", "new", "--match", "user=a", "--match", "user=b", "--reject"];
    assert!(paceline(&daemon, &both).expect(0).err.contains(never));
    let list =
        paceline(&daemon, &["rules", "new", "--match", "user=[a,b]", "--reject"]).expect(0).err;
    assert!(list.contains("user must be exactly \"[a,b]\", which is not read as a list"), "{list}");
    let file = scratch.path().join("never.toml");
    std::fs::write(&file, "[[rule]]\nnumber = 50\nmatch = { user = ['a', 'b'] }\nreject = true\n")
        .unwrap();
    let file = file.to_str().unwrap();
    for words in [&["check", file][..], &["apply", file]] {
        let said = paceline(&daemon, words).expect(0).err;
        assert!(said.contains(&format!("{file}:3:")) && said.contains(never), "{words:?}: {said}");
    }
    let status = paceline(&daemon, &["status", "--json"]).expect(0).json();
    assert_eq!(status["warnings"].to_string().matches("never matches").count(), 2, "{status}");
}

/// What `check` says of a file, `status`, `doctor` and `GET /v1/status` say of the same objects.
#[test]
fn status_has_the_warnings_of_check() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let file = scratch.path().join("doubtful.toml");
    let text = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\n[[backend]]\nname = 'app'\n\
                [[backend]]\nname = 'zero'\nservers = [{ name = 'a', address = '127.0.0.1:1', weight = 0 }]\n\
                [[rule]]\nmatch = { user = 'a' }\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let said = [
        "frontend \"web\": it has no backend and refuses every request; give it backend",
        "backend \"app\": no frontend uses it",
        "backend \"app\": it has no servers",
        "backend \"zero\": all its servers have weight 0, so none of them gets requests",
        "rule 10: it does nothing when it matches; give it set, raise, lower or reject",
    ];
    let checked = paceline(&daemon, &["check", file]).expect(0).err;
    let applied = paceline(&daemon, &["apply", file]).expect(0).err;
    let status = paceline(&daemon, &["status", "--json"]).expect(0).json()["warnings"].clone();
    let doctor = paceline(&daemon, &["doctor", "--json"]).out;
    for text in said {
        assert!(checked.contains(text) && applied.contains(text), "{text}: {checked}{applied}");
        assert!(status.as_array().unwrap().contains(&json!(text)), "{text}: {status}");
        assert!(doctor.contains(&text.replace('"', "\\\"")), "{text}: {doctor}");
    }
}

/// Events and the log name the user and the text of a request; viewers see the beginning of the text.
#[test]
fn events_name_the_request() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let rule = ["rules", "new", "--match", "user=eva", "--reject", "--log-matches"];
    paceline(&daemon, &rule).expect(0);
    let mut events = daemon.api().follow();
    let lines = {
        let mut command =
            crate::command_line::command(&["events", "--kind", "log", "--count", "1"]);
        command.env("PACELINE_DATA", daemon.data()).stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let ask = ["permit", "--attr", "user=eva", "--", "echo", "secret"];
    // The command follows from some moment on, so requests are sent until it has seen one.
    let mut lines = lines;
    while lines.try_wait().unwrap().is_none() {
        paceline(&daemon, &ask).expect(3);
    }
    // The outcome of a request is told before the rules that matched it.
    let refused = events.next_of("refused");
    assert_eq!((&refused["user"], &refused["reason"]), (&json!("eva"), &json!("rejected")));
    let logged = events.next_of("log");
    assert_eq!(
        (&logged["user"], &logged["text"]),
        (&json!("eva"), &json!("echo secret")),
        "{logged}"
    );
    let line = String::from_utf8(lines.wait_with_output().unwrap().stdout).unwrap();
    assert!(line.contains("eva: echo secret") && line.contains("rule=10"), "{line}");
    let time = line.split_whitespace().next().unwrap();
    assert!(time.len() == 8 && time.chars().all(|c| c.is_ascii_digit() || c == ':'), "{line}");
    daemon.log_line(&["a rule that logs matched", "eva", "echo secret"]).unwrap();
}

/// A resource that is held can be deleted, and the answer says who holds it.
#[test]
fn deleting_a_held_resource_is_reported() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    paceline(&daemon, &["resources", "create", "pool", "--parents", "disk"]).expect(0);
    let holder = hold(&daemon, &["permit", "--claim", "pool"]);
    let request = paceline(&daemon, &["ps", "--json"]).expect(0).json()[0]["request"].to_string();
    let said = paceline(&daemon, &["resources", "delete", "pool"]).expect(0).err;
    let expected = format!(
        "warning: resource \"pool\": request {request} still holds it; claims on its former parents no longer wait for it"
    );
    assert!(said.contains("resource pool is deleted") && said.contains(&expected), "{said}");
    let_go(holder);
    assert!(!paceline(&daemon, &["resources", "delete", "disk"]).expect(0).err.contains("warning"));
}

/// Inside a permit, `explain` says what an inner permit would be told.
#[test]
fn explain_knows_the_permit_around_it() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    let binary = paceline_tests::server::paceline_binary();
    let binary = binary.to_str().unwrap();
    let words = ["permit", "--claim", "disk", "--", binary, "explain", "--claim", "disk"];
    let explained = paceline(&daemon, &words).expect(0).out;
    assert!(explained.contains("would be refused: "), "{explained}");
}

/// The hint after a wait says what ended it.
#[test]
fn hints_after_waits_name_what_ended_them() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let waits = |words: &[&str]| {
        paceline(&daemon, &[&["permit"], words, &["--", "true"]].concat()).expect(75).err
    };
    // A claim: nobody knows how long it is held.
    paceline(&daemon, &["resources", "create", "disk"]).expect(0);
    paceline(&daemon, &["permit", "--", "sleep", "0.01"]).expect(0);
    let holder = hold(&daemon, &["permit", "--claim", "disk"]);
    let said = waits(&["--claim", "disk", "--max-wait", "10ms"]);
    assert!(!said.contains("try again in"), "{said}");
    assert!(said.contains("wait longer with --max-wait"), "{said}");
    let_go(holder);
    // The queue's own bound.
    let create = "checkpoints create c --concurrency 1 --queue-max-delay 10ms --at".split(' ');
    let create: Vec<&str> = create.chain(["frontend api"]).collect();
    paceline(&daemon, &create).expect(0);
    let holder = hold(&daemon, &["permit"]);
    for words in [&[][..], &["--max-wait", "1h"]] {
        let said = waits(words);
        assert!(!said.contains("wait longer with --max-wait"), "{said}");
        assert!(said.contains("the queue's own max_delay ended the wait"), "{said}");
    }
    let_go(holder);
    paceline(&daemon, &["checkpoints", "delete", "c"]).expect(0);
    // A stopped pool.
    paceline(&daemon, &["pools", "create", "batch", "--priority", "1..9"]).expect(0);
    paceline(&daemon, &["rules", "new", "--set", "5"]).expect(0);
    let said = waits(&["--max-wait", "10ms"]);
    assert!(said.contains("pool \"batch\" is stopped: waited "), "{said}");
    assert!(said.contains("start it with: paceline pools start batch"), "{said}");
}
