//! A start that fails takes back the files that it applied first.

use super::owning::{SERVES, apply, named, names};
use super::{database, execute, transact};
use crate::{How, export, revert};

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
