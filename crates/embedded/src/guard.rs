//! What a statement may touch, and when it must stop.
//!
//! SQLite asks the authorizer while it prepares a statement. Clients get no other file (`ATTACH`, `VACUUM INTO`,
//! extensions), no `PRAGMA` beyond a list that only reads, and no writing to the tables that the engine fills. The
//! session raises `internal` around its own statements; a connection is used by one thread at a time.

use crate::failure::Failure;
use paceline_postgres::wire::SqlState;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Shared by a session, the functions of its connection, and the thread that cancels.
#[derive(Debug, Default)]
pub struct Guard {
    internal: AtomicBool,
    vacuum: AtomicBool,
    cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Why the statement failed, where SQLite keeps only a text.
    failure: Option<Failure>,
    deadline: Option<Instant>,
    is_late: bool,
}

/// Pragmas that only read, and only the database.
const PRAGMAS: &[&str] = &[
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
    "integrity_check",
    "quick_check",
    "page_count",
    "page_size",
    "freelist_count",
    "schema_version",
    "user_version",
    "collation_list",
    "function_list",
];

/// Functions of SQLite that reach outside of the database.
const FUNCTIONS: &[&str] =
    &["load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "sqlite_dbpage"];

impl Guard {
    /// The verdict on one action of a statement that is being prepared.
    pub fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if self.internal.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        match self.refusal(context) {
            None => Authorization::Allow,
            Some(failure) => {
                self.fail(failure);
                Authorization::Deny
            }
        }
    }

    fn refusal(&self, context: &AuthContext<'_>) -> Option<Failure> {
        let owned = |name: &str| {
            let message = format!("permission denied: \"{name}\" is a system catalog");
            is_owned(name).then(|| Failure::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
        };
        match context.action {
            AuthAction::Attach { filename } => {
                let is_own = self.vacuum.load(Ordering::Relaxed) && filename.is_empty();
                (!is_own).then(|| Failure::unsupported("ATTACH"))
            }
            AuthAction::Detach { .. } => {
                (!self.vacuum.load(Ordering::Relaxed)).then(|| Failure::unsupported("DETACH"))
            }
            AuthAction::Pragma { pragma_name, pragma_value } => {
                let is_known = PRAGMAS.contains(&pragma_name.to_ascii_lowercase().as_str());
                let sets = pragma_value.is_some() && pragma_name.ends_with("_version");
                let message = format!("permission denied for PRAGMA {pragma_name}");
                (!is_known || sets).then(|| Failure::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
            AuthAction::Function { function_name } => {
                let is_outside = FUNCTIONS.contains(&function_name.to_ascii_lowercase().as_str());
                is_outside.then(|| Failure::unsupported(format!("function {function_name}")))
            }
            AuthAction::CreateVtable { module_name, .. } => {
                let is_known = ["fts5", "rtree"].contains(&module_name);
                (!is_known).then(|| Failure::unsupported(format!("virtual table {module_name}")))
            }
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. }
                if context.database_name == Some("temp") =>
            {
                owned(table_name)
            }
            AuthAction::CreateTable { table_name }
            | AuthAction::CreateTempTable { table_name }
            | AuthAction::DropTable { table_name }
            | AuthAction::DropTempTable { table_name }
            | AuthAction::AlterTable { table_name, .. } => owned(table_name),
            AuthAction::CreateView { view_name }
            | AuthAction::CreateTempView { view_name }
            | AuthAction::DropTempView { view_name } => owned(view_name),
            _ => None,
        }
    }

    /// Runs the session's own statements without the rules for clients.
    pub fn internally<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.internal.swap(true, Ordering::Relaxed);
        let result = run();
        self.internal.store(before, Ordering::Relaxed);
        result
    }

    /// Lets `VACUUM` attach the database it makes.
    pub fn vacuuming<T>(&self, run: impl FnOnce() -> T) -> T {
        self.vacuum.store(true, Ordering::Relaxed);
        let result = run();
        self.vacuum.store(false, Ordering::Relaxed);
        result
    }

    /// Keeps the failure that SQLite cannot carry.
    pub fn fail(&self, failure: Failure) {
        self.state().failure = Some(failure);
    }

    /// Begins a statement that must end at `deadline`.
    pub fn start(&self, deadline: Option<Instant>) {
        let mut state = self.state();
        *state = State { failure: None, deadline, is_late: false };
    }

    /// Whether the running statement must stop.
    pub fn must_stop(&self) -> bool {
        if self.cancelled.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = self.state();
        state.is_late |= state.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        state.is_late
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn forget_cancel(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// The failure as the client shall see it: what a function or the authorizer kept is better than SQLite's words.
    pub fn explain(&self, failure: Failure) -> Failure {
        let mut state = self.state();
        if failure.state == SqlState::QUERY_CANCELED {
            return self.stopped(state.is_late);
        }
        state.failure.take().unwrap_or(failure)
    }

    /// The failure of a statement that was stopped.
    pub fn stop_failure(&self) -> Failure {
        let is_late = self.state().is_late;
        self.stopped(is_late)
    }

    fn stopped(&self, is_late: bool) -> Failure {
        let cause = match is_late && !self.cancelled.load(Ordering::Relaxed) {
            true => "statement timeout",
            false => "user request",
        };
        Failure::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {cause}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a table belongs to the engine.
pub fn is_owned(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["pg_", "information_schema.", "comdb2_", "paceline."]
        .iter()
        .any(|prefix| lower.starts_with(prefix))
}
