//! The committer: takes the entries of the queue, writes them, syncs if asked, publishes them.
//!
//! There is one committer per database at a time. A thread that has something to commit takes the role if it is free,
//! so a lone client's transaction is written by the thread that ran it. While the role is taken, other threads leave
//! their entries in the queue, and many entries share one write and one sync. Work that waits for the disk (a sync, a
//! large write, any write to a disk that was slow just now) moves the role to a thread that may block. A small write
//! that waits unexpectedly leaves other threads to the runtime (`brief.rs`). The head is locked only to take entries
//! and to undo.
//!
//! If writing fails, every change not yet published is undone, newest first, and refused. Reads, and monitors that were
//! to begin there, are done again.

use super::Hosted;
use super::queue::{Answer, Commit, Entry, Step};
use super::tellers::{Job, Tellers};
use super::watchers::{Gathered, Watchers};
use crate::brief::{Brief, LONG};
use crate::contained::for_all;
use crate::outbox::{Outgoing, Reply};
use paceline_journal::{AppendError, Position, frame};
use paceline_locks::SessionId;
use paceline_tables::{Error, tag, write_record};
use paceline_types::{Span, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// The most that is written without moving to a thread that may block.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// After a write that took long, others are left to a thread that may block for so long.
const SLOW: Span = Span::from_secs(1);

/// A journal is rewritten when it is larger than this and than twice its size after the last time.
const COMPACT_BYTES_MIN: u64 = 10 << 20;

/// What a record usually takes at most.
const RECORD_BYTES_USUAL: usize = 1 << 10;

/// Whether the present thread may wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Blocks,
}

/// How many batches in a row a thread writes that has other work to do.
const ROUNDS_MAX: u32 = 64;

/// A run of entries up to the next step, encoded.
struct Segment {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    /// Where the records of each entry end in `bytes`.
    ends: Vec<usize>,
}

impl Hosted {
    /// Writes and publishes what waits, unless another thread is the committer.
    pub fn flush(self: &Arc<Self>) {
        if self.begin_committing() {
            for_all(|| self.run_committer(VecDeque::new(), Patience::None));
        }
    }

    /// The same, from a thread that may wait for the disk; returns when it is done, unless somebody
    /// else is at it.
    pub(crate) fn flush_blocking(self: &Arc<Self>) {
        if self.begin_committing() {
            for_all(|| self.run_committer(VecDeque::new(), Patience::Blocks));
        }
    }

    fn begin_committing(&self) -> bool {
        let mut head = self.head();
        let free = !head.committing && !head.queue.is_empty();
        head.committing |= free;
        free
    }

    fn run_committer(self: &Arc<Self>, mut batch: VecDeque<Entry>, patience: Patience) {
        let mut rounds = 0;
        loop {
            if batch.is_empty() {
                let mut head = self.head();
                if head.queue.is_empty() {
                    self.put_kept(&mut head);
                }
                if head.queue.is_empty() {
                    head.committing = false;
                    return;
                }
                batch = std::mem::take(&mut head.queue);
                if let Some(weighing) = head.pins.take_due() {
                    self.weigh_later(weighing, head.database.snapshot());
                }
                rounds += 1;
            }
            let step = batch.iter().position(|entry| matches!(entry, Entry::Step(_)));
            let mut run = batch.iter().take(step.unwrap_or(batch.len()));
            let blocks = run.any(Entry::wants_sync)
                || matches!(batch.front(), Some(Entry::Step(Step { blocks: true, .. })));
            let must_move = || blocks || rounds > ROUNDS_MAX || self.is_slow();
            if patience == Patience::None && must_move() {
                return self.move_role(batch);
            }
            if step == Some(0) {
                if let (Some(Entry::Step(step)), Some(log)) =
                    (batch.pop_front(), &mut *self.writer())
                {
                    (step.work)(Ok(&mut **log));
                }
                continue;
            }
            let rest = batch.split_off(step.unwrap_or(batch.len()));
            let segment = self.encode(std::mem::replace(&mut batch, rest));
            let leave = match (patience, segment.bytes.len()) {
                (Patience::Blocks, _) | (Patience::None, 0) => Some(None),
                (Patience::None, ..=INLINE_BYTES_MAX) => self.tasks.brief().map(Some),
                (Patience::None, _) => None,
            };
            let Some(brief) = leave else {
                let mut all = segment.entries;
                all.append(&mut batch);
                return self.move_role(all);
            };
            if let Err((entries, error)) = self.write(segment, brief) {
                self.undo(entries.into_iter().chain(batch.drain(..)).collect(), &error);
            }
        }
    }

    /// Goes on as the committer on a thread that may block.
    fn move_role(self: &Arc<Self>, batch: VecDeque<Entry>) {
        let this = self.clone();
        self.tasks.spawn_blocking(move || this.run_committer(batch, Patience::Blocks));
    }

