//! Transactions: a list of operations that take effect together or not at all.
//!
//! [`Database::execute`] runs the operations against the head at once and returns their results with the changes,
//! which the caller writes to the journal and publishes, or undoes. The operations of an OVSDB client are parsed
//! one by one, so the results of operations before an error are returned too. Nothing here waits, reads a clock or
//! writes: an unsatisfied `wait` is an outcome.

mod commit;
mod edit;
mod estimate;
mod gather;
mod operation;
mod operations;
mod result;
mod rows;
mod settle;
mod wait;
mod work;
mod written;

pub(crate) use edit::Edit;
pub use estimate::Estimate;
pub use operation::{Operations, Test, Transaction};
pub(crate) use operations::default_row;
pub use result::{OpResult, Selected};
pub use wait::Interest;
pub use work::Work;

use crate::changes::Changes;
use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::{Schema, TableId};
use crate::store::{Snapshot, Store, row_uuid};
use crate::value::Symbols;
use gather::Gathering;
use operation::{Item, Operation};
use paceline_types::UuidSource;
use rows::Rows;
use std::sync::Arc;

/// A database: its rows and the source of its UUIDs.
#[derive(Debug)]
pub struct Database {
    store: Store,
    uuids: UuidSource,
}

/// What a transaction may do, and what it must know from outside.
pub struct Context<'a> {
    /// Milliseconds since the transaction was first tried.
    pub elapsed_ms: u64,
    /// Whether the client owns the lock of this name.
    pub owns_lock: &'a dyn Fn(&str) -> bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Tables that only the server itself changes.
    pub maintained: &'a [TableId],
}

/// The outcome of executing a transaction.
#[derive(Debug)]
pub enum Outcome {
    /// It completed or failed; only publishing is left to do.
    Done(Done),
    /// A `wait` does not hold yet, and nothing was changed. Try again when a change touches `interest`, or when
    /// `timeout_ms` have passed since the first try.
    Waiting {
        /// The timeout of the wait that does not hold.
        timeout_ms: Option<u64>,
        /// The rows and columns that the wait looks at.
        interest: Interest,
    },
}

/// A transaction that was executed.
#[derive(Debug, Default)]
pub struct Done {
    /// The results of the operations in their order, and the error of the commit if that failed.
    pub results: Vec<OpResult>,
    /// The changes; `None` if nothing changed or the transaction failed.
    pub changes: Option<Arc<Changes>>,
    /// The comments, one a line.
    pub comment: String,
    /// Whether the client wants the reply only after the transaction is on disk.
    pub durable: bool,
}

/// A transaction that is being executed.
struct Execution<'a> {
    rows: Rows<'a>,
    work: &'a mut Work,
    /// Large values that mutations are changing.
    gathering: Gathering,
    symbols: Symbols<'a>,
    context: &'a Context<'a>,
    comment: String,
    durable: bool,
    /// Rows selected so far.
    selected: usize,
}

/// Why an operation did not run.
enum Stop {
    Failed(Error),
    /// A `wait` with this timeout does not hold.
    Unsatisfied(Option<u64>, Interest),
}

/// The result of running the operations of a transaction; changes are not committed yet.
enum Ran {
    ToTheEnd(Vec<OpResult>),
    Ended(Outcome),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Database {
    /// An empty database of this schema. New UUIDs and the keys of hash tables are taken from `uuids`.
    #[must_use]
    pub fn new(schema: Arc<Schema>, mut uuids: UuidSource) -> Self {
        Self { store: Store::new(schema, uuids.next_u64()), uuids }
    }

    /// A separate database with the rows of a snapshot, for trying out transactions.
    #[must_use]
    pub fn copy_of(snapshot: &Snapshot, uuids: UuidSource) -> Self {
        let mut copy = Self::new(Arc::clone(snapshot.schema()), uuids);
        for table in snapshot.schema().table_ids() {
            for row in snapshot.rows(table) {
                copy.store.put(table, row_uuid(row), Some(row.clone()));
            }
        }
        copy
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.store.schema()
    }

    /// The rows.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The current content, which can be read while the head keeps changing.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// A UUID that no row has.
    pub fn fresh_uuid(&mut self) -> paceline_types::Uuid {
        self.uuids.next_uuid()
    }

    /// Undoes changes that cannot be kept; the latest must be undone first.
    pub fn undo(&mut self, changes: &Changes) {
        changes.undo(&mut self.store);
    }

    /// Runs `operations` against the head without a limit on their work, for the server itself.
    pub fn execute<'a>(
        &mut self,
        operations: impl Into<Operations<'a>>,
        context: &Context<'_>,
    ) -> Outcome {
        self.execute_within(operations, context, &mut Work::unlimited())
    }

