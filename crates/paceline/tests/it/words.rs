//! Exit codes, JSON, changes of objects, and error messages.

use crate::fake::{Asked, Fake, Reply, Scratch, error};
use crate::{ended, paceline, sample};
use serde_json::{Value, json};

#[test]
fn a_daemon_that_is_away_is_69_and_says_how_to_start_it() {
    let data = Scratch::new();
    for arguments in
        [&["ps"][..], &["pools"], &["permit", "--", "true"], &["lock", "l", "--", "true"]]
    {
        let (code, stdout, stderr) = ended(&mut paceline(data.path(), arguments));
        assert_eq!((code, stdout.as_str()), (Some(69), ""), "{arguments:?}");
        let start = format!("start it with: paceline serve --data {}", data.path().display());
        assert!(stderr.contains(&start), "{stderr}");
    }
}

#[test]
fn data_is_found_by_flag_before_environment() {
    let fake = Fake::start(sample::answer);
    let elsewhere = Scratch::new();
    let flag = fake.dir.path().to_str().unwrap();
    let (code, ..) = ended(&mut paceline(elsewhere.path(), &["ps", "--data", flag]));
    assert_eq!(code, Some(0));
    let mut command = paceline(elsewhere.path(), &["ps"]);
    command.env_remove("PACELINE_DATA").env("HOME", "/nowhere").env("XDG_STATE_HOME", "/nowhere");
    let (code, _, stderr) = ended(&mut command);
    assert_eq!(code, Some(69), "{stderr}");
}

#[test]
fn errors_have_their_exit_codes() {
    let refusal = |reason: &str, status: u16| {
        Reply::Json(
            status,
            json!({"error": "refused", "message": "no", "reason": reason, "request": 1,
                "place": {"pool": "batch"}}),
        )
    };
    let cases: [(fn() -> Reply, i32); 8] = [
        (|| error(403, "permission", "caller does not have the necessary permission"), 77),
        (|| error(401, "unauthenticated", "no token"), 77),
        (|| error(404, "not_found", "no pool batch"), 4),
        (|| error(422, "constraint", "ranges overlap"), 1),
        (|| error(409, "conflict", "already persistent"), 1),
        (|| error(507, "resources", "disk full"), 1),
        (|| Reply::Raw(b"not http\r\n\r\n".to_vec()), 1),
        (|| Reply::Raw(b"HTTP/1.1 200".to_vec()), 69),
    ];
    for (reply, expected) in cases {
        let fake = Fake::start(move |_| Some(reply()));
        let (code, stdout, stderr) =
            ended(&mut paceline(fake.dir.path(), &["pools", "start", "batch"]));
        assert_eq!((code, stdout.as_str()), (Some(expected), ""), "{stderr}");
        assert_eq!(stderr.lines().count(), 2, "a message and what to try: {stderr}");
    }
    for (reason, status, expected) in [
        ("rejected", 409, 3),
        ("unknown_resource", 409, 3),
        ("draining", 503, 75),
        ("queue_full", 503, 75),
        ("too_long", 429, 75),
        ("expired", 503, 75),
    ] {
        let fake = Fake::start(move |asked: &Asked| {
            (asked.path == "/v1/permits").then(|| refusal(reason, status))
        });
        let (code, _, stderr) = ended(&mut paceline(fake.dir.path(), &["permit", "--", "true"]));
        assert_eq!(code, Some(expected), "{reason}: {stderr}");
        assert_eq!(stderr.lines().count(), 2, "{reason}: {stderr}");
        assert!(reason != "queue_full" || !stderr.contains("--max-wait"), "{stderr}");
    }
}