    /// Encodes the records of `entries`.
    fn encode(&self, entries: VecDeque<Entry>) -> Segment {
        let writes = self.is_journaled && entries.iter().any(|entry| entry.commit().is_some());
        // Most records fit, and need not be moved as they grow.
        let room = if writes { RECORD_BYTES_USUAL } else { 0 };
        let (mut bytes, mut body) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut ends = Vec::with_capacity(entries.len());
        let date = self.clock.wall_ms();
        for entry in &entries {
            if let Some(commit) = entry.commit().filter(|_| self.is_journaled) {
                let Commit { changes, schema, comment, .. } = commit;
                body.clear();
                if write_record(changes, schema, &self.unjournaled, comment, date, &mut body) {
                    frame(&body, &mut bytes);
                }
            }
            ends.push(bytes.len());
        }
        Segment { entries, bytes, ends }
    }

    /// Whether a write took long just now.
    fn is_slow(&self) -> bool {
        // Mostly no clock is read.
        let until = Time(self.slow_until.load(Ordering::Relaxed));
        until != Time(0) && {
            let is_slow = self.clock.now() < until;
            if !is_slow {
                self.slow_until.store(0, Ordering::Relaxed);
            }
            is_slow
        }
    }

    /// Notes that a small write, which began at this time, has ended.
    fn note_speed(&self, began: Time) {
        let now = self.clock.now();
        if u128::from(now.0.saturating_sub(began.0)) >= LONG.as_nanos() {
            self.slow_until.store(now.plus(SLOW).0, Ordering::Relaxed);
        }
    }

    /// Writes a segment, syncs it if one of its entries wants that, and publishes it. On failure
    /// gives back the entries that are not published. `brief` is for the write alone.
    fn write(
        self: &Arc<Self>,
        segment: Segment,
        brief: Option<Brief<'_>>,
    ) -> Result<(), (VecDeque<Entry>, Error)> {
        let Segment { mut entries, bytes, ends } = segment;
        let (mut grown, mut written) = (false, false);
        if let Some(log) = &mut *self.writer() {
            let start = log.position();
            if !bytes.is_empty() {
                let began = self.clock.now();
                let appended = log.append(start, &bytes);
                drop(brief);
                if bytes.len() <= INLINE_BYTES_MAX {
                    self.note_speed(began);
                }
                match appended {
                    Ok(position) => {
                        written = true;
                        grown = position.0 > COMPACT_BYTES_MIN.max(2 * log.base());
                    }
                    Err(error) => {
                        // What stands before the first change has nothing to do with it.
                        let first = entries.iter().position(|entry| entry.commit().is_some());
                        let failed = entries.split_off(first.unwrap_or(entries.len()));
                        self.publish(entries);
                        return Err((failed, append_error(&error, self)));
                    }
                }
            }
            if let Some(at) = entries.iter().position(Entry::wants_sync) {
                let waiting = entries.split_off(at);
                self.publish(entries);
                if let Err(error) = log.sync() {
                    let kept = at.checked_sub(1).and_then(|last| ends.get(last)).unwrap_or(&0);
                    log.take_back_to(Position(start.0 + *kept as u64));
                    let error = Error::new(tag::IO, error.to_string());
                    self.note_broken(&error);
                    return Err((waiting, error));
                }
                entries = waiting;
            }
        }
        if written {
            self.note_written();
        }
        self.publish(entries);
        if grown {
            self.compact_by_itself();
        }
        Ok(())
    }

    /// Lets updates and replies leave.
    fn publish(self: &Arc<Self>, mut entries: VecDeque<Entry>) {
        for entry in &mut entries {
            if let Entry::Commit(Commit { consequence, .. }) = entry
                && let Some(consequence) = consequence.take()
            {
                consequence();
            }
        }
        let charges: Vec<_> = entries.iter().filter_map(Entry::charge).collect();
        let charges: Vec<_> =
            charges.into_iter().map(|(session, bytes)| (session.clone(), bytes)).collect();
        let mut gathered = Gathered::default();
        self.with_watchers(|watchers| match watchers.are_many() {
            true => super::aside(|| self.publish_to(entries, watchers, &mut gathered)),
            false => self.publish_to(entries, watchers, &mut gathered),
        });
        gathered.jobs.into_iter().for_each(|job| self.tell_beside(job));
        // Only now: a client is settled when its answers are in its outbox.
        charges.into_iter().for_each(|(session, bytes)| session.discharge(bytes));
        gathered.wakers.into_iter().for_each(Waker::wake);
    }

