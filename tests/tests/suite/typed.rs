//! What a user types at the command line is read as it looks, and the answer says what became of it.

use crate::command_line::{command, hold, in_terminal, let_go, paceline, said, shown, start};
use paceline_tests::{Launch, Scratch};
use serde_json::{Value, json};

/// Patterns are typed in the form that the help shows, and the table shows them in the form that is typed.
#[test]
fn patterns_are_typed_as_the_table_shows_them() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let patterns = [
        r#"user={ glob = "etl-*" }"#,
        r#"user={ regex = "^etl", nocase = true }"#,
        "task=backup",
        r#"text=["a", { exact = "{b}" }]"#,
    ];
    let words: Vec<&str> = patterns.iter().flat_map(|pattern| ["--match", pattern]).collect();
    let new =
        paceline(&daemon, &[&["rules", "new", "--lower", "3", "--json"], &words[..]].concat());
    let rule = new.expect(0).json();
    assert_eq!(
        rule["match"],
        json!({
            "user": [{"glob": "etl-*"}, {"regex": "^etl", "nocase": true}],
            "task": {"exact": "backup"}, "text": [{"exact": "a"}, {"exact": "{b}"}],
        })
    );
    let table = said(command(&["rules"]).env("PACELINE_DATA", daemon.data()).env("COLUMNS", "300"));
    let shown = r#"task=backup, text=a, text={ exact = "{b}" }, user={ glob = "etl-*" }, user={ regex = "^etl", nocase = true }"#;
    assert!(table.out.contains(shown), "{}", table.out);
    // What the table shows is typed again, and makes the same rule.
    let typed: Vec<&str> = shown.split(", ").collect();
    let typed = [typed[0], typed[1], typed[2], typed[3], &typed[4..].join(", ")];
    let words: Vec<&str> = typed.iter().flat_map(|pattern| ["--match", pattern]).collect();
    let again =
        paceline(&daemon, &[&["rules", "new", "--lower", "3", "--json"], &words[..]].concat());
    assert_eq!(again.expect(0).json()["match"], rule["match"]);
    let wrong =
        paceline(&daemon, &["rules", "new", "--match", r#"user={ globb = "a" }"#]).expect(2);
    assert!(wrong.err.contains("expected a table such as { glob"), "{}", wrong.err);
}

/// `explain` names the attribute that a rule misses, and names that do not exist.
#[test]
fn explain_says_why_a_rule_does_not_match_and_which_names_do_not_exist() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let run = |words: &[&str]| paceline(&daemon, words).expect(0);
    run(&["rules", "new", "--match", "user=etl", "--match", "task=backup", "--lower", "1"]);
    run(&["rules", "new", "--match", r#"user={ glob = "a*" }"#, "--lower", "1"]);
    run(&["rules", "new", "--match", "priority=5", "--lower", "1"]);
    let told = run(&["explain", "--attr", "user=etl"]).out;
    assert!(told.contains(r#"rule 10: task is "", not "backup""#), "{told}");
    assert!(told.contains(r#"rule 20: user is "etl", which does not match glob "a*""#), "{told}");
    assert!(told.contains(r#"rule 30: priority is "0", not "5""#), "{told}");
    let twice = paceline(&daemon, &["explain", "user=a", "--attr", "user=b"]).expect(2);
    assert!(twice.err.contains("given twice"), "{}", twice.err);
    run(&["backends", "create", "app"]);
    run(&["frontends", "create", "web", "--listen", "127.0.0.1:0", "--backend", "app"]);
    let told = run(&["explain", "frontend=wbe", "backend=ap", "path=/x"]);
    for missing in
        ["no frontend \"wbe\"; did you mean \"web\"?", "no backend \"ap\"; did you mean \"app\"?"]
    {
        assert!(told.err.contains(missing), "{}", told.err);
    }
    let told = run(&["explain", "frontend=wbe", "--json"]);
    assert_eq!(told.json()["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(run(&["explain", "frontend=web"]).err, "");
}

/// A change of the running rules says what the rule is now, and that it is not saved.
#[test]
fn a_change_of_a_rule_says_what_it_is_now_and_keeps_its_counts() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let run = |words: &[&str]| paceline(&daemon, words).expect(0);
    run(&["rules", "new", "--match", "user=mallory", "--reject"]);
    let refused = ["permit", "--attr", "user=mallory", "--", "echo", "a b"];
    let refused = paceline(&daemon, &refused).expect(3);
    let next = "paceline explain task=echo 'text=echo a b' user=mallory";
    assert!(refused.err.contains(next), "{}", refused.err);
    let told = run(&["rules", "set", "10", "--raise", "3"]).err;
    assert!(told.contains("rule 10 is changed: user=mallory, raise 3, continue; "), "{told}");
    for told in [told, run(&["rules", "disable", "10"]).err, run(&["rules", "enable", "10"]).err] {
        assert!(
            told.contains("a restart undoes this unless you run: paceline rules save"),
            "{told}"
        );
    }
    let rules = run(&["rules", "--json"]).json();
    assert_eq!(rules[0]["figures"]["matches"], 1, "the count of matches stays");
}

/// Warnings about what was just typed are printed at once.
#[test]
fn warnings_about_an_edit_are_part_of_its_answer() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let run = |words: &[&str]| paceline(&daemon, words).expect(0);
    let told = run(&["rules", "new", "--match", "user=etl-*", "--lower", "1"]).err;
    assert!(told.contains("warning: rule 10: match: user must be exactly"), "{told}");
    assert!(told.contains("--mode glob"), "{told}");
    let told = run(&["rules", "set", "10", "--lower", "2", "--json"]).json();
    assert!(told["warnings"][0].as_str().unwrap().contains("mode = \"glob\""), "{told}");
    let told =
        run(&["checkpoints", "create", "c", "--at", "frontend api", "--concurrency", "0"]).err;
    assert!(told.contains("warning: checkpoint \"c\": concurrency: with 0"), "{told}");
    let told = run(&["checkpoints", "set", "c", "--concurrency", "1"]).err;
    assert!(!told.contains("warning"), "{told}");
    let told = run(&["users", "set", "nobdy", "--role", "client"]).err;
    assert!(told.contains("knows no user of that name, did you mean \"nobody\"?"), "{told}");
    assert!(!run(&["users", "set", "nobody", "--role", "client"]).err.contains("warning"));
    let told = paceline(&daemon, &["users", "set", "nobody"]).expect(2).err;
    assert!(told.contains("--role"), "{told}");
}

/// Names that are nearly right, flags that cannot work, and what the message proposes.
#[test]
fn a_mistake_is_answered_with_the_right_spelling() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).api("127.0.0.1:0").start().unwrap();
    let run = |words: &[&str]| paceline(&daemon, words);
    run(&["pools", "create", "batch", "--priority=-9..-1", "--threads", "3"]).expect(0);
    let pool = run(&["pools", "set", "batch", "--threads", "4", "--json"]).expect(0).json();
    assert_eq!(pool["threads"], json!({"max": 4}));
    for words in [
        &["pools", "set", "btch", "--threads", "2"][..],
        &["pools", "delete", "btch"],
        &["pools", "stop", "btch"],
    ] {
        let told = run(words).expect(4).err;
        assert!(told.contains("there is no pool \"btch\", did you mean \"batch\"?"), "{told}");
    }
    let usage = run(&["pools", "set", "batch", "--nothing"]).expect(2).err;
    assert!(usage.contains("Usage: paceline pools set"), "{usage}");
    let above = run(&["pools", "set", "batch", "--threads-min", "5"]).expect(1).err;
    assert!(above.contains("threads.min (5) is above threads.max (4)"), "{above}");
    let range = run(&["pools", "create", "b2", "--priority=-9..-8", "--started"]).expect(1).err;
    assert!(range.contains("(--priority)") && !range.contains("(at "), "{range}");
    let attribute = run(&["permit", "--attr", "tag[table]=x", "--", "true"]).expect(2).err;
    assert!(attribute.contains("write tag.table or tag[\"table\"]"), "{attribute}");
    let when = run(&["rules", "new", "--when", "user ==", "--reject"]).expect(1).err;
    assert!(when.contains("docs/expressions.md"), "{when}");
    run(&[
        "checkpoints",
        "create",
        "c",
        "--at",
        "frontend api",
        "--rate",
        "1/s",
        "--queue-max-len",
        "1",
    ])
    .expect(0);
    let queue = run(&["checkpoints", "set", "c", "--reset", "rate"]).expect(1).err;
    assert!(
        queue.contains("only counts and has no queue") && queue.contains("add --reset queue"),
        "{queue}"
    );
    let token = scratch.path().join("wrong.token");
    std::fs::write(&token, "abcdefgh\n").unwrap();
    let api = format!("http://{}", daemon.api_address());
    let told =
        said(&mut command(&["whoami", "--api", &api, "--token-file", token.to_str().unwrap()]));
    let told = told.expect(77).err;
    assert!(told.contains("--token-file") && !told.contains("header"), "{told}");
    let threads = run(&["http"]).expect(0).out;
    assert!(
        threads.starts_with("threads = ") && threads.contains("the number of processors"),
        "{threads}"
    );
}

#[test]
fn a_lock_that_was_waited_for_says_how_long() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let holder = hold(&daemon, &["lock", "deploy"]);
    let late =
        paceline(&daemon, &["lock", "deploy", "--wait", "100ms", "--", "true"]).expect(75).err;
    assert!(late.contains("waited 100ms; the lock is still owned by"), "{late}");
    assert!(!late.contains("--wait TIME"), "{late}");
    let_go(holder);
}

/// A length of time has at most three digits that matter.
#[test]
fn explain_shows_three_digits_of_a_wait() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let rate = ["checkpoints", "create", "c", "--at", "frontend api", "--rate", "7 per 100s"];
    paceline(&daemon, &rate).expect(0);
    paceline(&daemon, &["permit", "--", "true"]).expect(0);
    let told = paceline(&daemon, &["explain"]).expect(0).out;
    let line = told.lines().find(|line| line.starts_with("would wait")).expect(&told);
    let (_, wait) = line.rsplit_once("for ").unwrap();
    let digits: String = wait.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.trim_end_matches('0').len() <= 3, "{told}");
}

#[test]
fn a_permit_that_blocks_itself_says_that_it_runs_inside_another() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    paceline(&daemon, &["resources", "create", "r"]).expect(0);
    let binary = paceline_tests::server::paceline_binary();
    let inner = [binary.to_str().unwrap(), "permit", "--claim", "r", "--", "true"];
    let told = paceline(&daemon, &[&["permit", "--claim", "r", "--"], &inner[..]].concat());
    let told = told.expect(3).err;
    assert!(told.contains(", the permit that this command runs in"), "{told}");
}

#[test]
fn a_restore_that_cannot_be_done_says_what_to_do_once() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let backup = scratch.path().join("b.db");
    paceline(&daemon, &["backup", backup.to_str().unwrap()]).expect(0);
    let told = paceline(&daemon, &["restore", backup.to_str().unwrap()]).expect(1).err;
    assert_eq!(told.matches("stop it first").count(), 1, "{told}");
    let missing = scratch.path().join("nosuch.db");
    let told = paceline(&daemon, &["restore", missing.to_str().unwrap()]).expect(1).err;
    assert!(!told.contains("show-log"), "{told}");
}

/// Objects that would be deleted are listed before the question.
#[test]
fn apply_lists_what_it_would_delete() {
    let scratch = Scratch::new();
    let daemon = start(&scratch);
    let file = scratch.path().join("a.toml");
    let names: Vec<String> =
        (0..7).map(|at| format!("[[resource]]\nname = 'part-{at}'\n")).collect();
    std::fs::write(&file, names.concat()).unwrap();
    paceline(&daemon, &["apply", file.to_str().unwrap()]).expect(0);
    std::fs::write(&file, "# nothing\n").unwrap();
    let mut terminal = in_terminal(&daemon, &format!("apply {}", file.display()));
    let told = shown(&mut terminal, &["- resource part-0", "- resource part-6", "continue? [y/N]"]);
    assert!(told.find("part-6") < told.find("continue?"), "{told}");
    drop(terminal.stdin.take());
    terminal.wait().unwrap();
    std::fs::write(&file, "[[pool]\n").unwrap();
    let told = paceline(&daemon, &["apply", file.to_str().unwrap()]).expect(1).err;
    assert_eq!(told.matches("is checked when").count(), 1, "{told}");
}

/// `check` prints one JSON document, or lines that editors read.
#[test]
fn check_prints_one_document_or_lines_with_places() {
    let scratch = Scratch::new();
    let file = scratch.path().join("c.toml");
    let check = |text: &str, options: &[&str]| {
        std::fs::write(&file, text).unwrap();
        said(&mut command(&[options, &["check", file.to_str().unwrap()]].concat()))
    };
    let good = "[[pool]]\nname = 'p'\npriority = [1, 2]\n";
    assert_eq!(check(good, &[]).expect(0).out, "ok: 1 object\n");
    let told = check(good, &["--json"]).expect(0).json();
    assert_eq!(
        told,
        json!({"ok": true, "objects": 1, "errors": [], "warnings": [], "unchecked": []})
    );
    let doubtful = "[[rule]]\nmatch = { user = 'a*' }\nreject = true\n";
    let told = check(doubtful, &[]).expect(0);
    assert!(told.err.contains("c.toml:2:1: warning: rule 10: match: "), "{}", told.err);
    assert!(told.err.contains("mode = \"glob\"") && !told.err.contains("--mode"), "{}", told.err);
    let told = check(doubtful, &["--json"]).expect(0).json();
    let warning = &told["warnings"][0];
    assert_eq!((&warning["line"], &warning["column"]), (&json!(2), &json!(1)), "{told}");
    // A name that does not exist hides no other error.
    let two =
        "[[resource]]\nname = 'r'\nparents = ['nowhere']\n[[rule]]\nwhen = '((('\nreject = true\n";
    let told = check(two, &["--json"]).expect(1).json();
    let lines: Vec<&Value> =
        told["errors"].as_array().unwrap().iter().map(|e| &e["line"]).collect();
    assert_eq!((lines, &told["ok"]), (vec![&json!(3), &json!(5)], &json!(false)), "{told}");
    assert!(!check(two, &[]).expect(1).err.ends_with("\n\n"));
    let told = check("[[pool]\n", &[]).expect(1).err;
    assert_eq!(told.matches("is checked when").count(), 1, "{told}");
    let told = check("[[pols]]\nname = 'p'\n", &[]).expect(1).err;
    assert!(told.contains("did you mean `pool`?"), "{told}");
}
