//! Long reads: run on a snapshot, beside everything else.
//!
//! A transaction that only reads, but much, would keep everybody from the head. Its rows are those of a
//! snapshot, its answer takes its place among the client's answers and updates at once and is filled in
//! when it is there. So is the answer to a client that comes back and has missed much (`missed.rs`). A few threads do this work for a database, one transaction of each client in turn.

use super::missed::Missed;
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
    later: Arc<Later>,
    what: What,
}

enum What {
    /// A transaction that only reads, on these rows.
    Transaction(Arc<Vec<Json>>, Snapshot),
    /// What a client has missed.
    Missed(Box<Missed>),
}

#[cfg(test)]
impl Readers {
    /// From now on nothing is read but by who calls [`Hosted::run_reads`].
    pub(super) fn pause(&self) {
        let mut state = crate::sync::lock(&self.state);
        state.running = THREADS_MAX;
    }
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
        let what = What::Transaction(Arc::clone(&request.operations), head.pin(&session));
        let read = Read { session: session.clone(), later: Arc::clone(&later), what };
        session.charge(READ_BYTES);
        let reply = Reply::Later(later);
        let answer = Answer { session, ticket: request.ticket.clone(), reply };
        head.answer(answer, false, Some(request));
        self.add_read(read);
    }

    /// Computes what a client has missed, whose answer has its place already.
    pub(super) fn answer_beside(self: &Arc<Self>, missed: Missed) {
        let (session, later) = (missed.session.clone(), Arc::clone(&missed.later));
        session.charge(READ_BYTES);
        self.add_read(Read { session, later, what: What::Missed(Box::new(missed)) });
    }

    fn add_read(self: &Arc<Self>, read: Read) {
        let mut state = crate::sync::lock(&self.readers.state);
        state.waiting.entry(read.session.id).or_default().push_back(read);
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if state.running < (cpus / 2).clamp(1, THREADS_MAX) {
            state.running += 1;
            let this = Arc::clone(self);
            self.tasks.spawn_blocking(move || this.run_reads());
        }
    }

    pub(super) fn run_reads(&self) {
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
        let Read { session, later, what } = read;
        let mut waker = None;
        if session.outbox.closed().is_none() {
            let reply = match what {
                What::Transaction(operations, rows) => self.select(&operations, &rows),
                What::Missed(missed) => missed.reply(),
            };
            waker = session.outbox.fill(&later, reply);
        }
        session.discharge(READ_BYTES);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn select(&self, operations: &[Json], rows: &Snapshot) -> Reply {
        // No `assert` is among these operations, so no lock is asked for.
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
