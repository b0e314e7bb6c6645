//! Transactions: PostgreSQL's states on SQLite's.
//!
//! | state | meaning | SQLite |
//! | --- | --- | --- |
//! | `Idle` | between statements | no transaction |
//! | `Implicit` | within a Query or a batch up to Sync | begun by the first statement that needs it |
//! | `Block` | after BEGIN | begun by the first statement |
//! | `Failed` | a statement in a block failed | kept for ROLLBACK TO, or already rolled back |
//!
//! SQLite begins late, so that a statement that writes can begin as a writer and wait its turn, instead of failing when
//! it becomes one. The wait is a loop here, because SQLite's own cannot be cancelled.

use super::prepare::Prepared;
use super::{Session, Stop};
use crate::failure::Failure;
use crate::values::now_micros;
use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::backend::Status;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The state of a session's transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    state: State,
    /// Whether the only statement of a Query runs: it needs no transaction to read.
    is_alone: bool,
    is_read_only: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Implicit,
    Block,
    Failed,
}

impl Transaction {
    pub const fn status(&self) -> Status {
        match self.state {
            State::Idle => Status::Idle,
            State::Implicit | State::Block => Status::InTransaction,
            State::Failed => Status::Failed,
        }
    }

    /// A statement of a Query or a batch is about to run.
    pub fn enter(&mut self, is_alone: bool) {
        if self.state == State::Idle {
            *self = Self { state: State::Implicit, is_alone, is_read_only: false };
        }
    }

    pub fn is_block(&self) -> bool {
        matches!(self.state, State::Block | State::Failed)
    }

    pub fn is_failed(&self) -> bool {
        self.state == State::Failed
    }
}

/// How long the loop sleeps between two tries to become the writer.
const RETRY: Duration = Duration::from_millis(5);

impl Session {
    /// Refuses a statement in a failed block, unless it ends the block.
    pub(super) fn check_block(&self, statement: &Prepared) -> Result<(), Failure> {
        if !self.transaction.is_failed() || statement.ends_block() {
            return Ok(());
        }
        let message =
            "current transaction is aborted, commands ignored until end of transaction block";
        Err(Failure::new(SqlState::FAILED_TRANSACTION, message))
    }

