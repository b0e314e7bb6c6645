//! Long reads: run on a snapshot, beside everything else.
//!
//! A transaction that only reads, but much, would keep everybody from the head. Its rows are those of a
//! snapshot, its answer takes its place among the client's answers and updates at once and is filled in
//! when it is there. A few threads do this work for a database, one transaction of each client in turn.

use super::queue::Answer;
use super::waits::Request;
use super::{Head, Hosted};
use crate::outbox::{Later, Reply};
use crate::session::Session;
use paceline_locks::SessionId;
use paceline_tables::json::Json;
use paceline_tables::{Context, Snapshot, Work};
use paceline_types::limits::READ_STEPS_MAX;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex};

/// What a read that is not answered yet counts for in the memory of its client, so that it can have a few
/// at a time and no more.
const READ_BYTES: usize = 1 << 20;

/// The most threads that read for one database.
const THREADS_MAX: usize = 4;

/// Reads that wait, and how many run.
#[derive(Default)]
pub(super) struct Readers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: BTreeMap<SessionId, VecDeque<Read>>,
    /// Whose turn it was last.
    last: Option<SessionId>,
}

struct Read {
    session: Arc<Session>,
    operations: Arc<Vec<Json>>,
    rows: Snapshot,
    later: Arc<Later>,
}

impl State {
    /// The next read: of the client after the last one.
    fn next(&mut self) -> Option<Read> {
        let from = self.last.map_or(Unbounded, Excluded);
        let after = self.waiting.range((from, Unbounded)).next();
        let (session, _) = after.or_else(|| self.waiting.first_key_value())?;
        let session = *session;
        self.last = Some(session);
        let reads = self.waiting.get_mut(&session)?;
        let read = reads.pop_front();
        if reads.is_empty() {
            self.waiting.remove(&session);
        }
        read
    }
}

impl Hosted {
    /// Reads what `request` asks for on a thread of its own, from the rows as they are now.
    pub(super) fn read_beside(self: &Arc<Self>, head: &mut Head, request: Request) {
        let later = Arc::new(Later::default());
        let session = request.session.clone();
        session.charge(READ_BYTES);
        let read = Read {
            session: session.clone(),
            operations: Arc::clone(&request.operations),
            rows: head.database.snapshot(),
            later: Arc::clone(&later),
        };
        let reply = Reply::Later(later);
        let answer = Answer { session, ticket: request.ticket.clone(), reply };
        head.answer(answer, false, Some(request));
        let mut state = crate::sync::lock(&self.readers.state);
        state.waiting.entry(read.session.id).or_default().push_back(read);
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if state.running < (cpus / 2).clamp(1, THREADS_MAX) {
            state.running += 1;
            let this = Arc::clone(self);
            self.tasks.spawn_blocking(move || this.run_reads());
        }
    }

    fn run_reads(&self) {
        loop {
            let read = {
                let mut state = crate::sync::lock(&self.readers.state);
                let next = state.next();
                if next.is_none() {
                    state.running -= 1;
                }
                next
            };
            match read {
                Some(read) => self.run_read(read),
                None => return,
            }
        }
    }

    fn run_read(&self, read: Read) {
        let Read { session, operations, rows, later } = read;
        let mut waker = None;
        if session.outbox.closed().is_none() {
            // No `assert` is among these operations, so no lock is asked for.
            let context = Context {
                elapsed_ms: 0,
                owns_lock: &|_| false,
                read_only: true,
                maintained: &self.maintained,
            };
            let work = Work::at_most(READ_STEPS_MAX);
            let results =
                rows.execute_within(&operations, &context, work, self.clock.uuid_source());
            waker = session.outbox.fill(&later, Reply::Results(results));
        }
        session.discharge(READ_BYTES);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
