//! Configuration files own the objects that they create, and applying a file again keeps settings that were edited
//! otherwise.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const A: &str = "[[pool]]\nname = 'batch'\npriority = [-127, -1]\nthreads.max = 8\n\
                 [[rule]]\nmatch.user = 'eva'\nlower = 5\n";

/// Runs a command against the daemon: exit code, and output.
fn run(daemon: &Daemon, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(paceline_binary());
    let output = command.args(words).arg("--data").arg(daemon.data()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn apply(daemon: &Daemon, file: &Path, words: &[&str]) -> (i32, String) {
    run(daemon, &[&["apply", file.to_str().unwrap()], words].concat())
}

fn pools(daemon: &Daemon) -> Vec<String> {
    let pools = daemon.api().get("/v1/pools").expect(200);
    let pools = pools.as_array().unwrap().iter();
    let one = |pool: &Value| {
        let state = pool["state"].as_str().unwrap_or_else(|| panic!("{pool}"));
        format!("{} {state}", pool["name"].as_str().unwrap())
    };
    pools.map(one).collect()
}

fn rules(daemon: &Daemon) -> usize {
    daemon.api().get("/v1/rules").expect(200).as_array().unwrap().len()
}

/// Rotating a log must not start what an operator stopped, nor restore what an operator cleared.
#[test]
fn a_reload_keeps_what_an_operator_did_until_the_file_says_it_anew() {
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", A);
    let launch = Launch::new(&scratch).option("--config", &file);
    let daemon = launch.start().unwrap();
    assert_eq!(run(&daemon, &["pools", "stop", "batch"]).0, 0);
    assert_eq!(run(&daemon, &["rules", "clear"]).0, 0);
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=0", "drift=2"]).unwrap();
    assert_eq!(
        (pools(&daemon), rules(&daemon)),
        (vec!["batch stopped".into(), "default started".into()], 0)
    );

    let (code, told) = apply(&daemon, &file, &["--dry-run"]);
    assert_eq!(code, 0);
    assert!(told.contains("! pool batch  started  edited since the file was applied"), "{told}");
    assert!(told.contains("! rule 10  deleted since the file was applied"), "{told}");

    // A key that changes in the file changes alone.
    let _ = scratch.write("a.toml", A.replace("max = 8", "max = 4"));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=1", "drift=2"]).unwrap();
    assert_eq!(pools(&daemon), ["batch stopped", "default started"]);
    let (code, told) = apply(&daemon, &file, &["--reset"]);
    assert!(
        code == 0 && told.contains("~ pool batch  started") && told.contains("+ rule 10"),
        "{told}"
    );
    assert_eq!(
        (pools(&daemon), rules(&daemon)),
        (vec!["batch started".into(), "default started".into()], 1)
    );

    // A restart starts pools and restores the saved rules, as it does without a file.
    run(&daemon, &["pools", "stop", "batch"]);
    run(&daemon, &["rules", "clear"]);
    let _ = daemon.terminate();
    let daemon = launch.start().unwrap();
    assert_eq!(
        (pools(&daemon), rules(&daemon)),
        (vec!["batch started".into(), "default started".into()], 1)
    );
}

#[test]
fn a_pool_that_the_file_stops_is_stopped_after_a_restart_too() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "a.toml",
        format!(
            "{A}[[pool]]\nname = 'night'\npriority = [1, 2]\nstarted = false\n\
        [[resource]]\nname = 'scratch'\npersistent = false\n"
        ),
    );
    let launch = Launch::new(&scratch).option("--config", &file);
    let _ = launch.start().unwrap().terminate();
    let daemon = launch.start().unwrap();
    assert_eq!(pools(&daemon), ["batch started", "default started", "night stopped"]);
    let _ = daemon.api().get("/v1/resources/scratch").expect(200);
}