    /// Begins SQLite's transaction if a statement needs one.
    pub(super) fn begin_for(&mut self, writes: bool) -> Result<(), Failure> {
        if writes && self.transaction.is_read_only {
            let message = "cannot write in a read-only transaction";
            return Err(Failure::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        if !self.connection.is_autocommit() || (self.transaction.is_alone && !writes) {
            if self.connection.is_autocommit() {
                self.shared.now.store(now_micros().0, Ordering::Relaxed);
            }
            return Ok(());
        }
        self.shared.now.store(now_micros().0, Ordering::Relaxed);
        self.settings().begin();
        let started = Instant::now();
        let max = self.settings().lock_time().unwrap_or(self.options.lock_wait_max);
        loop {
            let text = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
            let begun = self.shared.guard.internally(|| self.connection.execute_batch(text));
            let Err(error) = begun else { return Ok(()) };
            let failure = Failure::from(error);
            if failure.state != SqlState::LOCK_NOT_AVAILABLE || started.elapsed() >= max {
                return Err(self.shared.guard.explain(failure));
            }
            if self.shared.guard.must_stop() {
                return Err(self.shared.guard.stop_failure());
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Ends what a Query or a batch began by itself.
    pub(super) fn leave_implicit(&mut self) -> Result<(), Stop> {
        if self.transaction.state != State::Implicit {
            return Ok(());
        }
        self.commit()
    }

    /// Commits and becomes idle; on failure everything is rolled back.
    fn commit(&mut self) -> Result<(), Stop> {
        self.shared.guard.start(None);
        let committed = match self.connection.is_autocommit() {
            true => Ok(()),
            false => self.shared.guard.internally(|| self.connection.execute_batch("COMMIT")),
        };
        match committed {
            Ok(()) => {
                self.settings().commit();
                self.end_transaction();
                Ok(())
            }
            Err(error) => {
                self.rollback();
                Err(self.shared.guard.explain(error.into()).into())
            }
        }
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // What cannot be rolled back was rolled back by SQLite itself.
            let _ = self.shared.guard.internally(|| self.connection.execute_batch("ROLLBACK"));
        }
        self.settings().rollback();
        self.filled.clear();
        self.end_transaction();
    }

    fn end_transaction(&mut self) {
        self.transaction = Transaction::default();
        let closed: Vec<Vec<u8>> = self
            .portals
            .iter()
            .filter(|(_, portal)| !portal.is_held)
            .map(|(name, _)| name.clone())
            .collect();
        for name in closed {
            self.close_portal(&name);
        }
    }

    /// After an error: a block waits for its end, everything else is undone.
    pub(super) fn fail_transaction(&mut self) {
        self.copying = None;
        match self.transaction.state {
            State::Block | State::Failed => self.transaction.state = State::Failed,
            State::Idle | State::Implicit => self.rollback(),
        }
    }

    /// `BEGIN`.
    pub(super) fn begin_block(&mut self, is_read_only: Option<bool>) {
        if self.transaction.is_block() {
            self.warn(SqlState::ACTIVE_TRANSACTION, "there is already a transaction in progress");
            return;
        }
        self.settings().begin();
        let is_read_only = is_read_only.unwrap_or_else(|| {
            let default = self.settings().show("default_transaction_read_only");
            default.is_ok_and(|value| crate::values::is_true(&value) == Some(true))
        });
        self.transaction = Transaction { state: State::Block, is_alone: false, is_read_only };
    }

    /// `COMMIT`. Returns the tag: a failed block is rolled back.
    pub(super) fn commit_block(&mut self, chains: bool) -> Result<&'static str, Stop> {
        if self.transaction.is_failed() {
            self.rollback_block(chains);
            return Ok("ROLLBACK");
        }
        if !self.transaction.is_block() {
            self.warn(SqlState::NO_ACTIVE_TRANSACTION, "there is no transaction in progress");
        }
        self.commit()?;
        if chains {
            self.begin_block(None);
        }
        Ok("COMMIT")
    }

    /// `ROLLBACK`.
    pub(super) fn rollback_block(&mut self, chains: bool) {
        if !self.transaction.is_block() {
            self.warn(SqlState::NO_ACTIVE_TRANSACTION, "there is no transaction in progress");
        }
        self.rollback();
        if chains {
            self.begin_block(None);
        }
    }

    /// `SET TRANSACTION READ ONLY`.
    pub(super) fn set_read_only(&mut self, is_read_only: bool) {
        self.transaction.is_read_only = is_read_only;
    }

    /// `SAVEPOINT`, `RELEASE` and `ROLLBACK TO`.
    pub(super) fn savepoint(&mut self, word: &str, name: &str) -> Result<(), Stop> {
        if !self.transaction.is_block() {
            let message = format!("{word} can only be used in transaction blocks");
            return Err(Failure::new(SqlState::NO_ACTIVE_TRANSACTION, message).into());
        }
        if word == "SAVEPOINT" {
            self.begin_for(false)?;
        }
        let text = format!("{word} {}", crate::token::quote_name(name));
        let done = match self.connection.is_autocommit() {
            false => self.shared.guard.internally(|| self.connection.execute_batch(&text)),
            true => Err(rusqlite::Error::InvalidQuery),
        };
        if done.is_err() {
            let message = format!("savepoint \"{name}\" does not exist");
            return Err(Failure::new(crate::failure::state(b"3B001"), message).into());
        }
        if word.starts_with("ROLLBACK") {
            self.filled.clear();
            self.transaction.state = State::Block;
        }
        Ok(())
    }

    /// For statements that SQLite does not run in a transaction.
    pub(super) fn check_no_block(&self, word: &str) -> Result<(), Failure> {
        if self.transaction.is_block() || !self.connection.is_autocommit() {
            let message = format!("{word} cannot run inside a transaction block");
            return Err(Failure::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        Ok(())
    }
}
