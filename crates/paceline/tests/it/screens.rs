//! The output of each command on wide, normal and narrow screens, with and without colour.
//!
//! The expected text is in `testdata/screens`, one file per command; `SCREEN_UPDATE=1` writes the present
//! output, to be reviewed before it is kept.

use crate::fake::{Asked, Fake, Reply};
use crate::{ended, paceline, sample};
use std::fmt::Write as _;
use std::path::Path;

const WIDTHS: [usize; 3] = [200, 80, 40];

/// Name of the file, and the command line.
const COMMANDS: &[(&str, &[&str])] = &[
    ("ps", &["ps"]),
    ("why", &["why", "17"]),
    ("why_unknown", &["why", "99"]),
    ("explain", &["explain", "user=etl-7", "text=select 1"]),
    ("pools", &["pools"]),
    ("rules", &["rules"]),
    ("rules_saved", &["rules", "--saved"]),
    ("checkpoints", &["checkpoints"]),
    ("frontends", &["frontends"]),
    ("backends", &["backends"]),
    ("servers", &["servers"]),
    ("sql_targets", &["sql-targets"]),
    ("resources", &["resources"]),
    ("tree", &["tree"]),
    ("locks", &["locks"]),
    ("users", &["users"]),
    ("whoami", &["whoami"]),
    ("token", &["token"]),
    ("token_new", &["token", "new", "ci", "--role", "client"]),
    ("token_revoke_unknown", &["token", "revoke", "old"]),
    ("token_refused", &["token", "revoke", "report"]),
    ("events", &["events", "--count", "4"]),
    ("apply", &["apply", "../../examples/paceline.toml", "--dry-run"]),
    ("help", &["--help"]),
    ("help_demo", &["demo", "--help"]),
    ("help_apply", &["apply", "--help"]),
    ("help_export", &["export", "--help"]),
    ("help_backup", &["backup", "--help"]),
    ("help_doctor", &["doctor", "--help"]),
    ("help_permit", &["permit", "--help"]),
    ("help_lock", &["lock", "--help"]),
    ("help_pools", &["pools", "--help"]),
    ("help_pools_create", &["pools", "create", "--help"]),
    ("help_checkpoints_set", &["checkpoints", "set", "--help"]),
    ("help_resources", &["resources", "--help"]),
    ("help_users", &["users", "--help"]),
    ("help_users_set", &["users", "set", "--help"]),
    ("help_rules_import", &["rules", "import", "--help"]),
    ("help_rules_export", &["rules", "export", "--help"]),
    ("help_cancel", &["cancel", "--help"]),
    ("help_rules", &["rules", "--help"]),
    ("help_rules_new", &["rules", "new", "--help"]),
    ("help_frontends", &["frontends", "--help"]),
    ("help_backends", &["backends", "--help"]),
    ("help_servers", &["servers", "--help"]),
    ("help_sql_targets", &["sql-targets", "--help"]),
    ("help_sql_targets_set", &["sql-targets", "set", "--help"]),
    ("help_token", &["token", "--help"]),
    ("help_token_new", &["token", "new", "--help"]),
    ("help_explain", &["explain", "--help"]),
    ("help_why", &["why", "--help"]),
    ("help_ps", &["ps", "--help"]),
    ("help_tree", &["tree", "--help"]),
    ("help_events", &["events", "--help"]),
];

/// The same, asked of a daemon that is a reverse proxy.
const HTTP_COMMANDS: &[(&str, &[&str])] = &[
    ("ps_http", &["ps"]),
    ("why_http", &["why", "43"]),
    ("why_connection", &["why", "41"]),
    ("explain_http", &["explain", "frontend=web", "method=GET", "path=/", "client=203.0.113.7"]),
    ("explain_connection", &["explain", "frontend=web", "client=203.0.113.7", "--connection"]),
];

#[test]
fn screens() {
    check(COMMANDS, sample::answer);
    check(HTTP_COMMANDS, sample::answer_http);
}

fn check(commands: &[(&str, &[&str])], answer: fn(&Asked) -> Option<Reply>) {
    let fake = Fake::start(answer);
    let update = std::env::var_os("SCREEN_UPDATE").is_some();
    let mut wrong = String::new();
    for (name, arguments) in commands {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/screens/{name}.txt"));
        let actual = play(fake.dir.path(), arguments);
        if update {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &actual).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&actual) {
            let _ = writeln!(wrong, "{}: now it is\n{actual}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn play(data: &Path, arguments: &[&str]) -> String {
    let mut out = format!("$ paceline {}\n", arguments.join(" "));
    for width in WIDTHS {
        for colour in ["", ", colour"] {
            let mut command = paceline(data, arguments);
            command.env("COLUMNS", width.to_string());
            if !colour.is_empty() {
                command.env("CLICOLOR_FORCE", "1");
            }
            let (code, stdout, stderr) = ended(&mut command);
            let _ = writeln!(out, "--- {width} columns{colour}");
            out.push_str(&stdout.replace('\x1b', "␛"));
            for line in stderr.lines() {
                let _ = writeln!(out, "stderr: {}", line.replace('\x1b', "␛"));
            }
            if code != Some(0) {
                let _ = writeln!(out, "exit {code:?}");
            }
            let plain = without_colour(&stdout);
            let is_help = arguments.contains(&"--help");
            for line in plain.lines().filter(|_| !is_help) {
                let columns = line.chars().map(columns).sum::<usize>();
                assert!(columns <= width, "{arguments:?} on {width} columns: {line:?}");
            }
            assert!(!colour.is_empty() || !stdout.contains('\x1b'), "{arguments:?}");
        }
    }
    out
}

/// Enough for the sample: its wide letters are Japanese.
fn columns(c: char) -> usize {
    if ('\u{3000}'..'\u{a000}').contains(&c) { 2 } else { 1 }
}

fn without_colour(text: &str) -> String {
    let mut out = String::new();
    for (place, part) in text.split('\x1b').enumerate() {
        out.push_str(if place == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    out
}

#[test]
fn colours_are_for_those_who_want_them() {
    let fake = Fake::start(sample::answer);
    let has_colour = |settings: &[(&str, &str)]| {
        let mut command = paceline(fake.dir.path(), &["ps"]);
        ended(command.envs(settings.iter().copied())).1.contains('\x1b')
    };
    assert!(!has_colour(&[]), "a pipe is no terminal");
    assert!(has_colour(&[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colour(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}
