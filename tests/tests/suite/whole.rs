//! The configuration as a whole on the command line: apply, export, backup, and doctor.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/paceline.toml");

fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(paceline_binary());
    command.args(arguments).env("PACELINE_DATA", scratch.join("data")).current_dir(scratch.path());
    for name in ["PACELINE_API", "PACELINE_TOKEN", "COLUMNS", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

/// Exit code, standard output, standard error.
fn paceline(scratch: &Scratch, arguments: &[&str]) -> (i32, String, String) {
    ended(command(scratch, arguments).stdin(Stdio::null()).output().unwrap())
}

fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same with this standard input.
fn fed(scratch: &Scratch, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = command(scratch, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ended(child.wait_with_output().unwrap())
}

fn start(scratch: &Scratch) -> Daemon {
    let socket = format!("punix:{}", scratch.join("db.sock").display());
    Launch::new(scratch).option("--ovsdb", socket).start().unwrap()
}

fn nothing() -> (i32, String, String) {
    (0, String::new(), "nothing to change\n".to_owned())
}

#[test]
fn apply_tells_what_it_changes_and_an_export_brings_it_back() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let (code, fresh, _) = paceline(&scratch, &["export"]);
    assert!(code == 0 && fresh.starts_with('#'), "{fresh}");
    assert_eq!(fed(&scratch, &["apply", "-"], &fresh), nothing());

    let (code, dry, stderr) = paceline(&scratch, &["apply", EXAMPLE, "--dry-run"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(dry.contains("+ pool batch\n") && dry.contains("+ rule 10\n"), "{dry}");
    assert_eq!(paceline(&scratch, &["export"]).1, fresh, "a dry run changes nothing");
    assert_eq!(paceline(&scratch, &["apply", EXAMPLE]).1, dry);
    assert_eq!(paceline(&scratch, &["apply", EXAMPLE]), nothing());

    let exported = paceline(&scratch, &["export"]).1;
    let own = ["apply", "-", "--owner", "paceline.toml"];
    assert_eq!(fed(&scratch, &own, &exported), nothing());
    let file = scratch.join("new.toml");
    assert_eq!(paceline(&scratch, &["export", "new.toml"]).0, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    assert_eq!(paceline(&scratch, &["export", "new.toml"]).0, 1, "it is there");
    assert_eq!(paceline(&scratch, &["export", "new.toml", "--force"]).0, 0);

    let changed =
        exported.replace("rate = \"500/s\"", "rate = \"400/s\"").replace("burst = 50", "burst = 9");
    let told = fed(&scratch, &own, &changed);
    assert_eq!(told, (0, "~ checkpoint per-user  rate burst\n".into(), String::new()));
    let (_, told, _) = fed(&scratch, &[&own[..], &["--json", "--yes"]].concat(), "# nothing");
    let told: Value = serde_json::from_str(&told).unwrap();
    let pool = json!({"op": "delete", "kind": "pool", "name": "batch"});
    assert!(told.as_array().unwrap().contains(&pool), "{told}");
    assert_eq!(paceline(&scratch, &["export"]).1, fresh);
    daemon.terminate();
}

#[test]
fn what_is_wrong_has_its_place_and_changes_nothing() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let file = scratch.write("bad.toml", "[[pool]]\nnamme = \"batch\"\n\n[[rule]]\nset = 500\n");
    let (code, stdout, stderr) = paceline(&scratch, &["apply", "bad.toml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("bad.toml:2:1: unknown key `namme`"), "{stderr}");
    assert!(stderr.contains("did you mean `name`?"), "{stderr}");
    assert!(stderr.contains("bad.toml:5:"), "all of it is told: {stderr}");
    let (code, _, stderr) = paceline(&scratch, &["apply", "bad.toml", "--json"]);
    let told: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((code, &told["errors"][0]["line"]), (1, &json!(1)));
    std::fs::remove_file(file).unwrap();
    assert_eq!(paceline(&scratch, &["apply", "bad.toml"]).0, 1);
    daemon.terminate();
    assert_eq!(fed(&scratch, &["apply", "-"], "").0, 69);
}

#[test]
fn a_backup_of_a_serving_daemon_can_be_served() {
    let scratch = Scratch::new();
    let fleet = scratch.join("fleet.db");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/fleet.ovsschema");
    let made = paceline(&scratch, &["ovsdb", "create", fleet.to_str().unwrap(), schema]);
    assert_eq!(made.0, 0, "{}", made.2);
    let daemon = Launch::serving(&scratch, &fleet).start().unwrap();
    assert_eq!(paceline(&scratch, &["apply", EXAMPLE]).0, 0);
    assert_eq!(paceline(&scratch, &["backup", "copy.db"]).0, 0);
    let copy = scratch.join("copy.db");
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (code, _, stderr) = paceline(&scratch, &["backup", "copy.db"]);
    assert!(code == 1 && stderr.contains("--force"), "{stderr}");
    assert_eq!(paceline(&scratch, &["backup", "copy.db", "--force"]).0, 0);
    assert_eq!(paceline(&scratch, &["backup", "no/such/copy.db"]).0, 1);
    assert_eq!(paceline(&scratch, &["backup", "--all", "all"]).0, 0);
    let mut names: Vec<_> = std::fs::read_dir(scratch.join("all")).unwrap().collect();
    names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let names: Vec<_> = names.into_iter().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["Fleet.db", "Paceline.db"], "and nothing half done");
    daemon.terminate();

    // The copy is a complete database: with it the daemon has what it had, except for transient objects.
    std::fs::remove_dir_all(scratch.join("data")).unwrap();
    std::fs::create_dir(scratch.join("data")).unwrap();
    std::fs::rename(&copy, scratch.join("data/paceline.db")).unwrap();
    let daemon = Launch::serving(&scratch, &scratch.join("all/Fleet.db")).start().unwrap();
    let missing = paceline(&scratch, &["apply", EXAMPLE, "--dry-run"]).1;
    assert_eq!(missing, "+ pool migration\n+ resource dataset:tank/scratch\n");
    daemon.terminate();
    if let Some(tool) = ovsdb_tool() {
        let output =
            Command::new(tool).args(["db-name"]).arg(scratch.join("all/Paceline.db")).output();
        assert_eq!(output.unwrap().stdout, b"Paceline\n");
    }
}

/// A lock and a permit that are held until standard input ends; returns the fencing number.
fn hold(scratch: &Scratch) -> (std::process::Child, u64) {
    let binary = paceline_binary();
    let words = "echo $PACELINE_FENCING; exec cat";
    let mut command = command(scratch, &["lock", "deploy", "--", binary.to_str().unwrap()]);
    command.args(["permit", "--", "sh", "-c", words]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

fn running(scratch: &Scratch) -> Vec<u64> {
    let (code, stdout, stderr) = paceline(scratch, &["ps", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let list: Value = serde_json::from_str(&stdout).unwrap();
    list.as_array().unwrap().iter().filter_map(|entry| entry["request"].as_u64()).collect()
}

#[test]
fn in_a_backup_nothing_is_held_and_no_number_is_given_again_l2() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let (mut holder, _) = hold(&scratch);
    assert_eq!(running(&scratch).len(), 1);
    assert_eq!(paceline(&scratch, &["backup", "copy.db"]).0, 0);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    // What happens after the copy is not in it.
    let (mut holder, fencing) = hold(&scratch);
    let request = running(&scratch)[0];
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    daemon.terminate();

    std::fs::rename(scratch.join("copy.db"), scratch.join("data/paceline.db")).unwrap();
    let daemon = start(&scratch);
    assert_eq!(running(&scratch), Vec::<u64>::new());
    let (code, locks, _) = paceline(&scratch, &["locks", "--json"]);
    assert_eq!((code, locks.trim()), (0, "[]"));
    let (mut holder, later) = hold(&scratch);
    assert!(later > fencing, "{later} after {fencing}");
    assert!(running(&scratch)[0] > request, "after {request}");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    daemon.terminate();
}

#[test]
fn mistakes_are_told_with_what_to_try() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let told = |arguments: &[&str]| {
        let (code, stdout, stderr) = paceline(&scratch, arguments);
        assert_eq!(stdout, "", "{arguments:?}");
        (code, stderr)
    };
    let (code, claim) = told(&["permit", "--claim", "zpool:tank:shred", "--", "true"]);
    assert!(code == 3 && claim.contains("did you mean --claim zpool:tank:shared?"), "{claim}");
    let (_, claim) = told(&["permit", "--claim", "zpool:tank", "--", "true"]);
    assert!(!claim.contains("did you mean"), "{claim}");
    let (code, name) = told(&["lock", "my app", "--", "true"]);
    assert!(code == 1 && name.contains("1 to 255 letters, digits"), "{name}");
    assert!(name.contains("my_app"), "{name}");
    let (code, pool) = told(&["pools", "create", "bad name"]);
    assert!(code == 1 && pool.contains("\"bad name\" is no pool name"), "{pool}");
    assert!(!pool.contains("(at "), "it only repeats: {pool}");
    let (code, rule) = told(&["rules", "new", "--match", "user=eva"]);
    assert!(code == 0 && rule.contains("does nothing"), "{rule}");
    let (code, rule) = told(&["rules", "new", "--match", "user=etl", "--lower", "3"]);
    assert!(code == 0 && !rule.contains("does nothing"), "{rule}");
    let (code, explained, _) = paceline(&scratch, &["explain", "user=etl"]);
    assert!(code == 0 && explained.starts_with("rule 10: "), "{explained}");
    assert!(explained.contains("\nrule 20 matched: lower 3"), "{explained}");
    daemon.terminate();
}

/// All patterns of a rule must match, including several for one attribute; and a rejecting rule is final unless it
/// says `continue`.
#[test]
fn a_rule_means_what_it_says() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let run = |arguments: &[&str]| {
        let (code, stdout, stderr) = paceline(&scratch, arguments);
        assert_eq!(code, 0, "{arguments:?} {stderr}");
        stdout
    };
    let both = ["--match", "user=a*", "--match", "user=*b", "--mode", "glob"];
    run(&[&["rules", "new", "--reject"], &both[..]].concat());
    run(&["rules", "new", "--set", "5"]);
    for (user, is_rejected) in [("user=a1", false), ("user=1b", false), ("user=a1b", true)] {
        let explained = run(&["explain", user]);
        assert_eq!(explained.contains("rejected"), is_rejected, "{user}: {explained}");
    }
    let rules: Value = serde_json::from_str(&run(&["rules", "--json"])).unwrap();
    let then: Vec<&Value> = rules.as_array().unwrap().iter().map(|rule| &rule["then"]).collect();
    assert_eq!(then, ["stop", "continue"]);
    daemon.terminate();
}

fn ovsdb_tool() -> Option<&'static Path> {
    Some(Path::new("/usr/bin/ovsdb-tool")).filter(|tool| tool.exists())
}

#[test]
fn doctor_tells_what_is_wrong_with_and_without_a_daemon() {
    let scratch = Scratch::new();
    let findings = |code: i32| {
        let (found, stdout, stderr) = paceline(&scratch, &["doctor", "--json"]);
        assert_eq!(found, code, "{stdout}{stderr}");
        let list: Value = serde_json::from_str(&stdout).unwrap();
        move |what: &str| {
            let mut all = list.as_array().unwrap().iter();
            all.find(|finding| finding["what"] == what).map(|finding| finding["state"].clone())
        }
    };
    let before = findings(1);
    assert_eq!(
        (before("data directory"), before("daemon")),
        (Some("fail".into()), Some("fail".into()))
    );
    let daemon = start(&scratch);
    let running = findings(0);
    for what in
        ["data directory", "daemon", "version", "sync", "clock", "token file", "socket", "journals"]
    {
        assert_eq!(running(what), Some("ok".into()), "{what}");
    }
    let token = scratch.join("data/token");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(findings(1)("token file"), Some("fail".into()));
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    daemon.terminate();
    let after = findings(1);
    assert_eq!(
        (after("data directory"), after("daemon")),
        (Some("ok".into()), Some("fail".into()))
    );
}

#[test]
fn open_sockets_can_be_reached_and_files_stay_closed() {
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    for (socket, directory) in [("600", 0o700), ("660", 0o750), ("666", 0o711)] {
        let scratch = Scratch::new();
        let daemon = Launch::new(&scratch).option("--socket-mode", socket).start().unwrap();
        let data = scratch.join("data");
        assert_eq!(mode(&data), directory, "{socket}");
        for entry in std::fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            let is_socket = path.symlink_metadata().unwrap().file_type().is_socket();
            let expected = match is_socket {
                true => u32::from_str_radix(socket, 8).unwrap(),
                false => 0o600,
            };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
        let (code, told, _) = paceline(&scratch, &["doctor"]);
        assert!(code == 0 && !told.contains("chmod"), "{told}");
        daemon.terminate();
    }
}

#[test]
fn commands_reach_a_daemon_over_tcp_with_its_token() {
    let scratch = Scratch::new();
    let daemon =
        Launch::new(&scratch).option("--ovsdb", "none").api("127.0.0.1:0").start().unwrap();
    let (_, rest) = daemon.ready.split_once("api http://").unwrap();
    let address = rest.split([';', ',']).next().unwrap().trim();
    let url = format!("http://{address}");
    let elsewhere = |arguments: &[&str], token: Option<&str>| {
        let mut command = command(&scratch, arguments);
        command.env("PACELINE_DATA", scratch.join("nowhere")).env("PACELINE_API", &url);
        if let Some(token) = token {
            command.env("PACELINE_TOKEN", token);
        }
        ended(command.output().unwrap())
    };
    let token = std::fs::read_to_string(scratch.join("data/token")).unwrap();
    assert_eq!(elsewhere(&["ps"], Some(token.trim())).0, 0);
    assert_eq!(elsewhere(&["ps"], Some("wrong")).0, 77);
    assert_eq!(elsewhere(&["ps"], None).0, 1, "there is no token file");
    let file = scratch.join("data/token");
    assert_eq!(elsewhere(&["ps", "--token-file", file.to_str().unwrap()], None).0, 0);
    let (code, stdout, _) = elsewhere(&["permit", "--", "echo", "held"], Some(token.trim()));
    assert_eq!((code, stdout.as_str()), (0, "held\n"));
    assert_eq!(elsewhere(&["doctor"], Some(token.trim())).0, 0);
    daemon.terminate();
}