#[test]
fn sighup_without_a_configuration_opens_the_logs_anew_and_goes_on() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    run(&daemon, &["pools", "create", "one"]);
    let (log, old) = (daemon.data().join("audit.log"), daemon.data().join("audit.log.1"));
    std::fs::rename(&log, &old).unwrap();
    daemon.signal(Signal::HUP);
    daemon.log_line(&["reopened the logs"]).unwrap();
    run(&daemon, &["pools", "create", "two"]);
    until(|| std::fs::read_to_string(&log).unwrap_or_default(), |text| text.contains("two"));
    assert!(!std::fs::read_to_string(&old).unwrap().contains("two"));
}

#[test]
fn a_reload_that_failed_is_shown_until_the_next_good_one() {
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", A);
    let daemon = Launch::new(&scratch).option("--config", &file).start().unwrap();
    let reload = || daemon.api().get("/v1/status").expect(200)["reload"].clone();
    let metric = || {
        let text = daemon.api().get("/metrics").text;
        let line = text.lines().find(|line| line.starts_with("paceline_reload_success ")).unwrap();
        assert!(text.contains("\npaceline_reload_success_timestamp_seconds 1"), "{text}");
        line.to_owned()
    };
    assert_eq!(
        (reload()["ok"].clone(), metric()),
        (json!(true), "paceline_reload_success 1".into())
    );
    assert!(run(&daemon, &["doctor"]).1.contains("reload"), "doctor tells of it");

    let _ = scratch.write("a.toml", A.replace("lower = 5", "lwer = 5"));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["the configuration is unchanged"]).unwrap();
    until(&reload, |reload| reload["ok"] == false);
    assert!(reload()["error"].as_str().unwrap().contains("a.toml:7:1: unknown key `lwer`"));
    assert_eq!(metric(), "paceline_reload_success 0");
    let (code, told) = run(&daemon, &["doctor"]);
    assert!(code == 1 && told.contains("unknown key `lwer`"), "{told}");

    let _ = scratch.write("a.toml", A);
    daemon.signal(Signal::HUP);
    until(&reload, |reload| reload["ok"] == true);
    assert_eq!(metric(), "paceline_reload_success 1");
}

#[test]
fn a_file_does_not_delete_or_take_what_another_made() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let (a, b) = (
        scratch.write("a.toml", A),
        scratch.write("b.toml", "[[pool]]\nname = 'other'\nstarted = false\n"),
    );
    assert_eq!(apply(&daemon, &a, &[]).0, 0);
    assert_eq!(apply(&daemon, &b, &[]).0, 0);
    assert_eq!(pools(&daemon), ["batch started", "default started", "other stopped"]);
    let (_, exported) = run(&daemon, &["export", "--owner", "b.toml"]);
    assert!(exported.contains("\"other\"") && !exported.contains("\"batch\""), "{exported}");

    let _ = scratch.write("b.toml", "[[pool]]\nname = 'batch'\nstarted = false\n");
    for words in [&[][..], &["--dry-run"]] {
        let (code, told) = apply(&daemon, &b, words);
        assert!(
            code == 1 && told.contains("b.toml:1:1: pool `batch` belongs to the file a.toml"),
            "{told}"
        );
    }
    assert_eq!(
        pools(&daemon),
        ["batch started", "default started", "other stopped"],
        "nothing of it is done"
    );
    let (code, told) = apply(&daemon, &b, &["--take-over"]);
    assert!(code == 0 && told.contains("now belongs to the file"), "{told}");
    assert_eq!(pools(&daemon), ["batch stopped", "default started"]);
    let (code, told) = apply(&daemon, &a, &[]);
    assert!(code == 1 && told.contains("pool `batch` belongs to the file b.toml"), "{told}");
}