    fn publish_to(
        self: &Arc<Self>,
        entries: VecDeque<Entry>,
        watchers: &mut Watchers,
        gathered: &mut Gathered,
    ) {
        let tellers = &self.tellers;
        let mut run = Vec::new();
        for entry in entries {
            match entry {
                Entry::Watch(watch) => {
                    publish_run(&mut run, watchers, gathered, tellers);
                    let missed = watchers.watch(watch, &mut gathered.wakers);
                    gathered.jobs.extend(missed.map(Job::missed));
                    self.follow_figures(watchers);
                }
                Entry::Rewatch(rewatch) => {
                    publish_run(&mut run, watchers, gathered, tellers);
                    watchers.rewatch(rewatch, &mut gathered.wakers);
                }
                Entry::Unwatch { session, ticket, id } => {
                    publish_run(&mut run, watchers, gathered, tellers);
                    watchers.remove(session.id, &id);
                    let reply = Outgoing::Reply(ticket, Reply::Text(b"{}".to_vec()));
                    gathered.wakers.extend(session.outbox.leave(reply));
                }
                other => run.push(other),
            }
        }
        publish_run(&mut run, watchers, gathered, tellers);
    }

    /// Takes back every change that is not published, newest first, and reports the failure. What
    /// was only read from the head, and what was to be watched from it on, is done again.
    fn undo(self: &Arc<Self>, mut entries: VecDeque<Entry>, error: &Error) {
        if let Some(failures) = self.troubles.failed(self.clock.now()) {
            tracing::error!(database = %self.name, %error, failures, "cannot write the journal; undoing transactions that are not on disk");
        }
        let (mut failed, mut steps, mut charges) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut head = self.head();
            entries.append(&mut head.queue);
            for commit in entries.iter().rev().filter_map(Entry::commit) {
                head.database.undo(&commit.changes);
                self.locks_undone(&head, &commit.changes);
            }
            if let Some(planner) = self.planner.get() {
                planner.undone();
            }
            for mut entry in entries {
                charges.extend(entry.charge().map(|(session, bytes)| (session.clone(), bytes)));
                match &mut entry {
                    Entry::Watch(watch) => watch.rows = head.pin(&watch.session),
                    Entry::Rewatch(rewatch) => rewatch.rows = head.pin(&rewatch.session),
                    _ => {}
                }
                match entry {
                    Entry::Commit(commit) => failed.push(commit),
                    Entry::Step(step) => steps.push(step),
                    Entry::Answer { again: Some(request), .. } => {
                        self.run(&mut head, request, None)
                    }
                    other => head.push(other),
                }
            }
        }
        // A step may begin another one, so it must not find the head locked; a repair that is
        // begun below must find its turn free.
        steps.into_iter().for_each(|step| (step.work)(Err(error)));
        failed.into_iter().for_each(|commit| commit.fail(error));
        charges.into_iter().for_each(|(session, bytes)| session.discharge(bytes));
        // A wait may hold in the state that is back now.
        self.retry_all();
        if self.head().broken.is_some() {
            self.repair_later();
        }
    }
}

/// Publishes transactions that were written together. Those who only watch get one update with
/// their net effect. Clients that also wait for an answer here get each change by itself: before the
/// answer that belongs to it or has seen it, and after every answer that has not.
fn publish_run(
    run: &mut Vec<Entry>,
    watchers: &mut Watchers,
    gathered: &mut Gathered,
    tellers: &Tellers,
) {
    let commits: Vec<&Commit> = run.iter().filter_map(Entry::commit).collect();
    let several = run.len() > 1 && !commits.is_empty() && !watchers.is_idle();
    let waiting: BTreeSet<SessionId> = match several {
        true => {
            let answers = run.iter().filter_map(Entry::answer);
            answers.filter_map(|answer| answer.to.session()).map(|session| session.id).collect()
        }
        false => BTreeSet::new(),
    };
    let first = watchers.publish(&commits, &waiting, gathered, tellers);
    let mut told = 0;
    for entry in run.drain(..) {
        let (answer, done) = match entry {
            Entry::Commit(commit) => {
                if several {
                    watchers.tell(&commit, first + told, &waiting, gathered, tellers);
                }
                told += 1;
                (commit.answer, commit.done)
            }
            Entry::Answer { answer, .. } => (Some(answer), None),
            _ => (None, None),
        };
        gathered.wakers.extend(answer.and_then(Answer::leave));
        if let Some(done) = done {
            done(Ok(()));
        }
    }
}

fn append_error(error: &AppendError, database: &Arc<Hosted>) -> Error {
    match error {
        AppendError::Full(_) => Error::new(tag::RESOURCES, error.to_string()),
        AppendError::ReadOnly(_) | AppendError::Moved { .. } => {
            Error::new(tag::IO, error.to_string())
        }
        AppendError::Io(_) => {
            let error = Error::new(tag::IO, error.to_string());
            database.note_broken(&error);
            error
        }
    }
}