    /// Runs `operations` against the head, if they take no more than `work`.
    pub fn execute_within<'a>(
        &mut self,
        operations: impl Into<Operations<'a>>,
        context: &Context<'_>,
        work: &mut Work,
    ) -> Outcome {
        let rows = Rows::of_head(&mut self.store);
        let mut execution = Execution::new(rows, Symbols::new(&mut self.uuids), context, work);
        let mut results = match execution.run_all(operations.into()) {
            Ran::ToTheEnd(results) => results,
            Ran::Ended(outcome) => {
                execution.rows.abort();
                return outcome;
            }
        };
        let Execution { rows, work, mut symbols, comment, durable, .. } = execution;
        let Rows::Head(edit) = rows else { return Outcome::Done(Done::default()) };
        match edit.commit(&mut symbols, work) {
            Ok(changes) => {
                let changes = (!changes.is_empty()).then(|| Arc::new(changes));
                Outcome::Done(Done { results, changes, comment, durable })
            }
            Err(error) => {
                results.push(OpResult::Error(error));
                Outcome::Done(Done { results, ..Done::default() })
            }
        }
    }

    /// Makes changes that do not come from a client: those of a journal record, of a conversion, or of the server
    /// itself. The checks are the same as for a client's transaction.
    pub(crate) fn edit(
        &mut self,
        work: impl FnOnce(&mut Edit<'_>, &mut Symbols<'_>) -> Result<(), Error>,
    ) -> Result<Changes, Error> {
        let mut edit = Edit::new(&mut self.store);
        let mut symbols = Symbols::new(&mut self.uuids);
        match work(&mut edit, &mut symbols) {
            Ok(()) => edit.commit(&mut symbols, &mut Work::unlimited()),
            Err(error) => {
                edit.abort();
                Err(error)
            }
        }
    }
}

impl Snapshot {
    /// Runs `operations`, which only read (see [`Estimate`]), if they take no more than `work`.
    #[must_use]
    pub fn execute_within<'a>(
        &self,
        operations: impl Into<Operations<'a>>,
        context: &Context<'_>,
        mut work: Work,
        mut uuids: UuidSource,
    ) -> Vec<OpResult> {
        let rows = Rows::of_snapshot(self);
        let mut execution = Execution::new(rows, Symbols::new(&mut uuids), context, &mut work);
        match execution.run_all(operations.into()) {
            Ran::ToTheEnd(results) | Ran::Ended(Outcome::Done(Done { results, .. })) => results,
            Ran::Ended(Outcome::Waiting { .. }) => {
                let details = "a transaction that waits cannot be run on a snapshot";
                vec![OpResult::Error(Error::new(tag::NOT_ALLOWED, details))]
            }
        }
    }
}

impl<'a> Execution<'a> {
    fn new(
        rows: Rows<'a>,
        symbols: Symbols<'a>,
        context: &'a Context<'a>,
        work: &'a mut Work,
    ) -> Self {
        let (gathering, comment) = (Gathering::default(), String::new());
        Self { rows, work, gathering, symbols, context, comment, durable: false, selected: 0 }
    }

