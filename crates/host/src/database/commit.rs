//! The committer: takes what waits in the queue, writes it, syncs if asked, publishes it.
//!
//! There is one committer per database at a time. The role is taken by whoever has something to
//! commit and finds nobody at it, so that a lone client's transaction is written by the thread that
//! ran it; whoever comes while it is taken leaves its entry behind, and many entries go to one
//! write and one sync. What waits for the disk (a sync, a large write) moves the role to a thread
//! that may block. The head is locked only to take entries and to undo.
//!
//! If writing fails, everything not yet published is undone, newest first, and refused.

use super::Hosted;
use super::queue::{Commit, Entry, Step};
use super::watchers::Watchers;
use crate::clock::wall_ms;
use crate::outbox::Outgoing;
use paceline_journal::{AppendError, frame};
use paceline_locks::SessionId;
use paceline_tables::{Error, tag, write_record};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

/// The most that is written without moving to a thread that may block.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// A journal is rewritten when it is larger than this and than twice its size after the last time.
const COMPACT_BYTES_MIN: u64 = 10 << 20;

/// Whether the present thread may wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Blocks,
}

/// A run of entries up to the next step, encoded.
struct Segment {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
}

impl Hosted {
    /// Writes and publishes what waits, unless somebody is at it already.
    pub fn flush(self: &Arc<Self>) {
        if self.begin_committing() {
            self.run_committer(VecDeque::new(), Patience::None);
        }
    }

    /// The same, from a thread that may wait for the disk; returns when it is done, unless somebody
    /// else is at it.
    pub(crate) fn flush_blocking(self: &Arc<Self>) {
        if self.begin_committing() {
            self.run_committer(VecDeque::new(), Patience::Blocks);
        }
    }

    fn begin_committing(&self) -> bool {
        let mut head = self.head();
        let free = !head.committing && !head.queue.is_empty();
        head.committing |= free;
        free
    }

    fn run_committer(self: &Arc<Self>, mut batch: VecDeque<Entry>, patience: Patience) {
        loop {
            if batch.is_empty() {
                let mut head = self.head();
                if head.queue.is_empty() {
                    head.committing = false;
                    return;
                }
                batch = std::mem::take(&mut head.queue);
            }
            let first_blocks =
                matches!(batch.front(), Some(Entry::Step(Step { blocks: true, .. })));
            if first_blocks && patience == Patience::None {
                return self.move_role(batch);
            }
            if matches!(batch.front(), Some(Entry::Step(_))) {
                if let (Some(Entry::Step(step)), Some(log)) =
                    (batch.pop_front(), &mut *self.writer())
                {
                    (step.work)(Ok(&mut **log));
                }
                continue;
            }
            let segment = self.encode(&mut batch);
            let waits = segment.bytes.len() > INLINE_BYTES_MAX
                || segment.entries.iter().any(Entry::wants_sync);
            if waits && patience == Patience::None {
                let mut rest = segment.entries;
                rest.append(&mut batch);
                return self.move_role(rest);
            }
            if let Err((entries, error)) = self.write(segment) {
                self.undo(entries.into_iter().chain(batch.drain(..)), &error);
            }
        }
    }

    /// Goes on as the committer on a thread that may block.
    fn move_role(self: &Arc<Self>, batch: VecDeque<Entry>) {
        let this = self.clone();
        self.runtime.spawn_blocking(move || this.run_committer(batch, Patience::Blocks));
    }

    /// Takes entries up to the next step and encodes their records.
    fn encode(&self, batch: &mut VecDeque<Entry>) -> Segment {
        let steps = batch.iter().position(|entry| matches!(entry, Entry::Step(_)));
        let rest = batch.split_off(steps.unwrap_or(batch.len()));
        let entries = std::mem::replace(batch, rest);
        let (mut bytes, mut body) = (Vec::new(), Vec::new());
        if self.is_journaled {
            let date = wall_ms();
            for entry in &entries {
                let Entry::Commit(commit) = entry else { continue };
                body.clear();
                let skip = &self.unjournaled;
                if write_record(
                    &commit.changes,
                    &commit.schema,
                    skip,
                    &commit.comment,
                    date,
                    &mut body,
                ) {
                    frame(&body, &mut bytes);
                }
            }
        }
        Segment { entries, bytes }
    }

