//! Long reads: run on a snapshot, beside everything else.
//!
//! A long transaction that only reads would keep other clients from the head, so it reads a snapshot. Its
//! answer takes its place among the client's answers and updates at once, and is filled in when it is complete.
//! A few threads do this work for a database, in turns (`lane.rs`).

use super::asker::Asker;
use super::queue::Answer;
use super::waits::Request;
use super::{Head, Hosted};
use crate::outbox::{Later, Reply};
use paceline_tables::{Context, Snapshot, Transaction, Work};
use paceline_types::limits::READ_STEPS_MAX;
use std::sync::Arc;

/// The memory that an unanswered read counts for at its client, so that a client can have only a few at a time.
pub(super) const READ_BYTES: usize = 1 << 20;

/// A transaction that only reads, and the rows to read.
pub(super) struct Read {
    asker: Asker,
    later: Arc<Later>,
    operations: Arc<Transaction>,
    rows: Snapshot,
}

impl Hosted {
    /// Reads what `request` asks for on a separate thread, from the rows as they are now.
    pub(super) fn read_beside(self: &Arc<Self>, head: &mut Head, request: Request) {
        let later = Arc::new(Later::default());
        let asker = request.asker.clone();
        let (operations, rows) = (Arc::clone(&request.operations), head.pin_to(&asker));
        let read = Read { asker: asker.clone(), later: Arc::clone(&later), operations, rows };
        asker.charge(READ_BYTES);
        let whose = asker.whose();
        head.answer(Answer { to: asker, reply: Reply::Later(later) }, false, Some(request));
        if self.readers.add([whose], read) {
            let this = Arc::clone(self);
            self.tasks.spawn_blocking(move || this.run_reads());
        }
    }

    pub(super) fn run_reads(&self) {
        while let Some((_, read)) = self.readers.next() {
            self.run_read(read);
        }
    }

    fn run_read(&self, read: Read) {
        let Read { asker, later, operations, rows } = read;
        let mut waker = None;
        if !asker.is_gone() {
            let reply = self.select(&operations, &rows);
            waker = asker.fill(&later, reply);
        }
        asker.discharge(READ_BYTES);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn select(&self, operations: &Transaction, rows: &Snapshot) -> Reply {
        // These operations contain no `assert`, so no lock is checked.
        let context = Context {
            elapsed_ms: 0,
            owns_lock: &|_| false,
            read_only: true,
            maintained: &self.maintained,
        };
        let work = Work::at_most(READ_STEPS_MAX);
        let uuids = self.clock.uuid_source();
        let mut results = rows.execute_within(operations, &context, work, uuids);
        if super::pins::is_large(&results) {
            super::pins::pin(&mut results, rows, |_, _| true);
        }
        Reply::Results(results)
    }
}