#[test]
fn many_deletions_must_be_allowed() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let text: String = (0..6).map(|n| format!("[[resource]]\nname = 'r{n}'\n")).collect();
    let file = scratch.write("a.toml", &text);
    assert_eq!(apply(&daemon, &file, &[]).0, 0);
    let _ = scratch.write("a.toml", "# nothing");
    let (code, told) = apply(&daemon, &file, &[]);
    assert!(code == 1 && told.contains("this would delete 6 objects"), "{told}");
    assert!(told.contains("--yes"), "{told}");
    let count = || daemon.api().get("/v1/resources").expect(200).as_array().unwrap().len();
    assert_eq!(count(), 6);
    assert_eq!(apply(&daemon, &file, &["--dry-run"]).1.lines().count(), 6);
    assert_eq!(apply(&daemon, &file, &["--yes"]).0, 0);
    assert_eq!(count(), 0);
    // A few deletions need no confirmation.
    let _ = scratch.write("a.toml", text.split_once("[[resource]]\nname = 'r5'").unwrap().0);
    apply(&daemon, &file, &[]);
    let _ = scratch.write("a.toml", "# nothing");
    assert_eq!((apply(&daemon, &file, &[]).0, count()), (0, 0));
}

#[test]
fn a_directory_of_files_is_one_configuration() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("conf.d");
    std::fs::create_dir(&directory).unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    let launch = Launch::new(&scratch).option("--config", &directory);
    let ended = launch.start().unwrap_err();
    assert!(ended.log.contains("it contains no *.toml file"), "{}", ended.log);

    write("10-pools.toml", A);
    write("20-checks.toml", "[[checkpoint]]\nname = 'few'\nat = 'pool batch'\nconcurrency = 3\n");
    write("README", "not TOML");
    let more = scratch.write("more.toml", "[[resource]]\nname = 'disk'\n");
    let launch = launch.option("--config", &more);
    let daemon = launch.start().unwrap();
    let _ = daemon.api().get("/v1/checkpoints/few").expect(200);
    let _ = daemon.api().get("/v1/resources/disk").expect(200);
    let mut check = Command::new(paceline_binary());
    assert!(check.arg("check").arg(&directory).status().unwrap().success());

    // Objects that move to another file stay; objects of a removed file are deleted with it.
    write("10-pools.toml", A.split_once("[[rule]]").unwrap().0);
    write("15-rules.toml", "[[rule]]\nmatch.user = 'eva'\nlower = 5\n");
    std::fs::remove_file(directory.join("20-checks.toml")).unwrap();
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "15-rules.toml"]).unwrap();
    let _ = daemon.api().get("/v1/checkpoints/few").expect(404);
    assert_eq!(rules(&daemon), 1);

    write("20-more.toml", "[[pool]]\nname = 'batch'\n");
    daemon.signal(Signal::HUP);
    daemon
        .log_line(&["20-more.toml:1:1: pool `batch` is in 10-pools.toml already, on line 1"])
        .unwrap();
}

#[test]
fn apply_reports_warnings_and_strict_changes_nothing() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let file = scratch.write("a.toml", "[[pool]]\nname = 'p'\npriority = [0, 0]\n");
    let (code, told) = apply(&daemon, &file, &["--strict"]);
    assert!(
        code == 1 && told.contains("a.toml:3:1: ") && told.contains("no request reaches it"),
        "{told}"
    );
    assert_eq!(pools(&daemon), ["default started"]);
    let (code, told) = apply(&daemon, &file, &[]);
    assert!(code == 0 && told.contains("a.toml:3:1: warning: pool \"p\""), "{told}");
    assert!(run(&daemon, &["doctor"]).1.contains("no request reaches it"), "doctor says it too");
}

