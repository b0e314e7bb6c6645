//! The format of an export.

use super::{EXAMPLE, apply, database, read, transact};
use crate::How;
use crate::{Change, export};

#[test]
fn an_empty_database_is_a_comment() {
    assert_eq!(
        export(&database().snapshot()),
        "# Exported by paceline; `paceline apply FILE` brings it back.\n\
         # Nothing is configured: every request starts at once, in the default pool.\n"
    );
}

/// Users are written, tokens never: neither their names nor their hashes.
#[test]
fn users_are_written_and_tokens_are_not() {
    let mut database = database();
    let hash = "c0ffee".repeat(11);
    transact(
        &mut database,
        &format!(
            r#"[{{"op": "insert", "table": "Token", "row": {{"name": "ci-token", "role": "admin",
                "user": "build-user", "hash": "{}"}}}},
                {{"op": "insert", "table": "User", "row": {{"name": "eva", "role": "client"}}}}]"#,
            &hash[..64]
        ),
    );
    let text = export(&database.snapshot());
    assert!(text.ends_with("\n[[user]]\nname = \"eva\"\nrole = \"client\"\n"), "{text}");
    for secret in ["c0ffee", "ci-token", "build-user", "oken"] {
        assert!(!text.contains(secret), "{text}");
    }
    let mut again = super::database();
    apply(&mut again, &read(&text));
    assert_eq!(export(&again.snapshot()), text);
}

#[test]
fn only_what_is_set_is_written_in_a_stable_order() {
    let mut database = database();
    let text = r#"
[[resource]]
name = "b"
parents = ["a"]
[[resource]]
name = "a"
[[checkpoint]]
name = "late"
at = "frontend api"
number = 20
rate = "500/s"
[[checkpoint]]
name = "early"
at = "frontend api"
number = 10
key = 'header["x-user"]'
concurrency = 3
queue = { max_delay = "5s" }
[[rule]]
number = 20
match = { user = { regex = '^a\d' }, 'header.x' = 'y' }
reject = true
[[rule]]
number = 10
match = { user = "Etl-*" }
mode = "glob"
nocase = true
lower = 20
then = "stop"
[[pool]]
name = "batch"
priority = [-127, -1]
[[pool]]
name = "default"
threads = { max = 3 }
"#;
    apply(&mut database, &read(text));
    let expected = r#"# Exported by paceline; `paceline apply FILE` brings it back.

[[pool]]
name = "default"
threads = { max = 3 }

[[pool]]
name = "batch"
priority = [-127, -1]

[[rule]]
number = 10
match = { user = "Etl-*" }
mode = "glob"
nocase = true
lower = 20
then = "stop"

[[rule]]
number = 20
match = { user = { regex = '^a\d' }, "header.x" = "y" }
reject = true

[[checkpoint]]
name = "early"
at = "frontend api"
number = 10
key = 'header["x-user"]'
concurrency = 3
queue = { max_delay = "5s" }

[[checkpoint]]
name = "late"
at = "frontend api"
number = 20
rate = "500/s"

[[resource]]
name = "a"

[[resource]]
name = "b"
parents = ["a"]
"#;
    assert_eq!(export(&database.snapshot()), expected);
}

#[test]
fn the_example_comes_back() {
    let mut database = database();
    apply(&mut database, &read(EXAMPLE));
    let again = read(&export(&database.snapshot()));
    assert_eq!(again.check(), Ok(vec![]));
    assert_eq!(again.apply(database.store(), How::default()).operations, []);
}

#[test]
fn what_a_file_cannot_say_is_written_as_near_as_it_can() {
    let mut database = database();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Pool", "row": {"name": "d", "state": "draining",
             "priority_min": 1, "priority_max": 2, "persistent": true}},
            {"op": "insert", "table": "Pool", "row": {"name": "bare"}},
            {"op": "insert", "table": "Lock", "row": {"name": "hidden"}},
            {"op": "insert", "table": "Rule", "row": {"number": 10, "action": "nothing",
             "criteria": "header glob a* and user exact b"}},
            {"op": "insert", "table": "Saved_Rule", "row": {"number": 20}}]"#,
    );
    let text = export(&database.snapshot());
    let expected = r#"# Exported by paceline; `paceline apply FILE` brings it back.

[[pool]]
name = "bare"
persistent = false
started = false

[[pool]]
name = "d"
priority = [1, 2]
# It was draining.

[[rule]]
number = 10
match = "header glob a* and user exact b"
"#;
    assert_eq!(text, expected);
    let doubt =
        "line 13: rule 10: it does nothing when it matches; give it set, raise, lower or reject";
    let doubts = read(&text).check().unwrap();
    assert_eq!(doubts.iter().map(ToString::to_string).collect::<Vec<_>>(), [doubt]);
}

/// Rows created by plain clients, with only the columns that identify them.
#[test]
fn bare_rows_come_back_and_applying_changes_nothing() {
    let mut database = database();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Pool", "row": {"name": "bare"}},
            {"op": "insert", "table": "Pool", "row": {"name": "default"}},
            {"op": "insert", "table": "Rule", "row": {"number": 10}},
            {"op": "insert", "table": "Checkpoint", "row": {"name": "c", "at": "frontend api"}},
            {"op": "insert", "table": "Resource", "row": {"name": "r"}}]"#,
    );
    let text = export(&database.snapshot());
    assert!(text.contains("[[pool]]\nname = \"default\"\n\n[[pool]]"), "{text}");
    let applied = read(&text).apply(database.store(), How::default());
    let told: Vec<_> = applied.told().filter(|change| change.table != "Saved_Rule").collect();
    let is_only_taken = |change: &&Change| change.is_taken_over() && change.members().is_empty();
    assert!(told.iter().all(is_only_taken), "{told:?}\n{text}");
    apply(&mut database, &read(&text));
    assert_eq!(export(&database.snapshot()), text);
    assert_eq!(read(&text).apply(database.store(), How::default()).operations, []);
}

#[test]
fn long_lists_of_parents_are_broken() {
    let mut database = database();
    let names: Vec<String> = (0..9).map(|n| format!("disk:/dev/da{n}")).collect();
    let mut text: String =
        names.iter().map(|name| format!("[[resource]]\nname = '{name}'\n")).collect();
    text.push_str(&format!("[[resource]]\nname = 'z'\nparents = {names:?}\n"));
    apply(&mut database, &read(&text));
    let written = export(&database.snapshot());
    assert!(
        written.contains("parents = [\n    \"disk:/dev/da0\",\n    \"disk:/dev/da1\",\n"),
        "{written}"
    );
    assert_eq!(read(&written).apply(database.store(), How::default()).operations, []);
}