#[test]
fn usage_is_2_and_names_the_mistake() {
    let data = Scratch::new();
    for (arguments, word) in [
        (&["explain", "user"][..], "name=value"),
        (&["explain", "a=b", "c=d", "a=c"], "the attribute a is given twice"),
        (&["permit", "--attr", "a=b", "--attr", "a=b", "--", "true"], "a is given twice"),
        (&["permit", "--max-wait", "5x", "--", "true"], "units"),
        (&["permit"], "CMD"),
        (&["pools", "create", "a", "--threads", "8..0"], "lower"),
        (&["rules", "new", "--set", "1", "--reject"], "cannot be used with"),
        (&["rules", "new", "--mode", "glob", "--reject"], "--match"),
        (&["pools", "configure", "a", "--max-len", "1", "--reset", "queue"], "both set and reset"),
        (&["pools", "configure", "a", "--reset", "name"], "invalid value"),
        (&["checkpoints", "create", "c", "--status", "200"], "from 400 to 599"),
        (&["users", "set", "eva", "--role", "king"], "operator"),
        (&["users", "set", "eva", "--sql-password", "--no-sql-password"], "cannot be used with"),
        (&["cancel", "x"], "expected the number of a request"),
        (&["why", "x"], "expected the number of a request, see them with `paceline ps`"),
        (&["why"], "Usage: paceline why <ID>"),
        (&["lock", "", "--", "true"], "empty"),
        (&["lock", "deploy", "echo", "hi"], "put -- before the command"),
        (&["permit", "echo", "hi"], "put -- before the command"),
        (&["pool"], "pools"),
    ] {
        let (code, _, stderr) = ended(&mut paceline(data.path(), arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    }
}

#[test]
fn json_is_what_the_daemon_says() {
    let fake = Fake::start(sample::answer);
    for arguments in [
        &["ps"][..],
        &["why", "17"],
        &["explain"],
        &["pools"],
        &["rules"],
        &["rules", "--saved"],
        &["checkpoints"],
        &["frontends"],
        &["backends"],
        &["servers"],
        &["servers", "list"],
        &["sql-targets"],
        &["resources"],
        &["users"],
        &["whoami"],
        &["status"],
        &["tree"],
        &["locks"],
    ] {
        let mut command = paceline(fake.dir.path(), arguments);
        let (code, stdout, stderr) = ended(command.arg("--json"));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        let _: Value = serde_json::from_str(&stdout).expect(&stdout);
    }
    let (_, stdout, _) =
        ended(&mut paceline(fake.dir.path(), &["events", "--json", "--count", "2"]));
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1]["event"], "refused");
    assert_eq!(lines[1]["data"]["request"], 19);
    let (code, stdout, stderr) = ended(&mut paceline(fake.dir.path(), &["why", "99", "--json"]));
    assert_eq!((code, stdout.as_str()), (Some(4), ""));
    let told: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((&told["error"], &told["exit"]), (&json!("not_found"), &json!(4)));
}

#[test]
fn events_of_a_daemon_that_goes_away_end_with_69() {
    let fake = Fake::start(sample::answer);
    let (code, stdout, _) = ended(&mut paceline(fake.dir.path(), &["events", "--kind", "lock"]));
    assert_eq!(code, Some(69));
    assert_eq!(stdout, "10:20:32  lock      lock=deploy  what=stolen\n");
}

#[test]
fn a_tree_is_drawn_from_the_resources_where_there_is_no_other() {
    let fake = Fake::start(|asked: &Asked| match asked.path.as_str() {
        "/v1/tree" => Some(error(404, "not_found", "no such path")),
        _ => sample::answer(asked),
    });
    let (code, stdout, _) = ended(&mut paceline(fake.dir.path(), &["tree"]));
    assert_eq!(code, Some(0));
    assert_eq!(
        stdout,
        "disk:/dev/da0  held by 1\n└─ zpool:tank  taken with disk:/dev/da0  waiting 2\n\
         disk:/dev/da1\n└─ zpool:tank  taken with disk:/dev/da0  waiting 2\n"
    );
}

/// The request that a command sends, with its body.
fn sent(arguments: &[&str]) -> (String, Value) {
    let fake = Fake::start(|asked: &Asked| match asked.method.as_str() {
        "GET" => Some(error(404, "not_found", "no such object")),
        _ => Some(Reply::Json(200, json!({"number": 50}))),
    });
    let (code, stdout, stderr) = ended(&mut paceline(fake.dir.path(), arguments));
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    let asked = fake.world().asked.last().unwrap().clone();
    (asked.line(), asked.body)
}

