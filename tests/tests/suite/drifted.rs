//! Edits since a file was applied do not delete an object of the file, and do not prevent the daemon's next start.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Client, Daemon, Launch, Scratch, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn run(daemon: &Daemon, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(paceline_binary());
    let output = command.args(words).arg("--data").arg(daemon.data()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// A daemon whose OVSDB clients are operators, with the configuration `file`.
fn launch(scratch: &Scratch, file: &Path) -> Launch {
    Launch::new(scratch)
        .option("--ovsdb", "ptcp:0:127.0.0.1")
        .option("--remote-role", "operator")
        .option("--config", file)
}

/// Performs these operations as an operator; returns the first error.
fn operate(daemon: &Daemon, operations: &[Value]) -> Option<String> {
    let mut client = Client::connect_tcp(daemon.port("ptcp")).unwrap();
    let parameters = [&[json!("Paceline")], operations].concat();
    let results = client.call("transact", &Value::Array(parameters)).unwrap();
    let error =
        |result: &Value| result.get("error").map(|error| error.as_str().unwrap().to_owned());
    results.as_array().unwrap().iter().find_map(error)
}

fn update(table: &str, name: &str, row: &Value) -> Value {
    json!({ "op": "update", "table": table, "where": [["name", "==", name]], "row": row })
}

fn names(daemon: &Daemon, kind: &str) -> Vec<String> {
    let all = daemon.api().get(&format!("/v1/{kind}")).expect(200);
    let name = |object: &Value| object["name"].as_str().unwrap().to_owned();
    all.as_array().unwrap().iter().map(name).filter(|name| name != "default").collect()
}

fn reload(daemon: &Daemon) -> Value {
    daemon.api().get("/v1/status").expect(200)["reload"].clone()
}

const ALL: &str = "resource = [{ name = 'adm' }, { name = 'kid', parents = ['adm'] }]\n\
    pool = [{ name = 'pp', priority = [5, 6], threads.max = 2 }]\n\
    checkpoint = [{ name = 'limit', at = 'frontend api', concurrency = 3 }]\n\
    backend = [{ name = 'app', servers = [{ address = '127.0.0.1:9' }] }]\n\
    frontend = [{ name = 'web', listen = '127.0.0.1:0', backend = 'app' }]\n";

/// An operator may not delete a persistent object, not even by renaming it and waiting for a reload.
#[test]
fn an_object_of_a_file_that_was_renamed_survives_a_reload_and_a_restart() {
    let scratch = Scratch::new();
    let file = scratch.write("web.toml", ALL);
    let launch = launch(&scratch, &file);
    let daemon = launch.start().unwrap();
    let renamed =
        [("Checkpoint", "limit"), ("Resource", "adm"), ("Resource", "kid"), ("Frontend", "web")];
    for (table, name) in renamed {
        let row = json!({ "name": format!("{name}-x") });
        assert_eq!(operate(&daemon, &[update(table, name, &row)]), None, "{table} {name}");
    }
    let are_there = |daemon: &Daemon| {
        assert_eq!(names(daemon, "checkpoints"), ["limit-x"]);
        assert_eq!(names(daemon, "resources"), ["adm-x", "kid-x"]);
        assert_eq!(names(daemon, "frontends"), ["web-x"]);
    };
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=0", "drift=4"]).unwrap();
    are_there(&daemon);
    let (code, told) = run(&daemon, &["apply", file.to_str().unwrap(), "--dry-run"]);
    let line = "! checkpoint limit  name  renamed to limit-x since the file was applied";
    assert!(code == 0 && told.contains(line), "{told}");
    let (_, told) = run(&daemon, &["export", "--owner", "web.toml"]);
    assert!(told.contains("\"limit-x\"") && told.contains("[\"adm-x\"]"), "{told}");
    let _ = daemon.terminate();

    let daemon = launch.start().unwrap();
    are_there(&daemon);
    // A change in the file changes the renamed object.
    let _ = scratch.write("web.toml", ALL.replace("concurrency = 3", "concurrency = 4"));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=1", "drift=4"]).unwrap();
    let limit = daemon.api().get("/v1/checkpoints/limit-x").expect(200);
    assert_eq!(limit["concurrency"], 4);
    let (code, told) = run(&daemon, &["apply", file.to_str().unwrap(), "--reset"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(names(&daemon, "resources"), ["adm", "kid"]);
    let kid = daemon.api().get("/v1/resources/kid").expect(200);
    assert_eq!(kid["parents"], json!(["adm"]));
}

const POOLS: &str = "pool = [{ name = 'tmp', priority = [5, 6], persistent = false }, \
                     { name = 'pp', priority = [1, 2] }]";
const MORE: &str = "pool = [{ name = 'a', priority = [5, 6] }]";

/// A start does what SIGHUP does: it continues with the content of the database, and reports this until the files can
/// be applied.
#[test]
fn edits_that_are_valid_while_the_daemon_runs_do_not_keep_it_from_its_next_start() {
    let pool = |name, low, high| {
        vec![update("Pool", name, &json!({ "priority_min": low, "priority_max": high }))]
    };
    let with_more = MORE.replace("}]", "}, { name = 'b', priority = [7, 8] }]");
    let backend = "backend = [{ name = 'app', servers = [{ address = '127.0.0.1:9' }] }]\n\
                   frontend = [{ name = 'web', listen = '127.0.0.1:0', backend = 'app' }]\n";
    let renamed = vec![
        update("Backend", "app", &json!({ "name": "app2" })),
        json!({ "op": "update", "table": "Server", "where": [], "row": { "backend": "app2" } }),
        update("Frontend", "web", &json!({ "backend": "app2" })),
    ];
    // The content of the file, the edits, its content at the next start, and whether that can be applied.
    let cases = [
        (POOLS, vec![pool("tmp", 7, 8), pool("pp", 1, 6)], POOLS, false),
        (MORE, vec![pool("a", 5, 9)], &with_more, false),
        (backend, vec![renamed], backend, true),
        (MORE, vec![pool("a", 5, 9)], "pool = [{ nme = 'a' }]", false),
        (MORE, vec![], "", false),
    ];
    for (before, edits, after, fits) in cases {
        let scratch = Scratch::new();
        let file = scratch.write("web.toml", before);
        let launch = launch(&scratch, &file);
        let daemon = launch.start().unwrap();
        for edit in &edits {
            assert_eq!(operate(&daemon, edit), None, "{before}");
        }
        let _ = daemon.terminate();
        let _ = scratch.write("web.toml", after);
        let daemon = launch.start().unwrap_or_else(|ended| panic!("{after}: {}", ended.log));
        assert_eq!(reload(&daemon)["ok"], fits, "{after}: {}", reload(&daemon));
        let (_, told) = run(&daemon, &["doctor"]);
        assert_eq!(told.contains("correct the files and send SIGHUP"), !fits, "{told}");
        let metrics = daemon.api().get("/metrics").text;
        let metric = format!("\npaceline_reload_success {}\n", u8::from(fits));
        assert!(metrics.contains(&metric), "{metrics}");
        // The daemon uses the content of the database.
        assert_eq!(names(&daemon, "pools").is_empty(), before == backend);
        let _ = scratch.write("web.toml", "# nothing");
        daemon.signal(Signal::HUP);
        until(|| reload(&daemon), |reload| reload["ok"] == true);
    }
}

#[test]
fn a_transient_frontend_whose_port_another_one_took_does_not_keep_the_daemon_from_its_start() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scratch = Scratch::new();
    let text = format!(
        "backend = [{{ name = 'app', servers = [{{ address = '127.0.0.1:9' }}] }}]\n\
         frontend = [{{ name = 't', listen = '{free}', backend = 'app', persistent = false }}, \
         {{ name = 'web', listen = '127.0.0.1:0', backend = 'app' }}]\n"
    );
    let file = scratch.write("web.toml", text);
    let launch = launch(&scratch, &file);
    let daemon = launch.start().unwrap();
    for (name, listen) in [("t", "127.0.0.1:0".to_owned()), ("web", free.to_string())] {
        assert_eq!(
            operate(&daemon, &[update("Frontend", name, &json!({ "listen": listen }))]),
            None
        );
    }
    let _ = daemon.terminate();
    let daemon = launch.start().unwrap_or_else(|ended| panic!("{}", ended.log));
    assert!(names(&daemon, "frontends").contains(&"web".to_owned()));
}

/// Two objects of two files whose names were swapped, and an object that moved to another file.
#[test]
fn a_name_or_an_object_of_another_file_does_not_keep_the_daemon_from_its_start() {
    let limit = |name: &str| {
        format!("checkpoint = [{{ name = '{name}', at = 'frontend api', concurrency = 3 }}]")
    };
    let scratch = Scratch::new();
    let (web, hot) =
        (scratch.write("web.toml", limit("limit")), scratch.write("hot.toml", limit("hot")));
    let launch = launch(&scratch, &web);
    let daemon = launch.start().unwrap();
    assert_eq!(run(&daemon, &["apply", hot.to_str().unwrap()]).0, 0);
    let swapped = [
        update("Checkpoint", "limit", &json!({ "name": "x" })),
        update("Checkpoint", "hot", &json!({ "name": "limit" })),
    ];
    assert_eq!(operate(&daemon, &swapped), None);
    let _ = daemon.terminate();
    let daemon = launch.start().unwrap();
    assert_eq!(reload(&daemon)["ok"], true);
    assert_eq!(names(&daemon, "checkpoints"), ["limit", "x"]);
    let _ = daemon.terminate();

    // The file names an object of another file: the start continues without it, and takes it over when instructed to.
    let _ = scratch.write("web.toml", format!("{}\n", limit("limit").replace("= 3", "= 7")));
    let _ = scratch.write("hot.toml", limit("hot"));
    let daemon = launch.start().unwrap();
    assert_eq!(run(&daemon, &["apply", hot.to_str().unwrap(), "--reset"]).0, 0);
    let _ = scratch.write("web.toml", limit("hot"));
    let _ = daemon.terminate();
    let daemon = launch.start().unwrap();
    let error = reload(&daemon)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("checkpoint `hot` belongs to the file hot.toml"), "{error}");
    let _ = daemon.terminate();
    let daemon = launch.clone().arg("--take-over").start().unwrap();
    assert_eq!(
        (reload(&daemon)["ok"].clone(), names(&daemon, "checkpoints")),
        (json!(true), vec!["hot".to_owned()])
    );
    let _ =
        daemon.api().call("PATCH", "/v1/checkpoints/hot", &json!({ "concurrency": 9 })).expect(200);
    let _ = daemon.terminate();
    let daemon = launch.arg("--reset").start().unwrap();
    assert_eq!(daemon.api().get("/v1/checkpoints/hot").expect(200)["concurrency"], 3);
}

/// When the daemon is started with a new, invalid file, it must exit with an error code.
#[test]
fn a_file_that_is_new_to_the_daemon_and_wrong_is_no_start() {
    let scratch = Scratch::new();
    let good = scratch.write("good.toml", MORE);
    let _ = launch(&scratch, &good).start().unwrap().terminate();
    for text in ["pool = [{ nme = 'a' }]", "pool = [", ""] {
        let bad = scratch.write("bad.toml", text);
        let ended = launch(&scratch, &bad).start().unwrap_err();
        assert!(ended.log.contains("bad.toml"), "{}", ended.log);
    }
    let ended = launch(&scratch, &scratch.join("missing.toml")).start().unwrap_err();
    assert!(ended.log.contains("missing.toml"), "{}", ended.log);
}

/// An entry that cannot be read must not delete what it created.
#[test]
fn a_file_of_a_directory_that_cannot_be_read_is_an_error() {
    let scratch = Scratch::new();
    let directory = scratch.join("conf.d");
    std::fs::create_dir(&directory).unwrap();
    let target = scratch.write("target", MORE);
    std::os::unix::fs::symlink(&target, directory.join("web.toml")).unwrap();
    std::fs::write(directory.join("other.toml"), "resource = [{ name = 'r' }]").unwrap();
    let launch = launch(&scratch, &directory);
    let daemon = launch.start().unwrap();
    let away = scratch.join("away");
    for start in [false, true] {
        std::fs::rename(&target, &away).unwrap();
        daemon.signal(Signal::HUP);
        until(|| reload(&daemon), |reload| reload["ok"] == false);
        assert!(reload(&daemon)["error"].as_str().unwrap().contains("web.toml: No such file"));
        assert_eq!(names(&daemon, "pools"), ["a"]);
        if start {
            break;
        }
        std::fs::rename(&away, &target).unwrap();
        daemon.signal(Signal::HUP);
        until(|| reload(&daemon), |reload| reload["ok"] == true);
        std::fs::write(&target, " \n").unwrap();
        daemon.signal(Signal::HUP);
        until(|| reload(&daemon), |reload| reload["ok"] == false);
        assert_eq!(names(&daemon, "pools"), ["a"]);
        std::fs::write(&target, MORE).unwrap();
        daemon.signal(Signal::HUP);
        until(|| reload(&daemon), |reload| reload["ok"] == true);
    }
    let _ = daemon.terminate();
    let daemon = launch.start().unwrap();
    assert_eq!(
        (names(&daemon, "pools"), reload(&daemon)["ok"].clone()),
        (vec!["a".into()], json!(false))
    );
}

/// A client that could write the recorded content of a file would decide what the next reload skips.
#[test]
fn nobody_but_apply_writes_what_a_file_said() {
    let scratch = Scratch::new();
    let file = scratch.write("web.toml", MORE);
    let daemon = launch(&scratch, &file).start().unwrap();
    let forged =
        json!({ "op": "update", "table": "File", "where": [], "row": { "said": ["map", []] } });
    let made = json!({ "op": "insert", "table": "File", "row": { "name": "x.toml" } });
    let gone = json!({ "op": "delete", "table": "File", "where": [] });
    for operation in [forged, made, gone] {
        let error = operate(&daemon, std::slice::from_ref(&operation));
        assert_eq!(error.as_deref(), Some("permission error"), "{operation}");
    }
    assert_eq!(run(&daemon, &["apply", file.to_str().unwrap(), "--reset"]).0, 0);
}
