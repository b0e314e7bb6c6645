//! A journal that failed is replaced however many requests arrive meanwhile, and refused changes stay refused.

use super::super::maintain::OwnRow;
use super::*;
use crate::{load_file, own};
use paceline_journal::Mode;
use paceline_tables::tag;
use paceline_tables::value::{Atom, Datum};
use std::sync::mpsc::{Receiver, channel};

const INSERT: &str = r#"[{"op": "insert", "table": "Thing", "row": {"name": "one"}}]"#;

/// Queues a row of the server's own to be written, as every permit does.
fn keep(own: &Arc<Hosted>, machine: &str) -> Receiver<Result<(), Error>> {
    let (sender, receiver) = channel();
    let text = |text: &str| Datum::One(Atom::string(text));
    let values = Some(vec![("name", text("paceline")), ("machine", text(machine))]);
    let row = OwnRow::of_text("paceline", values);
    let done = Box::new(move |outcome| drop(sender.send(outcome)));
    own.maintain(own::DAEMON_TABLE, "name", vec![row], true, Some(done));
    receiver
}

/// Breaks the journal by one failed sync.
fn break_journal(world: &World) {
    world.inject("sync-error=1");
    let refused = keep(&world.own, "broken");
    world.own.flush_blocking();
    assert_eq!(refused.recv().unwrap().unwrap_err().tag, tag::IO);
    world.inject("");
    assert!(world.own.head().broken.is_some());
}

/// J4: rows of the server's own that arrive during the repair are refused and do not stop it.
#[test]
fn a_repair_is_not_dropped_by_what_comes_meanwhile_j4() {
    let world = World::new("traffic");
    break_journal(&world);
    hold_back(&world.own);
    world.own.compact();
    let refused: Vec<_> = (0..100).map(|at| keep(&world.own, &format!("m{at}"))).collect();
    publish(&world.own);
    for refused in refused {
        assert_eq!(refused.recv().unwrap().unwrap_err().tag, tag::IO, "not acknowledged");
    }
    // The runtime does not run, so no second repair begins.
    until_rewritten(&world.own);
    assert!(world.own.head().broken.is_none(), "the first repair was dropped");
    let kept = keep(&world.own, "whole");
    world.own.flush_blocking();
    kept.recv().unwrap().unwrap();
}

/// J4: a read that asks for a sync of a broken file gets the error, once.
#[test]
fn a_durable_read_of_a_broken_file_is_refused_j4() {
    let world = World::new("durable-read");
    let session = world.client(Role::Admin);
    break_journal(&world);
    transact(&world.own, &session, "1", r#"[{"op": "commit", "durable": true}]"#);
    world.own.flush_blocking();
    assert_eq!(next_error(&session).unwrap().tag, tag::IO);
    assert!(world.own.head().queue.is_empty());
}

/// J4, J8: a conversion that fails after the new file got its name restores the old content in the end.
#[test]
fn a_conversion_whose_directory_is_not_synced_is_taken_back_j4() {
    let world = World::new("conversion");
    let session = world.client(Role::Admin);
    let things = world.open(SCHEMA);
    transact(&things, &session, "1", INSERT);
    things.flush_blocking();
    assert!(next_error(&session).is_none());

    // The new file is synced twice, then the directory.
    world.inject("sync-error=3");
    let schema = SCHEMA.replace("1.0.0", "2.0.0").replace("\"tags\"", "\"marks\"");
    let converted = world.host.on_converted();
    things.convert(&session, ticket("2"), &parse(&schema), converted).unwrap();
    things.flush_blocking();
    let Some(Outgoing::Reply(_, Reply::Failed(error))) = session.outbox.take() else {
        panic!("the conversion did not fail");
    };
    assert_eq!(error.tag, tag::IO);
    assert!(things.head().broken.is_some(), "the file on disk is not the one in memory");
    // No client sends a request: the repair begins by itself.
    while things.head().broken.is_some() {
        world.runtime.block_on(tokio::task::yield_now());
    }
    let copy = world.directory.join("copy.db");
    std::fs::copy(world.directory.join("things.db"), &copy).unwrap();
    let loaded = load_file(Arc::new(RealDisk), &copy, Mode::ReadOnly).unwrap();
    assert_eq!(&*loaded.database.schema().version, "1.0.0");
    let thing = loaded.database.schema().table_id("Thing").unwrap();
    assert_eq!(loaded.database.store().row_count(thing), 1);
}

/// J5: a conversion for which the disk has no room is refused as such, and the old content stays in service.
#[test]
fn a_conversion_on_a_full_disk_is_refused_j5() {
    let world = World::new("conversion-full");
    let session = world.client(Role::Admin);
    let things = world.open(SCHEMA);
    transact(&things, &session, "1", INSERT);
    things.flush_blocking();
    assert!(next_error(&session).is_none());
    world.inject("full-after=10");
    let schema = SCHEMA.replace("1.0.0", "2.0.0");
    let converted = world.host.on_converted();
    things.convert(&session, ticket("2"), &parse(&schema), converted).unwrap();
    things.flush_blocking();
    let Some(Outgoing::Reply(_, Reply::Failed(error))) = session.outbox.take() else {
        panic!("the conversion did not fail");
    };
    assert_eq!(error.tag, tag::RESOURCES);
    world.inject("");
    transact(&things, &session, "3", INSERT);
    things.flush_blocking();
    assert!(next_error(&session).is_none());
    assert_eq!(&*things.schema().version, "1.0.0");
}

/// J5: what is released while the journal is broken is not restored after an orderly shutdown.
#[test]
fn what_is_given_back_to_a_broken_journal_is_gone_after_an_orderly_end_j5() {
    let world = World::new("orderly");
    world.host.open_for_service();
    let terms =
        crate::Terms { lease: Some(paceline_types::Span::from_secs(5)), ..Default::default() };
    let request = paceline_types::Request::new(paceline_types::Attributes::new());
    let admission = world.host.control().admit_kept(request, terms).unwrap();
    let crate::Admission::Started(permit) = admission else { panic!("it does not wait") };
    let keeper = world.host.keeper().unwrap();
    world.runtime.block_on(keeper.written()).unwrap();
    assert_eq!(permits_on_disk(&world), 1);
    // The next write fails half way and cannot be undone.
    world.inject("full-after=20,truncate-error=1");
    permit.settle();
    assert!(world.runtime.block_on(keeper.written()).is_err());
    assert!(world.own.head().broken.is_some());
    world.inject("");
    world.host.shut_down();
    assert_eq!(permits_on_disk(&world), 0);
}

/// The permits that the next run would find.
fn permits_on_disk(world: &World) -> usize {
    let copy = world.directory.join("copy.db");
    std::fs::copy(world.directory.join("paceline.db"), &copy).unwrap();
    let loaded = load_file(Arc::new(RealDisk), &copy, Mode::ReadOnly).unwrap();
    let permits = loaded.database.schema().table_id(own::PERMIT_TABLE).unwrap();
    loaded.database.store().row_count(permits)
}