#[test]
fn changes_are_sent_as_the_contract_says() {
    let cases: &[(&[&str], &str, Value)] = &[
        (
            &[
                "pools",
                "create",
                "batch",
                "--priority=-127..-1",
                "--threads",
                "0..8",
                "--max-len",
                "10",
                "--max-delay",
                "10m",
            ],
            "PUT /v1/pools/batch",
            json!({"priority": [-127, -1], "threads": {"min": 0, "max": 8}, "started": false,
                "queue": {"max_len": 10, "max_delay": "10m"}, "persistent": false}),
        ),
        (
            &["pools", "configure", "batch", "--group", "g", "--reset", "queue"],
            "PATCH /v1/pools/batch",
            json!({"group": "g", "queue": null}),
        ),
        (&["pools", "start", "a b"], "POST /v1/pools/a%20b/start", Value::Null),
        (&["pools", "stop", "a"], "POST /v1/pools/a/stop", Value::Null),
        (&["pools", "drain", "a"], "POST /v1/pools/a/drain", Value::Null),
        (&["pools", "persist", "a"], "POST /v1/pools/a/persist", Value::Null),
        (&["pools", "unpersist", "a"], "POST /v1/pools/a/unpersist", Value::Null),
        (&["pools", "delete", "a"], "DELETE /v1/pools/a", Value::Null),
        (
            &[
                "rules",
                "new",
                "--number",
                "5",
                "--match",
                "user=etl-*",
                "--mode",
                "glob",
                "--nocase",
                "--when",
                "true",
                "--set",
                "-5",
                "--then",
                "stop",
                "--log-matches",
                "--disabled",
            ],
            "POST /v1/rules",
            json!({"number": 5, "match": {"user": "etl-*"}, "mode": "glob", "nocase": true,
                "when": "true", "set": -5, "then": "stop", "log": true, "disabled": true}),
        ),
        (&["rules", "new", "--reject"], "POST /v1/rules", json!({"reject": true})),
        (&["rules", "set", "7", "--raise", "2"], "PATCH /v1/rules/7", json!({"raise": 2})),
        (&["rules", "delete", "7"], "DELETE /v1/rules/7", Value::Null),
        (
            &[
                "checkpoints",
                "create",
                "c",
                "--at",
                "pool p",
                "--queue-max-len",
                "1",
                "--max-delay",
                "5s",
            ],
            "PUT /v1/checkpoints/c",
            json!({"at": "pool p", "queue": {"max_len": 1, "max_delay": "5s"}}),
        ),
        (
            &["checkpoints", "set", "c", "--rate", "1/s", "--reset", "queue.max_len"],
            "PATCH /v1/checkpoints/c",
            json!({"rate": "1/s", "queue": {"max_len": null}}),
        ),
        (&["checkpoints", "delete", "a/b"], "DELETE /v1/checkpoints/a%2Fb", Value::Null),
        (
            &["resources", "create", "r", "--parents", "a", "--parents", "b"],
            "PUT /v1/resources/r",
            json!({"parents": ["a", "b"]}),
        ),
        (&["resources", "delete", "r"], "DELETE /v1/resources/r", Value::Null),
        (&["resources", "delete", "r", "--orphan"], "DELETE /v1/resources/r?orphan", Value::Null),
        (
            &["users", "set", "eva", "--role", "operator"],
            "PUT /v1/users/eva",
            json!({"role": "operator"}),
        ),
        (
            &["users", "set", "app", "--no-sql-password", "--reset", "role"],
            "PUT /v1/users/app",
            json!({"role": null, "sql_verifier": null}),
        ),
        (&["users", "delete", "eva"], "DELETE /v1/users/eva", Value::Null),
        (
            &[
                "sql-targets",
                "create",
                "app",
                "--upstream",
                "postgresql://db/app",
                "--login-user",
                "web",
            ],
            "PUT /v1/sql-targets/app",
            json!({"upstream": "postgresql://db/app", "login": {"user": "web"}}),
        ),
        (
            &["sql-targets", "set", "app", "--connections-max", "40", "--reset", "login"],
            "PATCH /v1/sql-targets/app",
            json!({"connections": {"max": 40}, "login": null}),
        ),
        (&["sql-targets", "delete", "app"], "DELETE /v1/sql-targets/app", Value::Null),
        (&["cancel", "17"], "POST /v1/requests/17/cancel", Value::Null),
        (
            &["cancel", "17", "--reason", "too late"],
            "POST /v1/requests/17/cancel",
            json!({"reason": "too late"}),
        ),
        (&["rules", "clear"], "POST /v1/rules/clear", Value::Null),
        (&["rules", "save"], "POST /v1/rules/save", Value::Null),
        (&["rules", "enable", "10"], "POST /v1/rules/10/enable", Value::Null),
        (&["rules", "disable", "10"], "POST /v1/rules/10/disable", Value::Null),
    ];
    for (arguments, line, body) in cases {
        assert_eq!(sent(arguments), ((*line).to_owned(), body.clone()), "{arguments:?}");
    }
}

