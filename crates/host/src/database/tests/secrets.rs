//! Secret tables are read only by roles that may read them: whichever way a table is named, its rows are behind
//! the same check.

use super::*;
use crate::WatchRequest;
use paceline_tables::monitor::Version;
use paceline_tables::tag;

const WAYS: [&str; 5] = [
    r#"{"op": "select", "table": "TABLE", "where": []}"#,
    r#"{"op": "select", "table": "TABLE", "where": [], "columns": ["_uuid"]}"#,
    r#"{"op": "wait", "timeout": 0, "table": "TABLE", "where": [["name", "==", "x"]],
        "columns": ["name"], "until": "==", "rows": []}"#,
    r#"{"op": "wait", "table": "TABLE", "where": [], "columns": ["name"], "until": "!=", "rows": []}"#,
    r#"{"op": "delete", "table": "TABLE", "where": [["name", "==", "x"]]}"#,
];

fn may_read(world: &World, session: &Arc<Session>, table: &str) -> bool {
    let refused = |error: &Error| error.tag == tag::PERMISSION;
    let mut answers = Vec::new();
    // Also after an operation that is allowed.
    let harmless = r#"{"op": "select", "table": "Pool", "where": []}"#;
    for way in WAYS.map(|way| way.replace("TABLE", table)).iter().take(3) {
        for operations in [format!("[{way}]"), format!("[{harmless},{way}]")] {
            transact(&world.own, session, "1", &operations);
            answers.push(!next_error(session).is_some_and(|error| refused(&error)));
        }
    }
    for (at, version) in [Version::V1, Version::V2, Version::V3].into_iter().enumerate() {
        let requests = parse(&format!(r#"{{"Pool": {{}}, "{table}": {{}}}}"#));
        let (ticket, id) = (ticket("2"), ticket(&format!("\"{table}{at}\"")));
        let request = WatchRequest { ticket, id, requests, version, since: None };
        let watched = world.own.watch(session, request);
        answers.push(!watched.is_err_and(|error| refused(&error)));
        world.own.flush_blocking();
        received(session);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{table} {answers:?}");
    answers[0]
}

/// The table of the roles that may read what clients hold and how clients authenticate.
#[test]
fn secrets_are_read_by_those_who_may() {
    let world = World::new("secrets");
    for (table, least) in [
        ("Pool", Role::Viewer),
        ("Lock", Role::Viewer),
        ("Permit", Role::Operator),
        ("Session", Role::Operator),
        ("Leased_Lock", Role::Operator),
        ("Waiter", Role::Operator),
        ("Token", Role::Admin),
    ] {
        for role in [Role::Viewer, Role::Client, Role::Operator, Role::Admin] {
            let session = world.client(role);
            assert_eq!(may_read(&world, &session, table), role >= least, "{table} {role:?}");
        }
    }
    // A wait that would park, and a change of a table that no client may change, reveal nothing either.
    let viewer = world.client(Role::Viewer);
    for way in WAYS.iter().skip(3) {
        transact(&world.own, &viewer, "1", &format!("[{}]", way.replace("TABLE", "Permit")));
        let error = next_error(&viewer).unwrap();
        assert_eq!(error.tag, tag::PERMISSION);
        assert!(!error.details.contains("maintained"), "{}", error.details);
    }
}
