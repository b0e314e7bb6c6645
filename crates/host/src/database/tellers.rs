//! Updates that take long to make, and answers to clients that return: made in pieces, beside the committer.
//!
//! The committer makes the updates of a commit itself as long as that takes few steps. A longer update reserves its
//! place in the outboxes and is made here, once for all clients that watch the same. What follows stays behind it. A
//! few threads do this for a database, in turns (`lane.rs`), one piece at a time. The changes that wait for this are
//! kept in memory. Beyond a bound, the clients whose updates wait longest are disconnected.

use super::Hosted;
use super::lane::{Lane, Whose};
use super::missed::Missed;
use super::readers::READ_BYTES;
use crate::outbox::{Body, LaterBody, Outbox};
use crate::session::Session;
use paceline_tables::monitor::Telling;
use paceline_types::limits::UNTOLD_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// The work done for one client before the next gets its turn: a few milliseconds.
const PIECE_STEPS: usize = 500_000;

/// The memory that an update counts for at its client until it is made.
const UNTOLD_BYTES: usize = 1 << 10;

/// Updates and answers to be made, and the memory that they keep.
pub(super) struct Tellers {
    pub(super) lane: Lane<Job>,
    /// The bytes of the changes that wait here.
    kept: Arc<AtomicUsize>,
    /// The most bytes that they may take.
    pub(super) kept_max: AtomicUsize,
}

impl Default for Tellers {
    fn default() -> Self {
        Self {
            lane: Lane::default(),
            kept: Arc::default(),
            kept_max: AtomicUsize::new(UNTOLD_BYTES_MAX),
        }
    }
}

impl Tellers {
    /// Counts changes of `bytes` bytes until they are sent.
    pub(super) fn keep(&self, bytes: usize) -> Arc<Kept> {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Kept { all: Arc::clone(&self.kept), bytes })
    }

    /// The bytes of the changes that wait here.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.kept.load(Ordering::Relaxed) > self.kept_max.load(Ordering::Relaxed)
    }
}

/// Changes that count, once for all updates that are made from them, until this is dropped.
pub(super) struct Kept {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An update or answer to be made.
pub(super) enum Job {
    Update(Box<UpdateJob>),
    Missed(Box<Missed>, Charge),
}

/// Bytes that count for a client until this is dropped. Until then the client is not settled.
pub(super) struct Charge {
    session: Arc<Session>,
    bytes: usize,
}

impl Charge {
    fn new(session: &Arc<Session>, bytes: usize) -> Self {
        session.charge(bytes);
        Self { session: Arc::clone(session), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.session.discharge(self.bytes);
    }
}

/// An update for all clients that watch the same.
pub(super) struct UpdateJob {
    /// The number of the transaction that it reports.
    pub(super) number: u64,
    pub(super) telling: Telling,
    pub(super) place: Arc<LaterBody>,
    pub(super) members: Vec<Member>,
    pub(super) _kept: Arc<Kept>,
}

/// A client that receives an update.
pub(super) struct Member {
    charge: Charge,
    /// The number of the update in its outbox.
    number: u64,
}

impl Member {
    pub(super) fn new(session: &Arc<Session>, number: u64) -> Self {
        Self { charge: Charge::new(session, UNTOLD_BYTES), number }
    }

    fn outbox(&self) -> &Outbox {
        &self.charge.session.outbox
    }
}

impl UpdateJob {
    fn is_wanted(&self) -> bool {
        self.members.iter().any(|member| member.outbox().closed().is_none())
    }

    /// Sends the text. Returns the tasks to wake.
    fn leave(self) -> Vec<Waker> {
        let Self { telling, place, members, .. } = self;
        let budget = members.first().map(|member| member.outbox().budget());
        let text = telling.into_text();
        let body = text.zip(budget).map(|(text, budget)| Body::new(&text, budget));
        let _ = place.set(body);
        members.iter().filter_map(|member| member.outbox().told(member.number)).collect()
    }
}

impl Job {
    /// The answer about what a client missed, whose place is reserved already.
    pub(super) fn missed(missed: Missed) -> Self {
        let charge = Charge::new(&missed.session, READ_BYTES);
        Self::Missed(Box::new(missed), charge)
    }

    fn clients(&self) -> Vec<Whose> {
        match self {
            Self::Update(update) => {
                update.members.iter().map(|member| Whose::of(&member.charge.session)).collect()
            }
            Self::Missed(missed, _) => vec![Whose::of(&missed.session)],
        }
    }

    fn is_wanted(&self) -> bool {
        match self {
            Self::Update(update) => update.is_wanted(),
            Self::Missed(missed, _) => missed.session.outbox.closed().is_none(),
        }
    }

    /// Works on one piece. Returns whether there is more to do.
    fn go_on(&mut self) -> bool {
        match self {
            Self::Update(update) => update.telling.go_on(PIECE_STEPS),
            Self::Missed(missed, _) => missed.go_on(PIECE_STEPS),
        }
    }

    fn leave(self) -> Vec<Waker> {
        match self {
            Self::Update(update) => update.leave(),
            Self::Missed(mut missed, _charge) => missed.leave().into_iter().collect(),
        }
    }

    /// The number of the transaction that it reports, if it keeps changes for that.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Update(update) => Some(update.number),
            Self::Missed(..) => None,
        }
    }
}

impl Hosted {
    /// Makes an update or answer on a separate thread.
    pub(super) fn tell_beside(self: &Arc<Self>, job: Job) {
        if self.tellers.lane.add(job.clients(), job) {
            let this = Arc::clone(self);
            self.tasks.spawn_blocking(move || this.run_tellers());
        }
    }

    pub(super) fn run_tellers(&self) {
        while let Some((whose, job)) = self.tellers.lane.next() {
            self.run_piece(whose, job);
            self.drop_oldest();
        }
    }

    fn run_piece(&self, whose: Whose, mut job: Job) {
        if !job.is_wanted() {
            return;
        }
        if job.go_on() {
            return self.tellers.lane.put_back((whose, job));
        }
        job.leave().into_iter().for_each(Waker::wake);
    }

    /// Disconnects the clients whose updates wait longest while too many changes are kept.
    fn drop_oldest(&self) {
        while self.tellers.is_full() {
            let Some((whose, mut jobs)) = self.tellers.lane.take_least(Job::number) else { return };
            if let Some(Job::Update(oldest)) = jobs.pop_front() {
                let reason = "what it watches changes faster than its monitors can be tested";
                oldest.members.iter().for_each(|member| member.outbox().close(reason));
            }
            // Some of the remaining jobs may be for other clients too.
            jobs.retain(Job::is_wanted);
            while let Some(job) = jobs.pop_back() {
                self.tellers.lane.put_back((whose, job));
            }
        }
    }
}