#[test]
fn a_pool_that_is_there_is_not_replaced() {
    let fake = Fake::start(|_| Some(error(409, "conflict", "a pool of this name exists already")));
    let (code, _, stderr) = ended(&mut paceline(fake.dir.path(), &["pools", "create", "batch"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("paceline pools set batch"), "{stderr}");
    assert_eq!(fake.lines(), ["PUT /v1/pools/batch"]);
    assert!(fake.world().asked[0].only_creates);
}

#[test]
fn completions_and_manual_know_every_command() {
    let data = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, _) = ended(&mut paceline(data.path(), &["completions", shell]));
        assert_eq!(code, Some(0));
        assert!(stdout.contains("require-lock"), "{shell}");
    }
    let (code, page, _) = ended(&mut paceline(data.path(), &["man"]));
    assert_eq!(code, Some(0));
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    let (code, page, _) = ended(&mut paceline(data.path(), &["man", "pools", "create"]));
    assert!(code == Some(0) && page.contains("threads"), "{page}");
    let (code, ..) = ended(&mut paceline(data.path(), &["man", "nothing"]));
    assert_eq!(code, Some(4));
}

/// `ps` reports that the daemon cut the list.
#[test]
fn ps_says_that_there_is_more_than_it_lists() {
    for (there, more) in
        [(9_999, ""), (10_000, ""), (10_001, "and more: paceline ps --first 20002\n")]
    {
        let fake = Fake::start(move |asked: &Asked| {
            let line = asked.line();
            let number = |name: &str| {
                let given = line.split_once(name)?.1;
                given.split(['&', ' ']).next()?.parse::<u64>().ok()
            };
            let (first, count) =
                (number("first=").unwrap_or(0), number("count=").unwrap_or(10_000));
            // Numbers have gaps.
            let ids = (1..=there).map(|id| id * 2).filter(|id| *id >= first);
            let list =
                ids.take(count as usize).map(|id| json!({"request": id, "state": "running"}));
            Some(Reply::Json(200, list.collect()))
        });
        for arguments in [&["ps"][..], &["ps", "--json"]] {
            let (code, stdout, stderr) = ended(&mut paceline(fake.dir.path(), arguments));
            assert_eq!((code, stderr.as_str()), (Some(0), more), "{there} {arguments:?}");
            if arguments.len() > 1 {
                let list: Value = serde_json::from_str(&stdout).unwrap();
                assert_eq!(list.as_array().unwrap().len(), there.min(10_000) as usize);
            }
        }
        let (_, _, stderr) = ended(&mut paceline(fake.dir.path(), &["ps", "--first", "19000"]));
        assert_eq!(stderr, "", "there is nothing behind these");
    }
}

/// A log or a pipe that is closed is not a reason to fail, nor for another exit code.
#[test]
fn nobody_has_to_read_what_is_told() {
    let fake = Fake::start(|_| None);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (arguments, expected) in [
        (&["permit", "--json", "--", "sh", "-c", "exit 7"][..], 7),
        (&["lock", "l", "--json", "--", "sh", "-c", "exit 8"], 8),
        (&["pools", "start", "batch"], 4),
        (&["why", "1"], 4),
    ] {
        let status = paceline(fake.dir.path(), arguments).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn mistakes_in_the_command_line_are_json_too_if_that_is_asked_for() {
    let data = Scratch::new();
    for arguments in
        [&["ps", "--json", "--nope"][..], &["permit", "--json"], &["why", "x", "--json"]]
    {
        let (code, stdout, stderr) = ended(&mut paceline(data.path(), arguments));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        let told: serde_json::Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!((&told["error"], &told["exit"]), (&"usage".into(), &2.into()), "{told}");
        assert!(!told["message"].as_str().unwrap().starts_with("error"), "{told}");
    }
    // Arguments after the dashes belong to the command.
    let (_, _, stderr) =
        ended(&mut paceline(data.path(), &["permit", "--nope", "--", "x", "--json"]));
    assert!(stderr.starts_with("error: "), "{stderr}");
}

/// A token is shown once, so one that could not be shown must not stay valid.
#[test]
fn a_token_that_nobody_could_read_is_revoked() {
    let fake = Fake::start(|asked: &Asked| match asked.method.as_str() {
        "POST" => Some(Reply::Json(201, json!({"name": "ci", "token": "t", "role": "viewer"}))),
        _ => Some(Reply::Json(204, serde_json::Value::Null)),
    });
    for json in [&[][..], &["--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = paceline(fake.dir.path(), &["token", "new", "ci", "--role", "viewer"]);
        assert_eq!(command.args(json).stdout(full).status().unwrap().code(), Some(1));
        assert_eq!(fake.lines().last().unwrap(), "DELETE /v1/tokens/ci");
    }
}
