//! The configuration of the SQL door through the command line: passwords of users, and Comdb2's rulesets.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Client, Daemon, Launch, Scratch};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The exit code, standard output and standard error of a command with this input.
fn paceline(daemon: &Daemon, words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(paceline_binary());
    command.args(words).arg("--data").arg(daemon.data());
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), out, err)
}

fn rows(daemon: &Daemon, table: &str) -> Vec<Value> {
    let select = json!(["Paceline", { "op": "select", "table": table, "where": [] }]);
    let answer = Client::connect(&daemon.data().join("ovsdb.sock"))
        .unwrap()
        .call("transact", &select)
        .unwrap();
    answer[0]["rows"].as_array().unwrap().clone()
}

/// A password leaves the command line as a verifier, which is stored, survives a restart, is shown nowhere, and is deleted
/// with its user.
#[test]
fn a_password_is_stored_as_a_verifier_and_shown_nowhere() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).option("--log", "trace").start().unwrap();
    let (code, _, told) = paceline(&daemon, &["users", "set", "app", "--sql-password"], "pencil\n");
    assert!(code == 0 && told.contains("user app has no role and an SQL password"), "{told}");
    let first = rows(&daemon, "Sql_Password");
    let verifier = first[0]["verifier"].as_str().unwrap().to_owned();
    assert!(verifier.starts_with("SCRAM-SHA-256$4096:") && first.len() == 1, "{first:?}");
    let (code, ..) = paceline(&daemon, &["users", "set", "app", "--role", "client"], "");
    assert_eq!((code, rows(&daemon, "Sql_Password")), (0, first.clone()), "it stays");
    for words in [&["users", "set", "app", "--sql-password"][..], &["users", "set", "app"]] {
        let (code, _, told) = paceline(&daemon, words, "\n");
        assert_eq!(code, 2, "{words:?}: {told}");
    }
    let (_, list, _) = paceline(&daemon, &["users", "--json"], "");
    let (_, exported, _) = paceline(&daemon, &["export"], "");
    let data = daemon.data();
    let log = daemon.terminate().log;
    let audit = std::fs::read_to_string(data.join("audit.log")).unwrap();
    for text in [&list, &exported, &log, &audit] {
        assert!(!text.contains("pencil") && !text.contains(&verifier), "{text}");
    }
    let daemon = Launch::new(&scratch).start().unwrap();
    assert_eq!(rows(&daemon, "Sql_Password")[0]["verifier"], verifier, "after a restart");
    let (code, ..) = paceline(&daemon, &["users", "set", "app", "--sql-password"], "pencil\n");
    let second = rows(&daemon, "Sql_Password");
    assert!(
        code == 0 && second.len() == 1 && second[0]["verifier"] != verifier,
        "another salt: {second:?}"
    );
    let (code, _, told) = paceline(&daemon, &["users", "set", "app", "--no-sql-password"], "");
    assert!(code == 0 && told.contains("user app has the role client\n"), "{told}");
    assert!(rows(&daemon, "Sql_Password").is_empty() && rows(&daemon, "User").len() == 1);
    let _ = paceline(&daemon, &["users", "set", "app", "--sql-password"], "pencil");
    assert_eq!(paceline(&daemon, &["users", "delete", "app"], "").0, 0);
    assert!(rows(&daemon, "Sql_Password").is_empty() && rows(&daemon, "User").is_empty());
}

const RULESET: &str = "version 2\npool reports threads 2\nrule 1 action SET_POOL pool reports user etl\n\
                       rule 2 action REJECT user bad\n";

#[test]
fn a_ruleset_is_imported_completely_or_not_at_all() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let file = scratch.write("comdb2.ruleset", RULESET);
    let file = file.to_str().unwrap();
    let (code, out, told) = paceline(&daemon, &["rules", "import", file, "--dry-run"], "");
    assert_eq!((code, out.as_str()), (0, "+ pool reports  priority -1\n+ rule 1\n+ rule 2\n"));
    assert_eq!(told, "2 rules and 1 pool would be imported\n");
    assert!(rows(&daemon, "Rule").is_empty() && rows(&daemon, "Pool").is_empty());
    let (code, out, _) =
        paceline(&daemon, &["rules", "import", "-", "--persistent", "--json"], RULESET);
    let edits: Value = serde_json::from_str(&out).unwrap();
    let pool = json!({ "op": "create", "kind": "pool", "name": "reports", "priority": [-1, -1] });
    assert_eq!((code, edits.as_array().unwrap().len(), &edits[0]), (0, 3, &pool));
    let pools = rows(&daemon, "Pool");
    assert_eq!((&pools[0]["state"], &pools[0]["persistent"]), (&json!("started"), &json!(true)));
    let bad = format!("{RULESET}rule 3 action SET_POOL pool none user x\n");
    let (code, _, told) = paceline(&daemon, &["rules", "import", "-"], &bad);
    assert!(code == 1 && told.starts_with("stdin:5:"), "{told}");
    assert_eq!(rows(&daemon, "Rule").len(), 2);
    let target = scratch.join("out.ruleset");
    let (code, ..) = paceline(&daemon, &["rules", "export", target.to_str().unwrap()], "");
    let exported = std::fs::read_to_string(&target).unwrap();
    assert!(code == 0 && exported.contains("pool reports threads 2"), "{exported}");
    let (code, out, _) = paceline(&daemon, &["rules", "import", "-"], &exported);
    assert_eq!((code, out.as_str()), (0, "~ rule 1\n~ rule 2\n"));
    let (code, _, told) = paceline(&daemon, &["rules", "new", "--raise", "1"], "");
    assert_eq!(code, 0, "{told}");
    let (code, _, told) = paceline(&daemon, &["rules", "export"], "");
    assert!(code == 1 && told.contains("rule 12"), "{told}");
}
