//! One transaction makes the database agree with the file, and touches nothing else.

use super::{EXAMPLE, apply, database, execute, read, transact};
use crate::How;
use crate::{Applied, Change, ChangeOp};
use paceline_tables::Database;
use paceline_tables::json::Json;
use paceline_tables::value::{Atom, Datum};

/// `op table row: column old -> new, ...`, one line for each change.
fn told(applied: &Applied) -> Vec<String> {
    let line = |change: &Change| {
        let op = match change.op {
            ChangeOp::Insert => "+",
            ChangeOp::Update => "~",
            ChangeOp::Delete => "-",
        };
        let each = change.columns.iter().map(|(name, old, new)| format!(" {name} {old:?} {new:?}"));
        format!("{op} {} {}:{}", change.table, change.row, each.collect::<String>())
    };
    applied.changes.iter().map(line).collect()
}

/// The keys of the rows in a table.
pub(super) fn keys(database: &Database, table: &str, column: &str) -> Vec<String> {
    let id = database.schema().table_id(table).unwrap();
    let column = database.schema().table(id).column_id(column).unwrap();
    let text = |datum: &Datum| match datum.single().and_then(Atom::as_str) {
        Some(text) => text.to_owned(),
        None => datum.single().map(Atom::to_text).unwrap_or_default(),
    };
    let mut keys: Vec<String> =
        database.store().rows(id).map(|row| text(&row[column.index()])).collect();
    keys.sort();
    keys
}

fn ops(applied: &Applied) -> Vec<&str> {
    let op = |operation: &'_ Json| match operation.as_object().unwrap().get("op").unwrap().as_str()
    {
        Some("insert") => "insert",
        Some("update") => "update",
        Some("delete") => "delete",
        Some("wait") => "wait",
        _ => panic!("{operation:?}"),
    };
    applied.operations.iter().map(op).collect()
}

#[test]
fn a_second_apply_has_nothing_to_do() {
    let mut database = database();
    let document = read(EXAMPLE);
    let first = apply(&mut database, &document);
    let rules = document.objects().iter().filter(|object| object.table == "Rule").count();
    assert_eq!(first.changes.len(), document.objects().len() + rules, "rules are in two tables");
    assert_eq!(keys(&database, "Rule", "number"), keys(&database, "Saved_Rule", "number"));
    let second = document.apply(database.store(), How::default());
    assert_eq!(
        (&*second.operations, &*second.changes, &*second.drift),
        (&[][..], &[][..], &[][..])
    );
}

#[test]
fn only_what_differs_is_changed_and_each_row_is_guarded() {
    let mut database = database();
    apply(
        &mut database,
        &read(
            "[[pool]]\nname = 'a'\npriority = [1, 2]\n[[pool]]\nname = 'b'\nstarted = false\n[[rule]]\nlower = 5\n",
        ),
    );
    let text = "[[pool]]\nname = 'a'\npriority = [1, 3]\ngroup = 'g'\n[[rule]]\nlower = 6\n[[resource]]\nname = 'r'\n";
    let applied = apply(&mut database, &read(text));
    assert_eq!(
        told(&applied),
        [
            "- Pool b: file \"-\" \"\" name \"b\" \"\" persistent \"true\" \"\" state \"stopped\" \"\"",
            "~ Pool a: group \"\" \"g\" priority_max \"2\" \"3\"",
            "~ Rule 10: action \"lower 5\" \"lower 6\"",
            "~ Saved_Rule 10: action \"lower 5\" \"lower 6\"",
            "+ Resource r: file \"\" \"-\" name \"\" \"r\" persistent \"\" \"true\"",
        ]
    );
    let expected = [
        "wait", "wait", "wait", "wait", "delete", "update", "update", "update", "insert", "wait",
        "update",
    ];
    assert_eq!(ops(&applied), expected);
    assert_eq!(keys(&database, "Pool", "name"), ["a"]);
}

#[test]
fn what_was_made_by_hand_stays_unless_the_file_names_it() {
    let mut database = database();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Pool", "row": {"name": "mine", "threads_max": 3}},
            {"op": "insert", "table": "Pool", "row": {"name": "both", "threads_max": 3}},
            {"op": "insert", "table": "Rule", "row": {"number": 5, "criteria": "user  exact 'eva'"}},
            {"op": "insert", "table": "Rule", "row": {"number": 10, "criteria": "user  exact 'eva'"}},
            {"op": "insert", "table": "Saved_Rule", "row": {"number": 7}},
            {"op": "insert", "table": "Resource", "row": {"name": "r"}}]"#,
    );
    let text = "[[pool]]\nname = 'both'\nstarted = false\nthreads = { max = 3 }\n[[rule]]\nmatch = { user = 'eva' }\n";
    let applied = apply(&mut database, &read(text));
    assert_eq!(
        told(&applied),
        [
            "~ Pool both: file \"\" \"-\" persistent \"false\" \"true\"",
            "~ Rule 10: file \"\" \"-\"",
            "+ Saved_Rule 10: criteria \"\" \"user exact eva\" file \"\" \"-\" number \"\" \"10\"",
        ]
    );
    let applied = apply(&mut database, &read(""));
    let gone: Vec<_> = applied.changes.iter().map(|c| (c.op, c.table, c.row.as_str())).collect();
    assert_eq!(
        gone,
        [
            (ChangeOp::Delete, "Pool", "both"),
            (ChangeOp::Delete, "Rule", "10"),
            (ChangeOp::Delete, "Saved_Rule", "10"),
        ]
    );
    assert_eq!(keys(&database, "Pool", "name"), ["mine"]);
    assert_eq!(keys(&database, "Rule", "number"), ["5"]);
    assert_eq!(keys(&database, "Saved_Rule", "number"), ["7"]);
    assert_eq!(keys(&database, "Resource", "name"), ["r"]);
}

