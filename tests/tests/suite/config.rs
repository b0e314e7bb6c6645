//! TOML files on the command line: checked, applied at start and on SIGHUP.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Client, Launch, Scratch, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const GOOD: &str = r#"
[[pool]]
name = "batch"
priority = [-127, -1]
threads = { max = 8 }

[[rule]]
match = { user = "etl-*" }
mode = "glob"
lower = 20
then = "stop"
"#;

fn launch(scratch: &Scratch, file: &Path) -> Launch {
    let socket = format!("punix:{}", scratch.path().join("db.sock").display());
    Launch::new(scratch).option("--ovsdb", socket).option("--config", file)
}

fn written(scratch: &Scratch, text: &str) -> PathBuf {
    let file = scratch.path().join("paceline.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn pools(client: &mut Client) -> Vec<(String, i64)> {
    let select = json!({"op": "select", "table": "Pool", "where": [],
        "columns": ["name", "threads_max"]});
    let result = client.call("transact", &json!(["Paceline", select])).unwrap();
    let rows = result[0]["rows"].as_array().unwrap().iter();
    let row = |row: &serde_json::Value| {
        (row["name"].as_str().unwrap().to_owned(), row["threads_max"].as_i64().unwrap())
    };
    let mut pools: Vec<_> = rows.map(row).collect();
    pools.sort();
    pools
}

#[test]
fn a_file_is_applied_at_start_and_again_on_sighup() {
    let scratch = Scratch::new();
    let file = written(&scratch, GOOD);
    let daemon = launch(&scratch, &file).start().unwrap();
    let mut client = daemon.connect();
    assert_eq!(pools(&mut client), [("batch".to_owned(), 8)]);
    let by_hand = json!({"op": "insert", "table": "Pool", "row": {"name": "hand",
        "threads_max": 1}});
    client.call("transact", &json!(["Paceline", by_hand])).unwrap();

    written(&scratch, &GOOD.replace("max = 8", "max = 3"));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=1"]).unwrap();
    assert_eq!(pools(&mut client), [("batch".to_owned(), 3), ("hand".to_owned(), 1)]);

    // An error is reported with its place, and the previous configuration stays.
    written(&scratch, &GOOD.replace("max = 8", "max = \"many\""));
    daemon.signal(Signal::HUP);
    daemon.log_line(&["the configuration is unchanged"]).unwrap();
    daemon.log_line(&["paceline.toml:5:19: `threads.max`"]).unwrap();
    assert_eq!(pools(&mut client), [("batch".to_owned(), 3), ("hand".to_owned(), 1)]);

    // A program that failed to write a file leaves an empty one.
    for empty in ["", " \n\n"] {
        written(&scratch, empty);
        daemon.signal(Signal::HUP);
        daemon.log_line(&["paceline.toml: there is nothing in it"]).unwrap();
        assert_eq!(pools(&mut client), [("batch".to_owned(), 3), ("hand".to_owned(), 1)]);
    }
    // Only objects that an earlier file created are pruned.
    written(&scratch, "# nothing");
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=3"]).unwrap();
    assert_eq!(pools(&mut client), [("hand".to_owned(), 1)]);
}

#[test]
fn a_wrong_file_is_no_start() {
    let scratch = Scratch::new();
    let file = written(&scratch, &GOOD.replace("lower = 20", "lwer = 20"));
    let ended = launch(&scratch, &file).start().unwrap_err();
    assert!(ended.log.contains("paceline.toml:10:1: unknown key `lwer`"), "{}", ended.log);
    assert!(ended.log.contains("did you mean `lower`?"), "{}", ended.log);
}

#[test]
fn check_tells_every_place_and_the_exit_code_says_so() {
    let check = |file: &Path| {
        let output = Command::new(paceline_binary()).arg("check").arg(file).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let scratch = Scratch::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/paceline.toml");
    assert_eq!(check(&example), (0, String::new()));
    let overlap = "[[pool]]\nname = \"b\"\npriority = [-5, 5]\n";
    let (code, told) = check(&written(&scratch, &format!("{GOOD}{overlap}")));
    assert_eq!(code, 1);
    assert!(told.contains("paceline.toml:14:1: `priority`: priorities -5 to 5"), "{told}");
    // Expressions are checked only if the keys are valid, and the output says so.
    let (code, told) = check(&written(&scratch, "[[rule]]\nwhen = '((('\nrejct = true\n"));
    assert_eq!((code, told.lines().count()), (1, 3), "{told}");
    assert!(
        told.trim_end().ends_with("the rest is checked when these errors are corrected"),
        "{told}"
    );
    let (code, told) = check(&written(&scratch, "[[rule]]\nwhen = '((('\nreject = true\n"));
    assert!(code == 1 && !told.contains("the rest is checked"), "{told}");
    let (code, told) = check(&written(&scratch, "[[rule]]\nmatch.usr = 'x'\nreject = true\n"));
    assert!(
        code == 0 && told.contains("paceline.toml:2:1: warning: rule 10: match: it matches `usr`"),
        "{told}"
    );
    let (code, told) = check(&scratch.path().join("nowhere.toml"));
    assert_eq!(code, 1);
    assert!(told.contains("nowhere.toml: No such file"), "{told}");
}

/// Settings that admit nothing or have no effect are reported with their consequence; `--strict` fails on them.
#[test]
fn check_warns_of_what_is_hardly_meant_and_strict_fails() {
    let scratch = Scratch::new();
    let check = |text: &str, options: &[&str]| {
        let mut command = Command::new(paceline_binary());
        let command = command.arg("check").args(options).arg(written(&scratch, text));
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(GOOD, &["--strict"]), (0, String::new()));
    for (text, place, says) in [
        ("[[pool]]\nname = 'p'\npriority = [0, 0]\n", "3:1", "no request reaches it"),
        ("[[pool]]\nname = 'p'\npriority = [1, 2]\nthreads.max = 0\n", "4:9", "none of them runs"),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'pool default'\nconcurrency = 0\n",
            "4:1",
            "no request passes",
        ),
        ("[[checkpoint]]\nname = 'c'\nat = 'pool default'\n", "1:1", "limits nothing"),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'backend db'\nrate = '1/s'\n",
            "3:1",
            "there is no backend",
        ),
        ("[[rule]]\nwhen = 'int(user) > 5'\nreject = true\n", "2:1", "the request is not rejected"),
    ] {
        let (code, told) = check(text, &[]);
        let place = format!("paceline.toml:{place}: warning: ");
        assert!(code == 0 && told.contains(&place) && told.contains(says), "{text}\n{told}");
        let (code, told) = check(text, &["--strict"]);
        assert!(code == 1 && told.contains("1 warning, which --strict does not allow"), "{told}");
    }
}

