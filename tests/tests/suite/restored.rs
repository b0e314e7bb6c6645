//! A backup put back with `paceline restore`, and `paceline doctor` on the files of a daemon that is stopped.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn run(data: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(paceline_binary());
    let output = command.args(words).env("PACELINE_DATA", data).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// The number of a request that is made now.
fn request(daemon: &Daemon) -> u64 {
    let permit = daemon.api().call("POST", "/v1/permits", &json!({ "once": true }));
    permit.expect(200)["request"].as_u64().unwrap()
}

/// The fencing number of a lock that is granted now.
fn fencing(daemon: &Daemon) -> u64 {
    let (code, text) =
        run(&daemon.data(), &["lock", "l", "--", "sh", "-c", "echo $PACELINE_FENCING"]);
    assert_eq!(code, 0, "{text}");
    text.trim().parse().unwrap()
}

fn pool(daemon: &Daemon, name: &str) -> u16 {
    daemon.api().get(&format!("/v1/pools/{name}")).status
}

#[test]
fn a_restore_raises_no_alarm_and_numbers_go_on_behind_the_last() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    let copy_text = copy.to_str().unwrap();
    assert_eq!(run(&data, &["pools", "create", "before"]).0, 0);
    assert_eq!(run(&data, &["backup", copy_text]).0, 0);
    // The file grows, so that the copy is shorter than what had been synced.
    for n in 0..20 {
        assert_eq!(run(&data, &["pools", "create", &format!("after-{n}")]).0, 0);
    }
    let given = (request(&daemon), fencing(&daemon));
    let (code, told) = run(&data, &["restore", copy_text]);
    assert!(code == 1 && told.contains("stop it first"), "{told}");
    assert_eq!(pool(&daemon, "after-0"), 200, "nothing was done");
    let _ = daemon.terminate();

    let (code, told) = run(&data, &["restore", copy_text]);
    assert!(code == 0 && told.contains("before-restore-"), "{told}");
    assert!(!told.contains("10^12"), "{told}");
    let daemon = launch.start().unwrap();
    assert_eq!(
        (pool(&daemon, "before"), pool(&daemon, "after-0")),
        (404, 404),
        "transient pools end with a daemon"
    );
    let again = (request(&daemon), fencing(&daemon));
    assert!(again.0 > given.0 && again.1 > given.1, "{given:?} {again:?}");
    assert!(again.0 < 1_000_000 && again.1 < 1_000_000, "{again:?}");
    let (_, told) = run(&data, &["doctor"]);
    assert!(!told.contains("had been synced"), "{told}");
    let log = daemon.terminate().log;
    assert!(!log.contains("synced"), "{log}");
    // The file before is whole and can be put back in turn.
    let entries = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> =
        entries.filter(|path| path.to_string_lossy().contains("before-restore")).collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(run(&data, &["restore", kept.to_str().unwrap()]).0, 0);
    let daemon = launch.start().unwrap();
    let last = (request(&daemon), fencing(&daemon));
    assert!(last.0 > again.0 && last.1 > again.1, "{again:?} {last:?}");
}

#[test]
fn a_copy_that_is_damaged_changes_nothing() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    assert_eq!(run(&data, &["backup", copy.to_str().unwrap()]).0, 0);
    let _ = daemon.terminate();
    let before = std::fs::read(data.join("paceline.db")).unwrap();
    let whole = std::fs::read(&copy).unwrap();
    let mut flipped = whole.clone();
    let at = whole.len() / 2;
    flipped[at] ^= 1;
    for bad in [&whole[..whole.len() - 10], &flipped, b"", b"no database"] {
        std::fs::write(&copy, bad).unwrap();
        let (code, told) = run(&data, &["restore", copy.to_str().unwrap()]);
        assert!(code == 1 && told.contains("copy.db"), "{told}");
        assert_eq!(std::fs::read(data.join("paceline.db")).unwrap(), before);
    }
    let other = scratch.path().join("other.db");
    let schema = scratch.write("s.json", r#"{"name": "Other", "version": "1.0.0", "tables": {"T": {"columns": {"c": {"type": "string"}}}}}"#);
    let mut create = Command::new(paceline_binary());
    assert!(create.args(["ovsdb", "create"]).args([&other, &schema]).status().unwrap().success());
    let (code, told) = run(&data, &["restore", other.to_str().unwrap()]);
    assert!(code == 1 && told.contains("holds the database Other"), "{told}");
}

/// Without the database before, nobody knows which numbers were given since the copy was made.
#[test]
fn numbers_are_skipped_where_nobody_knows_which_were_given() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let copy = scratch.path().join("copy.db");
    assert_eq!(run(&daemon.data(), &["backup", copy.to_str().unwrap()]).0, 0);
    let given = request(&daemon);
    let _ = daemon.terminate();
    let elsewhere = Scratch::new();
    let launch = Launch::new(&elsewhere);
    let daemon = launch.start().unwrap();
    let data = daemon.data();
    let _ = daemon.terminate();
    let (code, told) = run(&data, &["restore", copy.to_str().unwrap()]);
    assert!(code == 0 && told.contains("10^12"), "{told}");
    let daemon = launch.start().unwrap();
    assert!(request(&daemon) > given + (1 << 39));
}

#[test]
fn doctor_finds_a_truncated_or_damaged_file_of_a_stopped_daemon() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let data = daemon.data();
    for n in 0..20 {
        assert_eq!(run(&data, &["pools", "create", &format!("p{n}")]).0, 0);
    }
    let _ = daemon.terminate();
    let file = data.join("paceline.db");
    let whole = std::fs::read(&file).unwrap();
    let look = || run(&data, &["doctor"]).1.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = look();
    assert!(told.contains("are whole") && told.contains("no daemon"), "{told}");

    std::fs::write(&file, &whole[..whole.len() - 300]).unwrap();
    let told = look();
    assert!(told.contains("had been synced") && told.contains("ends at byte"), "{told}");
    let mut flipped = whole.clone();
    let at = whole.len() - 1_000;
    flipped[at] ^= 1;
    std::fs::write(&file, &flipped).unwrap();
    let told = look();
    assert!(told.contains("fail database") && told.contains("offset"), "{told}");
    assert!(told.contains("paceline restore"), "{told}");
    std::fs::write(&file, &whole).unwrap();
    assert!(look().contains("are whole"));
}
