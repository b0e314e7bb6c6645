//! The server's own edits, reads of the written content, and dry runs.
//!
//! Promises that an edit is on disk when it returns, that a dry run leaves no trace, and that a reader sees nothing
//! that may still be undone: like every reader it waits in the queue behind what it has seen.

use super::Hosted;
use super::allowed::Unkept;
use super::asker::Who;
use super::queue::{Commit, Entry, Step};
use crate::own;
use paceline_tables::json::Json;
use paceline_tables::{Changes, Context, Database, Error, OpResult, Outcome, Snapshot, Store, tag};
use paceline_types::Role;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The changes of an edit, with the comment for its record; `None` if it changed nothing.
type Executed = Option<(Arc<Changes>, String)>;

/// The author of an edit, and its role.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The name as the audit log shows it.
    pub name: &'a str,
    /// The role.
    pub role: Role,
}

impl Hosted {
    /// Runs a transaction of the server's own, as `author`, and waits until it is on disk. `operations` builds
    /// it from the present rows; `None` means that there is nothing to do. Must not be called from a task of
    /// the runtime.
    ///
    /// # Errors
    ///
    /// When it fails; then nothing was changed.
    pub fn edit(
        self: &Arc<Self>,
        author: Author<'_>,
        operations: impl FnOnce(&Store) -> Vec<Json>,
    ) -> Result<(), Error> {
        let (sender, receiver) = channel();
        {
            let mut head = self.head();
            let operations = operations(head.database.store());
            let Some((changes, comment)) = self.execute(&mut head.database, &operations)? else {
                return Ok(());
            };
            let kept = self.keep(&mut head, Who::author(author), changes);
            let (changes, consequence) = kept.map_err(Unkept::into_error)?;
            let commit = Commit {
                consequence,
                comment,
                durable: true,
                done: Some(Box::new(move |outcome| drop(sender.send(outcome)))),
                ..Commit::own(changes, head.database.schema().clone())
            };
            let woken = self.submit(&mut head, commit);
            self.retry(&mut head, woken);
        }
        self.flush_blocking();
        outcome(&receiver)
    }

    /// Checks whether [`Hosted::edit`] would succeed with these `operations`, without doing them. A long text
    /// takes a while to compare and to plan, so that is done with a copy of the rows, while other edits
    /// continue.
    ///
    /// # Errors
    ///
    /// Those of the edit.
    pub fn try_edit(
        &self,
        author: Author<'_>,
        operations: impl FnOnce(&Store) -> Vec<Json>,
    ) -> Result<(), Error> {
        let (rows, trial, broken) = {
            let head = self.head();
            // Edits are planned while the head is locked, so rows and plan belong to the same moment.
            let trial = self.planner.get().map(super::Planner::trial);
            (head.database.snapshot(), trial, head.broken.clone())
        };
        let mut copy = Database::copy_of(&rows, self.clock.uuid_source());
        let operations = operations(copy.store());
        let Some((changes, _)) = self.execute(&mut copy, &operations)? else { return Ok(()) };
        broken.map_or(Ok(()), Err)?;
        self.check_author(author, &changes)?;
        trial.map_or(Ok(()), |trial| trial.plan(&copy, &changes))
    }

    /// Checks that the author may make these changes.
    fn check_author(&self, author: Author<'_>, changes: &Changes) -> Result<(), Error> {
        let Some(planner) = self.planner.get() else { return Ok(()) };
        let (need, what) = planner.least_role(changes);
        let checked = self.access.check_role(author.name, Some(author.role), need, || what);
        checked.map_err(|error| planner.refusal(changes, error))
    }

    fn execute(&self, database: &mut Database, operations: &[Json]) -> Result<Executed, Error> {
        // The table File is written only together with the objects of a file, when the file is applied.
        let files = database.schema().table_id(own::FILE_TABLE);
        let maintained: Vec<_> =
            self.maintained.iter().copied().filter(|table| Some(*table) != files).collect();
        let context = Context {
            elapsed_ms: 0,
            owns_lock: &|_| false,
            read_only: self.policy.read_only,
            maintained: &maintained,
        };
        let done = match database.execute(operations, &context) {
            Outcome::Done(done) => done,
            Outcome::Waiting { .. } => {
                return Err(Error::new(tag::TIMED_OUT, "the database changed meanwhile"));
            }
        };
        let failed = done.results.into_iter().find_map(|result| match result {
            OpResult::Error(error) => Some(error),
            _ => None,
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(done.changes.map(|changes| (changes, done.comment))),
        }
    }

    /// A snapshot of the content as it is written by now. Must not be called from a task of the runtime.
    ///
    /// # Errors
    ///
    /// When something that the snapshot would contain could not be written.
    pub fn written(self: &Arc<Self>) -> Result<Snapshot, Error> {
        let (sender, receiver) = channel();
        let rows = {
            let mut head = self.head();
            let rows = head.database.snapshot();
            if !self.is_journaled || (head.queue.is_empty() && !head.committing) {
                return Ok(rows);
            }
            let work = move |log: Result<&mut dyn paceline_journal::Log, &Error>| {
                drop(sender.send(log.map(drop).map_err(Clone::clone)));
            };
            head.push(Entry::Step(Step { blocks: false, work: Box::new(work) }));
            rows
        };
        self.flush_blocking();
        outcome(&receiver).map(|()| rows)
    }

    /// Whether its content is kept in a file.
    #[must_use]
    pub fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// How many threads the configuration gives the HTTP door, if it says so.
    pub(crate) fn http_threads(&self) -> Option<u32> {
        let head = self.head();
        self.planner.get()?.http_threads(head.database.store())
    }

    /// Whether the configuration lets viewers see the whole text of requests.
    pub(crate) fn shows_text(&self) -> bool {
        let head = self.head();
        self.planner.get().is_some_and(|planner| planner.shows_text(head.database.store()))
    }

    /// The warnings about the configuration in use.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.planner.get().map(super::Planner::warnings).unwrap_or_default()
    }
}

/// The outcome of an entry of the queue.
fn outcome(receiver: &Receiver<Result<(), Error>>) -> Result<(), Error> {
    let lost = || Err(Error::new(tag::IO, "the transaction was not written"));
    receiver.recv().unwrap_or_else(|_| lost())
}

#[cfg(test)]
mod tests;
