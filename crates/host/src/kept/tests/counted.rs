//! What is held counts against limits after a restart, also for pools and checkpoints that a restart deletes
//! and a client creates again (P1, P3).

use super::{World, leased};
use crate::Admission;
use paceline_types::{Attributes, Request};

const POOL: &str = r#"{"op": "insert", "table": "Pool", "row": {"name": "batch", "priority_min": -9,
    "priority_max": -1, "threads_max": 1, "state": "started", "persistent": false}}"#;

const CHECKPOINT: &str = r#"{"op": "insert", "table": "Checkpoint", "row": {"name": "one",
    "at": "frontend api", "concurrency": 1, "persistent": false}}"#;

const RULE: &str = r#"{"op": "insert", "table": "Rule", "row": {"number": 1, "action": "set -5"}}"#;

fn request() -> Request {
    let mut attributes = Attributes::new();
    attributes.set("frontend", "api").unwrap();
    Request::new(attributes)
}

/// Whether a request that only the limit can hold back may run, after `edits` in each of three runs.
fn runs(name: &str, limit: &str) -> [bool; 3] {
    let mut world = World::new(name);
    let edit = format!("[{limit}, {RULE}]");
    world.edit(&edit);
    let permit = world.admit(request(), leased());
    world.written();
    std::mem::forget(permit);
    let is_run = |world: &World| {
        let admission = world.host().control().admit(request()).unwrap();
        matches!(admission, Admission::Started(_))
    };
    let first = is_run(&world);
    let mut rest = [true; 2].map(|_| {
        world.kill();
        assert_eq!(world.restore().len(), 1);
        world.edit(&edit);
        is_run(&world)
    });
    let [second, third] = &mut rest;
    [first, *second, *third]
}

#[test]
fn a_transient_pool_that_is_made_again_counts_what_is_held_p1() {
    assert_eq!(runs("pool", POOL), [false; 3]);
}

#[test]
fn a_transient_checkpoint_that_is_made_again_counts_what_is_held_p1() {
    assert_eq!(runs("checkpoint", CHECKPOINT), [false; 3]);
}

/// A limit that was moved or whose condition was edited counts the requests that passed it before, in the next
/// run too.
#[test]
fn a_checkpoint_whose_condition_was_edited_counts_what_is_held_p1() {
    let mut world = World::new("condition");
    let held = CHECKPOINT.replace("false", "true");
    world.edit(&format!("[{held}]"));
    std::mem::forget(world.admit(request(), leased()));
    world.written();
    let set = |when: &str| {
        format!(
            r#"[{{"op": "update", "table": "Checkpoint", "where": [], "row": {{"when": "{when}"}}}}]"#
        )
    };
    world.edit(&set("user == 'nobody'"));
    world.kill();
    world.restore();
    world.edit(&set("true"));
    let admission = world.host().control().admit(request()).unwrap();
    assert!(matches!(admission, Admission::Waiting(_)), "{admission:?}");
}

/// A checkpoint that was renamed while it counts a permit counts it under its new name after a restart.
#[test]
fn a_checkpoint_that_is_renamed_counts_what_is_held_p1() {
    let mut world = World::new("renamed");
    world.edit(&format!("[{CHECKPOINT}]"));
    std::mem::forget(world.admit(request(), leased()));
    world.written();
    world.edit(
        r#"[{"op": "update", "table": "Checkpoint", "where": [], "row": {"name": "other"}}]"#,
    );
    world.kill();
    world.restore();
    world.edit(&format!("[{}]", CHECKPOINT.replace("\"one\"", "\"other\"")));
    let admission = world.host().control().admit(request()).unwrap();
    assert!(matches!(admission, Admission::Waiting(_)), "{admission:?}");
}

/// A permit keeps its slot in the pool that gave it, whatever pools have its priority after a restart. A
/// deleted pool counts it when it is created again, and the default pool counts it when another pool takes over
/// its priority.
#[test]
fn a_slot_is_in_the_pool_that_gave_it_p1() {
    let is_run = |world: &World| {
        let admission = world.host().control().admit(request()).unwrap();
        matches!(admission, Admission::Started(_))
    };
    let other = POOL.replace("\"batch\"", "\"other\"");
    let delete = |name: &str| {
        format!(r#"{{"op": "delete", "table": "Pool", "where": [["name", "==", "{name}"]]}}"#)
    };
    let mut world = World::new("slot-former");
    world.edit(&format!("[{POOL}, {RULE}]"));
    std::mem::forget(world.admit(request(), leased()));
    world.written();
    let kept = other.replace("false", "true");
    world.edit(&format!("[{}, {kept}]", delete("batch")));
    world.kill();
    world.restore();
    world.edit(&format!("[{}, {POOL}, {RULE}]", delete("other")));
    assert!(!is_run(&world), "what ran in the old pool of the name counts");

    let mut world = World::new("slot-default");
    let default =
        r#"{"op": "insert", "table": "Pool", "row": {"name": "default", "threads_max": 1}}"#;
    let saved = RULE.replace("\"Rule\"", "\"Saved_Rule\"");
    world.edit(&format!("[{default}, {RULE}, {saved}]"));
    std::mem::forget(world.admit(request(), leased()));
    world.written();
    world.edit(&format!("[{kept}]"));
    world.kill();
    world.restore();
    world.edit(r#"[{"op": "delete", "table": "Rule", "where": []}]"#);
    assert!(!is_run(&world), "the default pool has its one request");
}

/// Two checkpoints of one name count a permit once one of them is deleted by a restart and the other is renamed
/// to it. The row names them once.
#[test]
fn a_row_names_two_checkpoints_of_one_name_once_p3() {
    let mut world = World::new("names-twice");
    let lasting = CHECKPOINT.replace("\"one\"", "\"lasting\"").replace("false", "true");
    world.edit(&format!("[{CHECKPOINT}, {lasting}]"));
    std::mem::forget(world.admit(request(), leased()));
    world.written();
    world.kill();
    world.restore();
    world.edit(r#"[{"op": "update", "table": "Checkpoint", "where": [], "row": {"name": "one"}}]"#);
    world.written();
    let own = &world.host().keeper().unwrap().own;
    let names = own.own_rows(crate::own::PERMIT_TABLE, |table, row| {
        Some(row[table.column_id("checkpoints")?.index()].keys().count())
    });
    assert_eq!(names, [1]);
}