    /// Runs the operations in order.
    fn run_all(&mut self, operations: Operations<'_>) -> Ran {
        if !operations.is_on(self.rows.schema()) {
            let details = "the database was converted after the transaction was made";
            let results = vec![OpResult::Error(Error::new(tag::NOT_ALLOWED, details))];
            return Ran::Ended(Outcome::Done(Done { results, ..Done::default() }));
        }
        let mut results = Vec::new();
        let mut failed = self.announce_names(operations).err();
        let tried = if failed.is_none() { operations.len() } else { 0 };
        for (i, item) in operations.items().take(tried).enumerate() {
            let name = || format!("ovsdb operation {} of {}", i + 1, operations.len());
            let result = match item {
                Item::Written(json) => self.run_written(json, name),
                Item::Made(Ok(operation)) => self.run_made(operation),
                Item::Made(Err(error)) => Err(error.clone().into()),
            };
            match result {
                Ok(result) => results.push(result),
                Err(Stop::Unsatisfied(timeout_ms, interest)) => {
                    return Ran::Ended(Outcome::Waiting { timeout_ms, interest });
                }
                Err(Stop::Failed(error)) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // An error while putting the last row together belongs to the last operation.
        if let (None, Err(error)) = (&failed, self.put_all_together()) {
            results.pop();
            failed = Some(error);
        }
        let Some(error) = failed else { return Ran::ToTheEnd(results) };
        results.push(OpResult::Error(error));
        let untried = operations.len().saturating_sub(results.len());
        results.extend((untried > 0).then_some(OpResult::Nulls(untried)));
        Ran::Ended(Outcome::Done(Done { results, ..Done::default() }))
    }

    /// Takes note of names whose UUID the client chose, because an operation may refer to a row
    /// that only a later one inserts. Looking for these names takes a step for each operation.
    fn announce_names(&mut self, operations: Operations<'_>) -> Result<(), Error> {
        if !operations.outline().announces {
            return Ok(());
        }
        self.work.spend(operations.len())?;
        for item in operations.items() {
            if let Item::Written(Json::Object(operation)) = item
                && let Some(Json::String(name)) = operation.get("uuid-name")
                && let Some(Json::String(uuid)) = operation.get("uuid")
                && let Ok(uuid) = uuid.parse()
            {
                self.symbols.announce(name, uuid);
            }
        }
        Ok(())
    }

    /// Runs an operation of a client.
    fn run_written(&mut self, json: &Json, name: impl Fn() -> String) -> Result<OpResult, Stop> {
        self.work.spend_operation(json)?;
        let name = name();
        let mut members = Members::new(json, &name);
        let word = members.required("op", Kinds::ID).and_then(Json::as_str);
        let result = match word.map(|word| self.parse(word, &mut members)) {
            Some(Ok(Some(operation))) => self.perform(operation),
            Some(Ok(None)) | None => Ok(OpResult::Empty),
            Some(Err(error)) => Err(error.into()),
        };
        // An error in the form of the operation takes precedence over its other errors.
        members.finish()?;
        let result = result?;
        if let Some(word @ ("insert" | "update" | "mutate" | "delete" | "commit")) = word {
            self.check_writable(word)?;
        }
        Ok(result)
    }

    /// Runs an operation that was built in the process.
    fn run_made(&mut self, operation: &Operation) -> Result<OpResult, Stop> {
        self.work.spend(operation.steps())?;
        if let Some(table) = operation.table().filter(|_| operation.is_change()) {
            self.check_changeable(table)?;
        }
        let result = self.perform(operation.clone())?;
        if operation.is_change() || matches!(operation, Operation::Commit { .. }) {
            self.check_writable(operation.word())?;
        }
        Ok(result)
    }

    fn check_writable(&self, word: &str) -> Result<(), Error> {
        let database = &self.rows.schema().name;
        if self.context.read_only {
            let details =
                format!("{word} operation not allowed when database server is in read only mode");
            return Err(Error::new(tag::NOT_ALLOWED, details));
        }
        if database.starts_with('_') {
            let details =
                format!("{word} operation not allowed on table in reserved database {database}");
            return Err(Error::new(tag::NOT_ALLOWED, details));
        }
        Ok(())
    }
}
