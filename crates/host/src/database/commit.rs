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

/// The largest write that is made without moving to a thread that may block.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// After a slow write, writes are left to a thread that may block for this long.
const SLOW: Span = Span::from_secs(1);

/// A journal is rewritten when it is larger than this and than twice its size after the last rewrite.
const COMPACT_BYTES_MIN: u64 = 10 << 20;

/// How long a shutdown waits for a thread that writes.
const COMMITTER_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Most records are no longer than this.
const RECORD_BYTES_USUAL: usize = 1 << 10;

/// Whether this thread may wait for the disk.
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

    /// The same from a thread that may wait for the disk. Returns when everything is written, unless another
    /// thread is the committer.
    pub(crate) fn flush_blocking(self: &Arc<Self>) {
        if self.begin_committing() {
            for_all(|| self.run_committer(VecDeque::new(), Patience::Blocks));
        }
    }

    /// Waits until another thread that is the committer has written the queue. Its role may have moved to a
    /// thread of the runtime that has not begun, and that would not begin once the runtime ends: the entries it
    /// took would be lost.
    pub(crate) fn wait_for_committer(&self) {
        let (done, is_done) = std::sync::mpsc::channel();
        {
            let mut head = self.head();
            if !head.committing {
                return;
            }
            // The committer looks at the queue again before it gives its role up.
            let work = Box::new(move |_: Result<&mut dyn paceline_journal::Log, &Error>| {
                // The receiver is gone if the wait timed out.
                let _ = done.send(());
            });
            head.push(Entry::Step(Step { blocks: false, work }));
        }
        if is_done.recv_timeout(COMMITTER_MAX).is_err() {
            tracing::error!(database = %self.name, "the last transactions are not written in time");
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

    /// Continues as the committer on a thread that may block.
    fn move_role(self: &Arc<Self>, batch: VecDeque<Entry>) {
        let this = self.clone();
        self.tasks.spawn_blocking(move || this.run_committer(batch, Patience::Blocks));
    }

    /// Encodes the records of `entries`.
    fn encode(&self, entries: VecDeque<Entry>) -> Segment {
        let writes = self.is_journaled && entries.iter().any(|entry| entry.commit().is_some());
        // Most records fit, so the buffer need not be moved as it grows.
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

    /// Whether a recent write was slow.
    fn is_slow(&self) -> bool {
        // Usually no clock is read.
        let until = Time(self.slow_until.load(Ordering::Relaxed));
        until != Time(0) && {
            let is_slow = self.clock.now() < until;
            if !is_slow {
                self.slow_until.store(0, Ordering::Relaxed);
            }
            is_slow
        }
    }

    /// Notes how long a small write took that began at this time.
    fn note_speed(&self, began: Time) {
        let now = self.clock.now();
        if u128::from(now.0.saturating_sub(began.0)) >= LONG.as_nanos() {
            self.slow_until.store(now.plus(SLOW).0, Ordering::Relaxed);
        }
    }

    /// Writes a segment, syncs it if one of its entries requires that, and publishes it. On failure returns the
    /// entries that are not published. `brief` is for the write alone.
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
                        // Entries before the first change do not depend on it.
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

    /// Publishes entries: sends their updates and replies.
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
        // Last: a client is settled only when its answers are in its outbox.
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

    /// Undoes every change that is not published, newest first, and reports the failure. Reads from the head,
    /// and monitors that were to begin there, are done again.
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
        // A step may begin another one, so the head must not be locked here. A repair that begins below must
        // find its turn free.
        steps.into_iter().for_each(|step| (step.work)(Err(error)));
        failed.into_iter().for_each(|commit| commit.fail(error));
        charges.into_iter().for_each(|(session, bytes)| session.discharge(bytes));
        // A wait may hold in the restored state.
        self.retry_all();
        if self.head().broken.is_some() {
            self.repair_later();
        }
    }
}

/// Publishes transactions that were written together. Clients that only watch get one update with the net
/// effect. Clients that also wait for an answer here get each change separately: before the answer that belongs
/// to it or has seen it, and after every answer that has not.
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

#[cfg(test)]
mod tests {
    use super::{Entry, Patience};
    use crate::kept::tests::World;
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// The role of the committer has moved to a thread that has not begun when the shutdown starts.
    #[test]
    fn the_end_of_service_waits_for_the_committer() {
        let world = World::new("committer");
        let own = world.host().database(crate::own::DATABASE).unwrap();
        let position = || own.writer().as_ref().map(|log| log.position());
        world.host().retire();
        assert!(own.begin_committing(), "the last mark waits to be written");
        let before = position();
        let late = std::thread::spawn({
            let own = Arc::clone(&own);
            move || {
                let is_awaited = || own.head().queue.iter().any(|e| matches!(e, Entry::Step(_)));
                while !is_awaited() {
                    std::thread::yield_now();
                }
                own.run_committer(VecDeque::new(), Patience::Blocks);
            }
        });
        own.close();
        assert!(position() > before, "what waited is written");
        late.join().unwrap();
    }
}
