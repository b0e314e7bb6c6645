//! A client that sends many transactions at once lets others to the head in between.

use super::*;
use crate::made::MadeClock;
use paceline_types::{Span, Time};
use std::sync::atomic::AtomicBool;

/// D4: a turn at the head ends after its time, however few steps its transactions took.
#[test]
fn a_turn_ends_by_time_d4() {
    let made = MadeClock::begin(Time(1), 1);
    let world = World::on("turns", made.into());
    let things = world.open(SCHEMA);
    let (client, other) = (world.client(Role::Admin), Arc::clone(&things));
    let is_let_in = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_let_in);
    let mut waiting = Some(move || {
        drop(other.head());
        told.store(true, Ordering::Release);
    });
    let mut waiter = None;
    let (mut count, mut in_between) = (0, false);
    // The iterator is advanced while the head is locked.
    let transactions = std::iter::from_fn(|| {
        if let Some(waiting) = waiting.take_if(|_| count > 0) {
            waiter = Some(std::thread::spawn(waiting));
        }
        count += 1;
        made.advance_to(made.now().plus(Span::from_ms(6)));
        in_between = is_let_in.load(Ordering::Acquire);
        let is_over = in_between || count > 20_000;
        (!is_over).then(|| (ticket("1"), operations(r#"[{"op": "comment", "comment": "c"}]"#)))
    });
    things.transact(&client, transactions);
    waiter.unwrap().join().unwrap();
    assert!(in_between, "{count} transactions of 6 ms each, and nobody was let in between");
}

/// L3: a task that waits for the head keeps no other task of the runtime waiting, whichever transaction holds
/// the head: here there is only one thread for tasks.
#[test]
fn who_waits_for_the_head_lets_other_tasks_run_l3() {
    let world = World::new("turns-aside");
    let things = world.open(SCHEMA);
    let client = world.client(Role::Viewer);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    let head = things.head();
    let (database, session, begun) = (things.clone(), client.clone(), sender.clone());
    let waits = runtime.spawn(async move {
        begun.send("begun").unwrap();
        database.answer(&session, ticket("1"), Reply::Text(b"[]".to_vec()));
    });
    assert_eq!(told.recv().unwrap(), "begun");
    runtime.spawn(async move { sender.send("another").unwrap() });
    let another = told.recv_timeout(std::time::Duration::from_secs(60));
    assert_eq!(another.expect("the only thread is blocked"), "another");
    assert!(client.outbox.take().is_none());
    drop(head);
    runtime.block_on(waits).unwrap();
    assert_eq!(received(&client), ["reply 1"]);
}
