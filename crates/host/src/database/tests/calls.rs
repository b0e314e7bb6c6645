//! Transactions of callers in the process.

use super::*;
use crate::Author;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Transaction, tag};
use paceline_types::limits::READ_AT_ONCE_STEPS_MAX;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const ADMIN: Author<'_> = Author { name: "a test", role: Role::Admin };

fn text(text: &str) -> Datum {
    Datum::One(Atom::string(text))
}

fn insert(things: &Hosted, name: &str) -> Transaction {
    Transaction::on(&things.schema()).insert("Thing", [("name", text(name))])
}

fn all(things: &Hosted) -> Transaction {
    Transaction::on(&things.schema()).select("Thing", [])
}

/// How many rows a transaction has selected.
fn count(results: &Result<Vec<OpResult>, Error>) -> usize {
    match results.as_ref().unwrap().last() {
        Some(OpResult::Rows(rows)) => rows.rows().len(),
        other => panic!("{other:?}"),
    }
}

fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(future.poll(&mut context), Poll::Pending)
}

/// J2: a caller receives the result of its edit, and rows that it reads, when they are written and not before.
#[test]
fn a_caller_hears_what_is_written_j2() {
    let world = World::new("called");
    let things = world.open(SCHEMA);
    hold_back(&things);
    let mut edit = pin!(things.transact_as(ADMIN, insert(&things, "new").durable()));
    let mut read = pin!(things.transact_as(ADMIN, all(&things)));
    assert!(is_pending(edit.as_mut()) && is_pending(read.as_mut()));
    publish(&things);
    let (edit, read) = world.runtime.block_on(async { (edit.await, read.await) });
    assert!(matches!(edit.unwrap().as_slice(), [OpResult::Uuid(_), OpResult::Empty]));
    assert_eq!(count(&read), 1);
    // An edit whose caller dropped the future is made all the same.
    drop(things.transact_as(ADMIN, insert(&things, "another")));
    assert_eq!(count(&world.runtime.block_on(things.transact_as(ADMIN, all(&things)))), 2);
}

/// J1: an edit that cannot be written fails, and what was read from it is read again.
#[test]
fn a_caller_hears_that_writing_failed_j1() {
    let world = World::new("unwritten");
    let things = world.open(SCHEMA);
    hold_back(&things);
    let edit = things.transact_as(ADMIN, insert(&things, "new").durable());
    let read = things.transact_as(ADMIN, all(&things));
    world.inject("full-after=0");
    publish(&things);
    let (edit, read) = world.runtime.block_on(async { (edit.await, read.await) });
    assert_eq!(edit.unwrap_err().tag, tag::RESOURCES);
    assert_eq!(count(&read), 0);
}

/// D4: a long read runs beside other requests, and its answer leaves after what it has seen.
#[test]
fn a_long_read_of_a_caller_waits_for_what_it_has_seen_d4() {
    let world = World::new("long-call");
    let things = world.open(SCHEMA);
    let rows = 2_000;
    let many = (0..rows).fold(Transaction::on(&things.schema()), |many, _| {
        many.insert("Thing", [("name", text("old"))])
    });
    world.runtime.block_on(things.transact_as(ADMIN, many)).unwrap();
    let times = READ_AT_ONCE_STEPS_MAX as usize / rows + 1;
    let long = || {
        let begun = Transaction::on(&things.schema());
        (0..times).fold(begun, |long, _| long.select("Thing", []))
    };
    for passes_first in [false, true] {
        things.readers.pause();
        hold_back(&things);
        drop(things.transact_as(ADMIN, insert(&things, "new")));
        let mut read = pin!(things.transact_as(ADMIN, long()));
        match passes_first {
            true => publish(&things),
            false => things.run_reads(),
        }
        assert!(is_pending(read.as_mut()));
        match passes_first {
            true => things.run_reads(),
            false => publish(&things),
        }
        let read = world.runtime.block_on(read);
        assert_eq!(count(&read), rows + 1 + usize::from(passes_first));
    }
}

/// A caller's transaction does not wait for a change, and has the rights of the caller's role.
#[test]
fn a_caller_does_not_wait_and_has_a_role() {
    let world = World::new("caller-role");
    let things = world.open(SCHEMA);
    let wait = operations(
        r#"[{"op": "wait", "table": "Thing", "where": [], "columns": ["name"], "until": "==",
             "rows": [{"name": "never"}]}]"#,
    );
    let waited = world.runtime.block_on(things.transact_as(ADMIN, wait.into()));
    assert_eq!(waited.unwrap_err().tag, tag::TIMED_OUT);
    let client = Author { name: "a client", role: Role::Client };
    let refused = world.runtime.block_on(things.transact_as(client, insert(&things, "new")));
    assert_eq!(refused.unwrap_err().tag, tag::PERMISSION);
    assert_eq!(count(&world.runtime.block_on(things.transact_as(client, all(&things)))), 0);
}
