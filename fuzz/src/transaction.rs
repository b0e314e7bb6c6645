//! Transactions: all or nothing, undone without a trace, and their record makes a replica equal.

use crate::world::{self, check_derived, contents, kept};
use paceline_tables::json::{self, Json};
use paceline_tables::monitor::{Monitor, Requests, Version};
use paceline_tables::{Changes, Context, Database, Done, OpResult, Outcome, write_record};

const DEPTH_MAX: usize = 64;

/// More transactions than this find nothing new.
const TRANSACTIONS_MAX: usize = 8;

/// A mutation that multiplies a set by itself is legal. More operations than this are only slow.
const OPERATIONS_MAX: usize = 32;

/// Runs each line of `data`, an array of operations, as a transaction on the small database.
pub fn check(data: &[u8]) {
    let (mut database, mut replica) = (world::database(1), world::database(2));
    assert_eq!(kept(&database), kept(&replica));
    for line in data.split(|c| *c == b'\n').take(TRANSACTIONS_MAX) {
        let Ok(Json::Array(operations)) = json::parse(line, DEPTH_MAX) else { continue };
        if operations.len() <= OPERATIONS_MAX {
            step(&mut database, &mut replica, &operations);
        }
    }
}

fn step(database: &mut Database, replica: &mut Database, operations: &[Json]) {
    let before = contents(database.store());
    let Some(first) = run(database, operations, 0) else {
        assert_eq!(contents(database.store()), before, "a wait changes nothing");
        return;
    };
    check_derived(database.store());
    let Some(changes) = first.changes else {
        assert_eq!(contents(database.store()), before, "no changes, nothing changed");
        return;
    };
    let succeeded = |done: &Done| !done.results.iter().any(|r| matches!(r, OpResult::Error(_)));
    assert!(!changes.is_empty() && first.results.len() == operations.len());
    let after = contents(database.store());
    assert_ne!(after, before);

    database.undo(&changes);
    assert_eq!(contents(database.store()), before, "undo leaves no trace");
    check_derived(database.store());

    // What succeeded once succeeds again; only the new UUIDs differ.
    let again = run(database, operations, 0).expect("the second time is like the first");
    assert!(succeeded(&again));
    check_derived(database.store());
    let changes = again.changes.expect("the second time is like the first");
    assert_eq!(contents(database.store()).len(), after.len());
    check_updates(database, &changes);
    replicate(database, replica, &changes, &again.comment);
}

/// Executes a transaction, and writes and parses every result. None if the transaction waits.
fn run(database: &mut Database, operations: &[Json], elapsed_ms: u64) -> Option<Done> {
    let owns_lock = |name: &str| name.len() == 1;
    let context = Context { elapsed_ms, owns_lock: &owns_lock, read_only: false, maintained: &[] };
    match database.execute(operations, &context) {
        Outcome::Done(done) => {
            let mut text = vec![b'['];
            for (i, result) in done.results.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                result.write(&mut text);
            }
            text.push(b']');
            let count: usize = done.results.iter().map(OpResult::operations).sum();
            match json::parse(&text, DEPTH_MAX) {
                Ok(Json::Array(written)) => assert_eq!(written.len(), count),
                other => panic!("an answer is an array: {other:?}"),
            }
            let failed = done.results.iter().any(|r| matches!(r, OpResult::Error(_)));
            assert!(!(failed && done.changes.is_some()), "what failed changed nothing");
            Some(done)
        }
        Outcome::Waiting { timeout_ms: Some(timeout_ms), .. } if elapsed_ms == 0 => {
            let before = contents(database.store());
            let late = run(database, operations, timeout_ms);
            assert!(late.is_none_or(|done| done.changes.is_none()));
            assert_eq!(contents(database.store()), before, "a wait that timed out changes nothing");
            None
        }
        Outcome::Waiting { .. } => None,
    }
}

/// Monitors of every kind can report the changes.
fn check_updates(database: &Database, changes: &Changes) {
    let schema = database.schema();
    let all = Json::object(schema.tables.iter().map(|t| (&*t.name, Json::object([]))));
    let requests = Requests::new(&all).expect("an object");
    for version in [Version::V1, Version::V2, Version::V3] {
        let monitor: Monitor = requests.parse(schema, version).expect("our own requests");
        let mut text = Vec::new();
        if monitor.update(changes, schema, &mut text) {
            assert!(json::parse(&text, DEPTH_MAX).is_ok(), "an update is JSON");
        } else {
            assert!(text.is_empty());
        }
    }
}

/// The record of the changes makes the replica equal, as far as it is stored on disk.
fn replicate(database: &Database, replica: &mut Database, changes: &Changes, comment: &str) {
    let mut record = Vec::new();
    if write_record(changes, database.schema(), &[], comment, 1, &mut record) {
        assert!(json::parse(&record, DEPTH_MAX).is_ok(), "a record is JSON");
        let applied = replica.apply_record(&record);
        let text = String::from_utf8_lossy(&record);
        assert!(applied.is_ok(), "{:?}: {text}", applied.err());
        check_derived(replica.store());
    } else {
        assert!(record.is_empty());
    }
    assert_eq!(kept(database), kept(replica));
}
