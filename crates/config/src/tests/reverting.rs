//! A start that fails takes back the files that it applied first.

use super::owning::{SERVES, apply, named, names};
use super::{database, execute, transact};
use crate::{How, export, revert, revert_each};

const POOLS: &str =
    "[[pool]]\nname = 'a'\npriority = [1, 9]\n[[rule]]\nmatch.user = 'eva'\nlower = 5\n";

#[test]
fn a_first_application_is_undone_and_other_edits_stay() {
    let mut database = database();
    let make = |name: &str, low: u32| {
        format!(
            r#"[{{"op": "insert", "table": "Pool", "row": {{"name": "{name}", "priority_min": {low}, "priority_max": {low}}}}}]"#
        )
    };
    transact(&mut database, &make("hand", 50));
    apply(
        &mut database,
        &named("old.toml", "[[pool]]\nname = 'old'\npriority = [60, 60]\n"),
        SERVES,
    );
    let (before, was) = (database.snapshot(), export(&database.snapshot()));
    // The old file is not given any more, so its pool goes; the new one takes over the pool made by hand.
    let text = format!("{POOLS}[[pool]]\nname = 'hand'\npriority = [51, 51]\n");
    apply(&mut database, &named("new.toml", &text), How { take_over: true, ..SERVES });
    let after = database.snapshot();
    assert_eq!(names(&database, "Pool"), ["a", "hand"]);
    let undo = revert(&before, &after, database.store());
    execute(&mut database, &undo).unwrap();
    assert_eq!(export(&database.snapshot()), was);
    assert_eq!(names(&database, "File"), ["old.toml"]);

    // The same, with an edit of another client in between.
    apply(&mut database, &named("new.toml", &text), How { take_over: true, ..SERVES });
    let after = database.snapshot();
    transact(&mut database, &make("client", 70));
    let undo = revert(&before, &after, database.store());
    execute(&mut database, &undo).unwrap();
    assert_eq!(names(&database, "Pool"), ["client", "hand", "old"]);
    assert_eq!(revert(&after, &after, database.store()), []);
}

/// Another client changed what the files had changed: its value stays, and the rest is undone.
#[test]
fn a_value_that_was_edited_since_stays() {
    let mut database = database();
    let file = |low: u32, threads: u32| {
        let text =
            format!("[[pool]]\nname = 'a'\npriority = [{low}, 9]\nthreads.max = {threads}\n");
        named("a.toml", &text)
    };
    apply(&mut database, &file(1, 2), SERVES);
    let before = database.snapshot();
    apply(&mut database, &file(5, 6), SERVES);
    let after = database.snapshot();
    transact(
        &mut database,
        r#"[{"op": "update", "table": "Pool", "where": [["name", "==", "a"]], "row": {"threads_max": 77}}]"#,
    );
    let undo = revert(&before, &after, database.store());
    execute(&mut database, &undo).unwrap();
    let text = export(&database.snapshot());
    assert!(text.contains("priority = [1, 9]") && text.contains("77"), "{text}");
}

/// Another client made a pool with the name of one that the files deleted: that pool cannot come back, the others do.
#[test]
fn an_object_that_cannot_come_back_does_not_stop_the_others() {
    let mut database = database();
    let old =
        "[[pool]]\nname = 'x'\npriority = [60, 60]\n[[pool]]\nname = 'y'\npriority = [61, 61]\n";
    apply(&mut database, &named("old.toml", old), SERVES);
    let before = database.snapshot();
    apply(&mut database, &named("new.toml", POOLS), SERVES);
    let after = database.snapshot();
    transact(
        &mut database,
        r#"[{"op": "insert", "table": "Pool", "row": {"name": "x", "priority_min": 99, "priority_max": 99}}]"#,
    );
    let undo = revert(&before, &after, database.store());
    execute(&mut database, &undo).unwrap_err();
    let mut edits = 0;
    let failed = revert_each(&undo, |some| {
        edits += 1;
        execute(&mut database, some)
    });
    let [(operation, _)] = &failed[..] else { panic!("{failed:?}") };
    assert!(operation.to_text().contains(r#""name":"x""#), "{operation:?}");
    assert_eq!(names(&database, "Pool"), ["x", "y"]);
    assert_eq!(names(&database, "File"), ["old.toml"]);
    assert!(edits < 2 * undo.len(), "{edits}");
}