#[test]
fn parents_are_compared_by_name_and_may_be_new_or_old() {
    let mut database = database();
    let a = "[[resource]]\nname = 'a'\n";
    apply(&mut database, &read(a));
    let text = format!(
        "[[resource]]\nname = 'c'\nparents = ['b', 'a']\n{a}[[resource]]\nname = 'b'\nparents = ['a']\n"
    );
    apply(&mut database, &read(&text));
    assert_eq!(read(&text).apply(database.store(), How::default()).operations, []);
    let text = format!("[[resource]]\nname = 'c'\nparents = ['b']\n{a}[[resource]]\nname = 'b'\n");
    let applied = apply(&mut database, &read(&text));
    assert_eq!(
        told(&applied),
        ["~ Resource c: parents \"a, b\" \"b\"", "~ Resource b: parents \"a\" \"\""]
    );
    assert_eq!(read(&text).apply(database.store(), How::default()).operations, []);
}

/// Two overlapping edits: the later one fails as a whole.
#[test]
fn a_concurrent_edit_makes_one_clear_loser() {
    for edit in [
        r#"[{"op": "update", "table": "Pool", "where": [["name", "==", "a"]], "row": {"threads_max": 9}}]"#,
        r#"[{"op": "delete", "table": "Pool", "where": [["name", "==", "a"]]}]"#,
    ] {
        for text in [
            "[[pool]]\nname = 'a'\nstarted = false\ngroup = 'g'\n[[pool]]\nname = 'new'\nstarted = false\n",
            "",
        ] {
            let mut database = database();
            apply(
                &mut database,
                &read(
                    "[[pool]]\nname = 'a'\nstarted = false\n[[pool]]\nname = 'z'\nstarted = false\n",
                ),
            );
            let late = read(text).apply(database.store(), How::default());
            transact(&mut database, edit);
            let before = crate::export(&database.snapshot());
            let error = execute(&mut database, &late.operations).unwrap_err();
            assert!(error.contains("timed out"), "{error}");
            assert_eq!(crate::export(&database.snapshot()), before, "nothing of it was done");
            apply(&mut database, &read(text));
        }
    }
    // Two files that both create the same row.
    let mut database = database();
    let document = read("[[pool]]\nname = 'a'\nstarted = false\n");
    let (one, two) = (
        document.apply(database.store(), How::default()),
        document.apply(database.store(), How::default()),
    );
    execute(&mut database, &one.operations).unwrap();
    let error = execute(&mut database, &two.operations).unwrap_err();
    assert!(error.contains("constraint violation"), "{error}");
}

/// The displayed changes: `op kind row members`.
fn shown(applied: &Applied) -> Vec<String> {
    let line = |change: &Change| {
        format!("{:?} {} {} {}", change.op, change.kind(), change.row, change.members().join(" "))
    };
    applied.told().map(line).collect()
}

#[test]
fn people_are_told_objects_and_keys_of_the_file() {
    let mut database = database();
    let first = r#"
[[pool]]
name = "batch"
priority = [-127, -1]
threads = { max = 8 }
[[rule]]
number = 10
match = { user = "etl-*" }
mode = "glob"
lower = 20
"#;
    let told = shown(&apply(&mut database, &read(first)));
    assert_eq!(
        told,
        ["Insert pool batch name priority threads persistent started", {
            "Insert rule 10 number match action"
        }]
    );
    let second = r#"
[[pool]]
name = "batch"
priority = [-100, -1]
threads = { min = 1, max = 4 }
[[rule]]
number = 10
match = { user = "etl-*", task = "x" }
mode = "glob"
lower = 30
"#;
    let told = shown(&read(second).apply(database.store(), How::default()));
    assert_eq!(told, ["Update pool batch priority threads", "Update rule 10 match action"]);
    assert_eq!(shown(&read("").apply(database.store(), How::default())).len(), 2);
}

#[test]
fn what_only_becomes_the_files_is_told_once() {
    let mut database = database();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Resource", "row": {"name": "r", "persistent": true}}]"#,
    );
    let applied = apply(&mut database, &read("[[resource]]\nname = \"r\"\n"));
    assert_eq!(applied.operations.len(), 3, "a guard, an update, and what the file said");
    assert_eq!(shown(&applied), ["Update resource r "]);
    assert!(applied.told().all(Change::is_taken_over));
    assert!(shown(&apply(&mut database, &read("[[resource]]\nname = \"r\"\n"))).is_empty());
    assert_eq!(
        shown(&read("").apply(database.store(), How::default())).len(),
        1,
        "it is pruned from now on"
    );
}

/// A server that was created by hand is deleted with its backend, which a file created; others stay.
#[test]
fn a_backend_that_goes_takes_all_of_its_servers_along() {
    let mut database = database();
    let both = r#"
[[backend]]
name = "app"
servers = [{ name = "c", address = "127.0.0.1:1" }]
[[backend]]
name = "other"
"#;
    apply(&mut database, &read(both));
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Server", "row":
              {"backend": "app", "name": "d", "address": "127.0.0.1:2", "persistent": true}},
            {"op": "insert", "table": "Server", "row":
              {"backend": "other", "name": "e", "address": "127.0.0.1:3", "persistent": true}}]"#,
    );
    let applied = apply(&mut database, &read("[[backend]]\nname = \"other\"\n"));
    let told: Vec<String> = shown(&applied).iter().map(|line| line[..18].to_owned()).collect();
    assert_eq!(told, ["Delete backend app", "Delete server app/", "Delete server app/"]);
    let gone: Vec<&str> = applied.changes.iter().map(|change| change.row.as_str()).collect();
    assert_eq!(gone, ["app", "app/c", "app/d"]);
}
