//! What a statement is, and what it does to its session and its transaction.
//!
//! Owns what a pooler must know before it forwards a statement: its command, whether it begins or ends a transaction,
//! and whether it leaves something in the session (a setting, a prepared statement, a temporary table, a lock) that
//! the next client of the same server connection must not meet. Promises to report too much rather than too little: a
//! mere mention of `pg_temp` counts as a temporary object. What a function or a `DO` block does is not in the text, and
//! is not seen; nor is a name that is written with escapes, as in `U&"\0070g_temp"`.
//!
//! Takes one statement, as [`super::split()`] finds it. Never says whether a statement is valid: the server does.
//! [`Class::is_complete`] says whether the whole text of a short command was understood, so that it may be answered
//! without the server.

mod action;
mod command;
mod scan;
mod with;

pub use command::Command;

use super::cursor::Cursor;
use super::token::{Dialect, Kind};
use std::borrow::Cow;

/// What is known of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Class<'a> {
    /// The command, after `WITH` was resolved: `END` is [`Command::Commit`], `VALUES` and `TABLE` are
    /// [`Command::Select`].
    pub command: Command,
    /// The command within `EXPLAIN`, `PREPARE`, `DECLARE` and `COPY (...)`.
    pub inner: Option<Command>,
    /// What it does to the session or the transaction.
    pub action: Action<'a>,
    /// Whether nothing follows what `action` says. Only then may the statement be answered without the server.
    pub is_complete: bool,
    /// Whether it contains a string, a comment or a quoted name without its end. The server will refuse it.
    pub is_broken: bool,
    /// Whether it is an `EXPLAIN` that runs what it explains.
    pub analyzes: bool,
    /// Whether it may change data: also if only a `WITH` does. `CALL`, `DO` and `EXECUTE` may.
    pub writes: bool,
    /// Whether it may change what other statements return, so that prepared ones must be parsed again.
    pub reshapes: bool,
    /// Whether it creates or names a temporary object, which lives as long as the session.
    pub is_temporary: bool,
    /// Whether it may take an advisory lock that outlives the transaction.
    pub locks_session: bool,
    /// Whether it calls `set_config` for longer than the transaction.
    pub sets_session: bool,
    /// Whether it names a function or table that begins with `comdb2_`, or a table of the schema `paceline`.
    pub names_own: bool,
}

/// What a statement does to its session or its transaction. Names are as PostgreSQL stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Nothing that is known.
    None,
    /// `BEGIN` and `START TRANSACTION`.
    Begin(Begin),
    /// `COMMIT` and `END`; with `AND CHAIN` the next transaction begins at once.
    Commit {
        /// `AND CHAIN`.
        chains: bool,
    },
    /// `ROLLBACK` and `ABORT`.
    Rollback {
        /// `AND CHAIN`.
        chains: bool,
    },
    /// `PREPARE TRANSACTION`, which ends the transaction of this session.
    PrepareTransaction,
    /// `COMMIT PREPARED` and `ROLLBACK PREPARED`, which end another one.
    FinishPrepared,
    /// `SAVEPOINT`.
    Savepoint(Cow<'a, str>),
    /// `RELEASE`.
    Release(Cow<'a, str>),
    /// `ROLLBACK TO`, which ends no transaction.
    RollbackTo(Cow<'a, str>),
    /// `SET` of a variable, under whatever syntax: `SET TIME ZONE` sets `timezone`.
    Set(Setting<'a>),
    /// `RESET` of a variable.
    Reset(Cow<'a, str>),
    /// `RESET ALL`.
    ResetAll,
    /// `SET TRANSACTION`, for this transaction only.
    SetTransaction,
    /// `SET SESSION CHARACTERISTICS`, for all later transactions of the session.
    SetCharacteristics,
    /// `SET CONSTRAINTS`, for this transaction only.
    SetConstraints,
    /// `SHOW` of a variable, or of `all`.
    Show(Cow<'a, str>),
    /// `LISTEN`.
    Listen(Cow<'a, str>),
    /// `UNLISTEN`; none for `*`.
    Unlisten(Option<Cow<'a, str>>),
    /// `NOTIFY`.
    Notify(Cow<'a, str>),
    /// `PREPARE`.
    Prepare(Cow<'a, str>),
    /// `EXECUTE`, also explained.
    Execute(Cow<'a, str>),
    /// `DEALLOCATE`; none for `ALL`.
    Deallocate(Option<Cow<'a, str>>),
    /// `DISCARD`.
    Discard(Discard),
    /// `DECLARE` of a cursor.
    Declare {
        /// The name of the cursor.
        name: Cow<'a, str>,
        /// `WITH HOLD`: it outlives the transaction.
        is_held: bool,
    },
    /// `CLOSE` of a cursor; none for `ALL`.
    Close(Option<Cow<'a, str>>),
    /// `COPY`.
    Copy(Transfer),
}

/// The options of a transaction; none where the text gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// `ISOLATION LEVEL`.
    pub isolation: Option<Isolation>,
    /// `READ ONLY` or `READ WRITE`.
    pub is_read_only: Option<bool>,
    /// `DEFERRABLE` or `NOT DEFERRABLE`.
    pub is_deferrable: Option<bool>,
}

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// `READ UNCOMMITTED`.
    ReadUncommitted,
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

/// How long a setting lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The session, unless the transaction rolls back.
    Session,
    /// The transaction.
    Local,
}

/// A variable and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// How long it lasts.
    pub scope: Scope,
    /// The variable, in lower case unless it was quoted.
    pub name: Cow<'a, str>,
    /// The value; none if it is not a single literal or name.
    pub value: Option<Value<'a>>,
    /// The value as it is written.
    pub text: &'a str,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `DEFAULT`.
    Default,
    /// A literal without its quotes, or a name.
    Text(Cow<'a, str>),
}

/// What `DISCARD` forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Everything in the session.
    All,
    /// Cached plans.
    Plans,
    /// Cached values of sequences.
    Sequences,
    /// Temporary tables.
    Temporary,
}

/// Where `COPY` reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Whether rows go into a table.
    pub writes_table: bool,
    /// Whether they come from or go to the client, not a file or program of the server.
    pub uses_client: bool,
}

/// Reads one statement.
pub fn classify(text: &str, dialect: Dialect) -> Class<'_> {
    let mut cursor = Cursor::new(text, dialect);
    let is_empty = cursor.is_end();
    while cursor.eat_kind(Kind::Open).is_some() {}
    let mut class = Class {
        command: if is_empty { Command::Empty } else { command::next(&mut cursor) },
        inner: None,
        action: Action::None,
        is_complete: false,
        is_broken: false,
        analyzes: false,
        writes: false,
        reshapes: false,
        is_temporary: false,
        locks_session: false,
        sets_session: false,
        names_own: false,
    };
    action::read(&mut cursor, &mut class, dialect);
    class.is_complete = cursor.is_end() && class.action != Action::None;
    scan::read(&mut cursor, &mut class);
    class.writes |= class.command.writes() || (class.runs_inner() && class.inner_writes());
    class
}

impl Class<'_> {
    /// Whether what the statement contains is run by it.
    fn runs_inner(&self) -> bool {
        match self.command {
            Command::Explain => self.analyzes,
            Command::Prepare => false,
            _ => true,
        }
    }

    fn inner_writes(&self) -> bool {
        self.inner.is_some_and(Command::writes)
    }
}

#[cfg(test)]
mod tests;