/// On a terminal the command asks for confirmation.
#[test]
fn many_deletions_are_asked_about_on_a_terminal() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let text: String = (0..6).map(|n| format!("[[resource]]\nname = 'r{n}'\n")).collect();
    let file = scratch.write("a.toml", &text);
    assert_eq!(apply(&daemon, &file, &[]).0, 0);
    let _ = scratch.write("a.toml", "# nothing");
    let (program, data) = (paceline_binary(), daemon.data());
    let line =
        format!("'{}' apply '{}' --data '{}'", program.display(), file.display(), data.display());
    for (answer, left) in [("n\n", 6), ("y\n", 0)] {
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux can be run");
        let mut shown = BufReader::new(script.stdout.take().unwrap());
        let mut asked = vec![];
        shown.read_until(b'?', &mut asked).unwrap();
        assert!(String::from_utf8_lossy(&asked).contains("this deletes 6 objects"));
        script.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        let mut rest = vec![];
        shown.read_to_end(&mut rest).unwrap();
        script.wait().unwrap();
        let resources = daemon.api().get("/v1/resources").expect(200);
        assert_eq!(resources.as_array().unwrap().len(), left, "{}", String::from_utf8_lossy(&rest));
    }
}

/// A rule of a file that was renumbered and saved still belongs to the file after a restart: it goes when the file does
/// not name it any more.
#[test]
fn a_saved_rule_stays_a_rule_of_its_file() {
    const RULES: &str = "[[rule]]\nnumber = 10\nmatch.user = 'eve'\nreject = true\n";
    const OTHER: &str = "[[rule]]\nnumber = 20\nmatch.user = 'max'\nset = 3\n";
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", [RULES, OTHER].concat());
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket).option("--config", &file);
    let daemon = launch.start().unwrap();
    // The numbers and files of the running rules and of the saved ones, and the rows of the latter.
    let lists = |daemon: &Daemon| {
        let select = |table: &str| json!({"op": "select", "table": table, "where": [], "columns": ["number", "file", "_uuid"]});
        let both = json!(["Paceline", select("Rule"), select("Saved_Rule")]);
        let both = daemon.connect().call("transact", &both).unwrap();
        [0, 1].map(|list| {
            let rows = both[list]["rows"].as_array().unwrap().iter();
            let row = |row: &Value| {
                (row["number"].as_i64().unwrap(), row["file"].clone(), row["_uuid"].clone())
            };
            let mut rows: Vec<_> = rows.map(row).collect();
            rows.sort_by_key(|(number, ..)| *number);
            rows
        })
    };
    let before = lists(&daemon);
    let renumber = json!({"op": "update", "table": "Rule", "where": [["number", "==", 10]], "row": {"number": 15}});
    let renumbered = daemon.connect().call("transact", &json!(["Paceline", renumber])).unwrap();
    assert_eq!(renumbered, json!([{"count": 1}]));
    let _ = daemon.api().call("POST", "/v1/rules/save", &json!({})).expect(204);
    let after = before.map(|mut list| {
        list[0].0 = 15;
        list
    });
    assert_eq!(lists(&daemon), after, "the same rows of the same file");
    let _ = daemon.kill();
    let daemon = launch.start().unwrap();
    assert_eq!(lists(&daemon), after, "also after a restart");
    let (code, told) = apply(&daemon, &file, &["--reset", "--dry-run"]);
    assert!(code == 0 && !told.contains("+ rule"), "nothing is to be made twice: {told}");

    let _ = scratch.write("a.toml", OTHER);
    daemon.signal(Signal::HUP);
    let numbers = || lists(&daemon).map(|list| list.iter().map(|row| row.0).collect::<Vec<_>>());
    until(numbers, |numbers| *numbers == [[20], [20]]);
}

