//! Why a statement failed, with the code a client sees; and the one translation of SQLite's errors into such codes.

use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::report::Report;
use rusqlite::ffi;
use std::fmt;

/// Why a statement failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub state: SqlState,
    /// What happened.
    pub message: String,
    /// The facts behind it.
    pub detail: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with no more than a message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), detail: None, hint: None }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the facts behind the message.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// A feature of PostgreSQL that the embedded engine lacks.
    pub(crate) fn unsupported(feature: impl fmt::Display) -> Self {
        let message = format!("{feature} is not supported by the embedded engine");
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
    }

    pub(crate) fn report(&self) -> Report {
        let mut report = Report::error(self.state, self.message.clone());
        if let Some(detail) = &self.detail {
            report = report.detail(detail.clone());
        }
        if let Some(hint) = &self.hint {
            report = report.hint(hint.clone());
        }
        report
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(code, text) => {
                of_sqlite(code.extended_code, &text.unwrap_or_else(|| code.to_string()))
            }
            rusqlite::Error::SqlInputError { error, msg, .. } => {
                of_sqlite(error.extended_code, &msg)
            }
            other => Self::new(SqlState::INTERNAL_ERROR, other.to_string()),
        }
    }
}

fn of_sqlite(code: i32, text: &str) -> Failure {
    let state = match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => return unique(text),
        ffi::SQLITE_CONSTRAINT_NOTNULL => return not_null(text),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => SqlState::FOREIGN_KEY_VIOLATION,
        ffi::SQLITE_CONSTRAINT_CHECK => SqlState::CHECK_VIOLATION,
        ffi::SQLITE_BUSY_SNAPSHOT => {
            let message = "could not serialize access due to concurrent update";
            return Failure::new(SqlState::SERIALIZATION_FAILURE, message)
                .hint("Run the transaction again.");
        }
        _ => match code & 0xff {
            ffi::SQLITE_ERROR => return of_text(text),
            ffi::SQLITE_CONSTRAINT => SqlState::INTEGRITY_CONSTRAINT_VIOLATION,
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
                let message = "canceling statement due to lock timeout";
                return Failure::new(SqlState::LOCK_NOT_AVAILABLE, message)
                    .hint("Another transaction is writing to the database.");
            }
            ffi::SQLITE_INTERRUPT => SqlState::QUERY_CANCELED,
            ffi::SQLITE_AUTH => SqlState::INSUFFICIENT_PRIVILEGE,
            ffi::SQLITE_READONLY => SqlState::READ_ONLY_TRANSACTION,
            ffi::SQLITE_FULL => SqlState::DISK_FULL,
            ffi::SQLITE_NOMEM => SqlState::OUT_OF_MEMORY,
            ffi::SQLITE_TOOBIG | ffi::SQLITE_RANGE => SqlState::PROGRAM_LIMIT_EXCEEDED,
            ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => SqlState::IO_ERROR,
            ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => SqlState::DATA_CORRUPTED,
            _ => SqlState::INTERNAL_ERROR,
        },
    };
    Failure::new(state, text)
}

/// `UNIQUE constraint failed: t.a, t.b`.
fn unique(text: &str) -> Failure {
    let columns = text.rsplit(": ").next().unwrap_or_default();
    let message = "duplicate key value violates a unique constraint";
    Failure::new(SqlState::UNIQUE_VIOLATION, message)
        .detail(format!("The key ({columns}) already exists."))
}

/// `NOT NULL constraint failed: t.a`.
fn not_null(text: &str) -> Failure {
    let column = text.rsplit(": ").next().unwrap_or_default();
    let message = match column.split_once('.') {
        Some((table, column)) => {
            format!(
                "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
            )
        }
        None => text.to_owned(),
    };
    Failure::new(SqlState::NOT_NULL_VIOLATION, message)
}

/// SQLite reports most errors of a text with one code, so the words tell them apart.
fn of_text(text: &str) -> Failure {
    let named = |prefix: &str| text.strip_prefix(prefix).map(str::trim);
    if let Some(name) = named("no such table:") {
        let message = format!("relation \"{}\" does not exist", plain(name));
        return Failure::new(SqlState::UNDEFINED_TABLE, message);
    }
    if let Some(name) = named("no such column:") {
        let message = format!("column \"{}\" does not exist", plain(name));
        return Failure::new(SqlState::UNDEFINED_COLUMN, message);
    }
    if let Some(name) = named("no such function:") {
        let message = format!("function {name} does not exist");
        return Failure::new(SqlState::UNDEFINED_FUNCTION, message);
    }
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let state = if has(&["syntax error", "incomplete input", "unrecognized token"]) {
        SqlState::SYNTAX_ERROR
    } else if has(&["already exists", "there is already"]) {
        SqlState::DUPLICATE_TABLE
    } else if has(&["wrong number of arguments"]) {
        SqlState::UNDEFINED_FUNCTION
    } else if has(&["has no column named"]) {
        SqlState::UNDEFINED_COLUMN
    } else if has(&["ambiguous column name"]) {
        state(b"42702")
    } else if has(&["no such index", "no such view", "no such savepoint", "no such trigger"]) {
        SqlState::UNDEFINED_OBJECT
    } else if has(&["misuse of aggregate", "GROUP BY"]) {
        state(b"42803")
    } else if has(&["integer overflow"]) {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    } else if has(&["too many", "stack overflow", "too large", "too complex"]) {
        SqlState::STATEMENT_TOO_COMPLEX
    } else if has(&["malformed JSON"]) {
        SqlState::INVALID_TEXT_REPRESENTATION
    } else if has(&["not authorized", "prohibited"]) {
        SqlState::INSUFFICIENT_PRIVILEGE
    } else {
        SqlState::SYNTAX_ERROR
    };
    Failure::new(state, text)
}

/// The name without the database that SQLite puts before it.
fn plain(name: &str) -> &str {
    name.strip_prefix("main.").or_else(|| name.strip_prefix("temp.")).unwrap_or(name)
}

/// A code that `SqlState` has no name for.
pub(crate) fn state(code: &[u8; 5]) -> SqlState {
    SqlState::read(code).unwrap_or(SqlState::INTERNAL_ERROR)
}
