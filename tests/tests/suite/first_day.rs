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