/// Files are searched beside the configuration, wherever the command runs; missing files are reported.
#[test]
fn check_knows_frontends_and_backends_and_the_files_they_name() {
    let check = |file: &Path| {
        let mut command = Command::new(paceline_binary());
        let output = command.current_dir("/").arg("check").arg(file).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/http.toml");
    let (code, told) = check(&example);
    assert_eq!((code, told.lines().count()), (0, 8), "each file that is not there: {told}");
    assert!(told.lines().all(|line| line.contains("No such file")), "{told}");
    let scratch = Scratch::new();
    let text = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\nbackend = 'app'\n\
                errors = { 503 = 'busy.html' }\n\
                [[backend]]\nname = 'app'\nservers = [\n  { address = '127.0.0.1:1' },\n]\n";
    let (code, told) = check(&written(&scratch, text));
    let expected = format!(
        "paceline.toml:5:18: warning: {}: No such",
        scratch.path().join("busy.html").display()
    );
    assert!(code == 0 && told.contains(&expected), "{told}");
    let _ = scratch.write("busy.html", "busy");
    assert_eq!(check(&written(&scratch, text)), (0, String::new()));
    let (code, told) = check(&written(&scratch, &text.replace("address", "adress")));
    assert_eq!(code, 1);
    assert!(told.contains("paceline.toml:9:5: unknown key `adress`"), "{told}");
}

/// A backend is deleted with all of its servers, however they were created. If a manually created frontend uses the
/// backend, the error names the frontend and the remedy.
#[test]
fn a_backend_of_a_file_goes_with_the_servers_that_were_made_by_hand() {
    let backend =
        "[[backend]]\nname = 'app'\nservers = [{ name = 'c', address = '127.0.0.1:1' }]\n";
    let scratch = Scratch::new();
    let file = written(&scratch, &format!("{GOOD}{backend}"));
    let daemon = launch(&scratch, &file).start().unwrap();
    let mut client = daemon.connect();
    let server = json!({"op": "insert", "table": "Server", "row": {"backend": "app", "name": "d",
        "address": "127.0.0.1:2", "persistent": true}});
    let frontend = json!({"op": "insert", "table": "Frontend", "row": {"name": "hand",
        "listen": "127.0.0.1:0", "backend": "app", "persistent": true}});
    client.call("transact", &json!(["Paceline", server, frontend])).unwrap();

    written(&scratch, GOOD);
    daemon.signal(Signal::HUP);
    daemon.log_line(&["the configuration is unchanged"]).unwrap();
    daemon
        .log_line(&["Frontend hand: backend: no backend", "frontend hand is not of the file"])
        .unwrap();

    let delete = json!({"op": "delete", "table": "Frontend", "where": [["name", "==", "hand"]]});
    client.call("transact", &json!(["Paceline", delete])).unwrap();
    daemon.signal(Signal::HUP);
    daemon.log_line(&["applied the configuration", "changes=3"]).unwrap();
    let select = json!({"op": "select", "table": "Server", "where": []});
    let left = client.call("transact", &json!(["Paceline", select])).unwrap();
    assert_eq!(left[0]["rows"], json!([]));
}

/// SIGHUP and SIGUSR1 that arrive during the start are handled when the daemon is ready. A named pipe as
/// configuration delays the start.
#[test]
fn a_signal_that_comes_while_the_daemon_starts_does_not_end_it() {
    let scratch = Scratch::new();
    let pipe = scratch.path().join("paceline.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Command::new(paceline_binary())
        .args(["serve", "--api", "none", "--data"])
        .arg(scratch.path().join("data"))
        .arg("--config")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let caught = || {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let bits = [Signal::HUP, Signal::USR1].map(|signal| 1u64 << (signal.as_raw() - 1));
    until(caught, |caught| bits.iter().all(|bit| caught & bit != 0));
    let pid = Pid::from_child(&child);
    for signal in [Signal::HUP, Signal::USR1] {
        kill_process(pid, signal).unwrap();
    }
    std::fs::write(&pipe, GOOD).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("paceline ready"), "{line}");
    // The signal makes the daemon read it again.
    std::fs::write(&pipe, GOOD).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