/// A rule of a file that was renumbered and saved, and then deleted from the running list, is in force after the next
/// start and after each later one.
#[test]
fn a_renumbered_and_saved_rule_is_in_force_after_each_restart() {
    const RULE: &str = "[[rule]]\nnumber = 20\nmatch = { task = 'evil' }\nreject = true\n";
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", RULE);
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket).option("--config", &file);
    let ask = json!({"attributes": {"task": "evil"}, "lease": "1s"});
    let daemon = launch.start().unwrap();
    let renumber = json!({"op": "update", "table": "Rule", "where": [["number", "==", 20]], "row": {"number": 25}});
    let renumbered = daemon.connect().call("transact", &json!(["Paceline", renumber])).unwrap();
    assert_eq!(renumbered, json!([{"count": 1}]));
    let _ = daemon.api().call("POST", "/v1/rules/save", &json!({})).expect(204);
    let _ = daemon.api().call("DELETE", "/v1/rules/25", &json!({})).expect(204);
    let _ = daemon.api().call("POST", "/v1/permits", &ask).expect(201);
    let _ = daemon.kill();
    for start in ["first", "second"] {
        let daemon = launch.start().unwrap();
        for list in ["rules", "saved-rules"] {
            let rules = daemon.api().get(&format!("/v1/{list}")).expect(200);
            let numbers: Vec<_> = rules.as_array().unwrap().iter().map(|r| &r["number"]).collect();
            assert_eq!(numbers, [&json!(25)], "{list} after the {start} restart");
        }
        let _ = daemon.api().call("POST", "/v1/permits", &ask).expect(409);
        let _ = daemon.kill();
    }
}

/// `apply` accepts an unchanged file that a reload accepts, though an object of another file has a name of its own now.
#[test]
fn a_file_with_a_deleted_object_is_applied_alone_as_by_a_reload() {
    let scratch = Scratch::new();
    let a = scratch.write("a.toml", "[[resource]]\nname = 'x'\n");
    let b = scratch.write("b.toml", "[[resource]]\nname = 'd'\n[[resource]]\nname = 'e'\n");
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket).option("--config", &a);
    let daemon = launch.option("--config", &b).start().unwrap();
    let delete = json!({"op": "delete", "table": "Resource", "where": [["name", "==", "d"]]});
    let rename = json!({"op": "update", "table": "Resource", "where": [["name", "==", "x"]], "row": {"name": "d"}});
    let edited = daemon.connect().call("transact", &json!(["Paceline", delete, rename])).unwrap();
    assert_eq!(edited, json!([{"count": 1}, {"count": 1}]));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "drift=2"]).unwrap();
    let (code, told) = apply(&daemon, &b, &["--dry-run"]);
    assert!(code == 0 && told.contains("resource d") && !told.contains("belongs"), "{told}");
}

/// A start accepts what a reload accepted: two checkpoints of a file swapped names, and one of them went with the
/// restart.
#[test]
fn a_start_accepts_renamed_objects_that_a_reload_accepted() {
    const FILE: &str = "[[checkpoint]]\nname = 'kept'\nat = 'frontend api'\nconcurrency = 5\n\
                        [[checkpoint]]\nname = 'passing'\nat = 'frontend api'\nconcurrency = 7\npersistent = false\n";
    const OTHER: &str = "[[resource]]\nname = 'disk'\n";
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", FILE);
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    let launch = Launch::new(&scratch).option("--ovsdb", socket).option("--config", &file);
    let daemon = launch.start().unwrap();
    let rename = |from: &str, to: &str| json!({"op": "update", "table": "Checkpoint", "where": [["name", "==", from]], "row": {"name": to}});
    let swap =
        json!(["Paceline", rename("kept", "x"), rename("passing", "kept"), rename("x", "passing")]);
    let swapped = daemon.connect().call("transact", &swap).unwrap();
    assert_eq!(swapped, json!([{"count": 1}, {"count": 1}, {"count": 1}]));
    let succeeds =
        |daemon: &Daemon| daemon.api().get("/metrics").text.contains("paceline_reload_success 1");
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "drift=2"]).unwrap();
    assert!(succeeds(&daemon));
    let _ = daemon.kill();
    // The file goes on to be applied.
    let _ = scratch.write("a.toml", [FILE, OTHER].concat());
    let daemon = launch.start().unwrap();
    assert!(succeeds(&daemon));
    let names = |path: &str| {
        let list = daemon.api().get(path).expect(200);
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("/v1/checkpoints"), names("/v1/resources")),
        (vec!["passing".into()], vec!["disk".into()])
    );
}