    /// Writes a segment, syncs it if one of its entries wants that, and publishes it. On failure
    /// gives back the entries that are not published.
    fn write(self: &Arc<Self>, segment: Segment) -> Result<(), (VecDeque<Entry>, Error)> {
        let Segment { mut entries, bytes } = segment;
        let mut grown = false;
        if let Some(log) = &mut *self.writer() {
            if !bytes.is_empty() {
                let expected = log.position();
                match log.append(expected, &bytes) {
                    Ok(position) => grown = position.0 > COMPACT_BYTES_MIN.max(2 * log.base()),
                    Err(error) => return Err((entries, append_error(&error, self))),
                }
            }
            if let Some(at) = entries.iter().position(Entry::wants_sync) {
                let synced = entries.split_off(at);
                self.publish(entries);
                if let Err(error) = log.sync() {
                    let error = Error::new(tag::IO, error.to_string());
                    self.note_broken(&error);
                    return Err((synced, error));
                }
                entries = synced;
            }
        }
        self.publish(entries);
        if grown {
            self.compact();
        }
        Ok(())
    }

    /// Lets updates and replies leave.
    fn publish(&self, entries: VecDeque<Entry>) {
        let mut wakers = Vec::new();
        let mut watchers = self.watchers();
        let mut run = Vec::new();
        for entry in entries {
            match entry {
                Entry::Watch(watch) => {
                    publish_run(&mut run, &mut watchers, &mut wakers);
                    watchers.watch(watch, &mut wakers);
                }
                Entry::Rewatch(rewatch) => {
                    publish_run(&mut run, &mut watchers, &mut wakers);
                    watchers.rewatch(rewatch, &mut wakers);
                }
                other => run.push(other),
            }
        }
        publish_run(&mut run, &mut watchers, &mut wakers);
        drop(watchers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes everything back that is not published, newest first, and tells those who wait.
    fn undo(self: &Arc<Self>, entries: impl Iterator<Item = Entry>, error: &Error) {
        tracing::error!(database = %self.name, %error, "writing failed, undoing what was not on disk");
        let undone: Vec<Entry> = {
            let mut head = self.head();
            let mut all: Vec<Entry> = entries.collect();
            all.extend(head.queue.drain(..));
            for entry in all.iter().rev() {
                if let Entry::Commit(commit) = entry {
                    head.database.undo(&commit.changes);
                }
            }
            all
        };
        for entry in undone {
            entry.fail(error);
        }
        // A wait may hold in the state that is back now.
        self.retry_all();
        if self.head().broken.is_some() {
            self.repair_later();
        }
    }
}

/// Publishes transactions that were written together. Those who only watch get one update with
/// their net effect; those who also wait for an answer here hear of each change before the answer
/// that belongs to it.
fn publish_run(run: &mut Vec<Entry>, watchers: &mut Watchers, wakers: &mut Vec<Waker>) {
    let commits: Vec<&Commit> = run.iter().filter_map(Entry::commit).collect();
    let several = commits.len() > 1;
    let waiting: BTreeSet<SessionId> = match several {
        true => run.iter().filter_map(Entry::answer).map(|answer| answer.session.id).collect(),
        false => BTreeSet::new(),
    };
    let first = watchers.publish(&commits, &waiting, wakers);
    let mut told = 0;
    for entry in run.drain(..) {
        let (answer, done) = match entry {
            Entry::Commit(commit) => {
                if several {
                    watchers.tell(&commit, first + told, &waiting, wakers);
                }
                told += 1;
                (commit.answer, commit.done)
            }
            Entry::Answer { answer, .. } => (Some(answer), None),
            _ => (None, None),
        };
        if let Some(answer) = answer {
            let reply = Outgoing::Reply(answer.ticket, answer.reply);
            wakers.extend(answer.session.outbox.leave(reply));
        }
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
