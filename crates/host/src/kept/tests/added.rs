//! What edits of resources add to the claims of permits that are held.

use super::{World, claiming, claiming_new, leased};
use crate::{Admission, Permit};
use paceline_tables::tag;
use paceline_types::Mode;

/// A permit may have more claims than a request may ask for: those of the children of a claimed resource, once
/// that is deleted. 70,000 are more than fit in 16 bits. It holds all of them also after a restart.
#[test]
fn what_edits_add_to_a_permit_is_held_after_a_restart_c1_p3() {
    for (count, is_persistent) in [(300, true), (300, false), (70_000, true)] {
        let mut world = World::new(&format!("wide-{count}-{is_persistent}"));
        let child = |n: usize| {
            format!(
                r#"{{"op": "insert", "table": "Resource", "row": {{"name": "c{n}",
                 "parents": ["named-uuid", "r"], "persistent": {is_persistent}}}}}"#
            )
        };
        let children: Vec<String> = (0..count).map(child).collect();
        world.edit(&format!(
            r#"[{{"op": "insert", "table": "Resource", "uuid-name": "r",
              "row": {{"name": "r", "persistent": true}}}}, {}]"#,
            children.join(",")
        ));
        let held = world.admit(claiming(&[("r", Mode::Exclusive)]), leased());
        if is_persistent {
            world.edit(
                r#"[{"op": "update", "table": "Resource", "where": [["name", "!=", "r"]],
                  "row": {"parents": ["set", []]}},
                 {"op": "delete", "table": "Resource", "where": [["name", "==", "r"]]}]"#,
            );
        }
        world.written();
        std::mem::forget(held);
        for _ in 0..2 {
            world.kill();
            world.restore();
            let last = format!("c{}", count - 1);
            for name in ["r", "c0", "c5", &last] {
                let asked = world.host().control().admit(claiming_new(name)).unwrap();
                assert!(matches!(asked, Admission::Waiting(_)), "{name} {count} {is_persistent}");
            }
        }
    }
}

/// D1: an edit that would give the holders of a resource more claims than there is room for is refused, and
/// changes nothing. When enough holders have left, it succeeds.
#[test]
fn an_edit_that_adds_too_many_claims_is_refused_d1() {
    const HOLDERS: usize = 1_000;
    let world = World::new("growth");
    let child = |n: usize| {
        format!(
            r#"{{"op": "insert", "table": "Resource", "row": {{"name": "c{n}",
             "parents": ["named-uuid", "r"]}}}}"#
        )
    };
    let children: Vec<String> = (0..1_001).map(child).collect();
    world.edit(&format!(
        r#"[{{"op": "insert", "table": "Resource", "uuid-name": "r", "row": {{"name": "r"}}}}, {}]"#,
        children.join(",")
    ));
    let hold = |_| world.admit(claiming(&[("r", Mode::Shared)]), leased());
    let mut held: Vec<Permit> = (0..HOLDERS).map(hold).collect();
    world.written();
    let delete = r#"[{"op": "update", "table": "Resource", "where": [["name", "!=", "r"]],
          "row": {"parents": ["set", []]}},
         {"op": "delete", "table": "Resource", "where": [["name", "==", "r"]]}]"#;
    for _ in 0..2 {
        let error = world.try_edit(delete).unwrap_err();
        assert_eq!(error.tag, tag::RESOURCES, "{error}");
        assert!(error.details.starts_with("1000 permits"), "{error}");
    }
    // The children are held as they were.
    assert!(world.is_taken("r") && world.is_taken("c7"));
    held.truncate(10);
    world.written();
    world.edit(delete);
    assert!(world.is_taken("c7"));
    held.clear();
    assert!(!world.is_taken("c7"));
}

/// D1: a start deletes transient resources, but keeps them if that would give holders too many claims. A later
/// start deletes them when enough holders have left.
#[test]
fn a_start_adds_no_more_claims_than_there_is_room_for_d1() {
    let mut world = World::new("start-growth");
    let child = |n: usize| {
        format!(
            r#"{{"op": "insert", "table": "Resource", "row": {{"name": "c{n}",
             "parents": ["named-uuid", "r"], "persistent": false}}}}"#
        )
    };
    let children: Vec<String> = (0..1_001).map(child).collect();
    world.edit(&format!(
        r#"[{{"op": "insert", "table": "Resource", "uuid-name": "r",
          "row": {{"name": "r", "persistent": true}}}}, {}]"#,
        children.join(",")
    ));
    let hold = |_| world.admit(claiming(&[("r", Mode::Shared)]), leased());
    let held: Vec<Permit> = (0..1_000).map(hold).collect();
    world.written();
    std::mem::forget(held);
    world.kill();
    let keeper = world.host().keeper().unwrap();
    let permits = keeper.take_over().unwrap().permits;
    assert!(permits.iter().all(|kept| kept.resources.len() == 1 && kept.names.is_empty()));
    let mut held: Vec<Permit> =
        permits.iter().map(|kept| keeper.restore_permit(kept, None)).collect();
    world.host().open_for_service();
    let kept = world.host().keeper().unwrap().own.own_rows("Resource", |_, _| Some(()));
    assert_eq!(kept.len(), 1_002);
    assert!(world.is_taken("c7"));
    held.drain(10..).for_each(Permit::settle);
    world.written();
    std::mem::forget(held);
    world.kill();
    let claims = world.restore();
    assert_eq!(claims.values().map(Vec::len).collect::<Vec<_>>(), [1_002; 10]);
    let kept = world.host().keeper().unwrap().own.own_rows("Resource", |_, _| Some(()));
    assert_eq!(kept.len(), 1);
}
